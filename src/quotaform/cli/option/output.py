"""How a command prints and writes: --format, --out, --report, colours; and option groups."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from quotaform.cli.console import Console
from quotaform.cli.option.common import choice, complete_from, flag, one_of, option
from quotaform.model.errors import UsageError
from quotaform.model.text import inert
from quotaform.report.format import ANNOTATED, FORMATS, REPORT, REPORTED, render

COLOR: Final = choice("--color", ("auto", "always", "never"), "When to use colours; NO_COLOR is respected.", "auto")


@dataclass(frozen=True, slots=True, kw_only=True)
class Output:
    """What every command that prints a result understands, and where its output goes."""

    format_name: str = "text"
    color: str = COLOR
    quiet: bool = flag("--quiet -q", "Suppress progress and warnings, not failures.")
    verbose: bool = flag("--verbose -v", "Log steps to stderr; show tracebacks of internal errors.")

    subject: str = ""  # What is printed: a row of `quotaform.report.format.FORMATS`
    console: Console = field(init=False)
    no_github: bool = True

    def __post_init__(self) -> None:
        object.__setattr__(self, "console", Console(self.color, is_quiet=self.quiet, is_verbose=self.verbose))

    def print(self, result: object, **shown: Any) -> None:
        """Print a result in its format; `shown` is what else that takes."""
        self.console.echo(render(self.subject, self.format_name, result, style=self.console.style(), **shown))


REPORT_OUT: Final = option(
    "--report [FORMAT=]PATH",
    "Also write one report of all clusters to a file: text, json, markdown or html. Repeatable.",
    complete=complete_from([f"{name}=" for name in FORMATS["fleet-report"]]),
)
DRAWN_OUT: Final = option(
    "--out FORMAT=PATH|parquet=DIR",
    "Also write the result to a file, or all of its rows as Parquet to a new directory. Repeatable.",
)


_SUFFIXES: Final = {
    ".html": "html",
    ".htm": "html",
    ".md": "markdown",
    ".sarif": "sarif",
    ".txt": "text",
    ".csv": "csv",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
}

PARQUET: Final = "parquet"
"""The format of a folder that Spark writes."""


def read_output(
    text: str, formats: Collection[str], option: str = "--out", *, default: str = "json"
) -> tuple[str, str]:
    """Return the format and the path of `--out` and options like it: FORMAT=PATH, or a path, whose suffix may say it.

    >>> read_output("found/a=b.html", ("json", "html")), read_output("markdown=a.txt", ("json", "markdown"))
    (('html', 'found/a=b.html'), ('markdown', 'a.txt'))

    `default`: the format of a path whose suffix says none; empty if it must say one.
    """
    shown = f"{option} {inert(text)}"
    name, separator, path = text.partition("=")
    if text in formats:
        path = ""
    elif not separator or "/" in name:
        meant = _SUFFIXES.get(Path(text).suffix.lower(), default)
        name, path = meant if meant in formats else default, text
    if name not in formats:
        raise UsageError(f"{shown}: the format is not known; write FORMAT=NAME with the format {one_of(formats)}")
    if Path(path).suffix.lower() in {".yaml", ".yml"} and name != "yaml":
        raise UsageError(f"{shown}: files that end in .yaml hold quotas and configuration; name another file")
    if path in ("", "-"):
        raise UsageError(f"{shown}: a name is missing; write {option} {name}=NAME (to print, use --format)")
    return name, path


def printed(subject: str) -> Any:
    """Return what the `Output` is of a command that prints a subject."""
    made = {"subject": subject, "format_name": format_option(subject)}
    if subject in REPORTED or subject in ANNOTATED:  # CI systems show it
        made["no_github"] = flag("--no-github", "In GitHub Actions, write no annotations, job summary or outputs.")
    return made


def format_option(subject: str) -> Any:
    """Return the option `--format` of a command that prints a subject."""
    formats = (*FORMATS[subject], *((REPORT,) if subject in REPORTED else ()))
    text = "Output format." + (" report: one report of all clusters." if subject in REPORTED else "")
    return choice("--format", formats, text, "text")


def out_option(subject: str) -> Any:
    """Return the option `--out` of a command that prints a subject."""
    return option(
        "--out [FORMAT=]PATH",
        f"Also write the result to a file, e.g. json={subject}.json. Repeatable.",
        complete=complete_from([f"{name}=" for name in FORMATS[subject]]),
    )
