"""Where the measurements of a broker are read: its exporter for Prometheus, or JMX.

| written as | read by |
| --- | --- |
| `http://b1:7071/metrics` | one request for the page of a jmx_exporter |
| `jmx:b1:9999` | Kafka's own JmxTool |

In front of each there may be the name of the broker, `1=http://b1:7071/metrics`; else it is called by host and port.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from re import compile as regex
from typing import Final

from quotaform.model.location import Location
from quotaform.model.server import parse_server
from quotaform.model.text import quote

MOST_SOURCES: Final = 1000
"""The limit on sources of a cluster: one per broker."""

_WRITTEN = regex(r"(?:(?P<broker>[^\s=:/?#\[\]]{1,200})=)?(?:(?P<kind>jmx):)?(?P<address>[\x21-\x7e]+)").fullmatch
_HOST = regex(r"https?://(?:[^/?#@]*@)?([^/?#@]+)(?:[/?#].*)?").fullmatch
_EXAMPLES: Final = "write 1=http://broker-1:7071/metrics for an exporter, or jmx:broker-1:9999"


class SourceKind(StrEnum):
    """What offers the measurements."""

    EXPORTER = "exporter"
    JMX = "jmx"


@dataclass(frozen=True, slots=True)
class MetricsSource:
    """Where the measurements of one broker are read.

    Attributes:
        broker: The name of the broker in what is recorded.
        kind: What offers them.
        address: The URL, or host and port of JMX. It is never shown: a URL may hold a secret.
    """

    broker: str
    kind: SourceKind
    address: str = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterMetrics:
    """Where the measurements of a cluster are read.

    Attributes:
        prometheus: The URL of a Prometheus that has them; `None` for none. It is never shown as a whole.
        labels: What labels of Prometheus must be, to choose the series of the cluster.
    """

    sources: tuple[MetricsSource, ...] = ()
    prometheus: str | None = field(default=None, repr=False)
    labels: Mapping[str, str] = field(default_factory=dict)
    location: Location | None = field(default=None, compare=False)


NO_METRICS: Final = ClusterMetrics()


def parse_source(written: str) -> MetricsSource:
    """Read a source. Raises `ValueError` if it is none; the message says what to write and does not show it.

    >>> parse_source("1=http://b1:7071/metrics").broker, parse_source("jmx:b1:9999").broker
    ('1', 'b1:9999')
    """
    match = _WRITTEN(written)
    if match is None:
        raise ValueError(f"this is no source of measurements; {_EXAMPLES}")
    kind, address = SourceKind(match["kind"] or "exporter"), match["address"]
    if kind is SourceKind.JMX:
        try:
            host = str(parse_server(address))
        except ValueError:
            raise ValueError(f"this is no HOST:PORT of JMX; {_EXAMPLES}") from None
    else:
        if address.startswith("jolokia:"):
            raise ValueError(f"Jolokia is not read any more; {_EXAMPLES}")
        found = _HOST(address)
        if found is None:
            raise ValueError(f"the URL must begin with http:// or https://; {_EXAMPLES}")
        host = found[1]
    return MetricsSource(match["broker"] or host, kind, address)


def require_distinct(sources: Iterable[MetricsSource]) -> None:
    """Make sure that each broker has one source.

    Raises `ValueError` if two are of one broker, which would count twice.
    """
    seen: set[str] = set()
    for source in sources:
        if source.broker in seen:
            raise ValueError(f"there are two sources of broker {quote(source.broker)}; give one of each broker")
        seen.add(source.broker)
