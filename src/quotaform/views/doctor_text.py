"""The steps of `quotaform doctor` as a person reads them, to be pasted into a ticket."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import groupby

from quotaform.model.checkup import Checkup, StepStatus
from quotaform.model.text import inert
from quotaform.views.reading_text import cluster_line
from quotaform.views.style import PLAIN, Style, counted

_COLOURS = {StepStatus.OK: "green", StepStatus.FAILED: "red", StepStatus.NOT_REACHED: "dim"}


def render_checkup(checkup: Checkup, style: Style = PLAIN) -> str:
    """Return one line per step, below the server that it was taken with."""
    return "".join(f"{line}\n" for line in _lines(checkup, style))


def _lines(checkup: Checkup, style: Style) -> Iterator[str]:
    yield f"{cluster_line(checkup.cluster_name, style)}   Checked {inert(checkup.checked_at)}"
    for number, (server, steps) in enumerate(groupby(checkup.steps, lambda step: step.server)):
        yield ""
        if number:
            yield style.paint("Rights" if server is None else inert(server), "bold")
        for step in steps:
            status = style.paint(f"{step.status.replace('-', ' '):<11}", _COLOURS[step.status])
            facts = ", ".join(f"{name.replace('_', ' ')} {inert(value)}" for name, value in step.facts.items())
            yield f"  {status}  {step.step.replace('-', ' '):<16}  {inert(step.problem or '') or facts}".rstrip()
    yield ""
    counts = Counter(step.status for step in checkup.steps)
    failed = f"{counted(counts[StepStatus.FAILED], 'step')} failed, {counts[StepStatus.NOT_REACHED]} not reached."
    yield "All steps succeeded." if checkup.is_healthy else failed
