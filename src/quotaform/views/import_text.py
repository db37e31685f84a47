"""What an import wrote, as a person reads it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

from quotaform.model.finding import Finding
from quotaform.views.finding_text import render_findings
from quotaform.views.style import PLAIN, Style, counted

if TYPE_CHECKING:
    from pathlib import PurePath


class ImportReport(Protocol):
    """What this view needs to know of an import."""

    @property
    def counts(self) -> Mapping[PurePath, int]: ...
    @property
    def declared(self) -> int: ...
    @property
    def out_of_scope(self) -> int: ...
    @property
    def left_out(self) -> int: ...
    @property
    def findings(self) -> Sequence[Finding]: ...


def render_import(report: ImportReport, style: Style = PLAIN) -> str:
    """Return which files were written and what was left alone."""
    return "\n".join(_lines(report, style)) + "\n"


def _lines(report: ImportReport, style: Style) -> Iterator[str]:
    for path, count in report.counts.items():
        yield f"Wrote {path} ({counted(count, 'entity', 'entities')})"
    left = [
        f"{number} {words}"
        for number, words in (
            (report.declared, "declared already"),
            (report.out_of_scope, "out of scope"),
            (report.left_out, "that files cannot express"),
        )
        if number
    ]
    if left:
        yield f"Left alone: {', '.join(left)}."
    if report.findings:
        yield from render_findings(report.findings, style)
    total = sum(report.counts.values())
    yield style.paint(f"Imported {counted(total, 'entity', 'entities')}.", "green")
