"""`plan --backtest`: plans with what they would have throttled of recorded usage."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from quotaform.cli.option.engine import AUTO, LOCAL, SPARK, Engine, SparkPlace
from quotaform.core.outcome import ClusterOutcome
from quotaform.errors import UsageError

if TYPE_CHECKING:
    from quotaform.app.plan.request import PlanRequest
    from quotaform.cli.console import Console
    from quotaform.cli.outcomes import Gathered
    from quotaform.core.plan import Plan
    from quotaform.core.usage.backtest import ClusterBacktest
    from quotaform.spark.usage.replay.backtest_run import BacktestRequest


@dataclass(frozen=True, slots=True)
class PlanBacktest:
    """The value of `--backtest`, and where Spark runs that replays the usage; the plan is made in this process.

    Attributes:
        usage: The usage table; `None` if no backtest is asked for.
        place: Where Spark runs.
    """

    usage: str | None
    place: SparkPlace

    @classmethod
    def read(cls, usage: str | None, engine: Engine) -> PlanBacktest:
        """Return the backtest that the options ask for.

        Raises:
            UsageError: Options exclude each other, or cannot be used.
            EngineError: Spark is not installed.
            InvalidFilesError: There is no usage table of that name, as far as is known before Spark starts.
        """
        place = SparkPlace(master=engine.master, remote=engine.remote, spark_conf=engine.spark_conf)
        if usage is not None:
            if engine.engine in (SPARK, AUTO):
                raise UsageError(
                    "--backtest is for plans that this process makes; leave --engine out "
                    "(--master and --remote say where usage is replayed)"
                )
            session = place.session()
            from quotaform.spark.usage.table.usage_table import require_usage

            require_usage(usage, session)
        return cls(usage, place)

    def engine(self, engine: Engine) -> Engine:
        """Return where the plan is made."""
        return engine if self.usage is None else Engine(engine=LOCAL)

    def request(self, request: PlanRequest) -> PlanRequest:
        """Return what is to be planned."""
        return request if self.usage is None else replace(request, keeps_actual=True)

    def beside(self, gathered: Gathered[Any], console: Console) -> Gathered[Any]:
        """Return plans with their backtests; those of clusters that failed stay as they are.

        Raises:
            InvalidFilesError: The usage cannot be read.
            EngineError: Spark does not start, or failed.
        """
        plans = [outcome.value for outcome in gathered.outcomes if outcome.value is not None]
        if self.usage is None or not plans or gathered.interrupt is not None:
            return gathered
        from quotaform.core.usage.backtest import MOST_IN_PLAN
        from quotaform.spark.usage.replay.backtest_run import BacktestRequest

        has_others = len(plans) < len(gathered.outcomes)
        request = BacktestRequest(usage=self.usage, most=MOST_IN_PLAN, has_others=has_others)
        found = self._found(request, plans, console)
        outcomes = tuple(
            outcome if outcome.value is None else _with_backtest(outcome, found[outcome.cluster])
            for outcome in gathered.outcomes
        )
        return replace(gathered, outcomes=outcomes)

    def _found(self, request: BacktestRequest, plans: list[Plan], console: Console) -> Mapping[str, ClusterBacktest]:
        session = self.place.session()
        from quotaform.cli.job_progress import JobProgress
        from quotaform.spark.session.session import spark_session
        from quotaform.spark.usage.replay.backtest_run import backtested

        progress = JobProgress(console, "Replaying usage", session)
        with spark_session(session, progress) as spark:
            progress("Replaying usage", 0, 0)
            with backtested(spark, request, plans, warn=lambda text: console.warn(f"Warning: {text}")) as (found, _):
                return {each.cluster: each for each in found.clusters}


def _with_backtest(outcome: ClusterOutcome[Plan], found: ClusterBacktest) -> ClusterOutcome[Plan]:
    return replace(outcome, value=replace(outcome.require(), backtest=found))
