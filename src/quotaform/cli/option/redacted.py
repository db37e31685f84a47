"""Commands about credentials: what was typed in a wrong place may be a password, and no message repeats it."""

from __future__ import annotations

from pathlib import Path
from re import compile as regex
from typing import Any, Final

import typer
from typer.core import TyperCommand

from quotaform.cli.usage import usage_text
from quotaform.errors import InvalidFilesError, UsageError
from quotaform.model.entity import ENTITY_TYPES

_OPTION: Final = regex("--[a-z]+(-[a-z]+)*").fullmatch
"""What is the name of an option, known or not; a password with a digit or a capital letter is none."""
_SHOWN: Final = "…"
_SHORTEST: Final = 4
"""A shorter text is part of many words."""


class RedactedCommand(TyperCommand):
    """A command that repeats no value of its command line in what it says of wrong usage and invalid files."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse, and leave the values out of what is wrong."""
        given = list(args)
        ctx.meta["quotaform.given"] = given
        try:
            return super().parse_args(ctx, args)
        except typer.TyperException as error:
            raise UsageError(redact(usage_text(error, ctx.command_path), given)) from None
        except UsageError as error:
            raise UsageError(redact(str(error), given)) from None

    def invoke(self, ctx: Any) -> Any:
        """Run, and leave the values out of what is wrong."""
        try:
            return super().invoke(ctx)
        except (UsageError, InvalidFilesError) as error:
            error.args = (redact(str(error), ctx.meta["quotaform.given"]),)
            raise


class PasswordCommand(RedactedCommand):
    """Says why there is no `--password`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse, and refuse what may be a password."""
        if not ctx.resilient_parsing and any(argument.partition("=")[0] == "--password" for argument in args):
            from quotaform.cli.option.credential_reader import NO_ARGV

            raise UsageError(f"there is no --password: {NO_ARGV}")
        return super().parse_args(ctx, args)


def redact(text: str, arguments: list[str]) -> str:
    """Return a message without the values of arguments; names of files that exist stay.

    >>> redact('unknown format "hunter2"; choose text or json', ["--format=hunter2"])
    'unknown format "…"; choose text or json'
    """
    for argument in arguments:
        name, _, value = argument.partition("=") if argument.startswith("-") else ("", "", argument)
        for word in ("" if _OPTION(name) else name.lstrip("-"), value):
            if len(word) >= _SHORTEST and word not in ENTITY_TYPES and not _exists(word):
                text = text.replace(word, _SHOWN)
    return text


def _exists(path: str) -> bool:
    try:
        return Path(path).exists()
    except (OSError, ValueError):
        return False
