"""`quotaform usage compact`: the files of a day become one, and nothing is lost or read twice."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from pyarrow import parquet
from pyspark.sql import SparkSession

from quotaform.model.errors import FileReadError
from quotaform.usage.record.run import usage_table, write_rows
from quotaform.usage.sample import UsageRow
from quotaform.usage.table.files import compact
from quotaform.usage.table.table import read_usage
from tests.builder import PRODUCER
from tests.workflow.command import run

NOW = datetime(2026, 11, 24, 9, 30, tzinfo=UTC)
Row = tuple[datetime, str, float]


def usage_row(ts: datetime, user: str, rate: float) -> UsageRow:
    return UsageRow(ts.timestamp(), 11.5, "lab", "1", PRODUCER, user, None, None, rate, None)


def write(folder: Path, name: str, rows: list[Row], **options: Any) -> None:
    """Write a file of rows (time, user and rate) next to folders."""
    folder.mkdir(exist_ok=True)
    parquet.write_table(usage_table([usage_row(*row) for row in rows]), folder / f"{name}.parquet", **options)


def hours(day: int, *users: str) -> list[Row]:
    """A row of each user for each hour of a day."""
    start = datetime(2026, 11, day, tzinfo=UTC)
    return [(start + timedelta(hours=hour), user, float(hour)) for hour in range(24) for user in users]


def found(spark: SparkSession, folder: Path) -> list[Row]:
    """The rows of a table, sorted."""
    rows = read_usage(spark, str(folder)).select("ts", "user", "rate").collect()
    return sorted((row.ts.astimezone(UTC), row.user, row.rate) for row in rows)


def names(folder: Path) -> list[str]:
    """The files of a table: their day, as far as they are in folders, and how their names begin."""
    paths = (path.relative_to(folder) for path in folder.rglob("*.parquet"))
    return sorted(f"{path.parts[0][5:]} {path.name[:3]}" if len(path.parts) > 1 else path.stem for path in paths)


def test_each_day_that_is_over_becomes_one_sorted_file_with_each_row_once(spark: SparkSession, tmp_path: Path) -> None:
    folder = tmp_path / "usage"
    for hour in range(24):
        write(folder, f"record-{hour}", hours(22, "bob", "alice")[2 * hour : 2 * hour + 2])
    write(folder, "again", hours(22, "alice")[:3])
    write(folder, "days", hours(22, "carol") + hours(23, "carol"), use_deprecated_int96_timestamps=True)
    write(folder, "today", hours(24, "alice")[:9])
    write_rows(folder, [usage_row(*row) for row in hours(23, "erin")])
    before = sorted({*found(spark, folder)})
    result = compact(spark, str(folder), NOW)
    assert (result.files, result.replaced, result.written, result.rows, result.expired) == (28, 27, 2, 120, 0)
    assert found(spark, folder) == before
    assert names(folder) == ["2026-11-22 day", "2026-11-23 day", "today"]
    [file] = (folder / "date=2026-11-22/cluster=lab").glob("*.parquet")
    assert [row["user"] for row in parquet.read_table(file).to_pylist()[::24]] == ["alice", "bob", "carol"]
    assert parquet.read_metadata(file).schema.column(0).physical_type == "INT64"
    again = compact(spark, str(folder), NOW)
    assert (again.replaced, again.written) == (0, 0)
    # What comes late goes into the file of its day.
    write(folder, "late", hours(22, "dave"))
    assert compact(spark, str(folder), NOW).replaced == 2
    write_rows(folder, [usage_row(*hours(23, "dave")[0])])
    write_rows(folder, [usage_row(*hours(23, "dave")[0])._replace(cluster="eu")])
    done = compact(spark, str(folder), NOW)
    assert (done.replaced, done.written, done.rows) == (3, 2, 50)
    assert names(folder) == ["2026-11-22 day", "2026-11-23 day", "2026-11-23 day", "today"]
    assert found(spark, folder) == sorted([*before, *hours(22, "dave"), *2 * hours(23, "dave")[:1]])


def test_days_that_are_too_old_are_removed_and_other_files_are_refused(spark: SparkSession, tmp_path: Path) -> None:
    folder = tmp_path / "usage"
    write(folder, "old", hours(1, "alice"))
    write(folder, "days", hours(20, "alice") + hours(21, "alice"))
    result = compact(spark, str(folder), NOW, timedelta(days=3))
    assert (result.expired, result.written, result.kept_from) == (1, 1, "2026-11-21")
    assert found(spark, folder) == hours(21, "alice")
    [file] = folder.rglob("*.parquet")
    assert not list(folder.rglob("date=2026-11-20*"))
    # A column that is somebody's own would be lost.
    more = parquet.read_table(file, partitioning=None).append_column("region", [["eu"] * 24])
    parquet.write_table(more, file.with_name("other.parquet"))
    with pytest.raises(FileReadError, match="it has the column region, which no usage table has"):
        compact(spark, str(folder), NOW)
    file.with_name("other.parquet").unlink()
    (folder / "other.parquet").write_text("no Parquet")
    with pytest.raises(FileReadError, match="it is no file of a usage table"):
        compact(spark, str(folder), NOW)
    # What Spark makes of rows without a day.
    (folder / "date=2026-11-21").rename(folder / "date=__HIVE_DEFAULT_PARTITION__")
    with pytest.raises(FileReadError, match="it is no file of a usage table: Invalid isoformat string"):
        compact(spark, str(folder), NOW)


def test_a_directory_may_have_the_signs_of_a_pattern_in_its_name(spark: SparkSession, tmp_path: Path) -> None:
    """Spark did not find it once files were in folders."""
    folder = tmp_path / "usage[1]"
    write(folder, "days", hours(22, "alice"))
    write_rows(folder, [usage_row(*row) for row in hours(22, "bob")])
    assert compact(spark, str(folder), NOW).rows == 48
    assert names(folder) == ["2026-11-22 day"]


@pytest.mark.usefixtures("spark")
def test_a_table_with_files_beside_folders_can_be_ingested(tmp_path: Path) -> None:
    """The rows lost their files when both were brought together."""
    write(tmp_path / "usage", "days", hours(22, "alice"))
    write_rows(tmp_path / "usage", [usage_row(*row) for row in hours(23, "bob")])
    done = run("usage", "ingest", "usage", "--usage", "copy", cwd=tmp_path)
    assert (done.code, done.last) == (
        0, "Samples: 48 read = 48 written (48 rows) + 0 dropped + 0 quarantined."
    )  # fmt: skip


@pytest.mark.usefixtures("spark")
def test_the_command_says_what_became_of_the_files(tmp_path: Path) -> None:
    write(tmp_path / "usage", "a", hours(20, "alice"))
    write(tmp_path / "usage", "b", hours(20, "bob"))
    done = run("usage", "compact", "--usage", "usage", "--keep", "10000d", cwd=tmp_path)
    assert (done.code, done.last) == (0, "Files: 2 files became 1, with 48 rows; 2 before.")
    again = run("usage", "compact", "--usage", "usage", "--format", "json", cwd=tmp_path)
    assert (json.loads(again.out)["files"], json.loads(again.out)["replaced"]) == (1, 0)
    none = run("usage", "compact", "--usage", "nowhere", cwd=tmp_path)
    assert (none.code, "nowhere is not a directory" in none.err) == (64, True)
