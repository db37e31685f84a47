"""What the newest brokers refuse and others accept or keep as something else: it is refused before anything is sent.

An upgrade is when such values bite: a broker that has them shows them, and every later change of the entity fails.
"""

from __future__ import annotations

from math import floor
from typing import Final

from quotaform.cluster.age import FACTS, Age
from quotaform.model.alteration import Alteration
from quotaform.model.entity import IP
from quotaform.model.quota_key import QUOTA_KEYS, NumberKind
from quotaform.model.scram import ScramMechanism

_TOLERANCE: Final = 1e-6
"""How far above a whole number a value of a LONG or INT key may be (`ClientQuotaControlManager`, Kafka 4)."""

_FOREIGN: Final = frozenset(ScramMechanism)


def refusal_of(alteration: Alteration, age: Age) -> str | None:
    """Return why an alteration must not be sent to a broker, in the words of Kafka 4; `None` if it may be.

    What all brokers refuse themselves is left to them.
    """
    if age.has_zookeeper and ":" in (address := alteration.entity.names.get(IP) or ""):
        return f"{address} is an IPv6 address; {FACTS['ipv6'].remedy}."
    for key, value in alteration.ops.items():
        if value is None:
            continue
        if key in _FOREIGN:
            return f"Invalid configuration key {key}"
        known = QUOTA_KEYS.get(key)
        if known is None or not known.fits(alteration.entity):
            continue
        if value <= 0:
            return f"Quota {key} must be greater than 0"
        if not known.is_whole:
            continue
        if value > known.maximum:
            kind = "a LONG" if known.kind is NumberKind.LONG else "an INT"
            return f"Proposed value for {key} is too large for {kind}."
        if value - floor(value) > (0.0 if age.has_zookeeper else _TOLERANCE):
            return f"{key} cannot be a fractional value."
    return None
