"""How a command prints and writes: --format, --out, --report, colours; and option groups."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import MISSING, dataclass, fields, is_dataclass
from functools import wraps
from inspect import Parameter, Signature, signature
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, TypeAlias, get_type_hints

import typer

from quotaform.cli.console import Color, Console
from quotaform.cli.option.common import choice
from quotaform.cli.option.value import complete_from, require_choice, shorten
from quotaform.model.errors import UsageError
from quotaform.report.format import FORMATS, REPORT, REPORTED

if TYPE_CHECKING:
    from quotaform.cli.present import Results
    from quotaform.repository.repository import Repository


# Option groups: one parameter of a command that stands for several options.
#
# A group is a dataclass whose fields are options. A command that takes a parameter of that type has the options of the
# group in its place, in `--help`, in the documentation and in completion, and is called with them as one value.


def with_option_groups(command: Callable[..., int]) -> Callable[..., int]:
    """Return a command as typer reads it: every parameter that is a group is replaced by the options of the group."""
    hints = get_type_hints(command, include_extras=True)
    parameters: list[Parameter] = []
    groups: dict[str, type[Any]] = {}
    for name, parameter in signature(command).parameters.items():
        if is_dataclass(hints[name]):
            groups[name] = hints[name]
            parameters += _options(hints[name])
        else:
            parameters.append(parameter.replace(annotation=hints[name], kind=Parameter.KEYWORD_ONLY))

    @wraps(command)
    def run(**values: Any) -> int:
        for name, group in groups.items():
            values[name] = group(**{option.name: values.pop(option.name) for option in fields(group)})
        return command(**values)

    run.__signature__ = Signature(parameters, return_annotation=int)  # type: ignore[attr-defined]
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters} | {"return": int}
    return run


def _options(group: type[Any]) -> Iterator[Parameter]:
    hints = get_type_hints(group, include_extras=True)
    for option in fields(group):
        default = Parameter.empty if option.default is MISSING else option.default
        yield Parameter(option.name, Parameter.KEYWORD_ONLY, default=default, annotation=hints[option.name])


ColorOption: TypeAlias = Annotated[
    Color,
    choice("--color", Color, "When to use colours; NO_COLOR is respected. [default: auto]", show_default=False),
]
QuietOption: TypeAlias = Annotated[
    bool, typer.Option("--quiet", "-q", help="Suppress progress and warnings, not failures.")
]
VerboseOption: TypeAlias = Annotated[
    bool, typer.Option("--verbose", "-v", help="Log steps to stderr; show tracebacks of internal errors.")
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Output:
    """What every command that prints a result understands."""

    color: ColorOption = Color.AUTO
    quiet: QuietOption = False
    verbose: VerboseOption = False

    def console(self) -> Console:
        """Return where the output of this run goes."""
        return Console(self.color, is_quiet=self.quiet, is_verbose=self.verbose)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportOutput(Output):
    """What the commands understand besides whose results CI systems show."""

    no_github: Annotated[
        bool, typer.Option("--no-github", help="In GitHub Actions, write no annotations, job summary or outputs.")
    ] = False

    def results(
        self,
        console: Console,
        subject: str,
        format_name: str,
        repository: Repository,
        out: Sequence[str] | None = None,
        report: Sequence[str] | None = None,
        **shown: Any,
    ) -> Results:
        """Return where the results of this run go; see `Results`."""
        from quotaform.cli.ci import Ci
        from quotaform.cli.present import Results

        ci = Ci(repository.directory, is_enabled=not self.no_github)
        return Results(console, subject, format_name, ci=ci, out=out, report=report, **shown)


DrawnOutOption: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        "--out",
        metavar="FORMAT=PATH|parquet=DIR",
        help="Also write the result to a file, or all of its rows as Parquet to a new directory. Repeatable.",
    ),
]


_FORMAT_OF_FILES: Final = "json"
_SUFFIXES: Final = {".html": "html", ".htm": "html", ".md": "markdown", ".sarif": "sarif", ".txt": "text"}


def _printed(subject: str) -> tuple[str, ...]:
    return (*FORMATS[subject], *((REPORT,) if subject in REPORTED else ()))


def written_formats(subject: str) -> tuple[str, ...]:
    """Return the formats of the files in which a subject is written."""
    return tuple(FORMATS[subject])


def read_output(subject: str, text: str, option: str = "--out") -> tuple[str, Path]:
    """Read the value of `--out` and options like it: FORMAT=PATH, or a path alone for JSON."""
    name, separator, path = text.partition("=")
    if not separator and text in written_formats(subject):
        raise UsageError(f"{option} {text}: a path is missing; write {option} {text}=PATH")
    meant = _SUFFIXES.get(Path(text).suffix.lower())
    if not separator and meant in written_formats(subject):
        given = shorten(text)
        raise UsageError(
            f"{option} {given}: a path alone is written as JSON; for {meant} write {option} {meant}={given}"
        )
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
    text = "Output format." + (" report: one report of all clusters." if subject in REPORTED else "")
    return choice("--format", _printed(subject), text, show_default=True)


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
        help="Also write one report of all clusters to a file: text, json, markdown or html. Repeatable.",
        autocompletion=complete_from([f"{name}=" for name in FORMATS["fleet-report"]]),
    )
