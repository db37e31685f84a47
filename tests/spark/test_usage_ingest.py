"""`quotaform usage ingest`: recordings of all formats, whole and broken, compared with parsers and merge one by one."""

from __future__ import annotations

import gzip
import json
import os
import shutil
from pathlib import Path
from platform import node
from typing import Any
from unittest import mock

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as f

from quotaform.model.errors import EngineError
from quotaform.model.records.schema import gate
from quotaform.model.text import MIB
from quotaform.report.format import schema_builder
from quotaform.usage.ingest import run
from quotaform.usage.table.schema import QUARANTINE, USAGE
from quotaform.usage.table.table import read_usage
from tests.http_server import HttpServer
from tests.http_server import answer as http_answer
from tests.workflow.command import Repository

pytestmark = [pytest.mark.workflow, pytest.mark.usefixtures("spark")]

DATA = Path(__file__).parents[1] / "data" / "usage"
LABELS = {"cluster": "lab", "instance": "b1:7071", "quota_type": "Produce"}
START = 1_795_000_000


def element(user: str, values: list[tuple[float, str]], name: str = "byte_rate", **labels: str) -> dict[str, Any]:
    """Return a series of Prometheus."""
    return {"metric": {"__name__": f"kafka_server_quota_{name}", "user": user, **LABELS, **labels}, "values": values}


def answer(*elements: dict[str, Any], indent: int | None = None) -> str:
    """Return an answer of Prometheus."""
    document = {"status": "success", "data": {"resultType": "matrix", "result": list(elements)}}
    return json.dumps(document, indent=indent, separators=None if indent else (",", ":"))


def minutes(*values: str) -> list[tuple[float, str]]:
    """Return values, one per minute."""
    return [(START + 60 * number, value) for number, value in enumerate(values)]


ANSWERS = {
    "first.json": answer(
        element("CN%3Dtenant%20a", minutes("1", "2.5", "NaN", "4")),
        element("CN%3Dtenant%20a", minutes("NaN", "10", "20"), "throttle_time"),
        element("%2A", minutes("7")),
        element('<default>"', minutes("8", "-1", "9")),
        element("bob", minutes("0"), "queue_size"),
    ),
    # Scraped again, out of order, with another value of one time, and written by another program.
    "second.json": answer(
        element("CN%3Dtenant%20a", list(reversed(minutes("1", "3", "5")))),
        element("far", minutes("6"), cluster="edge"),
        indent=2,
    ),
}


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    """A repository with recordings."""
    made = Repository(tmp_path)
    made.config("clusters:\n  lab: {bootstrap_servers: ['127.0.0.1:1']}\n")
    (tmp_path / "in").mkdir()
    for name, text in ANSWERS.items():
        (tmp_path / "in" / name).write_text(text, encoding="utf-8")
    return made


def rows_of(spark: SparkSession, folder: Path) -> list[tuple[Any, ...]]:
    """Return the rows of a table of usage."""
    rows = read_usage(spark, str(folder)).toArrow().to_pylist()
    return sorted((tuple(row.values()) for row in rows), key=repr)


def used(spark: SparkSession, folder: Path) -> list[tuple[Any, ...]]:
    """Return what a table says: seconds after the start, user, rate and throttle time."""
    rows = [(row[0].timestamp() - START, row[5], row[8], row[9]) for row in rows_of(spark, folder)]
    return sorted(rows, key=repr)


def summary(out: str) -> dict[str, int]:
    """Return the numbers of samples that a result has."""
    result = json.loads(out)
    return {**result["summary"], **result["dropped"]}


def test_recordings_of_all_formats_are_one_table(spark: SparkSession, repository: Repository) -> None:
    folder = repository.path / "in"
    for name in ("jmxtool.csv", "exposition.txt"):
        packed = folder / f"{name}.gz"
        packed.write_bytes(gzip.compress((DATA / name).read_bytes()))
        # The samples of an exporter's page have the time of its file.
        os.utime(packed, (START, START))
    done = repository("usage", "ingest", "in", "--usage", "usage", "--cluster", "lab", "--format", "json")
    assert done.code == 0, done.said
    require_valid("usage-ingest", done.out)
    dropped = {"nan": 44, "other_attribute": 6, "duplicate": 1, "conflict": 1}
    assert summary(done.out) == {"read": 133, "written": 80, "dropped": 52, "quarantined": 1, **dropped}
    found = used(spark, repository.path / "usage")
    assert len(found) == 64
    # The second file has another value of one time, and others of it come later than those of the first one.
    assert [row for row in found if row[1] == "CN=tenant a"] == [
        (0.0, "CN=tenant a", 1.0, None),
        (120.0, "CN=tenant a", 5.0, 20.0),
        (180.0, "CN=tenant a", 4.0, None),
        (60.0, "CN=tenant a", 3.0, 10.0),
    ]
    assert (0.0, "CN=tenant a,O=Tenants", 102108.93726462753, 380.4035087719298) in found
    result = json.loads(done.out)
    assert result["clusters"] == [{"cluster": "edge", "declared": False}, {"cluster": "lab", "declared": True}]
    assert "declares no cluster edge" in done.err


def test_what_is_broken_is_in_the_quarantine_with_file_and_position(
    spark: SparkSession, repository: Repository
) -> None:
    folder = repository.path / "in"
    whole = answer(element("a", minutes("1", "2")), element("b", minutes("3", "4")))
    cut = whole[: whole.index('"4"')]
    packed = gzip.compress(whole.encode() * 50)
    broken = {
        "cut.json": cut.encode(),
        "list.json": whole[: whole.rindex("]}}")].encode(),
        "cut.json.gz": packed[:-20],
        "error.json": b'{"status":"error","error":"timed out"}',
        "picture.json": b"\x89PNG\r\n\x1a\n\0",
        "empty.json": b"",
        "inf.json": answer(element("c", minutes("1", "2", "+Inf"))).encode(),
        "digits.json": answer(element("c", [(int("9" * 400), "1"), (START, "9" * 400)])).encode(),
        "export.json": json.dumps({**element("c", []), "values": [1], "timestamps": [int("9" * 400)]}).encode(),
        "names.json": answer(element("d", minutes("1"), name="byte_rate", quota_type="")).encode(),
    }
    shutil.rmtree(folder)
    folder.mkdir()
    for name, data in broken.items():
        (folder / name).write_bytes(data)
    done = repository("usage", "ingest", "in", "--usage", "usage", "--format", "json")
    result = json.loads(done.out)
    assert done.code == 0
    assert result["empty_files"] == 1
    rejected = spark.read.parquet(str(repository.path / "usage-quarantine"))
    assert rejected.schema == QUARANTINE
    found = {(Path(row.file).name, row.position, row.reason) for row in rejected.collect()}
    assert {name for name, _, _ in found} == set(broken) - {"empty.json"}
    for name in ("cut.json", "list.json"):
        assert (name, 1, "line 1: not JSON, or cut: it ends too early") in found
    assert any(name == "cut.json.gz" and "the file is cut or broken" in reason for name, _, reason in found)
    assert any(name == "inf.json" and "sample 3: the value is inf" in reason for name, _, reason in found)
    assert result["summary"]["quarantined"] == rejected.count() == len(result["rejected"])
    assert "records could not be read; see the quarantine table usage-quarantine" in done.err
    again = repository("usage", "ingest", "in/inf.json", "--usage", "other", "--quarantine", "usage-quarantine")
    assert again.last == "Samples: 3 read = 2 written (2 rows) + 0 dropped + 1 quarantined."
    # It was there twice when its file was ingested twice.
    assert spark.read.parquet(str(repository.path / "usage-quarantine")).count() == len(found)


def test_files_are_packed_into_tasks_by_their_bytes(spark: SparkSession) -> None:
    """As many tasks were made, but one of them could read most of the bytes."""
    sizes = {"a": 40, "b": 40, "c": 20, "d": 90, "e": 1}
    files = [run.InputFile(name, size * MIB, 0.0) for name, size in sizes.items()]
    [table] = run.recordings(spark, files)
    found = table.groupBy(f.spark_partition_id()).agg(f.sort_array(f.collect_list("file")).alias("files"))
    assert sorted(row.files for row in found.collect()) == [["a"], ["b", "c"], ["d"], ["e"]]


def test_tables_of_other_programs_need_no_mapping(spark: SparkSession, repository: Repository) -> None:
    """Labels which hold the name of the metric were refused."""
    labels = {"__name__": "kafka_server_produce_byte_rate", "user": "a", "cluster": "lab"}
    spark.createDataFrame(
        [(START, 2.5, labels), (START + 60, -2.0, labels), (START, 1.0, {"__name__": "up"})],
        "timestamp long, value double, labels map<string, string>",
    ).coalesce(1).write.parquet(str(repository.path / "dump"))
    done = repository("usage", "ingest", "dump", "--usage", "usage")
    assert done.last == "Samples: 3 read = 1 written (1 row) + 1 dropped + 1 quarantined."
    assert [(row[5], row[8]) for row in rows_of(spark, repository.path / "usage")] == [("a", 2.5)]


def test_a_time_may_be_a_day_or_have_no_zone(spark: SparkSession, repository: Repository) -> None:
    """A day after 2038-01-19 was refused by Spark: its seconds had 32 bits."""
    for name, ts in (("day", "date'2040-01-02'"), ("local", "timestamp_ntz'2040-01-02 00:00:00.5'")):
        bucket = f"'Produce' AS key, 'prod' AS cluster, '{name}' AS user, 1.0D AS rate"
        spark.sql(f"SELECT {ts} AS ts, {bucket}").write.parquet(str(repository.path / name))
    assert repository("usage", "ingest", "day", "local", "--usage", "usage").code == 0
    rows = read_usage(spark, str(repository.path / "usage")).select("user", f.unix_micros("ts") / 1e6)
    midnight = 2209075200.0
    assert sorted(map(tuple, rows.collect())) == [("day", midnight), ("local", midnight + 0.5)]


def test_what_a_prometheus_has_recorded_is_ingested(spark: SparkSession, repository: Repository) -> None:
    with HttpServer(lambda request: http_answer(200, json.loads(ANSWERS["first.json"]))) as server:
        options = ("--since", "2026-11-18T11:00:00Z", "--until", "2026-11-18T11:30:00Z")
        done = repository("usage", "ingest", "--prometheus", server.url, *options, "--usage", "usage")
        both = repository("usage", "ingest", "in", "--prometheus", server.url, *options, "--usage", "usage")
    assert (done.code, both.code) == (0, 64)
    assert len(server.received) == 1
    repository("usage", "ingest", "in/first.json", "--usage", "same")
    assert rows_of(spark, repository.path / "usage") == rows_of(spark, repository.path / "same")
    # A record that cannot be read is named by what was asked, not by a file that is gone.
    rejected = spark.read.parquet(str(repository.path / "usage-quarantine")).collect()
    assert {row.file for row in rejected} == {f"{server.url}/query-1-from-1794999600.json"}


def test_a_url_is_read_as_a_file_is_and_rows_are_added_to_those_that_are_there(
    spark: SparkSession, repository: Repository
) -> None:
    done = repository("usage", "ingest", "in/second.json", "--usage", "usage")
    url = repository("usage", "ingest", "file://" + str(repository.path / "in/second.json"), "--usage", "usage2")
    assert done.last == url.last == "Samples: 4 read = 4 written (4 rows) + 0 dropped + 0 quarantined."
    rows = rows_of(spark, repository.path / "usage")
    assert rows == rows_of(spark, repository.path / "usage2")
    assert repository("usage", "ingest", "in/second.json", "--usage", "usage").code == 0
    assert rows_of(spark, repository.path / "usage") == sorted(2 * rows, key=repr)
    files = [path for path in (repository.path / "usage").rglob("*") if path.is_file()]
    assert {path.name.partition("-")[0] for path in files} == {"usage"}
    assert {path.parent.name for path in files} == {"cluster=edge", "cluster=lab"}


@pytest.mark.parametrize("is_url", [True, False], ids=["url", "catalog"])
def test_rows_are_checked_before_they_are_appended(
    spark: SparkSession, repository: Repository, *, is_url: bool
) -> None:
    """Rows were appended before they were counted: an ingest that failed had added them, and was tried again."""
    place = repository.path / "appended"
    name = f"file://{place}" if is_url else "appended_usage"
    if not is_url:
        spark.createDataFrame([], USAGE).write.saveAsTable(name, path=str(place))
    (repository.path / "in/broken.json").write_text(ANSWERS["first.json"][:300], encoding="utf-8")

    def found() -> list[tuple[Any, ...]]:
        return rows_of(spark, place) if list(place.rglob("*.parquet")) else []

    try:
        into = ("usage", "ingest", "in", "--usage", name, "--quarantine", "rejected")
        with mock.patch.object(run, "add_rows", side_effect=EngineError("the disk is full")):
            failed = repository(*into)
        assert (failed.code, "Error: the disk is full" in failed.err, found()) == (1, True, []), failed.said
        done = repository(*into)
        expected = repository("usage", "ingest", "in", "--usage", "usage")
        assert (done.code, done.last) == (0, expected.last), done.said
        assert found() == rows_of(spark, repository.path / "usage")
        assert repository(*into).code == 0
        assert len(found()) == 2 * len(rows_of(spark, repository.path / "usage"))
    finally:
        spark.sql("DROP TABLE IF EXISTS appended_usage")


def test_a_url_of_another_table_is_refused_before_any_work(spark: SparkSession, repository: Repository) -> None:
    """The columns of a table at a URL were never looked at, and Spark added files with other columns to it."""
    other, empty = repository.path / "other", repository.path / "empty"
    spark.range(3).write.parquet(str(other))
    empty.mkdir()
    refused = repository("usage", "ingest", "in", "--usage", f"file://{other}")
    assert (refused.code, "lacks the columns ts, window_s" in refused.err) == (3, True), refused.said
    assert spark.read.parquet(str(other)).columns == ["id"]
    done = repository("usage", "ingest", "in", "--usage", f"file://{empty}")
    assert done.code == 0, done.said


def test_an_ingest_that_was_killed_while_files_were_moved_is_completed(
    spark: SparkSession, repository: Repository
) -> None:
    repository("usage", "ingest", "in/first.json", "--usage", "usage")
    usage = repository.path / "usage"
    (file,) = usage.rglob("*.parquet")
    ready = usage / "_ready-usage-1" / file.parent.relative_to(usage)
    ready.mkdir(parents=True)
    file.rename(ready / "part-00000-x.parquet")
    dead = usage / "_staged-2"
    dead.mkdir()
    (dead / "host").write_text(node(), encoding="utf-8")
    repository("usage", "ingest", "in/second.json", "--usage", "usage")
    assert {row[5] for row in rows_of(spark, usage)} == {"CN=tenant a", "*", '<default>"', "far"}
    assert not list(usage.glob("_*"))


def require_valid(name: str, text: str) -> None:
    """Make sure that a document is as its schema says."""
    assert gate(schema_builder(name)).is_valid(json.loads(text))
