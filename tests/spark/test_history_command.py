"""`quotaform history append`, killed in the midst of its work."""

from __future__ import annotations

import json
import signal
from pathlib import Path

import pytest

from quotaform.model.entity import Entity
from tests.builder import PRODUCER
from tests.spark.files import write_snapshot
from tests.waiting import wait_until
from tests.workflow.command import Repository

pytestmark = [pytest.mark.workflow, pytest.mark.usefixtures("spark")]


@pytest.mark.prove
def test_an_append_that_is_killed_while_it_writes_leaves_the_history_as_it_was(tmp_path: Path) -> None:
    """Also for readers of that moment: they see what was there."""
    repository, kept = Repository(tmp_path), tmp_path / "kept"
    write_snapshot(tmp_path / "lab-1.json", {Entity(user="alice"): {PRODUCER: 1.0}}, captured_at="2026-11-01T09:00:00Z")
    repository("history", "append", "lab-1.json", "--history", "kept")
    many = {Entity(user=f"u{number}"): {PRODUCER: 1024.0} for number in range(20_000)}
    write_snapshot(tmp_path / "lab-3.json", many, captured_at="2026-11-03T09:00:00Z")
    running = repository.start("history", "append", "lab-3.json", "--history", "kept", "--master", "local[1]")
    wait_until(lambda: running.is_over or list(kept.glob("_staged-*/rows")), 250)
    running.signal(signal.SIGKILL)
    assert running.end().code == -signal.SIGKILL
    assert [folder.name for folder in kept.glob("append=*")] == ["append=00000001"]
    shown = repository("history", "show", "--history", "kept", "--format", "json")
    assert (shown.code, json.loads(shown.out)["total"]) == (0, 1)
    again = repository("history", "append", "lab-3.json", "--history", "kept")
    assert again.last == "Snapshots: 1 appended, 0 late, 0 known, 0 failed."
