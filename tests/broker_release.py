"""Which release of Kafka the tests run on, and what differs there by the table of facts."""

from __future__ import annotations

from quotaform.cluster.broker import BrokerRelease
from quotaform.sandbox import Sandbox
from tools.broker_facts import FACTS


def broker_release(sandbox: Sandbox) -> BrokerRelease:
    """Return the release of a sandbox's brokers, by what was started."""
    major, minor, *_ = sandbox.release.number
    return BrokerRelease((major, minor), sandbox.release.has_zookeeper)


def holds(sandbox: Sandbox, fact: str) -> bool:
    """Return whether a fact of the table holds for a sandbox's brokers."""
    return FACTS[fact].holds(broker_release(sandbox))
