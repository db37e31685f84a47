"""Helpers that build JSON Schemas as plain JSON values (draft 7)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final, TypeAlias

Node: TypeAlias = dict[str, Any]

_LARGEST_COUNT: Final = 2**53 - 1
"""The largest integer that every reader of JSON takes exactly (RFC 8259)."""


def text(description: str, *examples: str, **more: Any) -> Node:
    """Return the schema of a text."""
    return {"description": description, "type": "string", **more, **_examples(examples)}


def maybe_text(description: str, *examples: str, **more: Any) -> Node:
    """Return the schema of a text or null."""
    return {"description": description, "type": ["string", "null"], **more, **_examples(examples)}


def boolean(description: str) -> Node:
    """Return the schema of true or false."""
    return {"description": description, "type": "boolean"}


def count(description: str) -> Node:
    """Return the schema of a number of things."""
    return {"description": description, "type": "integer", "minimum": 0, "maximum": _LARGEST_COUNT}


def choice(description: str, values: Iterable[str | None]) -> Node:
    """Return the schema of one of several words."""
    return {"description": description, "enum": list(values)}


def items(description: str, item: Node, **more: Any) -> Node:
    """Return the schema of a list."""
    return {"description": description, "type": "array", "items": item, **more}


def record(description: str, fields: Mapping[str, Node], optional: Iterable[str] = ()) -> Node:
    """Return the schema of an object that quotaform writes: it has these fields, and a newer version may add some."""
    required = [name for name in fields if name not in set(optional)]
    return {"description": description, "type": "object", "required": required, "properties": dict(fields)}


def mapping(description: str, value: Node, *examples: Any, **more: Any) -> Node:
    """Return the schema of an object from any name to values of one kind."""
    return {"description": description, "type": "object", **more, "additionalProperties": value, **_examples(examples)}


def closed(description: str, fields: Mapping[str, Node], **more: Any) -> Node:
    """Return the schema of an object that people write: a field that is not listed is an error."""
    return {
        "description": description,
        "type": "object",
        **more,
        "additionalProperties": False,
        "properties": dict(fields),
    }


def ref(name: str, description: str = "") -> Node:
    """Return a reference to a shared definition, with a description of its own if there is one."""
    pointer = {"$ref": f"#/definitions/{name}"}
    # Draft 7 ignores what stands beside a $ref.
    return {"allOf": [pointer], "description": description} if description else pointer


def maybe(node: Node, description: str) -> Node:
    """Return the schema of something or null."""
    return {"description": description, "anyOf": [node, {"type": "null"}]}


def _examples(examples: Iterable[Any]) -> Node:
    listed = list(examples)
    return {"examples": listed} if listed else {}
