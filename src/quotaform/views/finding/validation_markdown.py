"""What came of checking the files, as a comment or a job summary."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from quotaform.core.result import Validation
from quotaform.model.entity import spell_name
from quotaform.model.finding import Finding, Severity
from quotaform.views.finding.finding_group import first_of_each_rule
from quotaform.views.finding.problem import Place, unchanged_place
from quotaform.views.markdown import code, code_cell, link, table, words_cell
from quotaform.views.markdown_fit import COMMENT_BYTES, Part, fit, form
from quotaform.views.plan.plan_markdown import comment_marker
from quotaform.views.style import counted

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
    problems = Part([form(_problems, shown, len(shown)), form(_problems, shown, _FEW)])
    return fit((Part([form(_head, validation, place)]), problems, Part([form(_foot, run_url)])), (problems,), limit)


def _head(validation: Validation, place: Place) -> Iterator[str]:
    yield f"{comment_marker(MARKER, '', validation.directory, place)}\n"
    errors = sum(problem.severity is Severity.ERROR for problem in validation.problems)
    what = counted(errors, "problem") if errors else "valid"
    yield f"### Kafka quota files in {code(validation.directory, 100)}: {what}\n\n"
    each = ", ".join(
        f"{counted(count, 'entity', 'entities')}{f' for {code(spell_name(name), 60)}' if name else ''}"
        for name, count in list(validation.entities.items())[:_FEW]
    )
    if each:
        yield f"{counted(validation.files, 'file')}, {each}.\n\n"


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


def _foot(run_url: str | None) -> Iterator[str]:
    run = link("run", run_url)
    if run is not None:
        yield f"<sub>{run}</sub>\n"
