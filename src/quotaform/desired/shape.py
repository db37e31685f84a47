"""What of a file does not fit its JSON Schema, with its locations and in words."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from functools import cache, reduce
from operator import getitem
from typing import Any, Final

from quotaform.desired.schema import config, quotas
from quotaform.desired.yaml.document import Document, glued_key, taken_for
from quotaform.model import rule
from quotaform.model.finding import Finding
from quotaform.model.quota_key import QUOTA_KEYS
from quotaform.model.records.schema import Builder, make_schema, nodes_of
from quotaform.model.records.validator import Refusal, gate
from quotaform.model.rule import FindingRule
from quotaform.model.server import spell_server
from quotaform.model.text import did_you_mean, quote

NodePath = tuple[str | int, ...]
"""The keys and indexes that lead from the root of a document to a node."""


_TYPES: Mapping[str, str] = {
    "object": "a mapping",
    "array": "a list",
    "string": "text",
    "number": "a number",
    "integer": "a whole number",
    "boolean": "a boolean",
    "null": "empty",
}
_LOOKED_AT: Final = 20
"""How many unknown fields are compared with those that are missing."""
_STREAMED: Final = 2
"""How long the path of an item is that was handed over while the file was read."""
_EMPTY: Mapping[str, str] = {"array": "[]", "object": "{}"}


def check_shape(build: Builder, document: Document) -> set[NodePath]:
    """Report where and why a document does not fit its schema, as far as that is not left to code (`in_code`).

    Returns the paths of what does not fit, or is missing. Raises `StopReadingError`: there are more problems than are
    shown.
    """
    shape = gate(build, is_shape=True)
    if shape.is_valid(document.root):
        return set()
    found: set[tuple[NodePath, str]] = set()
    # The validator takes the fields of a mapping in any order.
    for refusal in sorted(shape.refusals(document.root), key=lambda refusal: _place(refusal, document)):
        for path, finding in _explain(build, refusal, document):
            if (path, finding.rule) not in found:
                found.add((path, finding.rule))
                document.add_finding(finding)
    return {path for path, _ in found}


def require_shape(build: Builder, document: Document) -> Any:
    """Return a document without what does not fit its schema, which is reported; `None` if all of it does not."""
    for path in sorted(check_shape(build, document), reverse=True):
        if not path:
            return None
        with suppress(LookupError):
            root: Any = document.root
            holder = reduce(getitem, path[:-1], root)
            del holder[path[-1]], holder.spots[path[-1]]
    return document.root


def _place(refusal: Refusal, document: Document) -> tuple[int, int]:
    at = document.locate(tuple(refusal.path)).key
    return at.line, at.column


def _finding(
    document: Document, rule: FindingRule, path: tuple[Any, ...], message: str, *, at_key: bool = False
) -> Finding:
    place = document.locate(path)
    return rule.finding(message, location=place.key if at_key else place.value)


def _explain(build: Builder, refusal: Refusal, document: Document) -> Iterator[tuple[tuple[Any, ...], Finding]]:
    path = tuple(refusal.path)
    schema = nodes_of(make_schema(build, is_shape=True), refusal.schema_path)[-1]
    if refusal.keyword == "additionalProperties":
        known = list(schema["properties"])
        for key in refusal.value:
            if key not in known:
                text = _unknown_text(key, known, build)
                yield (*path, key), _finding(document, rule.UNKNOWN_FIELD, (*path, key), text, at_key=True)
    elif refusal.keyword == "required":
        unknown = [key for key in refusal.value if key not in schema.get("properties", {})]
        key = refusal.details["property"]
        if not any(did_you_mean(other, [key]) for other in unknown[:_LOOKED_AT]):
            text = f"{_name(path, document)} has no {key}; add it"
            yield (*path, key), _finding(document, rule.MISSING_FIELD, path, text)
    elif not _is_misplaced(path, refusal.value, document):
        broken, text = _scalar_text(refusal, schema, path, document)
        yield path, _finding(document, broken, path, text)


def _is_misplaced(path: NodePath, value: Any, document: Document) -> bool:
    """Whether `values` are empty because what belongs to them is not indented, which is reported."""
    if value is not None or path[-1:] != ("values",):
        return False
    root: Any = document.root
    entry = reduce(getitem, path[:-1], root)
    return not entry.keys().isdisjoint(QUOTA_KEYS)


def _scalar_text(
    refusal: Refusal, schema: Mapping[str, Any], path: tuple[Any, ...], document: Document
) -> tuple[FindingRule, str]:
    name, raw = _name(path, document), document.locate(path).text
    examples = schema.get("examples")
    example = f"; write for example {examples[0]}" if examples and not isinstance(examples[0], dict | list) else ""
    match refusal.keyword:
        case "type":
            return rule.WRONG_TYPE, _type_text(refusal.value, schema, name, raw, is_root=not path)
        case "enum":
            words = [str(word) for word in schema["enum"]]
            guess = did_you_mean(raw, words) if raw else ""
            return rule.BAD_CHOICE, f"{name} must be {' or '.join(words)}, not {_shown(raw) if raw else 'this'}{guess}"
        case "minLength" | "minItems" | "minProperties":
            return rule.EMPTY_FIELD, f"{name} must not be empty{example}"
        case "maxItems" | "maxProperties":
            text = f"{name} contains more than the limit of {schema[refusal.keyword]:,}; remove some"
            return rule.TOO_LARGE, text
        case "minimum" | "maximum":
            text = f"{name} must be from {schema['minimum']:,} to {schema['maximum']:,}, not {refusal.value}"
            return rule.BAD_FIELD, text
        case "pattern":
            shown = _shown(refusal.value) if isinstance(refusal.value, str) else "this"
            return rule.BAD_TEXT, f"{shown} is not a valid {name}{example}"
        case _:
            return rule.BAD_FIELD, f"{name} is not valid{example}"


def _type_text(instance: Any, schema: Mapping[str, Any], name: str, raw: str | None, *, is_root: bool) -> str:
    wanted = [schema["type"]] if isinstance(schema["type"], str) else list(schema["type"])
    words = " or ".join(_TYPES[kind] for kind in wanted)
    if instance is None:
        may_be_empty = schema.keys().isdisjoint({"minItems", "minProperties", "required", "oneOf"})
        empty = _EMPTY.get(wanted[0]) if may_be_empty else None
        remedy = f"write {name}: {empty} if there are none" if empty else "add a value or remove the field"
        return f"{name} must be {words}, but it is empty; {remedy}"
    if isinstance(instance, dict | list):
        fields = schema.get("required") or list(schema.get("properties", ()))
        remedy = f"; begin with {fields[0]}:" if fields and is_root else ""
        return f"{name} must be {words}, not {'a mapping' if isinstance(instance, dict) else 'a list'}{remedy}"
    if "string" in wanted and raw is not None:
        kind = "a boolean" if isinstance(instance, bool) else "a number"
        return f"{name} must be text, but {taken_for(raw, kind)}"
    if raw is None:
        return f"{name} must be {words}, not a single value"
    remedy, first = "", raw.partition(" ")[0]
    if "object" in wanted and first != raw and first.isidentifier():
        remedy = f"; a colon is missing after {first}"
    elif isinstance(instance, str) and schema.get("items", {}).get("type") == "string":
        remedy = f"; write [{_shown(raw)}]"
    return f"{name} must be {words}, not {_shown(raw)}{remedy}"


def _shown(raw: str) -> str:
    """Return a text that is quoted, without the password of an address (`me:hunter2@b1`)."""
    login, at, _ = raw.partition("@")
    return spell_server(raw) if at and ":" in login else quote(raw)


def _unknown_text(key: str, known: list[str], build: Builder) -> str:
    if key in QUOTA_KEYS and "values" in known:
        return f"{key} is a quota key, not a field of an entry; write it below values, and indent it further"
    if glued := glued_key(key, known):
        return f"unknown field {quote(key)}; write a space after the colon of {glued}"
    guess = belonging_text(key, build) or did_you_mean(key, known) or "."
    return f"unknown field {quote(key)}{guess} The fields are {', '.join(known)}"


def _name(path: tuple[Any, ...], document: Document) -> str:
    if not path:
        return "the file"
    last = path[-1]
    if isinstance(last, str):
        return last if last.isidentifier() else quote(last)
    number = last + 1 + (document.offset if len(path) == _STREAMED else 0)
    return f"item {number} of {path[-2]}" if len(path) > 1 else f"item {number}"


_FILES: Final[dict[Builder, str]] = {config: "quotaform.yaml", quotas: "a file of quotas.d"}
"""The name of a file in messages, by its schema."""
_MOST_PLACES: Final = 2
"""A field that belongs to more places, such as `reason`, may be meant for any of them."""
_NAME: Final = "NAME"


def belonging_text(field: str, schema: Builder) -> str:
    """Say where a field belongs, to append to a message; empty when it is no field, or one of many places.

    >>> belonging_text("policies", config), belonging_text("capacity", config)
    ('; it belongs to the top of the file.', '; it belongs to clusters.NAME.')
    >>> belonging_text("profiles", quotas), belonging_text("polices", config)
    ('; it belongs to the top of quotaform.yaml.', '')

    `schema`: the schema of the file that it was found in.
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
def _places(build: Builder) -> dict[str, list[str]]:
    """Return each field of a schema with the paths of the mappings that may hold it; the path of the root is empty."""
    schema = make_schema(build)
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
