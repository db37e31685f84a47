"""A history and usage in Delta Lake, whose package comes from Maven; without it this fails."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.prove
@pytest.mark.timeout(600)
def test_a_history_and_usage_are_kept_in_delta_tables(tmp_path: Path) -> None:
    """In a process of its own: the session of the other tests has no Delta Lake."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.spark.history_in_delta", str(tmp_path)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=590,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    assert json.loads(done.stdout.splitlines()[-1]) == {
        "table": ["appended", "failed"],
        "delta": ["appended"],
        "slower": ["late"],
        "usage": [True, "2026-11-01"],
        "foreign": "it has no column cluster string, so it is not a history",
    }
