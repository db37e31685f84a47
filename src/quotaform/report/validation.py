"""What came of checking the files: as JSON, as text and as Markdown."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Final

from quotaform.model.entity import spell_name
from quotaform.model.errors import ExitCode
from quotaform.model.finding import Finding, Severity
from quotaform.model.records.document import VALIDATION
from quotaform.model.records.record import Count, Record, about, derived
from quotaform.model.text import inert
from quotaform.report.annotation import Problems
from quotaform.report.comment import Marker
from quotaform.report.finding import first_of_each_rule
from quotaform.report.report import Column, ColumnKind, Report, Section, Table
from quotaform.report.text import PLAIN, Style, counted


class DeclaredEntities(Record):
    """The entities of one cluster."""

    cluster: Annotated[str | None, about("The cluster name, or null if quotaform.yaml has no clusters.")]
    count: Annotated[Count, about("The number of entities.")]


class Validation(Record, document=VALIDATION):
    """The result of validating the files, as quotaform validate writes it."""

    is_valid: Annotated[bool, about("Whether there are no errors.")] = derived(
        lambda validation: not validation.counts["problems"], name="valid"
    )
    directory: Annotated[str, about("The quotas directory, as given.")]
    files: Annotated[Count, about("The number of files.")]
    entities: Annotated[tuple[DeclaredEntities, ...], about("The number of declared entities per cluster.")]
    problems: Annotated[tuple[Finding, ...], about("All problems and warnings of all files.")]

    @property
    def exit_code(self) -> ExitCode:
        """The exit code of a run that checked the files."""
        return ExitCode.DONE if self.is_valid else ExitCode.INVALID

    @property
    def counts(self) -> Mapping[str, int]:
        """Its numbers, by name."""
        return {"problems": sum(problem.severity is Severity.ERROR for problem in self.problems)}


_FEW: Final = 20
"""How many clusters a report names."""


def render_validation(validation: Validation, style: Style = PLAIN, *, shows_warnings: bool = True) -> str:
    """Return all problems, one per line, or one line that says what was checked."""
    return "\n".join(_lines(validation, style, shows_warnings)) + "\n"


def _lines(validation: Validation, style: Style, shows_warnings: bool) -> Iterator[str]:
    for problem in first_of_each_rule(validation.problems):
        if not shows_warnings and problem.severity is not Severity.ERROR:
            continue
        where = problem.location or inert(validation.directory)
        colour = "red" if problem.severity is Severity.ERROR else "yellow"
        yield f"{where}: {style.paint(problem.severity, colour)}: {problem.message} [{problem.rule}]"
    if not validation.is_valid:
        yield style.paint(f"{counted(validation.counts['problems'], 'problem')} found.", "bold")
        return
    declared = _declared(validation.entities)
    where = inert(validation.directory)
    yield style.paint(f"Valid: {counted(validation.files, 'file')} in {where}, {declared}.", "green")


def _declared(entities: Sequence[DeclaredEntities]) -> str:
    return ", ".join(
        counted(each.count, "entity", "entities") + (f" for {spell_name(each.cluster)}" if each.cluster else "")
        for each in entities
    )


def validation_problems(validation: Validation) -> Problems:
    """Return the problems and warnings of files."""
    return Problems(findings=validation.problems, command="validate")


_COLUMNS: Final = ("severity", Column("place", ColumnKind.NAME), "problem", Column("rule", ColumnKind.NAME))


def validation_report(validation: Validation, *, shows_warnings: bool = True) -> Report:
    """Return all problems. `shows_warnings` says whether warnings and notes are among them."""
    rows = tuple(
        (each.severity.value, str(each.location or "-"), each.message, each.rule)
        for each in first_of_each_rule(validation.problems)
        if shows_warnings or each.severity is Severity.ERROR
    )
    declared = _declared(validation.entities[:_FEW])
    table = Table("Problems", _COLUMNS, rows, hint="See the output of quotaform validate.")
    return Report(
        title=f"Kafka quota files in {inert(validation.directory)}",
        state="valid" if validation.is_valid else counted(validation.counts["problems"], "problem"),
        sections=(Section(table),) if rows else (),
        nothing="No problem was found.",
        total=f"{counted(validation.files, 'file')}, {declared}." if declared else "",
        marker=Marker("validate", "", validation.directory),
    )
