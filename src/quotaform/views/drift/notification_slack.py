"""A notification about drift as the incoming webhooks of Slack, Mattermost and Rocket.Chat take it."""

from __future__ import annotations

from collections.abc import Iterator
from json import dumps
from typing import Final

from quotaform.core.drift.drift import Drift
from quotaform.core.drift.drifted import DriftedEntity
from quotaform.core.drift.notification import Notification, NotificationEvent
from quotaform.model.entity import spell_name
from quotaform.model.text import inert
from quotaform.views.drift.drift_text import summary_line
from quotaform.views.plan.effect_text import value_text

MOST_ITEMS: Final = 10
"""How many entities a message lists."""
_LONGEST: Final = 300
"""How many characters of a line of foreign text are shown."""
_HEADINGS: Final = {
    NotificationEvent.DETECTED: "Kafka quotas of {} have drifted",
    NotificationEvent.CHANGED: "The drift of Kafka quotas of {} has changed",
    NotificationEvent.RESOLVED: "Kafka quotas of {} are in sync",
    NotificationEvent.CHECK_FAILED: "Kafka quotas of {} could not be checked for drift",
}
_SPECIAL: Final = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;", "@": "@\u200b"})


def render_slack(notification: Notification) -> str:
    """Return a notification as a JSON message with one text, in which no name mentions anybody."""
    return dumps({"text": "\n".join(_lines(notification))})


def harmless(text: str) -> str:
    """Return a text in which nothing is a mention, a link or a special character.

    >>> harmless("<!channel> @here")
    '&lt;!channel&gt; @\\u200bhere'
    """
    shown = inert(text)
    return (shown if len(shown) <= _LONGEST else f"{shown[:_LONGEST]}…").translate(_SPECIAL)


def _lines(notification: Notification) -> Iterator[str]:
    yield _HEADINGS[notification.event].format(harmless(spell_name(notification.cluster)))
    drift = notification.drift
    if drift is None:
        yield harmless(notification.error or "")
    else:
        yield from _drift_lines(drift)
    if notification.first_seen is not None:
        yield f"First seen {harmless(notification.first_seen)}"
    if notification.run is not None:
        yield harmless(notification.run)


def _drift_lines(drift: Drift) -> Iterator[str]:
    yield summary_line(drift.summary, drift.in_sync, pending=len(drift.pending), ignored=drift.ignored_entities)
    for drifted in drift.entities[:MOST_ITEMS]:
        yield f"• {drifted.drift_class.value}: {harmless(drifted.entity.address)} {_values(drifted)}"
    if len(drift.entities) > MOST_ITEMS:
        yield f"… and {len(drift.entities) - MOST_ITEMS:,} more"


def _values(drifted: DriftedEntity) -> str:
    parts = []
    for change in drifted.changes[:MOST_ITEMS]:
        agreed = drifted.agreed(change)
        live, wanted = (
            "not set" if value is None else harmless(value_text(change.key, value)) for value in (change.before, agreed)
        )
        parts.append(f"{harmless(spell_name(change.key))} {live}, agreed {wanted}")
    return f"({'; '.join(parts)})"
