"""The state of notifications between runs of drift, stored in the file of `--notify-state`."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from json import loads
from typing import Any, Final

from quotaform.core.drift.notification import ClusterState, Notified
from quotaform.document.envelope import EnvelopeError, envelope, indented, require_kind
from quotaform.model.document_kind import NOTIFY_STATE

_UNREADABLE: Final = (ValueError, TypeError, KeyError, AttributeError, OverflowError, RecursionError)


def dump_notify_state(states: Mapping[str, ClusterState]) -> str:
    """Return what is remembered, by the name of the cluster, as JSON."""
    clusters = {
        name: {
            "cluster_id": state.cluster_id,
            "first_seen": state.first_seen,
            "told": {
                receiver: {"fingerprint": last.fingerprint, "failure": last.is_failure}
                for receiver, last in sorted(state.notified.items())
            },
        }
        for name, state in sorted(states.items())
    }
    return indented(envelope(NOTIFY_STATE, {"clusters": clusters}))


def load_notify_state(text: str) -> dict[str, ClusterState]:
    """Return what `dump_notify_state` wrote. Raises `ValueError` if it is something else."""
    try:
        document = require_kind(loads(text), NOTIFY_STATE)
        return {str(name): _load_state(item) for name, item in document["clusters"].items()}
    except EnvelopeError:
        raise ValueError("it is not a state file of quotaform drift, or has an unknown version") from None
    except _UNREADABLE:
        raise ValueError("it is damaged") from None


def _load_state(item: Mapping[str, Any]) -> ClusterState:
    return ClusterState(
        cluster_id=_text(item["cluster_id"]),
        first_seen=_moment(item["first_seen"]),
        notified={
            str(receiver): Notified(_text(last["fingerprint"]), last["failure"] is True)
            for receiver, last in item["told"].items()
        },
    )


def _moment(value: object) -> str | None:
    text = _text(value)
    if text is not None:
        datetime.fromisoformat(text)
    return text


def _text(value: object) -> str | None:
    if value is not None and not isinstance(value, str):
        raise TypeError
    return value
