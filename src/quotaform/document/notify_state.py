"""What is remembered of clusters between runs of drift, as the file of `--notify-state` holds it."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from json import loads
from typing import Any, Final

from quotaform.core.drift.notice import ClusterMemory, Told
from quotaform.document.envelope import EnvelopeError, envelope, indented, require_kind
from quotaform.model.document_kind import NOTIFY_STATE

_UNREADABLE: Final = (ValueError, TypeError, KeyError, AttributeError, OverflowError, RecursionError)


def dump_notify_state(memories: Mapping[str, ClusterMemory]) -> str:
    """Return what is remembered, by the name of the cluster, as JSON."""
    clusters = {
        name: {
            "cluster_id": memory.cluster_id,
            "first_seen": memory.first_seen,
            "told": {
                receiver: {"fingerprint": told.fingerprint, "failure": told.is_failure}
                for receiver, told in sorted(memory.told.items())
            },
        }
        for name, memory in sorted(memories.items())
    }
    return indented(envelope(NOTIFY_STATE, {"clusters": clusters}))


def load_notify_state(text: str) -> dict[str, ClusterMemory]:
    """Return what `dump_notify_state` wrote.

    Raises:
        ValueError: It is something else.
    """
    try:
        document = require_kind(loads(text), NOTIFY_STATE)
        return {str(name): _load_memory(item) for name, item in document["clusters"].items()}
    except EnvelopeError:
        raise ValueError("it is no state of quotaform drift, or of an unknown version") from None
    except _UNREADABLE:
        raise ValueError("it is damaged") from None


def _load_memory(item: Mapping[str, Any]) -> ClusterMemory:
    return ClusterMemory(
        cluster_id=_text(item["cluster_id"]),
        first_seen=_moment(item["first_seen"]),
        told={
            str(receiver): Told(_text(told["fingerprint"]), told["failure"] is True)
            for receiver, told in item["told"].items()
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
