"""What brokers would have done with a recorded demand under other limits: their windows of rates as running minima.

Let L be the limit, W the window (10.5 s), O the recorded rate of a window, and A(t) what was asked for until t. A
broker admits what keeps the sum of its window within L x W, and lets requests wait otherwise. What it has served is

    S(t) = min over k = 0, 1, 2, ... of A(t - k W) + k L W

so that the backlog is the largest of A(t) - A(t - k W) - k L W. The difference is the sum of W x O at t, t - W, ...,
t - (k - 1) W, which is what was recorded: the backlog is a running sum of (O - L) x W over times that are W apart, less
its running minimum. This is the model of the quota keys:

| key | requests wait | the longest wait of a request |
| --- | --- | --- |
| byte rates | while there is a backlog | backlog / L |
| request time | likewise; at least while O > L, as the cap on delays may keep the backlog small | the same, up to 1 s |
| mutations | while the backlog is over the burst of 11 s x L: the tokens are negative | (backlog - burst) / L |
| connections | while O > L; (O - L) x time of them are refused, without a backlog | (O - L) / L x W, up to 1 s |

How a recording is read:

| samples are | replayed as |
| --- | --- |
| closer than W | up to ten interleaved recordings, in each of which they are about W apart |
| further apart than W | one recording, where a sample stands for the step D since the one before it |
| further apart than `LONGEST_STEP_S` | the same, and in between nothing was asked for: a backlog drains |

Of a step longer than the window that a rate covers, the rest is not known. `_low` takes it as idle, `_high` as the
larger of the two samples around it, and the estimate as the sample. Within a step, rates are constant and the window of
the broker follows within W, so that a step in which the limit is passed counts from when its window is over the limit.
The bounds are also those of what else is not known: how long request time has a backlog (`_low`: none), and whether
mutations come at once (`_high`) or spread over a window.

Source: KIP-13, KIP-124, KIP-599, KIP-612; org.apache.kafka.common.metrics.stats.Rate, SampledStat and TokenBucket;
org.apache.kafka.server.quota.QuotaUtils.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final

from pyspark.sql import Window
from pyspark.sql import functions as f

from quotaform.core.usage.enforcement import ENFORCEMENT, LONGEST_STEP_S, Enforcement
from quotaform.core.usage.series import QUOTA_WINDOW_S
from quotaform.spark.usage.schemas import WAITS

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

_COMBS: Final = (10, 5, 2)
"""Into how many interleaved recordings one may be taken apart."""
_WIDEST: Final = 1.3 * QUOTA_WINDOW_S
"""How far apart samples of an interleaved recording may be, as those of real recordings are not quite regular."""
_VARIANTS: Final = ("", "_low", "_high")


def waits(demand: DataFrame, limits: DataFrame) -> DataFrame:
    """Return `schemas.WAITS` of buckets.

    Nothing is shuffled: the rows of a bucket must be in one partition.

    Args:
        demand: `schemas.DEMAND`, in partitions of buckets.
        limits: The columns `bucket_id`, `key`, `limit` and `pace_s`, a row per bucket; few enough to be broadcast.
    """
    steps = _steps(demand.join(f.broadcast(limits), "bucket_id"))
    return _episodes(_waits(_backlogs(steps))).select(*WAITS.names)


def _steps(rows: DataFrame) -> DataFrame:
    """Add how long each row stands for, and which of the interleaved recordings it belongs to."""
    in_time = Window.partitionBy("bucket_id").orderBy("at")
    combs = f.lit(1)
    for number in reversed(_COMBS):
        combs = f.when(f.col("pace_s") * number <= _WIDEST, number).otherwise(combs)
    since = {n: (f.col("at") - f.lag("at", n).over(in_time)) / 1e6 for n in (1, *_COMBS)}
    rows = rows.withColumns(
        {
            "combs": combs,
            "window_s": f.coalesce("window_s", f.lit(QUOTA_WINDOW_S)),
            "place": f.row_number().over(in_time),
            "rate_before": f.lag("rate").over(in_time),
            "throttle_before": f.lag("throttle_sum").over(in_time),
            **{f"since_{n}": column for n, column in since.items()},
        }
    )
    spaced = f.coalesce(*(f.when(f.col("combs") == n, f.col(f"since_{n}")) for n in (1, *_COMBS)), f.col("window_s"))
    is_gap = f.col("spaced_s") > LONGEST_STEP_S
    return rows.withColumns({"spaced_s": spaced, "comb": f.col("place") % f.col("combs")}).withColumns(
        {
            "is_gap": is_gap,
            "seen_s": f.least("window_s", "spaced_s"),
            # After a gap a sample stands for as long as others do, but not for more than it covers.
            "step_s": f.when(f.col("since_1") <= LONGEST_STEP_S, f.col("since_1")).otherwise(
                f.least("window_s", "pace_s")
            ),
        }
    )


def _unseen_rates() -> Mapping[str, Column]:
    """Return the rate in the part of a step that was not recorded, by variant."""
    rate, idle = f.col("rate"), f.lit(0.0)
    larger = f.greatest(rate, f.coalesce("rate_before", rate))
    known = {"": rate, "_low": idle, "_high": larger}
    return {name: f.when(f.col("is_gap"), idle).otherwise(column) for name, column in known.items()}


def _backlogs(rows: DataFrame) -> DataFrame:
    """Add the backlog at the beginning of each step, by variant: Lindley's recursion, as sum less running minimum."""
    comb = Window.partitionBy("bucket_id", "comb").orderBy("at")
    earlier = comb.rowsBetween(Window.unboundedPreceding, -1)
    unseen, limit = f.col("spaced_s") - f.col("seen_s"), f.col("limit")
    rows = rows.withColumns(
        {
            "unseen_s": unseen,
            "seen_rise": (f.col("rate") - limit) * f.col("seen_s"),
            **{f"unseen_rise{name}": (rate - limit) * unseen for name, rate in _unseen_rates().items()},
        }
    )
    rises = {name: f.col(f"unseen_rise{name}") + f.col("seen_rise") for name in _VARIANTS}
    rows = rows.withColumns({f"sum{name}": f.sum(rise).over(comb) for name, rise in rises.items()})
    # A backlog can be gone within a step, before its recorded part begins.
    lowest = {name: f.least(f"sum{name}", f.col(f"sum{name}") - f.col("seen_rise")) for name in _VARIANTS}
    rows = rows.withColumns({f"lowest{name}": f.min(column).over(earlier) for name, column in lowest.items()})
    start = {
        name: f.col(f"sum{name}") - rises[name] - f.least(f.lit(0.0), f.col(f"lowest{name}")) for name in _VARIANTS
    }
    has_backlog = _by_key(lambda row: f.lit(row.has_backlog))
    # Where delays are capped, requests that wait need not be held back.
    keeps = {
        "": has_backlog,
        "_low": has_backlog & _by_key(lambda row: f.lit(row.longest_delay_s is None)),
        "_high": has_backlog,
    }
    rows = rows.withColumns({f"start{name}": f.when(keeps[name], start[name]).otherwise(0.0) for name in _VARIANTS})
    middle = {name: f.greatest(f.lit(0.0), f.col(f"start{name}") + f.col(f"unseen_rise{name}")) for name in _VARIANTS}
    rows = rows.withColumns({f"middle{name}": f.when(keeps[name], middle[name]).otherwise(0.0) for name in _VARIANTS})
    return rows.withColumns(
        {f"end{name}": f.greatest(f.lit(0.0), f.col(f"middle{name}") + f.col("seen_rise")) for name in _VARIANTS}
    )


def _by_key(value: Callable[[Enforcement], Column]) -> Column:
    """Return a column that depends on the quota key; that of a byte rate for an unknown one, which has no limit."""
    cases = [f.when(f.col("key") == name, value(row)) for name, row in ENFORCEMENT.items()]
    return f.coalesce(*cases, value(Enforcement()))


def _waits(rows: DataFrame) -> DataFrame:
    """Add how long requests wait in each step and how long the longest of them, by variant."""
    burst = _by_key(lambda row: f.lit(row.burst_s)) * f.col("limit")
    cap = _by_key(lambda row: f.lit(row.longest_delay_s if row.longest_delay_s is not None else float("inf")))
    is_bucket = _by_key(lambda row: f.lit(row.burst_s > 0))
    rows = rows.withColumns({"burst": burst, "cap_s": cap, "is_bucket": is_bucket})
    unseen_rates = _unseen_rates()
    columns: dict[str, Column] = {}
    for name in _VARIANTS:
        coarse = _unseen_wait(name, unseen_rates[name]) + _seen_wait(name, unseen_rates[name])
        is_over = f.col(f"end{name}") > f.col("burst")
        fine = f.when(is_over, f.col("step_s")).otherwise(0.0)
        wait = f.when(f.col("combs") > 1, fine).otherwise(coarse)
        columns[f"wait_s{name}"] = f.when(f.col("limit").isNotNull(), wait).otherwise(0.0)
        reached = f.greatest(f"end{name}", f"middle{name}") if name == "_high" else f.col(f"end{name}")
        columns[f"delay_s{name}"] = f.least("cap_s", f.try_divide(reached - f.col("burst"), f.col("limit")))
    at_once = f.col("middle_high") + f.col("rate") * f.col("seen_s") - f.col("burst")
    delay = f.try_divide(at_once, f.col("limit"))
    is_at_once = f.col("is_bucket") & (f.col("rate") > 0) & f.col("limit").isNotNull()
    columns["wait_s_high"] = f.when(is_at_once, f.greatest(columns["wait_s_high"], f.least("step_s", delay))).otherwise(
        columns["wait_s_high"]
    )
    columns["delay_s_high"] = f.when(is_at_once, f.greatest(columns["delay_s_high"], delay)).otherwise(
        columns["delay_s_high"]
    )
    rows = rows.withColumns(columns)
    none = f.lit(0.0)
    return rows.withColumns(
        {f"delay_s{name}": f.greatest(none, f.coalesce(f"delay_s{name}", none)) for name in _VARIANTS}
    )


def _unseen_wait(name: str, rate: Column) -> Column:
    """Return how long requests wait in the part of a step that was not recorded."""
    wait = _part_wait(f.col(f"start{name}"), rate, f.col("unseen_s"), _passed(f.col("rate_before"), rate))
    # Of a gap, nobody knows.
    return f.when(f.col("is_gap") | (f.col("unseen_s") <= 0), 0.0).otherwise(wait)


def _seen_wait(name: str, unseen_rate: Column) -> Column:
    before = f.when(f.col("unseen_s") > 0, unseen_rate).otherwise(f.col("rate_before"))
    return _part_wait(f.col(f"middle{name}"), f.col("rate"), f.col("seen_s"), _passed(before, f.col("rate")))


def _passed(before: Column, rate: Column) -> Column:
    """Return after which part of a window its rate passes the limit, on its way from one rate to a higher one."""
    part = f.try_divide(f.col("limit") - before, rate - before)
    return f.when(before < f.col("limit"), part).otherwise(0.0)


def _part_wait(backlog: Column, rate: Column, seconds: Column, passed: Column) -> Column:
    """Return how long requests wait in a part of a step.

    Args:
        backlog: That at its beginning.
        rate: The rate in it.
        seconds: Its length.
        passed: After which part of a window the rate of the window passes the limit, if there is no backlog.
    """
    limit, burst, none = f.col("limit"), f.col("burst"), f.lit(0.0)
    first = f.when(f.col("is_bucket"), f.try_divide(burst - backlog, rate - limit)).otherwise(
        f.when(backlog > 0, none).otherwise(f.coalesce(passed, none) * f.least(seconds, f.lit(QUOTA_WINDOW_S)))
    )
    rising = seconds - f.greatest(none, f.least(seconds, first))
    falling = f.when(
        backlog > burst, f.least(seconds, f.coalesce(f.try_divide(backlog - burst, limit - rate), seconds))
    ).otherwise(none)
    return f.when(rate > limit, rising).otherwise(falling)


def _episodes(rows: DataFrame) -> DataFrame:
    """Add for how long requests had waited at each time, and what was throttled really."""
    earlier = Window.partitionBy("bucket_id", "comb").orderBy("at").rowsBetween(Window.unboundedPreceding, -1)
    has_backlog = _by_key(lambda row: f.lit(row.has_backlog))
    begins = f.col("at") - f.col("spaced_s") * 1e6
    calm = f.max(f.when(f.col("wait_s") <= 0, f.col("at"))).over(earlier)
    rest = f.when((f.col("combs") == 1) & (f.col("end") <= f.col("burst")), f.col("step_s") - f.col("wait_s"))
    since = f.coalesce(calm, f.min(begins).over(earlier), begins)
    is_new = (
        f.col("is_at_limit") | f.col("throttle_before").isNull() | (f.col("throttle_before") != f.col("throttle_sum"))
    )
    throttled = f.col("throttle_sum").isNotNull()
    refused = f.greatest(f.lit(0.0), (f.col("rate") - f.col("limit")) * f.col("step_s"))
    return rows.withColumns(
        {
            "episode_s": f.when(f.col("wait_s") > 0, (f.col("at") - since) / 1e6 - f.coalesce(rest, f.lit(0.0))),
            "backlog_s": f.when(
                has_backlog, f.greatest(f.lit(0.0), f.try_divide(f.col("end") - f.col("burst"), f.col("limit")))
            ).otherwise(0.0),
            "ratio": f.try_divide("rate", "limit"),
            "refused": f.when(~has_backlog, refused),
            "recorded_wait_s": f.when(throttled & is_new, f.col("step_s")).otherwise(0.0),
            "hidden_s": f.when(throttled, f.col("step_s")).otherwise(0.0),
        }
    )
