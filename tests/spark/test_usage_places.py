"""Usage commands where Spark runs elsewhere: over Spark Connect, and on a standalone cluster."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyarrow import parquet

from quotaform.document.snapshot import dump_snapshot
from quotaform.model.entity import Entity
from quotaform.model.snapshot import Snapshot
from tests.builder import PRODUCER
from tests.workflow.command import Repository

if TYPE_CHECKING:
    from tests.spark.command_process import CommandProcess

pytestmark = [pytest.mark.workflow]

START = 1_795_000_000
PLACES = (pytest.param("connect", marks=pytest.mark.prove), "standalone")


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    """A repository with recordings, a snapshot of quotas, and a file that halves one."""
    made = Repository(tmp_path)
    made.config("clusters: {lab: {snapshot: lab.json}}\n")
    held = {Entity(user="alice"): {PRODUCER: 100.0}}
    taken = Snapshot(cluster_name="lab", cluster_id="id", captured_at="2026-11-18T00:00:00Z", quotas=held)
    made.write("lab.json", dump_snapshot(taken))
    made.write("quotas.d/a.yaml", "quotas: [{match: {user: alice}, values: {producer_byte_rate: 50}}]\n")
    labels = {"__name__": "kafka_server_produce_byte_rate", "user": "alice", "cluster": "lab", "instance": "1"}
    values = [[START + 10 * number, "60"] for number in range(100)]
    made.write("in/a.json", json.dumps([{"metric": labels, "values": values}]))
    made.write("in/cut.json", json.dumps([{"metric": labels, "values": values}])[:200])
    return made


@pytest.mark.parametrize("place", PLACES)
def test_recordings_are_ingested_measured_and_replayed(
    place: str, request: pytest.FixtureRequest, repository: Repository
) -> None:
    process: CommandProcess = request.getfixturevalue(place)

    def run(*arguments: str) -> Any:
        return process.run(repository, "usage", *arguments)

    done = run("ingest", "in", "--usage", "usage")
    assert (done.code, done.last) == (0, "Samples: 101 read = 100 written (100 rows) + 0 dropped + 1 quarantined."), (
        done.said
    )
    assert parquet.read_table(repository.path / "usage").num_rows == 100
    assert parquet.read_table(repository.path / "usage-quarantine").num_rows == 1
    headroom = run("headroom", "--usage", "usage", "--snapshot", "lab.json", "--format", "json")
    assert headroom.code == 0, headroom.said
    assert json.loads(headroom.out)["summary"]["below"] == 1
    backtest = run("backtest", "--usage", "usage", "--format", "json", "--out", "parquet=rows")
    assert backtest.code == 0, backtest.said
    [row] = json.loads(backtest.out)["clusters"][0]["changed"]["rows"]
    assert row["bucket"] == "user=alice"
    assert parquet.read_table(repository.path / "rows").num_rows >= 1
    recommended = run("recommend", "--usage", "usage", "--min-history", "1m", "--min-samples", "20")
    assert recommended.code == 0, recommended.said
    assert recommended.last.startswith("Recommended: ")
    for result in (done, headroom, backtest, recommended):
        assert "site-packages" not in result.err
