"""Whether a document has the shape that its JSON Schema asks for, and in words why not."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from quotaform.core.check import rule
from quotaform.desired.report import FileReport
from quotaform.desired.yaml.document import Document
from quotaform.model.finding import Finding
from quotaform.model.rule import FindingRule
from quotaform.model.text import did_you_mean, quote
from quotaform.schema.validator import explainer, gate

_TYPES: Mapping[str, str] = {
    "object": "a mapping",
    "array": "a list",
    "string": "text",
    "number": "a number",
    "integer": "a whole number",
    "boolean": "true or false",
    "null": "empty",
}
_COMPOSITE = frozenset({"anyOf", "oneOf", "not", "if", "dependencies"})
_EMPTY: Mapping[str, str] = {"array": "[]", "object": "{}"}


def has_shape(name: str, document: Document) -> bool:
    """Whether a document fits its schema."""
    return gate(name).is_valid(document.root)


def explain_shape(name: str, report: FileReport, refusals: Mapping[str, str] | None = None) -> list[Finding]:
    """Say where and why a document does not fit its schema.

    Args:
        name: The schema.
        report: What was already found; parts that it covers are left out, so that one mistake is one problem.
        refusals: Messages for fields of the root that are not unknown but refused.

    Returns:
        At least one problem if nothing was found before.
    """
    errors = list(explainer(name).iter_errors(report.document.root))
    found: dict[tuple[Any, ...], Finding] = {}
    for error in errors:
        if error.validator not in _COMPOSITE:
            for path, finding in _explain(error, report, refusals or {}):
                found.setdefault((path, finding.rule), finding)
    if not found and not report.covered:
        for error in errors:
            path = tuple(error.absolute_path)
            found.setdefault((path, rule.BAD_SHAPE.id), _finding(report, rule.BAD_SHAPE, path, _composite_text(path)))
    if not found and not report.covered:
        found[()] = _finding(report, rule.BAD_SHAPE, (), "this is not what the schema asks for")
    return list(found.values())


def _finding(
    report: FileReport, rule: FindingRule, path: tuple[Any, ...], message: str, *, at_key: bool = False
) -> Finding:
    place = report.document.locate(path)
    return rule.finding(message, location=place.key if at_key else place.value)


def _explain(error: Any, report: FileReport, refusals: Mapping[str, str]) -> Iterator[tuple[tuple[Any, ...], Finding]]:
    path = tuple(error.absolute_path)
    schema: Any = error.schema
    if error.validator == "additionalProperties":
        known = list(schema["properties"])
        for key in error.instance:
            if key not in known and not report.covers((*path, key)):
                message = refusals.get(key) if not path else None
                broken = rule.UNSUPPORTED if message else rule.UNKNOWN_FIELD
                text = message or _unknown_text(key, known)
                yield (*path, key), _finding(report, broken, (*path, key), text, at_key=True)
        return
    if report.covers(path):
        return
    if error.validator == "required":
        unknown = [key for key in error.instance if key not in schema.get("properties", {})]
        for key in error.validator_value:
            is_misspelt = any(did_you_mean(other, [key]) for other in unknown)
            if key not in error.instance and not is_misspelt and not report.covers((*path, key)):
                text = f"{_name(path)} has no {key}; it must have one"
                yield (*path, key), _finding(report, rule.MISSING_FIELD, path, text)
        return
    broken, text = _scalar_text(error, path, report)
    yield path, _finding(report, broken, path, text)


def _scalar_text(error: Any, path: tuple[Any, ...], report: FileReport) -> tuple[FindingRule, str]:
    name, schema = _name(path), error.schema
    examples = schema.get("examples") if isinstance(schema, dict) else None
    example = f"; write for example {examples[0]}" if examples and not isinstance(examples[0], dict | list) else ""
    shown = quote(error.instance) if isinstance(error.instance, str) else "this"
    match error.validator:
        case "type":
            return rule.WRONG_TYPE, _type_text(error, name, report.document.locate(path).text)
        case "enum":
            words = [str(word) for word in error.validator_value]
            raw = report.document.locate(path).text
            guess = did_you_mean(raw, words) if raw else ""
            return rule.BAD_CHOICE, f"{name} must be {' or '.join(words)}, not {quote(raw) if raw else 'this'}{guess}"
        case "minLength" | "minItems" | "minProperties":
            return rule.EMPTY_FIELD, f"{name} must not be empty{example}"
        case "pattern":
            return rule.BAD_TEXT, f"{shown} is not a valid {name}{example}"
        case _:
            return rule.BAD_FIELD, f"{name} is not valid{example}"


def _type_text(error: Any, name: str, raw: str | None) -> str:
    wanted = [error.validator_value] if isinstance(error.validator_value, str) else list(error.validator_value)
    words = " or ".join(_TYPES[kind] for kind in wanted)
    instance = error.instance
    if instance is None:
        may_be_empty = error.schema.keys().isdisjoint({"minItems", "minProperties", "required", "oneOf"})
        empty = _EMPTY.get(wanted[0]) if may_be_empty else None
        remedy = f"write {name}: {empty} if there are none" if empty else "write something or leave it out"
        return f"{name} must be {words}, but nothing is written here; {remedy}"
    if isinstance(instance, dict | list):
        return f"{name} must be {words}, not {'a mapping' if isinstance(instance, dict) else 'a list'}"
    if "string" in wanted and raw is not None:
        kind = "true or false" if isinstance(instance, bool) else "a number"
        return f'{name} must be text, and YAML reads {raw} as {kind}; write "{raw}"'
    return f"{name} must be {words}, not {quote(raw) if raw is not None else 'a single value'}"


def _unknown_text(key: str, known: list[str]) -> str:
    return f"unknown field {quote(key)}{did_you_mean(key, known) or '.'} The fields here are {', '.join(known)}"


def _composite_text(path: tuple[Any, ...]) -> str:
    return f"{_name(path)} is not what the schema asks for"


def _name(path: tuple[Any, ...]) -> str:
    if not path:
        return "the file"
    last = path[-1]
    if isinstance(last, str):
        return last if last.isidentifier() else quote(last)
    return f"item {last + 1} of {path[-2]}" if len(path) > 1 else f"item {last + 1}"
