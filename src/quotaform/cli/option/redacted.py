"""Commands about credentials: what was typed in a wrong place may be a password, and no message repeats it."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import typer
from typer.core import TyperCommand

from quotaform.cli.usage import usage_text
from quotaform.errors import InvalidFilesError, UsageError

_NAMES: Final = """
    --auto-approve --bootstrap-server --cluster --color --command-config --config --format --help --iterations
    --mechanism --password-env --password-file --quiet --user --verbose
"""
_OPTIONS: Final = frozenset(_NAMES.split())
_SHOWN: Final = "…"
_SHORTEST: Final = 4
"""A shorter text is part of many words."""


_NO_ARGV: Final = (
    "other processes of this machine can read a command line, and shells keep it in their history; "
    "use --password-file, --password-env or the prompt"
)


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
    """Says why there is no `--password`, and does not repeat one that stands where no argument belongs."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse, and refuse what may be a password."""
        if ctx.resilient_parsing:
            return super().parse_args(ctx, args)
        if any(argument.partition("=")[0] == "--password" for argument in args):
            raise UsageError(f"there is no --password: {_NO_ARGV}")
        # Else typer would refuse what is left over, and show it.
        ctx.allow_extra_args = True
        left = super().parse_args(ctx, args)
        if ctx.args:
            raise UsageError(f"scram upsert has options only. If that was a password: {_NO_ARGV}")
        return left


def redact(text: str, arguments: list[str]) -> str:
    """Return a message without the values of arguments; names of files that exist stay.

    >>> redact('unknown format "hunter2"; choose text or json', ["--format=hunter2"])
    'unknown format "…"; choose text or json'
    """
    for argument in arguments:
        value = argument.partition("=")[2] if argument.startswith("-") and "=" in argument else argument.lstrip("-")
        is_option = argument.startswith("--") and argument.partition("=")[0] in _OPTIONS
        if len(value) >= _SHORTEST and not (is_option and value == argument.lstrip("-")) and not _exists(value):
            text = text.replace(value, _SHOWN)
    return text


def _exists(path: str) -> bool:
    try:
        return Path(path).exists()
    except (OSError, ValueError):
        return False
