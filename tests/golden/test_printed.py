"""What is written for other programs, of one example each."""

from __future__ import annotations

from quotaform.drift.metric import merge_run
from quotaform.drift.prometheus import render_metrics
from tests.golden.conftest import Golden
from tests.unit.test_audit import LINES
from tests.unit.test_metrics import run_of


def test_the_lines_of_an_audit_log(golden: Golden) -> None:
    """Who changed what, from what to what and with what result; the words of a broker are cut."""
    golden("audit.jsonl", "".join(LINES))


def test_the_metrics_of_a_run(golden: Golden) -> None:
    golden("metrics.prom", render_metrics(merge_run({}, run_of(notified=True))))
