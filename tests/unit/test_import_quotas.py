"""Bringing live quotas under management beside files that are there already."""

from __future__ import annotations

from pathlib import Path

import pytest

from quotaform.cli.main import run
from quotaform.cluster.snapshot import dump_snapshot
from quotaform.model.entity import Entity
from quotaform.model.quotas import Snapshot
from tests.builder import PRODUCER

TWO = "clusters: {eu: {snapshot: eu.json}, us: {snapshot: us.json}}\n"
ENTRY = "quotas:\n  - match: {user: a}\n    values: {producer_byte_rate: 1MiB/s}\n"


@pytest.mark.parametrize(
    ("place", "words"),
    [("a.yaml", "  It is in the common files, which apply to every cluster"), ("us/a.yaml", "")],
)
def test_entries_of_the_common_files_that_differ_from_a_second_cluster_are_named(
    place: str, words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The quotas of a first cluster were in the common files; importing the second one only said that many differ."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "quotaform.yaml").write_text(TWO)
    (tmp_path / "quotas.d" / place).parent.mkdir(parents=True)
    (tmp_path / "quotas.d" / place).write_text(ENTRY)
    live = Snapshot(cluster_name="us", cluster_id="x", captured_at="", quotas={Entity(user="a"): {PRODUCER: 5.0}})
    (tmp_path / "us.json").write_text("".join(dump_snapshot(live)))
    assert run(["import", "--cluster", "us"]) == 0
    out = capsys.readouterr().out
    assert "Warning: 1 entity in the files is missing on the cluster or has other values there" in out
    assert words in out
    assert ("common files" in out) == bool(words)
