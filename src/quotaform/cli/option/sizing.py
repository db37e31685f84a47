"""The options that say how quotas are sized by usage."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import isfinite
from re import compile as regex
from typing import TYPE_CHECKING, Annotated, Final

import typer

from quotaform.cli.option.common import ExcludeOption, SelectOption
from quotaform.cli.usage import shorten
from quotaform.errors import UsageError

if TYPE_CHECKING:
    from quotaform.core.usage.recommendation import RecommendSettings
    from quotaform.desired.config import Cluster, Config
    from quotaform.model.quotas import Values

_PERCENTILE: Final = regex(r"p(100|[0-9]{1,2}(?:\.[0-9]{1,3})?)").fullmatch
_MOST_HEADROOM: Final = 100.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizing:
    """How quotas are sized."""

    percentile: Annotated[
        str, typer.Option("--percentile", metavar="pN", help="Percentile of each day on which a value rests.")
    ] = "p99"
    headroom: Annotated[float, typer.Option("--headroom", metavar="FACTOR", help="What it is multiplied by.")] = 1.5
    floor: Annotated[
        list[str] | None,
        typer.Option("--floor", metavar="KEY=VALUE", help="Propose no value below this. Repeatable."),
    ] = None
    cap: Annotated[
        list[str] | None,
        typer.Option("--cap", metavar="KEY=VALUE", help="Propose no value above this. Repeatable."),
    ] = None
    capacity: Annotated[
        list[str] | None,
        typer.Option(
            "--capacity",
            metavar="KEY=VALUE",
            help="What the limits of all buckets may sum up to, per broker. Repeatable. [default: that of the cluster]",
        ),
    ] = None
    min_history: Annotated[
        str, typer.Option("--min-history", metavar="DURATION", help="How much must be recorded of an entity.")
    ] = "14d"
    min_samples: Annotated[
        int, typer.Option("--min-samples", metavar="N", min=1, help="How many samples it must have.")
    ] = 100
    unused_after: Annotated[
        str,
        typer.Option("--unused-after", metavar="DURATION", help="Propose to remove what nobody used for so long."),
    ] = "30d"
    create: Annotated[
        bool,
        typer.Option("--create", help="Also propose values for those that a default limits too much, or nothing."),
    ] = False
    select: SelectOption = None
    exclude: ExcludeOption = None

    def settings(self, config: Config, clusters: Sequence[Cluster]) -> RecommendSettings:
        """Return the settings.

        Args:
            config: The content of quotaform.yaml.
            clusters: The clusters that are meant.

        Raises:
            UsageError: An option has a value that cannot be used.
        """
        from quotaform.cli.plan_request import read_selection
        from quotaform.core.usage.recommendation import RecommendSettings

        percentile = _PERCENTILE(self.percentile)
        if percentile is None or not float(percentile[1]):
            raise UsageError(f"--percentile {shorten(self.percentile)}: write for example p95, p99 or p99.9")
        if not isfinite(self.headroom) or not 1 <= self.headroom <= _MOST_HEADROOM:
            raise UsageError(f"--headroom {self.headroom:g}: it is a factor from 1 to {_MOST_HEADROOM:g}")
        floors, caps = _read_values("--floor", self.floor), _read_values("--cap", self.cap)
        for key in floors.keys() & caps.keys():
            if floors[key] > caps[key]:
                raise UsageError(f"--floor {key} is above --cap {key}")
        capacity = _read_values("--capacity", self.capacity)
        return RecommendSettings(
            percentile=float(percentile[1]),
            headroom=self.headroom,
            floors=floors,
            caps=caps,
            min_history_days=_read_days("--min-history", self.min_history),
            min_samples=self.min_samples,
            unused_after_days=_read_days("--unused-after", self.unused_after),
            has_creates=self.create,
            capacities={each.name: {**each.capacity.values, **capacity} for each in clusters},
            scope=config.scope,
            selection=read_selection(self.select, self.exclude),
        )


def _read_values(option: str, texts: Sequence[str] | None) -> Values:
    """Read values of quota keys.

    Raises:
        UsageError: One is not KEY=VALUE, or a key is given twice.
    """
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


def _read_days(option: str, text: str) -> float:
    """Read a duration, in days.

    Raises:
        UsageError: It is none.
    """
    from quotaform.model.duration import parse_duration

    try:
        return parse_duration(text).total_seconds() / 86_400
    except ValueError as error:
        raise UsageError(f"{option}: {error}") from None
