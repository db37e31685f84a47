"""What quotaform.yaml says to single subjects: limits of guards, lints, drift to ignore, sources of metrics.

| a source of metrics | read by |
| --- | --- |
| `http://b1:7071/metrics` | one request for the page of a jmx_exporter |
| `jmx:b1:9999` | Kafka's own JmxTool |

In front of each there may be the name of the broker, `1=http://b1:7071/metrics`; else it is called by host and port.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import date, timedelta
from enum import StrEnum
from re import compile as regex
from typing import Annotated, Final, TypeAlias

from msgspec import Struct

from quotaform.model import rule
from quotaform.model.entity import Entity
from quotaform.model.errors import ArgumentError
from quotaform.model.finding import Finding, Location
from quotaform.model.quotas import Values
from quotaform.model.records.record import Count, Record, about
from quotaform.model.scope import FULL_SCOPE, Pattern, Scope, not_covered
from quotaform.model.server import parse_server
from quotaform.model.text import inert, quote, require_items

LEAST_MANAGED: Final = 10
"""From how many managed entities on a share of them counts: 2 of 9 are not a mass change."""


class CountLimit(Struct, frozen=True):
    """A number of entities."""

    count: Annotated[Count, about("At most so many.")]
    # Of the managed entities, when there are at least `LEAST_MANAGED`
    percent: Annotated[Count, about("At most this share, in percent.")]

    def is_over(self, number: int, managed: int) -> bool:
        """Whether a number of entities is over the limit.

        >>> limit = CountLimit(5, 20)
        >>> limit.is_over(5, 25), limit.is_over(6, 60), limit.is_over(3, 10), limit.is_over(3, 9)
        (False, True, True, False)
        """
        return number > self.count or (managed >= LEAST_MANAGED and number * 100 > self.percent * managed)

    def __str__(self) -> str:
        return f"{self.count:,}, or {self.percent} %"


class GuardLimits(Struct, frozen=True, kw_only=True):
    """The limits that guards apply."""

    delete: CountLimit = CountLimit(5, 20)  # how many entities a plan may delete
    update: CountLimit = CountLimit(50, 50)  # how many it may update
    change_factor: int = 10  # by what factor a value may not change
    protect: tuple[Pattern, ...] = ()  # the protected entities

    def looser_than(self, base: GuardLimits) -> Iterator[str]:
        """Yield in what way these limits are looser than others; a wider pattern of `protect` is not.

        >>> list(GuardLimits(delete=CountLimit(9, 20)).looser_than(GuardLimits()))
        ['guards.delete.count is 9 instead of 5']
        """
        for name in ("delete", "update"):
            for side in ("count", "percent"):
                here, there = (getattr(getattr(limits, name), side) for limits in (self, base))
                if here > there:
                    yield f"guards.{name}.{side} is {here} instead of {there}"
        if self.change_factor > base.change_factor:
            yield f"guards.change_factor is {self.change_factor} instead of {base.change_factor}"
        yield from (f"protect has no {inert(str(each))}" for each in not_covered(base.protect, self.protect))


DEFAULT_GUARD_LIMITS: Final = GuardLimits()


EXPIRES_WITHIN_DAYS: Final = 14
"""How many days before an entry expires that is announced, unless quotaform.yaml says otherwise."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ignore:
    """What is known and accepted: an item of `lints.ignore` or of `drift_ignore`.

    What of drift is ignored concerns drift and its alerts alone: a plan shows it, and an apply reverts it.
    """

    reason: str  # why, in the words of the file
    rule: str | None = None  # the id of the lint, if it is of findings
    address: str | None = None  # the entity, if it is about one
    entities: Scope = FULL_SCOPE  # those that match, if it is about them; without both it is about all
    keys: frozenset[str] = frozenset()  # the quota keys whose drift is ignored; empty for all of them
    expires: date = date.max  # the day (UTC) from which on it ignores nothing
    location: Location | None = field(default=None, compare=False)

    def is_active(self, today: date) -> bool:
        """Whether it has not expired."""
        return today < self.expires

    def covers(self, entity: Entity | None, key: str | None = None) -> bool:
        """Whether it ignores what is found about a key of an entity, or about a cluster as a whole (`None`)."""
        if entity is None:
            return self.address is None and not self.entities.include
        is_meant = self.address is None or self.address == entity.address
        return is_meant and (not self.keys or key in self.keys) and self.entities.contains(entity)


@dataclass(frozen=True, slots=True, kw_only=True)
class LintSettings:
    """The settings of lints."""

    ignores: tuple[Ignore, ...] = ()
    expires_within_days: int = EXPIRES_WITHIN_DAYS  # how many days before an entry expires that is announced
    # The users as which brokers connect to each other; `None` if they are not declared
    broker_principals: tuple[str, ...] | None = None
    profile_findings: tuple[Finding, ...] = field(default=(), compare=False)  # what lints find in the profiles


@dataclass(frozen=True, slots=True, kw_only=True)
class Capacity:
    """What a broker, or for some keys the whole cluster, can do."""

    values: Values = field(default_factory=dict)  # by quota key, in its unit
    places: Mapping[str, Location] = field(default_factory=dict, compare=False)  # where each is written


_SOON: Final = timedelta(days=7)
"""How long before the end of an ignored drift it is announced."""


def check_ignores(ignores: Iterable[Ignore], used: Collection[int], today: date) -> Iterator[Finding]:
    """Yield what to know about ignored drift: expired, about to expire, or without use.

    `used` holds the ids (`id`) of those that ignored something.
    """
    for each in ignores:
        about, expires = f"this drift_ignore ({quote(each.reason)})", each.expires
        found = []
        if not each.is_active(today):
            text = f"{about} expired {expires} and ignores nothing; remove it, or set a later date"
            found.append((rule.DRIFT_IGNORE_EXPIRED, text))
        elif not each.is_active(today + _SOON):
            text = f"{about} expires {expires}; what it ignores counts as drift from then on"
            found.append((rule.DRIFT_IGNORE_EXPIRES, text))
        if each.is_active(today) and id(each) not in used:
            text = f"{about} ignores nothing at present; remove it if it is no longer needed"
            found.append((rule.DRIFT_IGNORE_UNUSED, text))
        yield from (row.finding(text, location=each.location) for row, text in found)


MOST_SOURCES: Final = 1000
"""The limit on sources of a cluster: one per broker."""

_WRITTEN = regex(r"(?:(?P<broker>[^\s=:/?#\[\]]{1,200})=)?(?:(?P<jmx>jmx):)?(?P<address>[\x21-\x7e]+)").fullmatch
_HOST = regex(r"https?://(?:[^/?#@]*@)?([^/?#@]+)(?:[/?#].*)?").fullmatch
_EXAMPLES: Final = "write 1=http://broker-1:7071/metrics for an exporter, or jmx:broker-1:9999"


@dataclass(frozen=True, slots=True)
class MetricsSource:
    """Where the measurements of one broker are read."""

    broker: str  # the name of the broker in what is recorded
    is_jmx: bool  # whether JMX offers them, and not an exporter
    address: str = field(repr=False)  # The URL, or host and port of JMX. It is never shown: a URL may hold a secret.


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterMetrics:
    """Where the measurements of a cluster are read."""

    sources: tuple[MetricsSource, ...] = ()
    # The URL of a Prometheus that has them; `None` for none. It is never shown as a whole.
    prometheus: str | None = field(default=None, repr=False)
    # What labels of Prometheus must be, to choose the series of the cluster
    labels: Mapping[str, str] = field(default_factory=dict)
    location: Location | None = field(default=None, compare=False)


NO_METRICS: Final = ClusterMetrics()


def parse_source(written: str) -> MetricsSource:
    """Read a source. Raises `ValueError` if it is not one; the message says what to write and does not show it.

    >>> parse_source("1=http://b1:7071/metrics").broker, parse_source("jmx:b1:9999").broker
    ('1', 'b1:9999')
    """
    match = _WRITTEN(written)
    if match is None:
        raise ValueError(f"this is no source of measurements; {_EXAMPLES}")
    address, is_jmx = match["address"], match["jmx"] is not None
    if is_jmx:
        try:
            host = str(parse_server(address))
        except ValueError:
            raise ValueError(f"this is no HOST:PORT of JMX; {_EXAMPLES}") from None
    else:
        found = _HOST(address)
        if found is None:
            raise ValueError(f"the URL must begin with http:// or https://; {_EXAMPLES}")
        host = found[1]
    return MetricsSource(match["broker"] or host, is_jmx, address)


def require_distinct(sources: Iterable[MetricsSource]) -> None:
    """Make sure that each broker has one source.

    Raises `ValueError` if two are of one broker, which would count twice.
    """
    seen: set[str] = set()
    for source in sources:
        if source.broker in seen:
            raise ValueError(f"there are two sources of broker {quote(source.broker)}; give one of each broker")
        seen.add(source.broker)


def read_sources(texts: Iterable[str]) -> tuple[MetricsSource, ...]:
    """Read sources that were given as arguments. Raises `UsageError` if one is none, or two are of one broker."""
    try:
        sources = tuple(map(parse_source, require_items(texts, str, "source", "strings")))
        require_distinct(sources)
    except ValueError as error:
        raise ArgumentError("{source}: {}", error) from None
    return sources


MOST_HEADROOM: Final = 100.0
"""The largest headroom."""

MOST_OUTLIER_DAYS: Final = 100
"""The largest number of days of each weekday that are left out."""

_PERCENTILE: Final = regex(r"p(100|[0-9]{1,2}(?:\.[0-9]{1,3})?)").fullmatch


def parse_percentile(text: str) -> float:
    """Read a percentile, in percent. Raises `ValueError` if it is not one; the message says what to write.

    >>> parse_percentile("p99.9")
    99.9
    """
    found = _PERCENTILE(text)
    if found is None or not float(found[1]):
        raise ValueError(f"{quote(text)} is not a percentile; write for example p95, p99 or p99.9")
    return float(found[1])


Numbers: TypeAlias = Annotated[Values, about("Values by quota key.")]


class SizingSettings(Record):
    """How values are sized: `recommend` of quotaform.yaml, and options."""

    percentile: Annotated[float, about("The percentile of each day.")] = 99.0
    # The last day of a weekday never is
    outlier_days: Annotated[Count, about("How many of the highest days of each weekday were left out.")] = 0
    headroom: Annotated[float, about("By how much it was multiplied.")] = 1.5  # 1 or more
    # No value is proposed below and above these; msgspec copies them.
    floors: Numbers = {}  # noqa: RUF012
    caps: Numbers = {}  # noqa: RUF012
    min_history_days: Annotated[float, about("How many days must be recorded.")] = 14.0
    min_samples: Annotated[Count, about("How many times with a rate must be recorded.")] = 100
    unused_after_days: Annotated[float, about("After how many days without use a value is proposed for removal.")] = (
        30.0
    )


class PruneMode(StrEnum):
    """What happens to live entities that no file declares; the mode that deletes most is the last one."""

    REPORT = "report"
    REMOVED = "removed"
    SCOPE = "scope"

    def deletes_more_than(self, other: PruneMode) -> bool:
        """Whether this mode deletes entities that another one leaves.

        >>> PruneMode.SCOPE.deletes_more_than(PruneMode.REMOVED), PruneMode.REPORT.deletes_more_than(PruneMode.REPORT)
        (True, False)
        """
        modes = list(PruneMode)
        return modes.index(self) > modes.index(other)
