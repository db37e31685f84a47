"""What tests on brokers have in common."""

from __future__ import annotations

from time import monotonic, sleep
from typing import Final

from quotaform import Entity, EntityFilter, QuotaAdmin
from quotaform.model.quotas import Quotas
from tests.waiting import PATIENCE

SHORT_SESSIONS: Final = {"broker.session.timeout.ms": "3000", "broker.heartbeat.interval.ms": "500"}
"""A broker that was killed may register again only when its old session is over: 9 seconds by default."""


def strictly(admin: QuotaAdmin, entity: Entity) -> Quotas:
    """Describe one entity alone."""
    return admin.describe(EntityFilter.contains_only(entity.names))


def wait_for(admin: QuotaAdmin, quotas: Quotas) -> None:
    """Wait until a cluster has just these quotas: accepted changes show with a delay."""
    deadline = monotonic() + PATIENCE
    while (live := admin.describe()) != quotas and monotonic() < deadline:
        sleep(0.01)
    assert live == quotas
