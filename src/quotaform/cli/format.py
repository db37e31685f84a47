"""The options `--format` and `--out FORMAT=PATH`."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import typer

from quotaform.app.picture import DRAWN, PICTURES
from quotaform.app.rendering import FORMATS
from quotaform.cli.option.completion import complete_from
from quotaform.cli.usage import require_choice, shorten
from quotaform.errors import UsageError

_FORMAT_OF_FILES: Final = "json"

REPORT: Final = "report"
"""The format that prints one report of all clusters, and nothing of each."""
REPORTED: Final = {"plan": "plan", "drift": "drift", "receipt": "apply"}
"""The subjects that have it, each with the command that makes it."""


def require_format(subject: str, format_name: str) -> str:
    """Return a format if the subject has it."""
    return require_choice("format", format_name, _printed(subject))


def _printed(subject: str) -> tuple[str, ...]:
    return (*FORMATS[subject], *((REPORT,) if subject in REPORTED else ()))


def written_formats(subject: str) -> tuple[str, ...]:
    """Return the formats of the files in which a subject is written."""
    return (*FORMATS[subject], *(PICTURES if subject in DRAWN else ()))


def read_output(subject: str, text: str, option: str = "--out") -> tuple[str, Path]:
    """Read the value of `--out` and options like it: FORMAT=PATH, or a path alone for JSON."""
    name, separator, path = text.partition("=")
    if not separator and text in written_formats(subject):
        raise UsageError(f"{option} {text}: a path is missing; write {option} {text}=PATH")
    if not separator:
        name, path = _FORMAT_OF_FILES, text
    require_choice("format", name, written_formats(subject))
    if not path:
        raise UsageError(f"{option} {shorten(text)}: a path is missing; write for example {option} json={subject}.json")
    if path == "-":
        printed = name if name in _printed(subject) and option == "--out" else REPORT
        raise UsageError(f"{option} {shorten(text)}: - is not a file; use --format {printed} to print to stdout")
    return name, Path(path)


def format_option(subject: str) -> Any:
    """Return the option `--format` of a command that prints a subject."""
    return typer.Option(
        "--format",
        metavar="|".join(_printed(subject)),
        help="Output format." + (" report: one report of all clusters." if subject in REPORTED else ""),
        show_default=True,
        autocompletion=complete_from(_printed(subject)),
    )


def out_option(subject: str) -> Any:
    """Return the option `--out` of a command that prints a subject."""
    return typer.Option(
        "--out",
        metavar="[FORMAT=]PATH",
        help=f"Also write the result to a file, e.g. json={subject}.json. Repeatable.",
        autocompletion=complete_from([f"{name}=" for name in FORMATS[subject]]),
    )


def report_option() -> Any:
    """Return the option `--report` of a command that works on clusters."""
    return typer.Option(
        "--report",
        metavar="[FORMAT=]PATH",
        help="Also write one report of all clusters to a file: text, json or markdown. Repeatable.",
        autocompletion=complete_from([f"{name}=" for name in FORMATS["fleet-report"]]),
    )
