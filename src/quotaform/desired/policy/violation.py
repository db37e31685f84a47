"""Messages for policy violations: the value, the constraint, and the policy's own text."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from json import dumps
from typing import Any, Final

from quotaform.core.check.policy import Violation
from quotaform.desired.policy.keyword import MESSAGE
from quotaform.model.quota_key import QUOTA_KEYS
from quotaform.model.text import inert, listed, quote
from quotaform.model.units import plain, render_value
from quotaform.schema.entry import VALUES
from quotaform.schema.refusal import Refusal

_ABOUT: Final = (MESSAGE, "description", "title")
"""The keywords that describe a schema, in order of preference."""
_KINDS: Final = {"string": "text", "object": "a mapping", "array": "a list", "null": "null", "boolean": "a boolean"}
_NUMBERS: Final = {
    "maximum": "above the maximum of",
    "minimum": "below the minimum of",
    "exclusiveMaximum": "not below",
    "exclusiveMinimum": "not above",
    "multipleOf": "not a multiple of",
}
_SIZES: Final = {
    "maxLength": "has more than {} characters",
    "minLength": "has fewer than {} characters",
    "maxItems": "has more than {} items",
    "minItems": "has fewer than {} items",
    "maxProperties": "has more than {} fields",
    "minProperties": "has fewer than {} fields",
}
_LONGEST_ABOUT: Final = 500
_SHOWN: Final = 10


def violation_of(refusal: Refusal, schema: Any) -> Violation:
    """Return what is wrong, in words."""
    key = _key_of(refusal)
    about = _about(refusal, schema)
    return Violation(f"{_what(refusal)}{f': {about}' if about else ''}", key)


def _key_of(refusal: Refusal) -> str | None:
    path = refusal.path
    if path and path[0] == VALUES:
        named = path[1] if len(path) > 1 else refusal.details.get("property")
        return named if named in QUOTA_KEYS else None
    return None


def _what(refusal: Refusal) -> str:
    keyword, details, path = refusal.keyword, refusal.details, refusal.path
    name = inert(str(path[-1])) if path else "the entry"
    subject = f"{name} is {_shown(path, refusal.value)}" if path else name
    match keyword:
        case "maximum" | "minimum" | "exclusiveMaximum" | "exclusiveMinimum":
            return f"{subject}, {_NUMBERS[keyword]} {_shown(path, details['limit'])}"
        case "multipleOf":
            return f"{subject}, {_NUMBERS[keyword]} {_shown(path, details['multiple_of'])}"
        case "required":
            owner = "" if not path or path == [VALUES] else f"{name} has no "
            return f"{owner}{inert(str(details['property']))}{'' if owner else ' is not declared'}"
        case "maxItems" if path == ["unlimited"] and details["limit"] == 0:
            return f"{listed(map(str, refusal.value))} must not be unlimited"
        case "maxLength" | "minLength" | "maxItems" | "minItems" | "maxProperties" | "minProperties":
            return f"{name} {_SIZES[keyword].format(details['limit'])}"
        case "enum":
            return f"{subject}, not one of {_options(path, details['options'])}"
        case "const":
            return f"{subject}, not {_shown(path, details['expected_value'])}"
        case "type":
            kinds = " or ".join(
                _KINDS.get(kind, f"a{'n' if kind == 'integer' else ''} {kind}") for kind in details["types"]
            )
            return f"{subject}, not {kinds}"
        case "pattern":
            return f"{subject}, which does not match {quote(str(details['pattern']))}"
        case "format":
            return f"{subject}, which is not of the format {inert(str(details['format']))}"
        case "additionalProperties" | "unevaluatedProperties":
            return f"{listed(inert(str(each)) for each in details['unexpected'])} is not allowed in {name}"
        case "falseSchema" if list(refusal.schema_path[-1:]) == ["additionalProperties"]:
            return f"{name} has a field that is not allowed"
        case "falseSchema":
            return f"{name} is not allowed"
        case _:
            return f"{name} does not satisfy {inert(keyword)}"


def _options(path: Sequence[str | int], options: Sequence[Any]) -> str:
    """Return the first options of a list, which may be very long, and how many more there are."""
    return listed(chain((_shown(path, each) for each in options[:_SHOWN]), options[_SHOWN:]), _SHOWN)


def _shown(path: Sequence[str | int], value: Any) -> str:
    """Return a value of the document, or one that it is compared with: with its unit if it is that of a quota key."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        key = QUOTA_KEYS.get(str(path[-1])) if len(path) == 2 and path[0] == VALUES else None
        return plain(float(value)) if key is None else render_value(key, float(value))
    if isinstance(value, str):
        return quote(value)
    kind = "a mapping" if isinstance(value, dict) else "a list"
    return kind if isinstance(value, dict | list) else dumps(value)


def _about(refusal: Refusal, schema: Any) -> str:
    """Return what the policy says about a keyword: the text that is nearest to it, through references if need be."""
    written = _nodes(schema, refusal.schema_path)
    used = _nodes(schema, refusal.used_path)
    for node in (*reversed(written[1:]), *reversed(used)):
        for keyword in _ABOUT:
            text = node.get(keyword)
            if isinstance(text, str) and text.strip():
                return inert(text.strip().rstrip(".")[:_LONGEST_ABOUT])
    return ""


def _nodes(schema: Any, path: Sequence[str | int]) -> list[dict[str, Any]]:
    """Return the mappings on the way to a keyword, as far as there is one."""
    here, nodes = schema, []
    for step in path:
        if isinstance(here, dict) and step in here:
            nodes.append(here)
            here = here[step]
        elif isinstance(here, list) and isinstance(step, int) and step < len(here):
            here = here[step]
        else:
            break
    return nodes
