"""Compares clusters with what a history says of a moment: the history takes the place of the files.

Executors do it, a cluster in each task, by the code that compares clusters with files; see docs/history.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace
from pyspark.sql import functions as f

from quotaform.desired.writer import is_out_of_reach
from quotaform.drift.drift import Drift
from quotaform.drift.run import drift_cluster
from quotaform.fleet.job import Bundle, opened_bundle, work_on
from quotaform.fleet.options import SessionOptions
from quotaform.history.spark import as_of, history_of, last_snapshots, require_known
from quotaform.history.table import open_history
from quotaform.model import rule
from quotaform.model.entity import Entity
from quotaform.model.errors import HistoryError
from quotaform.model.moment import spell_moment
from quotaform.model.outcome import ClusterOutcome, Kept, Progress
from quotaform.model.quota_key import QUOTA_KEYS
from quotaform.model.quotas import Base, DeclaredBase, Entry
from quotaform.plan.base import Bases
from quotaform.plan.check.guard import ClusterBase
from quotaform.plan.plan import PlanSource
from quotaform.plan.run import PlanRequest
from quotaform.plan.source import Source
from quotaform.repository.gateway import open_gateway
from quotaform.repository.policy import NO_POLICIES
from quotaform.repository.repository import read_claims
from quotaform.resolve.spark import held_quotas, packed, unpacked
from quotaform.system.clock import Clock, today

if TYPE_CHECKING:
    from quotaform.desired.config import Cluster


class Past(Struct, frozen=True):
    """The state with which clusters are compared."""

    location: str  # The history, as it was given
    at: datetime


def check_drift_against(
    request: PlanRequest, past: Past, *, session: SessionOptions, clock: Clock, progress: Progress
) -> list[ClusterOutcome[Kept[Drift]]]:
    """Compare clusters with what they held at a moment.

    Raises `HistoryError`, `EngineError` or `InvalidFilesError`.
    """
    # A history is not written by hand, so policies and lints have no author to advise.
    request = replace(request, policies=NO_POLICIES, has_lints=False)
    claims = read_claims(request.repository, request.config, today(clock))
    source = Source(PlanSource(directory=past.location), claims=claims)
    with opened_bundle(session, progress) as (spark, bundle):
        table = open_history(spark, past.location)
        history = history_of(table.readings())
        require_known(table, history, past.at)
        names = [cluster.name for cluster in request.clusters]
        held: dict[str, str] = {}
        for begin in range(0, len(names), _AT_ONCE):
            rows = history.where(f.col("cluster").isin(*names[begin : begin + _AT_ONCE])).localCheckpoint()
            quotas = held_quotas(as_of(rows, past.at))
            for row in last_snapshots(rows, past.at).toArrow().to_pylist():
                name = row["cluster"]
                held[name] = bundle.add(packed((row["cluster_id"], row["read_at"], quotas[name])))
        work = partial(_drift_of_cluster, request, past, source, clock, bundle, held)
        return work_on(spark, bundle, work, request.clusters, "Comparing", progress)


_AT_ONCE = 100
"""Clusters whose past quotas the driver keeps in memory at once."""


def _drift_of_cluster(
    request: PlanRequest,
    past: Past,
    source: Source,
    clock: Clock,
    bundle: Bundle,
    held: Mapping[str, str],
    cluster: Cluster,
) -> Drift:
    """Return the drift of a cluster against what it `held`, by the file of the bundle that says so."""
    if cluster.name not in held:
        problem = f"it has no snapshot of this cluster at or before {spell_moment(past.at)}"
        raise HistoryError(past.location, problem, "give a later time")
    cluster_id, read_at, quotas = unpacked(bundle.read(held[cluster.name]))
    # As if files declared it: without what files of this repository cannot declare.
    claims = [claim for claim in source.claims if claim.is_of(cluster.name, cluster_id)]
    desired: dict[Entity, Entry] = {}
    for entity, own in quotas.items():
        values = {key: value for key, value in own.items() if key in QUOTA_KEYS}
        is_claimed = any(entity in claim.desired for claim in claims)
        if values and not is_claimed and not is_out_of_reach(entity) and request.config.scope.contains(entity):
            desired[entity] = Entry(entity=entity, values=values)
    base = Base(ref=f"{past.location} at {spell_moment(read_at)}", commit=None)
    with open_gateway(cluster) as gateway:
        live_id = gateway.cluster_id()
        text = f"this cluster has the id {live_id}, and in the history it has {cluster_id}; nothing is compared"
        declared = ClusterBase(
            declared=DeclaredBase(base, desired),
            findings=() if live_id == cluster_id else (rule.CLUSTER_ID.finding(text),),
        )
        source = replace(source, bases=Bases(lambda _: declared))
        return drift_cluster(request, cluster, gateway, desired, source, clock=clock)
