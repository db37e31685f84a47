"""Compares clusters with what a history says of a moment: the history takes the place of the files.

Executors read the clusters, a cluster in each task, and compare them by the code that compares them with files. So what
`drift` does not report (what is out of scope, ignored, declared by another quota repository, or beyond what files can
say) is not reported here either, and a cluster with another id than the one that quotaform.yaml pins is not compared.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from itertools import chain, groupby
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as f

from quotaform.desired.writable import is_out_of_reach
from quotaform.drift.drift import Drift
from quotaform.drift.run import drift_of
from quotaform.fleet.job import (
    OUTCOMES,
    ShippedJob,
    by_place,
    collected,
    in_order,
    new_bundle,
    opened_job,
    outcome_batch,
    ship_job,
)
from quotaform.fleet.options import LOCAL_SESSION, SessionOptions
from quotaform.fleet.session import spark_session
from quotaform.history.spark import held_at, history_of, last_snapshots, require_known
from quotaform.history.table import open_history
from quotaform.model import rule
from quotaform.model.entity import Entity
from quotaform.model.errors import HistoryError
from quotaform.model.moment import spell_moment
from quotaform.model.outcome import ClusterOutcome, Kept, Progress, no_progress
from quotaform.model.quota_key import QUOTA_KEYS
from quotaform.model.quotas import Base, DeclaredBase, Desired, Entry
from quotaform.plan.check.facts import ClusterBase
from quotaform.plan.plan import Plan, PlanSource
from quotaform.plan.run import PlanRequest, plan_cluster, with_claims
from quotaform.plan.source import Source
from quotaform.repository.gateway import open_gateway
from quotaform.repository.policy import NO_POLICIES
from quotaform.system.clock import SYSTEM_CLOCK, Clock, today

if TYPE_CHECKING:
    import pyarrow
    from pyspark.sql import DataFrame, SparkSession

    from quotaform.desired.config import Cluster

_HELD = ("entity_key", "entity", "key", "value")
_SNAPSHOT = ("cluster_id", "read_at")


@dataclass(frozen=True, slots=True)
class Past:
    """What clusters are compared with."""

    location: str  # The history, as it was given
    at: datetime


def check_drift_against(
    request: PlanRequest,
    past: Past,
    *,
    session: SessionOptions = LOCAL_SESSION,
    clock: Clock = SYSTEM_CLOCK,
    progress: Progress = no_progress,
) -> list[ClusterOutcome[Kept[Drift]]]:
    """Compare clusters with what they held at a moment.

    Raises `HistoryError`, `EngineError` or `InvalidFilesError`.
    """
    # Nobody wrote what a history holds, so there is nobody to tell what policies and lints say of it.
    request = replace(request, policies=NO_POLICIES, has_lints=False)
    source = with_claims(Source(PlanSource(directory=past.location)), request, today(clock))
    work = HistoryDrift(request=request, past=past, source=source, clock=clock)
    with TemporaryDirectory(prefix="quotaform-") as folder, spark_session(session, progress) as spark:
        table = open_history(spark, past.location)
        history = history_of(table.readings())
        require_known(table, history, past.at)
        shipped = ship_job(spark, new_bundle(folder), work, request.clusters)
        rows = drift_outcomes(spark, shipped, history, past.at)
        return in_order(collected([rows], shipped.names, "Comparing clusters on Spark", progress), shipped.names)


@dataclass(frozen=True, slots=True)
class Held:
    """What a cluster held."""

    cluster_id: str
    read_at: datetime
    quotas: Mapping[Entity, Mapping[str, float]]


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryDrift:
    """Compares a cluster with what it held."""

    request: PlanRequest
    past: Past
    source: Source  # What other quota repositories declare
    clock: Clock

    def __call__(self, cluster: Cluster, held: Held | None) -> Drift:
        """Compare a cluster; `held` is `None` if the history does not know it."""
        if held is None:
            problem = f"it has no snapshot of this cluster at or before {spell_moment(self.past.at)}"
            remedy = "give a later time"
            raise HistoryError(self.past.location, problem, remedy)
        outcome = ClusterOutcome(cluster.name, self._plan(cluster, held))
        return drift_of(self.request, outcome, today(self.clock)).require()

    def _plan(self, cluster: Cluster, held: Held) -> Plan:
        """Return what would make a cluster what it was."""
        desired = self._entries(cluster.name, held)
        base = Base(ref=f"{self.past.location} at {spell_moment(held.read_at)}", commit=None)
        with open_gateway(cluster) as gateway:
            live_id = gateway.cluster_id()
            text = (
                f"this cluster has the id {live_id}, and in the history it has {held.cluster_id}; nothing is compared"
            )
            declared = ClusterBase(
                declared=DeclaredBase(base, desired),
                findings=() if live_id == held.cluster_id else (rule.CLUSTER_ID.finding(text),),
            )
            source = replace(self.source, bases={cluster.name: declared})
            return plan_cluster(
                self.request, cluster, gateway, desired=lambda: desired, source=lambda: source, clock=self.clock
            )

    def _entries(self, cluster: str, held: Held) -> Desired:
        """Return what a cluster held as if files declared it: without what files of this repository cannot declare."""
        claims = [claim for claim in self.source.claims if claim.is_of(cluster, held.cluster_id)]
        scope = self.request.config.scope
        entries: dict[Entity, Entry] = {}
        for entity, quotas in held.quotas.items():
            values = {key: value for key, value in quotas.items() if key in QUOTA_KEYS}
            is_claimed = any(entity in claim.desired for claim in claims)
            if values and not is_claimed and not is_out_of_reach(entity) and scope.contains(entity):
                entries[entity] = Entry(entity=entity, values=values)
        return entries


def drift_outcomes(spark: SparkSession, job: ShippedJob, history: DataFrame, at: datetime) -> DataFrame:
    """Return `OUTCOMES`: what `HistoryDrift` makes of clusters.

    What a cluster held is brought together, and is in the memory of one task.
    """
    places = spark.createDataFrame(list(enumerate(job.names)), "place int, cluster string")
    # Each cluster has one row that says which snapshot it is, if any, and one for each value that it held.
    snapshots = places.join(f.broadcast(last_snapshots(history, at)), "cluster", "left").select("place", *_SNAPSHOT)
    values = held_at(history, at).join(f.broadcast(places), "cluster").select("place", *_HELD)
    rows = snapshots.unionByName(values, allowMissingColumns=True)
    return by_place(rows, len(job.names)).mapInArrow(lambda batches: _work(job, batches), OUTCOMES)


def _work(job: ShippedJob, batches: Iterator[pyarrow.RecordBatch]) -> Iterator[pyarrow.RecordBatch]:
    rows = chain.from_iterable(batch.to_pylist() for batch in batches)
    with opened_job(job) as (work, clusters):
        for place, group in groupby(rows, lambda row: row["place"]):
            yield outcome_batch(place, partial(work, clusters[place], _held(group)))


def _held(rows: Iterable[Mapping[str, Any]]) -> Held | None:
    """Return what a cluster held; `None` if no row says which snapshot it is."""
    snapshot: Mapping[str, Any] | None = None
    quotas: dict[Entity, dict[str, float]] = {}
    for row in rows:
        if row["entity_key"] is not None:
            quotas.setdefault(Entity.of(row["entity"]), {})[row["key"]] = row["value"]
        elif row["read_at"] is not None:
            snapshot = row
    return None if snapshot is None else Held(snapshot["cluster_id"], snapshot["read_at"], quotas)
