"""What came of checking the files: as JSON, as text and as Markdown."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Annotated, Final

from quotaform.model.entity import spell_name
from quotaform.model.errors import ExitCode
from quotaform.model.finding import Finding, Severity
from quotaform.model.records.document import VALIDATION
from quotaform.model.records.record import Count, Record, about, derived
from quotaform.model.text import inert
from quotaform.report.annotation import Problems
from quotaform.report.comment import COMMENT_BYTES, Marker, Place, part, render_comment, unchanged_place
from quotaform.report.finding import first_of_each_rule
from quotaform.report.markdown import code, code_cell, table, words_cell
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
    declared = _declared(validation.entities, spell_name)
    where = inert(validation.directory)
    yield style.paint(f"Valid: {counted(validation.files, 'file')} in {where}, {declared}.", "green")


def _declared(entities: Sequence[DeclaredEntities], spell: Callable[[str], str]) -> str:
    return ", ".join(
        counted(each.count, "entity", "entities") + (f" for {spell(each.cluster)}" if each.cluster else "")
        for each in entities
    )


def validation_problems(validation: Validation) -> Problems:
    """Return the problems and warnings of files."""
    return Problems(findings=validation.problems, command="validate")


MARKER: Final = "validate"
_LONGEST: Final = 600
_FEW: Final = 20


def render_validation_markdown(
    validation: Validation,
    *,
    limit: int = COMMENT_BYTES,
    run_url: str | None = None,
    shows_warnings: bool = True,
    place: Place = unchanged_place,
) -> str:
    """Return all problems as Markdown that no name in them can break out of.

    `limit` is how many bytes the document may have; only the first problems are shown when all have no room.
    `shows_warnings` says whether warnings and notes are shown.
    """
    shown = [
        each for each in first_of_each_rule(validation.problems) if shows_warnings or each.severity is Severity.ERROR
    ]
    problems = part(partial(_problems, shown), (len(shown), _FEW))
    what = "valid" if validation.is_valid else counted(validation.counts["problems"], "problem")
    declared = _declared(validation.entities[:_FEW], lambda name: code(spell_name(name), 60))
    return render_comment(
        Marker(MARKER, "", validation.directory),
        f"Kafka quota files in {code(validation.directory, 100)}: {what}",
        [f"{counted(validation.files, 'file')}, {declared}."] if declared else [],
        [problems],
        [problems],
        limit=limit,
        run_url=run_url,
        place=place,
    )


def _problems(problems: Sequence[Finding], most: int) -> Iterator[str]:
    if not problems:
        return
    cells = (
        (
            problem.severity.value,
            code_cell(str(problem.location)) if problem.location else "",
            words_cell(problem.message[:_LONGEST]),
            code_cell(problem.rule, 60),
        )
        for problem in problems[:most]
    )
    yield from table(("", "Place", "Problem", "Rule"), cells)
    if len(problems) > most:
        yield f"\nAnd {len(problems) - most:,} more: see the output of `quotaform validate`.\n"
    yield "\n"
