"""One answer of a source of measurements."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from time import monotonic
from typing import Final, Protocol

from quotaform.core.usage.metric.origin import Origin
from quotaform.core.usage.sample.sample import Item
from quotaform.errors import MetricsError

BODY_LIMIT: Final = 64 << 20
"""The most bytes of an answer: 10,000 buckets have some 5 MB."""
MOST_SAMPLES: Final = 500_000
"""The most samples of an answer: 10,000 buckets have 20,000."""

OBJECT_NAMES: Final = (
    "kafka.server:type=Produce,*",
    "kafka.server:type=Fetch,*",
    "kafka.server:type=Request,*",
    "kafka.server:type=ControllerMutation,*",
    "kafka.server:type=socket-server-metrics,ip=*",
)
"""The MBeans of client quotas, as patterns.

Source: org.apache.kafka.server.quota.ClientQuotaManager, kafka.network.ConnectionQuotas.
"""

ATTRIBUTES: Final = ("byte-rate", "request-time", "mutation-rate", "connection-accept-rate", "throttle-time")
"""Their attributes that are recorded."""


@dataclass(frozen=True, slots=True)
class Reading:
    """One answer.

    Attributes:
        at: When it was asked for, in seconds since the epoch.
        seconds: How long it took until it was there.
        size: Its bytes.
    """

    at: float
    seconds: float
    size: int
    items: tuple[Item, ...] = field(repr=False)


class Reader(Protocol):
    """Reads one source again and again."""

    @property
    def shown(self) -> str:
        """The source as messages show it, without what may be secret."""

    def read(self, timeout: float) -> Reading:
        """Read it once.

        Args:
            timeout: Seconds for the request and for reading the answer.

        Raises:
            MetricsError: It does not answer, or with something that cannot be used.
        """

    def cancel(self) -> None:
        """End a read that is under way, as far as that is a process of its own."""


def read_items(items: Iterable[Item], source: str, timeout: float, started: float) -> tuple[Item, ...]:
    """Return what an answer holds.

    Args:
        timeout: Seconds for the request and for reading the answer.
        started: When the request began, of `monotonic`.

    Raises:
        MetricsError: It holds too much, or takes too long to read.
    """
    deadline = started + timeout
    found: list[Item] = []
    for item in items:
        found.append(item)
        if len(found) > MOST_SAMPLES:
            raise MetricsError(source, f"answered with more than {MOST_SAMPLES:,} samples; have it serve fewer metrics")
        if monotonic() > deadline:
            problem = f"answered with more than can be read within {timeout:g} s; have it serve fewer metrics"
            raise MetricsError(source, problem)
    return tuple(found)


def problem_of(error: Exception) -> str:
    """Return what is wrong with a source, as the rest of a sentence about it, a mistake of our own included.

    >>> problem_of(MetricsError("http://b1", "cannot be reached")), problem_of(ValueError("3"))
    ('cannot be reached', 'cannot be used because of an internal error: ValueError; please report it')
    """
    if isinstance(error, MetricsError):
        return error.problem
    return f"cannot be used because of an internal error: {type(error).__name__}; please report it"


def origin_of(cluster: str, broker: str | None) -> Origin:
    """Return the origin of what one broker offers: labels on its page say nothing about the cluster or the broker."""
    return Origin(cluster, broker, cluster_labels=(), broker_labels=())
