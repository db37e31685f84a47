"""The blast radius on Spark is that of the local engine: the same rows, the same counts, the same largest changes."""

from __future__ import annotations

from pathlib import Path

import pytest

from quotaform.model.entity import Entity
from tests.builder import PRODUCER
from tests.spark.test_plan import write_snapshot
from tests.workflow.command import Repository


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    """Two clusters, files that lower the default, and a list of who connects."""
    made = Repository(tmp_path)
    made.config("clusters:\n  lab: {snapshot: lab.json}\n  eu: {snapshot: eu.json}\n")
    made.quotas("  - match: {user: [alice, <default>]}\n    values: {producer_byte_rate: 1MiB/s}\n")
    write_snapshot(tmp_path / "lab.json", {Entity(user="alice"): {PRODUCER: 5.0}})
    write_snapshot(tmp_path / "eu.json", {Entity(user=None): {PRODUCER: 2.0**21}})
    (tmp_path / "clients.csv").write_text("user,client_id\nalice,\nbob,app\nbob,app\n")
    return made


@pytest.mark.workflow
@pytest.mark.usefixtures("spark")
@pytest.mark.parametrize("suffix", ["csv", "jsonl"])
def test_a_list_is_resolved_where_the_cluster_is_planned(repository: Repository, suffix: str) -> None:
    allowed = [word for rule in ("change-factor", "default-entity", "to-unlimited") for word in ("--allow", rule)]
    listed = (
        "--principals",
        "clients.csv",
        "--principals-out",
        f"{{cluster}}.{suffix}",
        "--out",
        "{cluster}-plan.json",
    )
    options = {"env": {"SOURCE_DATE_EPOCH": "1795000000"}}
    files = [f"{name}{rest}" for name in ("lab", "eu") for rest in (f".{suffix}", "-plan.json")]
    done: list[tuple[int, str, list[str]]] = []
    for engine in ("local", "spark"):
        result = repository("plan", "--all", *allowed, *listed, "--engine", engine, **options)
        done.append((result.code, result.out + result.err, [repository.read(name) for name in files]))
    assert done[0] == done[1]
    assert done[0][0] == 0
    assert "Blast radius: 2 of 2 principals (clients.csv) get other limits: 1 newly limited, 1 higher.\n" in done[0][1]
    assert done[0][2][0].count("newly_limited") == 1
