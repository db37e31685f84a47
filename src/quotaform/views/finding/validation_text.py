"""What came of checking the files, as a person reads it."""

from __future__ import annotations

from collections.abc import Iterator

from quotaform.core.result import Validation
from quotaform.model.entity import spell_name
from quotaform.model.finding import Severity
from quotaform.model.text import inert
from quotaform.views.finding.finding_group import first_of_each_rule
from quotaform.views.style import PLAIN, Style, counted


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
        errors = sum(problem.severity is Severity.ERROR for problem in validation.problems)
        yield style.paint(f"{counted(errors, 'problem')} found.", "bold")
        return
    each = ", ".join(
        f"{counted(count, 'entity', 'entities')}{f' for {spell_name(name)}' if name else ''}"
        for name, count in validation.entities.items()
    )
    yield style.paint(f"Valid: {counted(validation.files, 'file')} in {inert(validation.directory)}, {each}.", "green")
