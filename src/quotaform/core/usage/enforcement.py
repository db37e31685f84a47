"""How brokers enforce each quota key, as far as a replay of recorded rates needs it.

| key | requests wait | what waits | longest delay |
| --- | --- | --- | --- |
| producer_byte_rate, consumer_byte_rate | while the rate of the window is over the limit | is sent later | none |
| request_percentage | likewise | is sent later | 1 s per request |
| controller_mutation_rate | while a token bucket of 11 s of the limit is overdrawn | is sent later | none |
| connection_creation_rate | while the rate of the window is over the limit | is refused, and comes again | 1 s |

The numbers are those of the defaults of `quota.window.num` and `quota.window.size.seconds`, and of the same settings of
controllers.

Source: kafka.server.ClientQuotaManager, ClientRequestQuotaManager and ControllerMutationQuotaManager;
kafka.network.ConnectionQuotas; org.apache.kafka.common.metrics.stats.TokenBucket.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from quotaform.model.quota_key import (
    CONNECTION_CREATION_RATE,
    CONSUMER_BYTE_RATE,
    CONTROLLER_MUTATION_RATE,
    PRODUCER_BYTE_RATE,
    REQUEST_PERCENTAGE,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Enforcement:
    """How brokers enforce a quota key.

    Attributes:
        burst_s: How many seconds of the limit are admitted at once, beyond those of the rate's own window.
        is_refused: Whether what is over the limit is refused: it waits as long as clients try again.
        longest_delay_s: The longest delay of one request; `None` if there is no such cap.
        answer: How large an answer is that is not sent, and does not count, unless all of it fits into the window: up
            to so much of each window stays unused. What consumers ask for of a partition, by default.
    """

    burst_s: float = 0.0
    is_refused: bool = False
    longest_delay_s: float | None = None
    answer: float = 0.0


ENFORCEMENT: Final = {
    PRODUCER_BYTE_RATE.name: Enforcement(),
    CONSUMER_BYTE_RATE.name: Enforcement(answer=2.0**20),
    REQUEST_PERCENTAGE.name: Enforcement(longest_delay_s=1.0),
    CONTROLLER_MUTATION_RATE.name: Enforcement(burst_s=11.0),
    CONNECTION_CREATION_RATE.name: Enforcement(is_refused=True, longest_delay_s=1.0),
}
"""How brokers enforce the known quota keys; a key that they do not know limits nothing."""
