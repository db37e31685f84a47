"""The options `--format` and `--out FORMAT=PATH`."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import typer

from quotaform.app.rendering import FORMATS
from quotaform.cli.option.completion import complete_from
from quotaform.cli.usage import require_choice, shorten
from quotaform.errors import UsageError

_FORMAT_OF_FILES: Final = "json"


def require_format(subject: str, format_name: str) -> str:
    """Return a format if the subject has it.

    Raises:
        UsageError: It does not.
    """
    return require_choice("format", format_name, tuple(FORMATS[subject]))


def read_output(subject: str, text: str) -> tuple[str, Path]:
    """Read the value of `--out`: FORMAT=PATH, or a path alone for JSON.

    Raises:
        UsageError: The format does not exist, or there is no path.
    """
    name, separator, path = text.partition("=")
    if not separator:
        name, path = _FORMAT_OF_FILES, text
    require_format(subject, name)
    if not path:
        raise UsageError(f"--out {shorten(text)}: a path is missing; write for example --out json={subject}.json")
    if path == "-":
        raise UsageError(f"--out {shorten(text)}: - is not a file; use --format {name} to print to stdout")
    return name, Path(path)


def format_option(subject: str) -> Any:
    """Return the option `--format` of a command that prints a subject."""
    return typer.Option(
        "--format",
        metavar="|".join(FORMATS[subject]),
        help="Output format.",
        show_default=True,
        autocompletion=complete_from(FORMATS[subject]),
    )


def out_option(subject: str) -> Any:
    """Return the option `--out` of a command that prints a subject."""
    return typer.Option(
        "--out",
        metavar="[FORMAT=]PATH",
        help=f"Also write the result to a file, e.g. json={subject}.json. Repeatable.",
        autocompletion=complete_from([f"{name}=" for name in FORMATS[subject]]),
    )
