"""The command `quotaform usage headroom`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

import pytest
from pyspark.sql import SparkSession

from quotaform.model.entity import Entity
from tests.builder import CONSUMER, MUTATION, PRODUCER
from tests.spark.files import write_snapshot
from tests.spark.test_resolved import quota_table
from tests.spark.usage_oracle import Sample, usage_table
from tests.workflow.command import Repository

pytestmark = [pytest.mark.workflow, pytest.mark.usefixtures("spark")]

HELD: Final = {
    Entity(client_id="etl"): {PRODUCER: 10.0},
    Entity(user="alice"): {PRODUCER: 100.0, MUTATION: 5.0},
    Entity(user="legacy"): {PRODUCER: 7.0},
    Entity(user=None): {CONSUMER: 1.0},
}


SAMPLES: Final = [
    *(Sample(60.0 * at, user="bob", client_id="etl", rate=7.0, throttle_ms=40.0 + at) for at in range(4)),
    *(Sample(60.0 * at, user="carol", client_id="etl", rate=2.5) for at in range(4)),
    *(Sample(60.0 * at, user="alice", rate=85.0) for at in range(4)),
    *(Sample(0.0, user="erin", rate=1.0, cluster=cluster) for cluster in ("other", None)),
]


@pytest.fixture(scope="module")
def recording(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with tables of usage, one of them empty and one damaged, one of quotas, and a snapshot."""
    folder = tmp_path_factory.mktemp("recording")
    usage_table(spark, SAMPLES).write.parquet(str(folder / "usage"))
    usage_table(spark, []).write.parquet(str(folder / "empty"))
    usage_table(spark, SAMPLES).write.parquet(str(folder / "damaged"))
    for path in (folder / "damaged").glob("*.parquet"):
        content = path.read_bytes()
        path.write_bytes(content[:4] + bytes(60) + content[64:])
    quota_table(spark, {"lab": HELD}).write.parquet(str(folder / "quotas"))
    write_snapshot(folder / "lab.json", HELD)
    return folder


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    return Repository(tmp_path)


def test_it_says_who_is_throttled_who_is_close_and_what_nobody_uses(
    spark: SparkSession, repository: Repository, recording: Path
) -> None:
    out = repository.path / "rows"
    arguments = ("--usage", str(recording / "usage"), "--quotas", str(recording / "quotas"), "--format", "json")
    files = [
        word for out in (f"parquet={out}", "markdown=headroom.md", "html=headroom.html") for word in ("--out", out)
    ]
    done = repository("usage", "headroom", *arguments, *files)
    assert (done.code, done.err.splitlines()[1:]) == (0, [f"Saved the result to: {out}, headroom.md, headroom.html"])
    document = json.loads(done.out)
    assert document["summary"] == {
        **dict.fromkeys(("below", "coarse"), 0),
        **dict.fromkeys(("throttled", "close", "noisy", "unused"), 1),
        "unlimited": 2,
    }
    buckets = [(each["bucket"], each["status"], each["p99"], each["members"]) for each in document["buckets"]]
    # The row without a cluster is of the only one that there is.
    assert buckets == [("client-id=etl", "throttled", 9.5, 2), ("user=alice", "close", 85, 1)]
    assert document["buckets"][0]["throttled_s"] == 191.5
    (noisy,) = document["noisy"]
    assert (noisy["top_member"], round(noisy["top_member_share"], 3)) == ("user=bob,client-id=etl", 0.737)
    (unused,) = document["unused"]
    assert (unused["address"], unused["key"], unused["value"], unused["recorded_s"]) == (
        "user=legacy",
        PRODUCER,
        7,
        191.5,
    )
    assert document["unrecorded"] == [
        {"cluster": "lab", "key": CONSUMER, "values": 1},
        {"cluster": "lab", "key": MUTATION, "values": 1},
    ]
    assert document["unknown_clusters"] == [{"cluster": "other", "buckets": 1}]
    assert "\n**Headroom: 1 throttled" in repository.read("headroom.md")
    assert "client-id=etl" in repository.read("headroom.html")
    rows = spark.read.parquet(str(out)).toArrow().to_pylist()
    assert [(row["cluster"], row["bucket"], row["entity_key"], row["samples"]) for row in rows] == [
        *(("lab", None, "user=legacy", 0), ("lab", "client-id=etl", "client-id=etl", 4)),
        *(("lab", "user=alice", "user=alice", 4), ("lab", "user=erin", None, 1), ("other", "user=erin", None, 1)),
    ]


def test_a_recording_under_another_name_is_held_against_a_snapshot_with_a_warning(
    spark: SparkSession, repository: Repository, recording: Path
) -> None:
    usage = str(repository.path / "usage")
    usage_table(spark, [row._replace(cluster="10.0.0.5:9092") for row in SAMPLES]).write.parquet(usage)
    arguments = ("--snapshot", recording / "lab.json", "--since", "2026-11-01", "--until", "2026-11-01T00:02:00Z")
    done = repository("usage", "headroom", "--usage", usage, *arguments)
    assert done.code == 0, done.err
    assert "Warning: the usage is of 10.0.0.5:9092, and is compared with the quotas of lab\n" in done.err
    assert done.last == "Headroom: 1 throttled, 1 close, 0 below, 1 unlimited, of 3 buckets; 1 unused value."


@pytest.mark.prove
def test_a_cluster_that_cannot_be_read_is_named_beside_the_others(repository: Repository, recording: Path) -> None:
    """The command ended with an internal error instead."""
    lab = json.dumps(str(recording / "lab.json"))
    repository.config(f"clusters: {{lab: {{snapshot: {lab}}}, far: {{snapshot: far.json}}}}\n")
    done = repository("usage", "headroom", "--usage", recording / "usage", "--all")
    assert (done.code, "Error: far: far.json: " in done.err) == (3, True), done.err
    assert done.last == "Headroom: 1 throttled, 1 close, 0 below, 2 unlimited, of 4 buckets; 1 unused value."


def test_what_is_missing_is_said(repository: Repository, recording: Path) -> None:
    usage, quotas = ("--usage", recording / "usage"), ("--quotas", recording / "quotas")
    cases: list[tuple[tuple[Any, ...], int, str]] = [
        (("--usage", recording / "empty", *quotas), 3, "the table has no rows; record usage first"),
        (
            (*usage, *quotas, "--since", "2026-11-02"),
            3,
            "has no rows from 2026-11-02T00:00:00Z on; choose another time",
        ),
        (("--usage", recording / "damaged", *quotas), 1, "; restore that file if it is damaged, then run this again"),
        ((*usage, "--quotas", recording / "usage"), 3, "the table lacks the columns entity_key, entity, value"),
        ((*usage, *quotas, "--since", "1d", "--until", "2d"), 64, "--since must be before --until"),
        ((*usage, *quotas, "--snapshot", "lab.json"), 64, "--quotas and --snapshot cannot be combined"),
        (usage, 64, "no cluster is given"),
    ]
    for arguments, code, text in cases:
        done = repository("usage", "headroom", *arguments)
        assert (done.code, done.out) == (code, ""), arguments
        assert text in done.err
