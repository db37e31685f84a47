"""What came of checking the files, for people and machines."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from json import dumps
from typing import Final, Protocol

from quotaform.core.document import finding_document
from quotaform.model.finding import Finding, Severity
from quotaform.views.style import PLAIN, Style, counted

FORMAT_VERSION: Final = "1.0"
KIND: Final = "quotaform.validation"


class Report(Protocol):
    """What this view needs to know of a validation."""

    @property
    def directory(self) -> str: ...
    @property
    def files(self) -> int: ...
    @property
    def entities(self) -> dict[str | None, int]: ...
    @property
    def problems(self) -> Sequence[Finding]: ...
    @property
    def is_valid(self) -> bool: ...


def render_validation(report: Report, style: Style = PLAIN) -> str:
    """Return all problems, one per line, or one line that says what was checked."""
    return "\n".join(_lines(report, style)) + "\n"


def _lines(report: Report, style: Style) -> Iterator[str]:
    for problem in report.problems:
        where = problem.location or report.directory
        colour = "red" if problem.severity is Severity.ERROR else "yellow"
        yield f"{where}: {style.paint(problem.severity, colour)}: {problem.message} [{problem.rule}]"
    if not report.is_valid:
        errors = sum(problem.severity is Severity.ERROR for problem in report.problems)
        yield style.paint(f"{counted(errors, 'problem')} found.", "bold")
        return
    each = ", ".join(
        f"{counted(count, 'entity', 'entities')}{f' for {name}' if name else ''}"
        for name, count in report.entities.items()
    )
    yield style.paint(f"Valid: {counted(report.files, 'file')} in {report.directory}, {each}.", "green")


def render_validation_json(report: Report) -> str:
    """Return the report as JSON."""
    document = {
        "format_version": FORMAT_VERSION,
        "kind": KIND,
        "valid": report.is_valid,
        "directory": report.directory,
        "files": report.files,
        "entities": [{"cluster": name, "count": count} for name, count in report.entities.items()],
        "problems": [finding_document(problem) for problem in report.problems],
    }
    return dumps(document, indent=2) + "\n"
