"""Bulk resolve agrees with `quotaform.resolve.resolve`, what Spark does for it, and who makes requests."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from random import Random
from typing import Any, Final

import pytest
from pyspark.sql import DataFrame, SparkSession

from quotaform.fleet.data_source import quota_rows
from quotaform.fleet.principals import load_principals
from quotaform.fleet.table import make_table
from quotaform.model.entity import Entity
from quotaform.model.errors import InvalidFilesError
from quotaform.model.quotas import Quotas
from quotaform.report.text import csv_cell
from quotaform.resolve.index import QuotaIndex
from quotaform.resolve.request_file import RequestFile
from quotaform.resolve.resolve import ResolveOptions, make_resolution
from quotaform.resolve.spark import QUOTAS, held_quotas, resolved
from tests.builder import PRODUCER

Principal = tuple[str | None, str | None, str | None]
"""A user, a client-id and an ip."""

ALICE: Final = Entity(user="alice")
USERS: Final = ("alice", "bob", "<default>", "CN=a b,O=x", "Å")
CLIENTS: Final = ("app", "bob", "<default>", "", "a\nb")
IPS: Final = (
    *("10.0.0.1", "::ffff:10.0.0.1", "::FFFF:10.0.0.1", "010.0.0.1", "10.1", "10.0.0.1\n", "[10.0.0.1]", "10.0.0.1/32"),
    *("127.0.0.1", "localhost", "::1", "0:0::1", "0:0:0:0:0:0:0:1", "fe80::A", "fe80::a", "fe80::a%eth0"),
    *("broker.example", "10.0.0.0/8", "1:0:0:2:0:0:0:3", "1:0:0:2::3", "::ffff:a00:1", "a", ""),
)
KEYS: Final = ("producer_byte_rate", "request_percentage", "connection_creation_rate", "future_rate", "")
VALUES: Final = (1.0, 0.5, float("nan"), float("inf"), float("-inf"), 2.0**63, 0.0, -0.0, 1e308)


def some_quotas(random: Random) -> dict[Entity, dict[str, float]]:
    """What a cluster may hold: few names, so that principals meet entries, and shapes that nobody meets."""

    def client() -> Entity:
        names: dict[str, str | None] = {}
        if random.random() < 0.75:
            names["user"] = random.choice([None, *USERS])
        if not names or random.random() < 0.6:
            names["client-id"] = random.choice([None, *CLIENTS])
        return Entity(names)

    found: dict[Entity, dict[str, float]] = {}
    for _ in range(random.randrange(0, 24)):
        shape = random.random()
        entity = client() if shape < 0.6 else Entity(ip=random.choice([None, *IPS]))
        if shape > 0.95:
            entity = Entity({"user": "alice", "group": random.choice([None, "g"])})
        keys = random.sample(KEYS, random.randrange(1, 4))
        found[entity] = {key: random.choice(VALUES) for key in keys}
    return found


def some_principals(random: Random) -> list[Principal]:
    """Clients and addresses, with names that no quota mentions."""
    clients: list[Principal] = [
        (random.choice([None, "nobody", *USERS]), random.choice([None, "nothing", *CLIENTS]), None) for _ in range(12)
    ]
    known = [each for each in clients if each[0] is not None or each[1] is not None]
    return [*known, *((None, None, random.choice(["192.0.2.9", *IPS[:-1]])) for _ in range(12))]


def quota_table(spark: SparkSession, clusters: Mapping[str, Quotas]) -> DataFrame:
    """Return `schemas.QUOTAS` of clusters."""
    rows = (row for cluster, quotas in clusters.items() for row in quota_rows(cluster, f"id-{cluster}", quotas))
    return make_table(spark, QUOTAS, rows)


def principal_table(spark: SparkSession, principals: Iterable[Sequence[str | None]], *columns: str) -> DataFrame:
    """Return `schemas.PRINCIPALS`, or other columns of strings."""
    names = columns or ("user", "client_id", "ip")
    return spark.createDataFrame(list(principals), ", ".join(f"`{name}` string" for name in names))


def entity_of(principal: Principal) -> Entity:
    user, client_id, ip = principal
    names = {"user": user, "client-id": client_id, "ip": ip}
    return Entity({kind: name for kind, name in names.items() if name is not None})


def expected_rows(
    quotas: Quotas, principals: Iterable[Principal], cluster: str, keys: tuple[str, ...] = ()
) -> Iterator[tuple[Any, ...]]:
    """What `quotaform.resolve.resolve` says, as rows of the table."""
    index = QuotaIndex(quotas)
    for principal in principals:
        for row in make_resolution(entity_of(principal), index, detail=ResolveOptions(keys=keys)).keys:
            value, source, _, level, _ = row.resolved
            yield (
                *(cluster, *principal, row.key, None if value is None else repr(value)),
                *((level.source, level.number) if level else (None, None)),
                source.address if source else None,
                ",".join(level.bucket) if level else None,
            )


def rows_of(table: DataFrame) -> Counter[tuple[Any, ...]]:
    return Counter((*row[:5], None if row.value is None else repr(row.value), *row[6:]) for row in (table.collect()))


@pytest.fixture(scope="module")
def many() -> dict[str, tuple[dict[Entity, dict[str, float]], list[Principal]]]:
    """Quotas and principals of many clusters, each an example of its own."""
    random = Random(2026)
    return {f"c{number}": (some_quotas(random), some_principals(random)) for number in range(100)}


def test_each_principal_resolves_as_in_one_process(spark: SparkSession, many: Any) -> None:
    """All examples are clusters of one table: a job per example would take an hour."""
    quotas = held_quotas(quota_table(spark, {cluster: quotas for cluster, (quotas, _) in many.items()}))
    principals = principal_table(
        spark,
        [(cluster, *each) for cluster, (_, principals) in many.items() for each in principals],
        *("cluster", "user", "client_id", "ip"),
    )
    expected = Counter(row for cluster, (held, asked) in many.items() for row in expected_rows(held, asked, cluster))
    found = rows_of(resolved(principals, quotas))
    assert found - expected == Counter()
    assert expected - found == Counter()
    keys = (PRODUCER, "future_rate", "connection_creation_rate")
    expected = Counter(
        row for cluster, (held, asked) in many.items() for row in expected_rows(held, asked, cluster, keys)
    )
    assert rows_of(resolved(principals, quotas, keys=keys)) == expected


def test_the_principals_stay_where_they_are(spark: SparkSession) -> None:
    """An exchange of ten million pairs would take longer than all the rest."""
    asked = resolved(
        principal_table(spark, [("alice", "app")], "user", "client_id"), {"prod": {ALICE: {PRODUCER: 5.0}}}
    )
    plan = asked._jdf.queryExecution().executedPlan().toString()
    assert "MapInArrow" in plan
    assert "Exchange" not in plan


def test_principals_without_a_cluster_are_resolved_on_each_and_others_on_theirs_alone(spark: SparkSession) -> None:
    held: dict[str | None, Quotas] = {"lab": {ALICE: {PRODUCER: 5.0}}, "eu": {}}
    everywhere = resolved(principal_table(spark, [("alice",)], "user"), held, keys=[PRODUCER]).collect()
    assert {(row.cluster, row.value) for row in everywhere} == {("lab", 5.0), ("eu", None)}
    asked = principal_table(spark, [("lab", "alice"), ("gone", "alice"), (None, "alice")], "cluster", "user")
    assert [row.cluster for row in resolved(asked, held, keys=[PRODUCER]).collect()] == ["lab"]
    with pytest.raises(ValueError, match="one or more of the columns user, client_id, ip"):
        resolved(asked.drop("user"), held)


NAMES = ("alice", "CN=a b,O=x", "<default>", "a\nb", '"', '"a"', "=1+1", " a ", "#c", "\\", 'a\\"b', "Å", "a;b", "null")


def read(spark: SparkSession, path: Path | str) -> list[Entity]:
    """Read and check principals, in some order of their own."""
    principals, clients, ips = load_principals(spark, str(path), lambda _: None)
    rows = principals.collect()
    assert clients + ips == len(rows)
    assert ips == sum(row.asDict().get("ip") is not None for row in rows)
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
    (problem,) = problems(spark, path)
    assert problem.startswith(f"{path}: error: 3 rows cannot be used, such as ")
    for row in (
        'user "a", client_id null, ip "10.0.0.1"',
        'user "", client_id "x", ip null',
        'user null, client_id null, ip ""',
    ):
        assert row in problem
