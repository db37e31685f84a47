"""What of a file does not fit its JSON Schema, with its locations and in words."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from functools import reduce
from operator import getitem
from typing import Any

from quotaform.desired.schema import config, quotas
from quotaform.desired.yaml.document import Document, glued_key, taken_for
from quotaform.model import rule
from quotaform.model.finding import Finding
from quotaform.model.quota_key import QUOTA_KEYS
from quotaform.model.records.schema import Builder, gate, make_schema, nodes_of, refusals
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


def check_shape(build: Builder, document: Document) -> set[NodePath]:
    """Report where and why a document does not fit a schema, but for what is left to code (`in_code`).

    Returns the paths of what does not fit or is missing. Raises `StopReadingError` if there are more problems than are
    shown.
    """
    shape = gate(build, is_shape=True)
    if shape.is_valid(document.root):
        return set()
    found: set[tuple[NodePath, str]] = set()
    # The validator takes the fields of a mapping in any order.
    for place, refusal in sorted(refusals(shape, document.root), key=lambda each: document.locate(each[0]).key):
        for path, finding in _explain(build, place, refusal, document):
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


def _explain(build: Builder, path: NodePath, refusal: Any, document: Document) -> Iterator[tuple[NodePath, Finding]]:
    keyword, value, place = refusal.kind.name, refusal.instance, document.locate(path).value
    schema = nodes_of(make_schema(build, is_shape=True), refusal.schema_path)[-1]
    if keyword == "additionalProperties":
        known = list(schema["properties"])
        for key in value:
            if key not in known:
                text, place = _unknown_text(key, known, build), document.locate((*path, key)).key
                yield (*path, key), rule.UNKNOWN_FIELD.finding(text, location=place)
    elif keyword == "required":
        unknown = [key for key in value if key not in schema.get("properties", {})]
        key = refusal.kind.as_dict()["property"]
        if not any(did_you_mean(other, [key]) for other in unknown[:20]):
            text = f"{_name(path, document)} has no {key}; add it"
            yield (*path, key), rule.MISSING_FIELD.finding(text, location=place)
    else:
        root: Any = document.root
        if path[-1:] == ("values",) and value is None and reduce(getitem, path[:-1], root).keys() & QUOTA_KEYS:
            return  # What belongs to them is not indented, which is reported.
        broken, text = _scalar_text(keyword, value, schema, path, document)
        yield path, broken.finding(text, location=place)


def _scalar_text(
    keyword: str, value: Any, schema: Mapping[str, Any], path: NodePath, document: Document
) -> tuple[FindingRule, str]:
    name, raw = _name(path, document), document.locate(path).text
    examples = schema.get("examples")
    example = f"; write for example {examples[0]}" if examples and not isinstance(examples[0], dict | list) else ""
    match keyword:
        case "type":
            return rule.WRONG_TYPE, _type_text(value, schema, name, raw, is_root=not path)
        case "enum":
            words = [str(word) for word in schema["enum"]]
            guess = did_you_mean(raw, words) if raw else ""
            return rule.BAD_CHOICE, f"{name} must be {' or '.join(words)}, not {_shown(raw) if raw else 'this'}{guess}"
        case "minLength" | "minItems" | "minProperties":
            return rule.EMPTY_FIELD, f"{name} must not be empty{example}"
        case "maxItems" | "maxProperties":
            text = f"{name} contains more than the limit of {schema[keyword]:,}; remove some"
            return rule.TOO_LARGE, text
        case "minimum" | "maximum":
            text = f"{name} must be from {schema['minimum']:,} to {schema['maximum']:,}, not {value}"
            return rule.BAD_FIELD, text
        case "pattern":
            shown = _shown(value) if isinstance(value, str) else "this"
            return rule.BAD_TEXT, f"{shown} is not a valid {name}{example}"
        case _:
            return rule.BAD_FIELD, f"{name} is not valid{example}"


def _type_text(instance: Any, schema: Mapping[str, Any], name: str, raw: str | None, *, is_root: bool) -> str:
    wanted = [schema["type"]] if isinstance(schema["type"], str) else list(schema["type"])
    words = " or ".join(_TYPES[kind] for kind in wanted)
    if instance is None:
        may_be_empty = schema.keys().isdisjoint({"minItems", "minProperties", "required", "oneOf"})
        empty = {"array": "[]", "object": "{}"}.get(wanted[0]) if may_be_empty else None
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
    guess = _belonging_text(key, build) or did_you_mean(key, known) or "."
    return f"unknown field {quote(key)}{guess} The fields are {', '.join(known)}"


def _name(path: tuple[Any, ...], document: Document) -> str:
    if not path:
        return "the file"
    last = path[-1]
    if isinstance(last, str):
        return last if last.isidentifier() else quote(last)
    # Items that were handed over before, while the file was read, count, too.
    number = last + 1 + (document.offset if len(path) == 2 else 0)
    return f"item {number} of {path[-2]}" if len(path) > 1 else f"item {number}"


def _belonging_text(field: str, build: Builder) -> str:
    """Say where a field belongs that this schema or another one has elsewhere; empty when it may be anywhere."""
    files: dict[Builder, str] = {config: "quotaform.yaml", quotas: "a file of quotas.d"}
    for other in sorted(files, key=lambda each: each is not build):
        schema = make_schema(other)
        places = dict.fromkeys(_places(schema, schema["definitions"], field))
        if 0 < len(places) <= 2:
            return f"; it belongs to {' or '.join(places)} of {files[other]}."
    return ""


def _places(node: Any, definitions: dict[str, Any], field: str, path: str = "") -> Iterator[str]:
    if "$ref" in node:
        node = definitions[node["$ref"].rpartition("/")[2]]
    if field in node.get("properties", ()):
        yield path or "the top"
    parts = [(path, inner) for inner in (*node.get("allOf", ()), *node.get("anyOf", ()), node.get("items"))]
    parts += [(f"{path}.{name}", inner) for name, inner in node.get("properties", {}).items()]
    parts.append((f"{path}.NAME", node.get("additionalProperties")))
    for inner_path, inner in parts:
        if isinstance(inner, dict):
            yield from _places(inner, definitions, field, inner_path.removeprefix("."))
