"""The JSON of `quotaform explain`."""

from __future__ import annotations

from typing import Any

from quotaform.core.canonical import json_number
from quotaform.core.provenance import Explained, ExplainedKey, ExplainedText, Explanation, Step
from quotaform.document.envelope import envelope, indented
from quotaform.document.field import dump_entity, dump_location
from quotaform.model.document_kind import EXPLAIN
from quotaform.model.quota_key import QUOTA_KEYS
from quotaform.model.units import render_value


def dump_explained(explained: Explained) -> str:
    """Return an explanation as JSON."""
    fields = {
        "directory": explained.directory,
        **dump_entity(explained.entity),
        "clusters": [_dump_explanation(explanation) for explanation in explained.clusters],
    }
    return indented(envelope(EXPLAIN, fields))


def _dump_explanation(explanation: Explanation) -> dict[str, Any]:
    return {
        "cluster": explanation.cluster,
        "cause": explanation.cause.value,
        "absent": explanation.absent,
        "location": dump_location(explanation.location),
        "keys": [_dump_key(explained) for explained in explanation.keys],
        "texts": [_dump_text(text) for text in explanation.texts],
    }


def _dump_key(explained: ExplainedKey) -> dict[str, Any]:
    return {
        "key": explained.key,
        "value": json_number(explained.value),
        "display": _display(explained.key, explained.value),
        "steps": [_dump_step(explained.key, step) for step in explained.steps],
    }


def _dump_step(key: str, step: Step) -> dict[str, Any]:
    return {
        "value": json_number(step.value),
        "display": _display(key, step.value),
        "giver": step.giver.value,
        "layer": step.layer,
        "profile": step.profile,
        "location": dump_location(step.location),
    }


def _dump_text(text: ExplainedText) -> dict[str, Any]:
    return {
        "field": text.field,
        "text": text.text,
        "layer": text.layer,
        "location": dump_location(text.location),
        "replaced": text.is_replaced,
    }


def _display(key: str, value: float | None) -> str | None:
    return None if value is None else render_value(QUOTA_KEYS.get(key), value)
