"""What is said of wrong usage: one sentence in one style, with exit code 64. `make golden` writes what is said now."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from quotaform.cli.main import run
from quotaform.cluster.snapshot import dump_snapshot
from quotaform.model.entity import Entity
from quotaform.model.quotas import Snapshot
from tests.builder import PRODUCER
from tests.golden.conftest import FOLDER, Golden


def test_wrong_usage_is_one_sentence_in_one_style(
    golden: Golden, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("quotaform.yaml").write_text("clusters: {lab: {snapshot: lab.json}}\n")
    Path("quotas.d").mkdir()
    quotas = {Entity(user="a"): {PRODUCER: 1.0, "future_rate": 2.0}, Entity(user="b"): {PRODUCER: 1.0}}
    taken = Snapshot(cluster_name="lab", cluster_id="id", captured_at="2026-11-20T09:12:44Z", quotas=quotas)
    Path("lab.json").write_text(dump_snapshot(taken))
    found = ""
    for line in (FOLDER / "wrong-usage.txt").read_text(encoding="utf-8").splitlines():
        if line.startswith("=> "):
            continue
        found += f"{line}\n"
        if line.startswith("> quotaform.yaml: "):
            Path("quotaform.yaml").write_text(line.removeprefix("> quotaform.yaml: "))
        if line.startswith("$ "):
            assert run(shlex.split(line.removeprefix("$ "))) == 64, line
            printed = capsys.readouterr()
            assert (printed.err.count("\n"), printed.out) == (1, ""), line
            assert "hunter2" not in printed.err
            found += f"=> {printed.err}"
    golden("wrong-usage.txt", found)
