"""Who makes requests, read on Spark, and what is said of rows that cannot be."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from quotaform.model.entity import Entity
from quotaform.model.errors import InvalidFilesError
from quotaform.report.text import csv_cell
from quotaform.resolve.request_file import RequestFile
from tests.spark.test_resolved import principal_table

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NAMES = ("alice", "CN=a b,O=x", "<default>", "a\nb", '"', '"a"', "=1+1", " a ", "#c", "\\", 'a\\"b', "Å", "a;b", "null")


def read(spark: SparkSession, path: Path | str) -> list[Entity]:
    """Read and check principals, in some order of their own."""
    from quotaform.fleet.principals import load_principals

    warnings: list[str] = []
    principals, counts = load_principals(spark, str(path), warnings.append)
    rows = principals.collect()
    assert counts.total == len(rows)
    assert bool(warnings) is bool(counts.nameless)
    assert counts.ips == sum(row.asDict().get("ip") is not None for row in rows)
    columns = {"user": "user", "client_id": "client-id", "ip": "ip"}
    return sorted(
        [
            Entity({columns[name]: cell for name, cell in row.asDict().items() if name in columns and cell is not None})
            for row in rows
        ],
        key=lambda entity: entity.address,
    )


def problems(spark: SparkSession, path: Path | str) -> list[str]:
    with pytest.raises(InvalidFilesError) as raised:
        read(spark, path)
    return [str(problem).removesuffix(" [requests]") for problem in raised.value.problems]


def test_csv_means_what_it_means_in_one_process(spark: SparkSession, tmp_path: Path) -> None:
    def field(text: str) -> str:
        return '"' + text.replace('"', '""') + '"'

    lines = ["client-id, user ,ip", *(f",{field(csv_cell(name))}," for name in NAMES)]
    lines += ['"""""",alice,', '"",alice,', "app,,", ",,10.0.0.1", "", '"a b",alice,']
    path = tmp_path / "principals.csv"
    for start in ("", "\ufeff"):
        path.write_text(start + "\n".join(lines), encoding="utf-8")
        assert read(spark, path) == sorted(RequestFile.read(path), key=lambda entity: entity.address)


def test_a_table_has_the_columns_that_it_has(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "pairs"
    principal_table(
        spark,
        [("alice", "", "9"), (None, "x", "9"), (None, None, "9"), (None, None, "9")],
        "user",
        "client-id",
        "bytes",
    ).write.parquet(str(path))
    expected = [Entity(client_id="x"), Entity(user="alice", client_id="")]
    assert read(spark, path) == expected
    spark.read.parquet(str(path)).createOrReplaceTempView("pairs")
    assert read(spark, "pairs") == expected
    lines = tmp_path / "pairs.jsonl"
    lines.write_text('{"user": "alice", "client-id": ""}\n{"client-id": "x"}\n', encoding="utf-8")
    assert read(spark, lines) == expected


def test_rows_from_which_no_request_comes_are_counted_and_the_first_are_shown(
    spark: SparkSession, tmp_path: Path
) -> None:
    rows: list[Any] = [("a", None, "10.0.0.1"), ("", "x", None), (None, None, "")]
    path = str(tmp_path / "p.parquet")
    principal_table(spark, rows).write.parquet(path)
    assert problems(spark, path) == [
        f"{path}: error: 1 row with an ip and a user or client-id, which cannot be combined: "
        'user "a", client_id null, ip "10.0.0.1"',
        f'{path}: error: 1 row with an empty user; only a client-id can be empty: user "", client_id "x", ip null',
        f'{path}: error: 1 row with an empty ip; only a client-id can be empty: user null, client_id null, ip ""',
    ]
