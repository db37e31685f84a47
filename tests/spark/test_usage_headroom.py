"""Headroom agrees with a slow oracle, whatever the recording is like; and the command `quotaform usage headroom`."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from random import Random
from typing import Any, Final

import pytest
from pyspark.sql import SparkSession

from quotaform.model.entity import Entity
from quotaform.model.quotas import Quotas
from quotaform.spark import headroom
from tests.builder import CONNECTION, CONSUMER, MUTATION, PRODUCER
from tests.spark.files import write_snapshot
from tests.spark.test_resolved import quota_table
from tests.spark.usage_oracle import START, Sample, headroom_rows, usage_table
from tests.workflow.command import Repository

pytestmark = [pytest.mark.workflow, pytest.mark.usefixtures("spark")]

NAN: Final = float("nan")
KEYS: Final = (PRODUCER, CONSUMER, MUTATION)
ENTITIES: Final = (
    *(Entity(user="alice", client_id="app"), Entity(user="alice", client_id=None), Entity(user="alice")),
    *(Entity(user=None, client_id="app"), Entity(user=None, client_id=None), Entity(user=None)),
    *(Entity(client_id="app"), Entity(client_id=None), Entity(user="bob"), Entity(ip=None), Entity(ip="::1")),
)
SERIES: Final = (
    *(("alice", "app", None), ("alice", "web", None), ("alice", None, None), ("bob", "app", None), ("bob", "", None)),
    *((None, "app", None), (None, "web", None), (None, None, "10.0.0.1"), (None, None, "0:0::1"), (None, None, "::1")),
)


def some_quotas(random: Random) -> Quotas:
    found = {}
    for entity in random.sample(ENTITIES, random.randrange(0, 5)):
        keys = [CONNECTION] if "ip" in entity.types else random.sample(KEYS, 2)
        found[entity] = {key: random.choice([0.0, 5.0, 10.0, 2.0**63, NAN]) for key in keys}
    return found


def some_samples(random: Random, cluster: str | None) -> list[Sample]:
    """Rows of a few series: gaps, rows that come twice, rates and throttle times apart, and no numbers at all."""
    rows = []
    for names in random.sample(SERIES, 4):
        key = CONNECTION if names[2] is not None else random.choice(KEYS)
        for broker in random.sample(["1", "2", None], 2):
            at = float(random.randrange(3)) * 60
            for _ in range(random.randrange(1, 8)):
                rate = random.choice([0.0, 1.0, 4.0, 4.9, 9.4, 9.6, 12.0, NAN, None, -1.0, float("inf")])
                throttle = random.choice([None, None, 0.0, 30.0, 30.0, 1000.0, NAN, -5.0])
                row = Sample(
                    at, random.choice([11.5, 300.0, None, NAN, 0.0]), cluster, broker, key, *names, rate, throttle
                )
                apart = [row._replace(throttle_ms=None), row._replace(rate=None)]
                rows += random.choice([[row], [row], [row, row], apart, [row, row._replace(rate=2.0)]])
                at += random.choice([60.0, 60.0, 60.0, 0.25, 600.0, 601.0, 7200.0])
    random.shuffle(rows)
    return rows


def comparable(row: dict[str, Any]) -> dict[str, Any]:
    """A row that can be compared: times in seconds, and doubles whatever the order in which they were added up."""

    def cell(value: Any) -> Any:
        if isinstance(value, datetime):
            return (value - START).total_seconds()
        return repr(float(f"{value:.10g}")) if isinstance(value, float) else value

    return {name: cell(value) for name, value in row.items() if name not in ("first", "last")} | {
        name: float(cell(row[name])) for name in ("first", "last")
    }


def by_place(rows: Sequence[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    place = ("cluster", "broker", "key", "bucket")
    found = {repr([row[name] for name in place]): comparable(row) for row in rows}
    assert len(found) == len(rows)
    return found


def test_headroom_is_that_of_the_oracle(spark: SparkSession) -> None:
    """Many clusters are each an example of its own: a job per example would take an hour."""
    random = Random(11)
    held = {f"c{number}": some_quotas(random) for number in range(40)}
    samples = [row for cluster in (*held, "nobody's", None) for row in some_samples(random, cluster)]
    found = headroom(usage_table(spark, samples).persist(), quota_table(spark, held).persist())
    rows = found.where("bucket IS NOT NULL").toArrow().to_pylist()
    assert by_place(rows) == by_place(headroom_rows(samples, held))


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


def test_a_table_that_is_empty_or_damaged_is_told(repository: Repository, recording: Path) -> None:
    """What else is missing is in `story-spark-usage.txt`."""
    for name, code, text in (
        ("empty", 3, "the table has no rows; record usage first"),
        ("damaged", 1, "; restore that file if it is damaged, then run this again"),
    ):
        done = repository("usage", "headroom", "--usage", recording / name, "--quotas", recording / "quotas")
        assert (done.code, done.out, text in done.err) == (code, "", True), done.err
