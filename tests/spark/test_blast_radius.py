"""The blast radius on Spark is that of the local engine: the same rows, the same counts, the same largest changes."""

from __future__ import annotations

from collections.abc import Iterable
from math import isnan
from pathlib import Path
from random import Random
from typing import Any, Final

import pytest
from msgspec import structs
from pyspark.sql import SparkSession

from quotaform.model.entity import KNOWN_TYPES, Entity
from quotaform.model.quota_key import QUOTA_KEYS
from quotaform.model.quotas import Quotas
from quotaform.plan.blast_radius import LimitDirection, Principals, change_row, changed_values, make_blast_radius
from quotaform.plan.plan import Plan
from quotaform.plan.spark import blast_radius, changes_between, cluster_radii, distinct_principals
from quotaform.resolve.spark import packed
from tests.builder import PRODUCER, plan_of
from tests.spark.files import write_snapshot
from tests.spark.test_resolved import CLIENTS, IPS, USERS, principal_table, some_quotas
from tests.workflow.command import Repository

Row = tuple[Any, ...]
PEOPLE: Final = [
    *(Entity(user=user) for user in (*USERS, "nobody")),
    *(Entity(client_id=client) for client in CLIENTS if client),
    *(Entity(user=user, client_id=client) for user in (*USERS, "nobody") for client in (*CLIENTS, "other")),
    *(Entity(ip=address) for address in (*IPS, "192.0.2.9") if address),
]
CLUSTERS: Final = 12
CELLS: Final = [tuple(map(each.names.get, KNOWN_TYPES)) for each in PEOPLE]
"""A user, a client-id and an ip of each."""


def some_plan(random: Random, actual: Quotas) -> Plan:
    """A plan that changes some entities and deletes others."""
    wanted: dict[Entity, dict[str, float]] = {
        entity: {key: value for key, value in values.items() if key in QUOTA_KEYS}
        for entity, values in some_quotas(random).items()
    }
    wanted |= {entity: {} for entity in actual if random.random() < 0.2}
    return plan_of(wanted, actual)


def cells(rows: Iterable[Row]) -> list[str]:
    """Rows so that they can be compared: any NaN is like any other, and -0.0 is 0.0."""

    def comparable(cell: object) -> object:
        if not isinstance(cell, float):
            return cell
        return "NaN" if isnan(cell) else cell + 0.0

    return [repr(tuple(map(comparable, row))) for row in rows]


def test_the_rows_the_counts_and_the_largest_are_those_of_the_local_engine(spark: SparkSession) -> None:
    random = Random(7)
    actual = {f"c{place:02}": some_quotas(random) for place in range(CLUSTERS)}
    plans = {name: some_plan(random, quotas) for name, quotas in actual.items()}
    listed = Principals.of("list", PEOPLE)
    table = principal_table(spark, [*CELLS, *CELLS])
    changed: dict[str | None, bytes] = {
        name: packed((quotas, changed_values(plans[name].changes))) for name, quotas in actual.items()
    }
    principals = distinct_principals(table).repartition(3).persist()
    found = cluster_radii(principals, changed)
    rows: list[Row] = []
    for name, quotas in actual.items():
        radius, changes = make_blast_radius(listed, quotas, plans[name].changes, file="all.csv")
        rows += [(name, *change_row(change).values()) for change in changes()]
        # NaN equals nothing, and reads as it does.
        assert repr(structs.replace(found[name], source="list", file="all.csv")) == repr(radius)
    assert {row[5] for row in rows} == set(LimitDirection)
    changed_limits = blast_radius(principals, changed).collect()
    assert sorted(cells(map(tuple, changed_limits))) == sorted(cells(rows))


def test_states_with_the_same_nan_have_no_changes() -> None:
    """NaN was compared with `!=`: tasks were given all entities that hold one."""
    before, after = ({Entity(user="alice"): {PRODUCER: float("nan")}} for _ in range(2))
    assert changes_between(before, after) == {}
    assert changes_between(before, {}) == {Entity(user="alice"): ({}, (PRODUCER,))}


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
def test_few_principals_are_in_few_tasks_whatever_the_session_says(spark: SparkSession, repository: Repository) -> None:
    """Each step had a task for each of the 200 partitions that a notebook has, and all changes as many files."""
    principal_table(spark, CELLS).write.saveAsTable("connecting", path=str(repository.path / "connecting"))
    setting = "spark.sql.shuffle.partitions"
    usual = spark.conf.get(setting) or ""
    spark.conf.set(setting, "200")
    tracker = spark.sparkContext.statusTracker()
    spark.sparkContext.setJobGroup("radius", "the blast radius")
    try:
        table = ("--engine", "spark", "--principals", "connecting", "--principals-out", "parquet=changed")
        result = repository("plan", "--all", *table)
        stages = [
            stage
            for job in tracker.getJobIdsForGroup("radius")
            if (found := tracker.getJobInfo(job))
            for each in found.stageIds
            if (stage := tracker.getStageInfo(each))
        ]
    finally:
        spark.conf.set(setting, usual)
        spark.sparkContext.setLocalProperty("spark.jobGroup.id", "")
        spark.sql("DROP TABLE connecting")
    assert result.code == 4, result
    assert spark.read.parquet(str(repository.path / "changed")).count() > 0
    assert len(list((repository.path / "changed").glob("*.parquet"))) <= 2
    assert stages
    assert max(stage.numTasks for stage in stages) < 10
