"""What one series of measurements is about, whatever program recorded it.

| attribute | unit | metric |
| --- | --- | --- |
| rate | that of the quota key: B/s, % of one thread, partitions/s, connections/s | `byte-rate` and others |
| throttle_time | ms: the average delay of the throttled requests of the last 30 to 60 s | `throttle-time` |
| total | bytes or events since a program started | counters of clients |

Source: org.apache.kafka.server.quota.ClientQuotaManager, ClientRequestQuotaManager, ControllerMutationQuotaManager;
kafka.network.ConnectionQuotas.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final, NamedTuple

from quotaform.model.quota_key import CONTROLLER_MUTATION_RATE

QUOTA_WINDOW_S: Final = 11.5
"""Seconds that a rate of a broker covers: between 11 and 12 with the defaults of `quota.window.num` and
`quota.window.size.seconds`, as the current window has begun but not ended, and one whose last request is less than 11 s
old counts as a whole; between 10 and 11 for the first seconds after a time without requests, and before Kafka 3.8.

Source: org.apache.kafka.common.metrics.stats.Rate and SampledStat.
"""

MUTATION_WINDOW_S: Final = 60.0
"""Seconds that a mutation rate of a broker covers: between 30 and 90 with the defaults of `metrics.num.samples` and
`metrics.sample.window.ms`, as it is not measured by the windows of quotas.

Source: kafka.server.ControllerMutationQuotaManager.
"""

LONGEST_STEP_S: Final = 600.0
"""The longest time between two samples for which the later one may stand; a longer one is a gap, in which nothing is
known. It is two pushes of clients that send their metrics every five minutes (KIP-714)."""


class Attribute(StrEnum):
    """What is measured."""

    RATE = "rate"
    THROTTLE_TIME = "throttle_time"
    TOTAL = "total"


def broker_window_s(key: str) -> float:
    """Return how many seconds a rate of a broker covers, about.

    >>> broker_window_s("producer_byte_rate"), broker_window_s("controller_mutation_rate")
    (11.5, 60.0)
    """
    return MUTATION_WINDOW_S if key == CONTROLLER_MUTATION_RATE.name else QUOTA_WINDOW_S


class Series(NamedTuple):
    """One series: a value per time.

    Attributes:
        cluster: The name of the cluster; `None` if the source does not say.
        broker: The broker, as the source names it; `None` if it does not say, or a client measured.
        user: The user of the bucket, decoded; `None` if the bucket has no user.
        client_id: The client-id of the bucket; `None` if the bucket has none.
        ip: The address of the bucket; `None` if the bucket has none.
        instance: Which of several clients with these names measured itself; `None` if a broker measured.
    """

    cluster: str | None
    broker: str | None
    key: str
    user: str | None
    client_id: str | None
    ip: str | None
    attribute: Attribute
    instance: str | None = None
