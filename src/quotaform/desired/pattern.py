"""Reads an entity pattern in quotaform.yaml."""

from __future__ import annotations

from typing import Any

from quotaform.core.check import rule
from quotaform.core.scope import Pattern, pattern_problem
from quotaform.desired.report import Part
from quotaform.model.entity import DEFAULT_WORD, ENTITY_TYPES


def read_pattern(node: dict[str, Any], part: Part) -> Pattern:
    """Return a pattern; the schema reports values that are not text."""
    parts: list[tuple[str, str | None]] = []
    for entity_type in ENTITY_TYPES:
        name = node.get(entity_type)
        if isinstance(name, str):
            if problem := pattern_problem(name):
                part.at(entity_type).add(rule.TOO_LARGE, f"{problem}; shorten it", node, entity_type)
            parts.append((entity_type, None if name == DEFAULT_WORD else name))
    return Pattern(tuple(parts))
