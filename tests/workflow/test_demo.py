"""`quotaform demo`: what a stranger sees first."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.workflow.command import run_process

pytestmark = pytest.mark.workflow


def require_in_order(out: str, expected: Sequence[str]) -> None:
    """Make sure that an output has these texts, one after the other."""
    at = 0
    for text in expected:
        found = out.find(text, at)
        assert found >= 0, f"{text!r} is missing after {out[:at][-200:]!r}"
        at = found + len(text)


@pytest.mark.timeout(300)
def test_the_demo_runs_the_full_workflow(tmp_path: Path) -> None:
    done = run_process("demo", cwd=tmp_path, timeout=240)
    assert done.code == 0, done
    expected = [
        "$ quotaform import",
        "Imported 3 entities.",
        "Plan: 1 to add, 1 to change, 0 to destroy.",
        "Apply complete! Resources: 1 added, 1 changed, 0 destroyed.",
        "No changes. Your infrastructure matches the configuration.",
        "A change outside of git",
        "100 MiB/s on the cluster, 20 MiB/s in the files",
        "(exit code 2)",
        "Apply complete! Resources: 0 added, 1 changed, 0 destroyed.",
        "No drift.",
        "Kafka was stopped and its data removed.",
    ]
    require_in_order(done.out, expected)
    assert "\x1b[" not in done.out
    assert list(tmp_path.iterdir()) == []
