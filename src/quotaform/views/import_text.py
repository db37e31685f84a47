"""What an import wrote, as a person reads it."""

from __future__ import annotations

from collections.abc import Iterator

from quotaform.core.result import Import
from quotaform.model.text import inert
from quotaform.views.finding.finding_text import render_findings
from quotaform.views.style import PLAIN, Style, counted


def render_import(done: Import, style: Style = PLAIN) -> str:
    """Return which files were written and what was left alone."""
    return "\n".join(_lines(done, style)) + "\n"


def _lines(done: Import, style: Style) -> Iterator[str]:
    for path, count in done.counts.items():
        yield f"Wrote {inert(path)} ({counted(count, 'entity', 'entities')})"
    left = [
        f"{number} {words}"
        for number, words in (
            (done.declared, "already declared"),
            (done.out_of_scope, "out of scope"),
            (done.left_out, "that files cannot represent"),
        )
        if number
    ]
    if left:
        yield f"Not imported: {', '.join(left)}."
    yield from differing_lines(done, style)
    if done.findings:
        yield from render_findings(done.findings, style)
    total = sum(done.counts.values())
    yield style.paint(f"Imported {counted(total, 'entity', 'entities')}.", "green")


def differing_lines(done: Import, style: Style) -> Iterator[str]:
    """Yield whether the cluster has no quotas, and how many entities it has otherwise than the files declare them."""
    if done.is_empty:
        yield "The cluster has no quotas."
    if done.differing:
        entities, are = ("1 entity", "is") if done.differing == 1 else (f"{done.differing:,} entities", "are")
        text = (
            f"{entities} in the files {are} missing on the cluster or {'has' if are == 'is' else 'have'} other values"
        )
        yield style.paint(f"Warning: {text} there; quotaform plan shows them.", "yellow")
    if done.differing_from_common:
        which = counted(done.differing_from_common, "of them is", "of them are")
        if done.differing_from_common == done.differing:
            which = "It is" if done.differing == 1 else "They are"
        yield f"  {which} in the common files, which apply to every cluster; move what is meant for one cluster to"
        yield "  its own directory, such as quotas.d/CLUSTER."
