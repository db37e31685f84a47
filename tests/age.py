"""Which age of Kafka the tests run on, and what differs there by the table of facts."""

from __future__ import annotations

from quotaform.cluster.age import FACTS, Age
from quotaform.sandbox import Sandbox


def age_of(sandbox: Sandbox) -> Age:
    """Return the age of a sandbox's brokers, by what was started."""
    major, minor, *_ = sandbox.release.number
    return Age((major, minor), sandbox.release.has_zookeeper)


def holds(sandbox: Sandbox, fact: str) -> bool:
    """Return whether a fact of the table holds for a sandbox's brokers."""
    return FACTS[fact].holds(age_of(sandbox))
