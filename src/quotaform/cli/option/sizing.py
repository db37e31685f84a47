"""The options that say how quotas are sized by usage."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from quotaform.cli.option.common import ExcludeOption, SelectOption
from quotaform.cli.usage import shorten
from quotaform.errors import UsageError

if TYPE_CHECKING:
    from quotaform.core.usage.sizing.recommendation import RecommendSettings
    from quotaform.desired.config import Cluster, Config
    from quotaform.model.quotas import Values


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizing:
    """How quotas are sized; what is not given is as `recommend` of quotaform.yaml says."""

    percentile: Annotated[
        str | None,
        typer.Option("--percentile", metavar="pN", help="Percentile of the rates of each day. [default: p99]"),
    ] = None
    outlier_days: Annotated[
        int | None,
        typer.Option(
            "--outlier-days",
            metavar="N",
            min=0,
            help="Leave out the N highest days of each weekday, but never its last one. [default: 0]",
        ),
    ] = None
    headroom: Annotated[
        float | None,
        typer.Option(
            "--headroom", metavar="FACTOR", help="Factor by which the percentile is multiplied. [default: 1.5]"
        ),
    ] = None
    floor: Annotated[
        list[str] | None,
        typer.Option("--floor", metavar="KEY=VALUE", help="Lowest proposed value. Repeatable."),
    ] = None
    cap: Annotated[
        list[str] | None,
        typer.Option("--cap", metavar="KEY=VALUE", help="Highest proposed value. Repeatable."),
    ] = None
    capacity: Annotated[
        list[str] | None,
        typer.Option(
            "--capacity",
            metavar="KEY=VALUE",
            help="Maximum sum of the limits of all buckets on a broker. Repeatable. [default: that of the cluster]",
        ),
    ] = None
    min_history: Annotated[
        str | None,
        typer.Option("--min-history", metavar="DURATION", help="Minimum recorded time of an entity. [default: 14d]"),
    ] = None
    min_samples: Annotated[
        int | None,
        typer.Option(
            "--min-samples", metavar="N", min=1, help="Minimum number of samples of an entity. [default: 100]"
        ),
    ] = None
    unused_after: Annotated[
        str | None,
        typer.Option(
            "--unused-after",
            metavar="DURATION",
            help="Propose to remove values that were unused for this time. [default: 30d]",
        ),
    ] = None
    create: Annotated[
        bool,
        typer.Option(
            "--create", help="Also propose values for clients that a default limits too much, or that have no limit."
        ),
    ] = False
    select: SelectOption = None
    exclude: ExcludeOption = None

    def settings(self, config: Config, clusters: Sequence[Cluster]) -> RecommendSettings:
        """Return the settings."""
        from quotaform.cli.plan_request import read_selection
        from quotaform.core.usage.sizing.recommendation import (
            MOST_HEADROOM,
            MOST_OUTLIER_DAYS,
            RecommendSettings,
        )

        known = config.sizing
        headroom = known.headroom if self.headroom is None else self.headroom
        if not 1 <= headroom <= MOST_HEADROOM:
            raise UsageError(f"--headroom {headroom:g}: it is a factor from 1 to {MOST_HEADROOM:g}")
        outlier_days = known.outlier_days if self.outlier_days is None else self.outlier_days
        if outlier_days > MOST_OUTLIER_DAYS:
            raise UsageError(f"--outlier-days {outlier_days}: at most {MOST_OUTLIER_DAYS} can be left out")
        floors = {**known.floors, **_read_values("--floor", self.floor)}
        caps = {**known.caps, **_read_values("--cap", self.cap)}
        for key in floors.keys() & caps.keys():
            if floors[key] > caps[key]:
                raise UsageError(f"the floor of {key} is above its cap; give another --floor or --cap")
        capacity = _read_values("--capacity", self.capacity)
        return RecommendSettings(
            percentile=_read_percentile(self.percentile) or known.percentile,
            outlier_days=outlier_days,
            headroom=headroom,
            floors=floors,
            caps=caps,
            min_history_days=_read_days("--min-history", self.min_history) or known.min_history_days,
            min_samples=self.min_samples or known.min_samples,
            unused_after_days=_read_days("--unused-after", self.unused_after) or known.unused_after_days,
            has_creates=self.create,
            capacities={each.name: {**each.capacity.values, **capacity} for each in clusters},
            scope=config.scope,
            selection=read_selection(self.select, self.exclude),
        )


def _read_percentile(text: str | None) -> float | None:
    """Read the value of `--percentile`."""
    from quotaform.core.usage.sizing.recommendation import parse_percentile

    try:
        return None if text is None else parse_percentile(text)
    except ValueError as error:
        raise UsageError(f"--percentile: {error}") from None


def _read_values(option: str, texts: Sequence[str] | None) -> Values:
    """Read values of quota keys."""
    from quotaform.model.quota_key import QUOTA_KEYS
    from quotaform.model.text import did_you_mean
    from quotaform.model.units import parse_value

    values: dict[str, float] = {}
    for text in texts or ():
        name, separator, value = text.partition("=")
        if not separator:
            raise UsageError(f"{option} {shorten(text)}: write KEY=VALUE, for example producer_byte_rate=1MiB/s")
        key = QUOTA_KEYS.get(name)
        if key is None:
            guess = did_you_mean(name, QUOTA_KEYS) or f"; the keys are {', '.join(QUOTA_KEYS)}"
            raise UsageError(f"{option} {shorten(text)}: unknown quota key{guess}")
        if name in values:
            raise UsageError(f"{option} {name} is given twice; give it once")
        try:
            values[name] = parse_value(key, value)
        except ValueError as error:
            raise UsageError(f"{option} {name}: {error}") from None
    return values


def _read_days(option: str, text: str | None) -> float | None:
    """Read a duration, in days."""
    from quotaform.model.duration import parse_duration

    try:
        return None if text is None else parse_duration(text).total_seconds() / 86_400
    except ValueError as error:
        raise UsageError(f"{option}: {error}") from None
