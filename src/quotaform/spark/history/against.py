"""Compares clusters with what a history says of a moment: the history takes the place of the files."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as f

from quotaform.app.actual import read_settled
from quotaform.app.clock import SYSTEM_CLOCK, Clock, plan_timestamp
from quotaform.app.each_cluster import ClusterWork
from quotaform.app.plan.plan import bulk_of_plan
from quotaform.app.repository.repository import open_gateway
from quotaform.app.steps import Steps
from quotaform.cluster.gateway import Gateway, Progress, no_progress
from quotaform.core.base import Base, DeclaredBase
from quotaform.core.check import rule
from quotaform.core.difference import diff, make_plan
from quotaform.core.plan import Plan, PlanHeader, PlanSource
from quotaform.core.plan_options import PlanOptions
from quotaform.errors import HistoryError
from quotaform.model.entity import Entity
from quotaform.model.entry import Desired, Entry
from quotaform.model.moment import spell_moment
from quotaform.spark.history.as_of import as_of
from quotaform.spark.history.query import require_known
from quotaform.spark.history.store import open_history
from quotaform.spark.session import spark_session

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from quotaform.app.plan.request import PlanRequest
    from quotaform.core.outcome import ClusterOutcome
    from quotaform.desired.config import Cluster
    from quotaform.model.quotas import Quotas
    from quotaform.spark.options import SessionOptions


@dataclass(frozen=True, slots=True)
class HistoryPlanner:
    """Plans what would make clusters as they were, for `quotaform.app.drift.drift.check_drift`.

    What clusters held is asked of Spark, one cluster at a time; the clusters are read in this process.

    Attributes:
        location: The history, as it was given.
        at: The moment.
        session: Where Spark runs.
    """

    location: str
    at: datetime
    session: SessionOptions

    def __call__(
        self, request: PlanRequest, *, clock: Clock = SYSTEM_CLOCK, progress: Progress = no_progress
    ) -> Iterator[ClusterOutcome[Plan]]:
        """Plan clusters; see `quotaform.app.plan.plan.Planner`.

        Raises:
            HistoryError: The history cannot be read, or begins later.
            EngineError: Spark is missing, does not start or failed.
        """
        progress("Starting Spark", 0, 0)
        with spark_session(self.session) as spark:
            table = open_history(spark, self.location)
            rows = table.rows()
            require_known(table, rows, self.at)
            held = as_of(rows, self.at)
            steps = Steps(progress)

            def work(cluster: Cluster, gateway: Gateway) -> Plan:
                then = self._held(held.where(f.col("cluster") == cluster.name), cluster.name)
                return self._plan(request, cluster, gateway, then, clock)

            with ClusterWork(request.clusters, work, open_gateway) as working:
                yield from working.outcomes({}, steps)

    def _held(self, held: DataFrame, cluster: str) -> _Held:
        """Return what a cluster held.

        Raises:
            HistoryError: The history has no snapshot of it by then.
        """
        rows = held.toArrow().to_pylist()
        if not rows:
            problem = f"it has no snapshot of {cluster} at or before {spell_moment(self.at)}"
            raise HistoryError(self.location, problem, "give a later time, or append snapshots of that time")
        return _Held(rows)

    def _plan(self, request: PlanRequest, cluster: Cluster, gateway: Gateway, then: _Held, clock: Clock) -> Plan:
        desired = then.entries()
        base = Base(f"{self.location} at {spell_moment(then.read_at)}", None, is_history=True)
        header = PlanHeader(
            cluster_name=cluster.name,
            cluster_id=gateway.cluster_id(),
            created_at=plan_timestamp(clock),
            source=PlanSource(directory=self.location),
            options=PlanOptions(
                prune=request.prune_mode,
                select=tuple(request.selection.select),
                exclude=tuple(request.selection.exclude),
            ),
            snapshot=gateway.snapshot,
        )

        def make(actual: Quotas) -> Plan:
            made = make_plan(
                diff(desired, actual),
                desired,
                actual,
                header,
                selection=request.selection,
                base=DeclaredBase(base, desired),
            )
            return made if header.cluster_id == then.cluster_id else _of_another(made, then.cluster_id)

        return read_settled(gateway, make, bulk_of_plan, clock=clock)


class _Held:
    """What a cluster held: rows of `schemas.QUOTAS`."""

    def __init__(self, rows: list[dict[str, Any]]) -> None:
        self._rows = rows
        self.cluster_id: str = rows[0]["cluster_id"]
        self.read_at: datetime = rows[0]["read_at"]

    def entries(self) -> Desired:
        """Return it as if files declared it."""
        values: dict[Entity, dict[str, float]] = {}
        for row in self._rows:
            if row["entity_key"] is not None:
                values.setdefault(Entity.of(row["entity"]), {})[row["key"]] = row["value"]
        return {entity: Entry(entity=entity, values=held) for entity, held in values.items()}


def _of_another(plan: Plan, earlier: str) -> Plan:
    text = f"this cluster has the id {plan.header.cluster_id}, and in the history it has {earlier}; nothing is compared"
    return replace(plan, findings=(rule.CLUSTER_ID.finding(text),))
