"""Series, samples of them, and the rows of the usage table that they become."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum, StrEnum
from typing import Annotated, Final, NamedTuple, TypeAlias

from msgspec import Raw
from msgspec.json import encode

from quotaform.model.entity import CLIENT_ID, IP, USER, address_of
from quotaform.model.quota_key import QUOTA_KEYS, QUOTA_WINDOW_S
from quotaform.model.records.record import Count, about

# What one series of measurements is about, whatever program recorded it.
#
# | attribute | unit | metric |
# | --- | --- | --- |
# | rate | that of the quota key: B/s, % of one thread, partitions/s, connections/s | `byte-rate` and others |
# | throttle_time | ms: the average delay of the throttled requests of the last 30 to 60 s | `throttle-time` |
# | total | bytes or events since a program started | counters of clients |
#
# Source: org.apache.kafka.server.quota.ClientQuotaManager, ClientRequestQuotaManager, ControllerMutationQuotaManager;
# kafka.network.ConnectionQuotas.

LONGEST_STEP_S: Final = 600.0
"""The longest time between two samples for which the later one may stand; a longer one is a gap, in which nothing is
known. It is two pushes of clients that send their metrics every five minutes (KIP-714)."""


class Attribute(StrEnum):
    """What is measured."""

    RATE = "rate"
    THROTTLE_TIME = "throttle_time"
    TOTAL = "total"

    __hash__ = str.__hash__  # Each sample asks for it with its series; that of an enum is in Python.


def broker_window_s(key: str) -> float:
    """Return how many seconds a rate of a broker covers, about."""
    known = QUOTA_KEYS.get(key)
    return known.metrics.window_s if known and known.metrics else QUOTA_WINDOW_S


class Series(NamedTuple):
    """One series: a value per time. `None` is a name that its bucket does not have, or that is not known."""

    cluster: str | None  # The name of the cluster; `None` if the source does not say
    broker: str | None  # The broker, as the source names it; `None` if it does not say, or a client measured
    key: str
    user: str | None  # The user of the bucket, decoded; `None` if the bucket has no user
    client_id: str | None  # The client-id of the bucket; `None` if the bucket has none
    ip: str | None  # The address of the bucket; `None` if the bucket has none
    instance: str | None = None
    """Which of several clients with these names measured itself; `None` if a broker measured."""
    attribute: Attribute = Attribute.RATE

    @property
    def names(self) -> dict[str, str]:
        """The names of the bucket, by entity type; an ip has one spelling."""
        ip = self.ip if self.ip is None else address_of(self.ip) or self.ip
        found = {USER: self.user, CLIENT_ID: self.client_id, IP: ip}
        return {entity_type: name for entity_type, name in found.items() if name is not None}


LONGEST_RECORD: Final = 200
"""The characters of a record that could not be read which are kept."""


class DropReason(Enum):
    """Why a sample is not in the table of usage, although it could be read. The value is shown in reports."""

    NAN = "not a number"  # The metric has no value at that time; a throttle time: nothing was throttled
    MISSING = "no value"  # As an empty cell of a CSV file, or an MBean that is not there
    OTHER_METRIC = "metrics that are not of client quotas"
    OTHER_ATTRIBUTE = "neither a rate nor a throttle time"  # But of a client quota, such as `tokens`
    BROKER_TOTAL = "of a whole broker"  # Or of a listener: of no user, client-id or ip
    DUPLICATE = "there twice"  # With the same time and value
    CONFLICT = "another value of the same time"  # And a smaller one
    FIRST_TOTAL = "first value of a counter"  # From which no rate follows
    COUNTER_RESET = "counter reset"  # The first value after a restart of what counts

    __hash__ = object.__hash__  # Of each sample that is left out; that of an enum is in Python.


_REASONS: Final = ", ".join(f"{reason.name.lower()}: {reason.value}" for reason in DropReason)
DroppedSamples: TypeAlias = Annotated[
    dict[str, Count], about(f"Numbers of samples that are not in the table, by reason. {_REASONS}.")
]


def by_reason(dropped: Mapping[DropReason, int]) -> dict[str, int]:
    """Return numbers of samples as documents have them: by the name of the reason in lower case."""
    return {reason.name.lower(): count for reason, count in dropped.items()}


def reason_text(name: str) -> str:
    """Return a reason of `by_reason` as people read it."""
    return DropReason[name.upper()].value


class Sample(NamedTuple):
    """One value of one series."""

    series: Series  # What it is about
    ts: float  # The end of what was measured, in seconds since the epoch (UTC)
    value: float  # In the unit of the attribute; finite, and not negative
    window_s: float  # How many seconds up to `ts` it covers; 0 for a total


class Dropped(NamedTuple):
    """Samples that are not for the table, and how many."""

    reason: DropReason
    samples: int


class Rejected(NamedTuple):
    """A record that could not be read."""

    position: int  # Where it begins: the line, the element or the byte, as `reason` says
    reason: str  # What is wrong, and the remedy
    record: str  # Its first 200 characters; what is not UTF-8 is escaped


Item = Sample | Dropped | Rejected


def reject(position: int, reason: str, record: object) -> Rejected:
    """Return a record that could not be read, cut to what is kept of it: text as it is, all else as JSON.

    >>> len(reject(1, "line 1: cut", "a" * 1000).record)
    200
    """
    if not isinstance(record, str):
        try:
            content = memoryview(record if isinstance(record, bytes | Raw) else encode(record, enc_hook=str))
            record = bytes(content[: 4 * LONGEST_RECORD]).decode("utf-8", "replace")
        except (RecursionError, ValueError):
            record = "(nested deeply, or not UTF-8)"
    # JSON may have halves of surrogate pairs.
    shown, why = (each.encode(errors="backslashreplace").decode() for each in (record[:LONGEST_RECORD], reason))
    return Rejected(position, why, shown[:LONGEST_RECORD])


class UsageRow(NamedTuple):
    """A row of the table of usage, in the order of its columns; `ts` is in seconds since the epoch."""

    ts: float
    window_s: float
    cluster: str | None
    broker: str | None
    key: str
    user: str | None
    client_id: str | None
    ip: str | None
    rate: float | None
    throttle_ms: float | None
    instance: str | None = None
