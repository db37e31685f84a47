"""A pinned cluster id is checked by whatever reads a cluster."""

from __future__ import annotations

from pathlib import Path

import pytest

from quotaform.cli.main import run
from quotaform.cluster.snapshot import dump_snapshot
from quotaform.model.entity import Entity
from quotaform.model.quotas import Snapshot
from tests.builder import PRODUCER


@pytest.mark.parametrize(
    "command",
    [
        ("describe",),
        ("import",),
        ("snapshot", "--output", "out.json"),
        ("resolve", "--name", "user=a"),
    ],
)
def test_another_cluster_than_the_pinned_one_is_not_read(
    command: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """With the address of another cluster, `import` wrote its quotas into the files of this one."""
    monkeypatch.chdir(tmp_path)
    Path("quotaform.yaml").write_text("clusters: {lab: {snapshot: lab.json, cluster_id: pinned}}\n")
    live = Snapshot(cluster_name="lab", cluster_id="other", captured_at="", quotas={Entity(user="a"): {PRODUCER: 5.0}})
    Path("lab.json").write_text("".join(dump_snapshot(live)))
    assert run(list(command)) == 4
    out, err = capsys.readouterr()
    assert out == ""
    # The id of a snapshot was called live.
    assert "cluster lab is pinned to id pinned, and the snapshot lab.json is of a cluster with id other; give a" in err
    assert sorted(path.name for path in tmp_path.iterdir()) == ["lab.json", "quotaform.yaml"]
