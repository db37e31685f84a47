"""Finds where a misplaced field belongs: another part of its file, or another kind of file."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any, Final

from quotaform.schema.catalog import load_schema

_FILES: Final = {"config": "quotaform.yaml", "quotas": "a file of quotas.d"}
"""The name of a file in messages, by the name of its schema."""
_MOST_PLACES: Final = 2
"""A field that belongs to more places, such as `reason`, may be meant for any of them."""
_NAME: Final = "NAME"


def belonging_text(field: str, schema: str) -> str:
    """Say where a field belongs, to append to a message; empty when it is no field, or one of many places.

    >>> belonging_text("policies", "config"), belonging_text("capacity", "config")
    ('; it belongs to the top of the file.', '; it belongs to clusters.NAME.')
    >>> belonging_text("profiles", "quotas"), belonging_text("polices", "config")
    ('; it belongs to the top of quotaform.yaml.', '')

    Args:
        schema: The schema of the file that it was found in.
    """
    others = [name for name in _FILES if name != schema]
    for name in (schema, *others):
        if places := _places(name).get(field):
            if len(places) > _MOST_PLACES:
                return ""
            file = "the file" if name == schema else _FILES[name]
            words = [
                f"{place}{'' if name == schema else f' in {file}'}" if place else f"the top of {file}"
                for place in places
            ]
            return f"; it belongs to {' or '.join(words)}."
    return ""


@cache
def _places(name: str) -> dict[str, list[str]]:
    """Return each field of a schema with the paths of the mappings that may hold it; the path of the root is empty."""
    schema = load_schema(name)
    places: dict[str, list[str]] = {}
    for field, path in _fields(schema, schema["definitions"], ()):
        if path not in places.setdefault(field, []):
            places[field].append(path)
    return places


def _fields(node: Any, definitions: dict[str, Any], path: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    if "$ref" in node:
        node = definitions[node["$ref"].rpartition("/")[2]]
    for inner in (*node.get("allOf", ()), *node.get("anyOf", ())):
        yield from _fields(inner, definitions, path)
    for field, inner in node.get("properties", {}).items():
        yield field, ".".join(path)
        yield from _fields(inner, definitions, (*path, field))
    if isinstance(node.get("items"), dict):
        yield from _fields(node["items"], definitions, path)
    if isinstance(node.get("additionalProperties"), dict):
        yield from _fields(node["additionalProperties"], definitions, (*path, _NAME))
