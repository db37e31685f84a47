"""Settings of brokers that tests hurt."""

from __future__ import annotations

from typing import Final

SHORT_SESSIONS: Final = {"broker.session.timeout.ms": "3000", "broker.heartbeat.interval.ms": "500"}
"""A broker that was killed may register again only when its old session is over: 9 seconds by default."""
