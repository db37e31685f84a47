"""Reads and evaluates a policy file; says what violates it in words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain
from json import JSONDecodeError, dumps, loads
from math import isfinite
from time import thread_time
from typing import TYPE_CHECKING, Any, Final

from quotaform.desired.policy.policy import SlowPolicyError, Violation
from quotaform.desired.policy.shape import DRAFTS, MATCH, MESSAGE, MOST_STEPS, Draft, JsonPath, ShapeCheck, ShapeProblem
from quotaform.desired.schema import VALUES
from quotaform.desired.tree import SourceFile, decode
from quotaform.desired.yaml.reader import read_document
from quotaform.model import rule
from quotaform.model.entity import DEFAULT_WORD, ENTITY_TYPES, Entity
from quotaform.model.finding import Finding, Location
from quotaform.model.finding_list import MAX_PROBLEMS
from quotaform.model.quota_key import QUOTA_KEYS
from quotaform.model.records.document import ConstantError, RepeatedNameError, refuse_constant, refuse_repeated
from quotaform.model.records.schema import nodes_of
from quotaform.model.records.validator import PolicySchemaError, Refusal, make_policy_gate
from quotaform.model.scope import FULL_SCOPE, MOST_PATTERNS, Pattern, Scope, pattern_problem
from quotaform.model.text import did_you_mean, inert, listed, quote
from quotaform.model.units import plain, render_value

if TYPE_CHECKING:
    from quotaform.model.records.validator import Gate

_ABOUT: Final = (MESSAGE, "description", "title")
"""The keywords that describe a schema, in order of preference."""
_KINDS: Final = {"string": "text", "object": "a mapping", "array": "a list", "null": "null", "boolean": "a boolean"}
_BOUNDS: Final = {
    "maximum": "{subject}, above the maximum of {limit}",
    "minimum": "{subject}, below the minimum of {limit}",
    "exclusiveMaximum": "{subject}, not below {limit}",
    "exclusiveMinimum": "{subject}, not above {limit}",
    "maxLength": "{name} has more than {limit} characters",
    "minLength": "{name} has fewer than {limit} characters",
    "maxItems": "{name} has more than {limit} items",
    "minItems": "{name} has fewer than {limit} items",
    "maxProperties": "{name} has more than {limit} fields",
    "minProperties": "{name} has fewer than {limit} fields",
}
_LONGEST_ABOUT: Final = 500
_SHOWN: Final = 10


def violation_of(refusal: Refusal, schema: Any) -> Violation:
    """Return what is wrong, in words, and the quota key that it is about."""
    key = None
    if refusal.path and refusal.path[0] == VALUES:
        key = refusal.path[1] if len(refusal.path) > 1 else refusal.details.get("property")
    about = _about(refusal, schema)
    return Violation(f"{_what(refusal)}{f': {about}' if about else ''}", key if key in QUOTA_KEYS else None)


def _what(refusal: Refusal) -> str:
    keyword, details, path = refusal.keyword, refusal.details, refusal.path
    name = inert(str(path[-1])) if path else "the entry"
    subject = f"{name} is {_shown(path, refusal.value)}" if path else name
    match keyword:
        case "maxItems" if path == ["unlimited"] and details["limit"] == 0:
            return f"{listed(map(str, refusal.value))} must not be unlimited"
        case _ if keyword in _BOUNDS:
            return _BOUNDS[keyword].format(subject=subject, name=name, limit=_shown(path, details["limit"]))
        case "multipleOf":
            return f"{subject}, not a multiple of {_shown(path, details['multiple_of'])}"
        case "required":
            owner = "" if not path or path == [VALUES] else f"{name} has no "
            return f"{owner}{inert(str(details['property']))}{'' if owner else ' is not declared'}"
        case "enum":
            # There may be very many.
            options = details["options"]
            shown = chain((_shown(path, each) for each in options[:_SHOWN]), options[_SHOWN:])
            return f"{subject}, not one of {listed(shown, _SHOWN)}"
        case "const":
            return f"{subject}, not {_shown(path, details['expected_value'])}"
        case "type":
            kinds = (_KINDS.get(kind, f"a{'n' if kind == 'integer' else ''} {kind}") for kind in details["types"])
            return f"{subject}, not {' or '.join(kinds)}"
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
    written = nodes_of(schema, refusal.schema_path)
    used = nodes_of(schema, refusal.used_path)
    for node in (*reversed(written[1:]), *reversed(used)):
        for keyword in _ABOUT:
            text = node.get(keyword)
            if isinstance(text, str) and text.strip():
                return inert(text.strip().rstrip(".")[:_LONGEST_ABOUT])
    return ""


MOST_SECONDS: Final = 10.0
"""The time limit of a policy in seconds, plus a millisecond per entry; 10,000 entries take some 10 ms."""
_MOST_VIOLATIONS: Final = 10
"""The limit on violations shown for one entry and policy."""
_LONGEST_REASON: Final = 200


class Policy:
    """A policy that is a JSON Schema."""

    def __init__(self, name: str, schema: Any, scope: Scope, gate: Gate, seconds: float = MOST_SECONDS) -> None:
        self.name = name  # its file, as messages name it
        self._schema, self._scope, self._gate = schema, scope, gate
        self._left = seconds

    def violations(self, entity: Entity, document: Mapping[str, Any]) -> Sequence[Violation]:
        """Return the violations in the document of an entry, usually none, and none if it doesn't apply to the entity.

        Raises `SlowPolicyError` if all entries together take too long, messages included.
        """
        begin = thread_time()
        found: Sequence[Violation] = ()
        if self._scope.contains(entity) and not self._gate.is_valid(document):
            found = [violation_of(refusal, self._schema) for refusal in self._gate.refusals(document, _MOST_VIOLATIONS)]
            found = found or [Violation("the policy rejects the entry")]
        self._left -= thread_time() - begin - 0.001
        if self._left < 0:
            raise SlowPolicyError(MOST_SECONDS)
        return found


def read_policy(source: SourceFile, room: int = MOST_STEPS) -> tuple[Policy | None, list[Finding], int]:
    """Read a policy; never raises, whatever it contains.

    `room`: how many schemas and listed values the policies of the repository may still ask of an entry.

    Returns the policy, unless anything is wrong; what is wrong; how many schemas and values it asks of an entry.
    """
    text = decode(source)
    if isinstance(text, Finding):
        return None, [text], 0
    place, problem, schema = Location(source.name), "", None
    try:
        schema = loads(
            text,
            object_pairs_hook=refuse_repeated,
            parse_constant=refuse_constant,
            parse_float=_float,
            parse_int=lambda digits: int(digits) if len(digits) <= 20 else _float(digits),
        )
    except JSONDecodeError as error:
        place = Location(source.name, error.lineno, error.colno)
        problem = f"a policy is JSON, and this is not: {error.msg}"
    except RecursionError:
        problem = "it is nested too deeply"
    except RepeatedNameError as error:
        problem = f"the field {quote(error.name)} is written twice in one object; remove one of the two"
    except ConstantError as error:
        problem = f"{error} is not JSON; write a number"
    except OverflowError as error:
        problem = f"{quote(str(error))} is too large a number"
    if problem:
        return None, [rule.BAD_POLICY.finding(problem, location=place)], 0
    policy, problems, steps = _check(source.name, schema, room)
    if policy is not None:
        return policy, [], steps
    places = read_document(source.name, text)  # JSON is YAML
    shown = [(each.text, places.locate(each.path).key) for each in problems[: MAX_PROBLEMS + 1]]
    return None, [rule.BAD_POLICY.finding(problem, location=place) for problem, place in shown], 0


def _float(text: str) -> float:
    number = float(text)
    if not isfinite(number):
        raise OverflowError(text)
    return number


def _check(name: str, schema: Any, room: int) -> tuple[Policy | None, list[ShapeProblem], int]:
    if not isinstance(schema, dict):
        return None, [ShapeProblem((), "a policy must be a JSON Schema object: {...}")], 0
    named = schema.get("$schema", "https://json-schema.org/draft/2020-12/schema")
    draft = DRAFTS.get(named.rstrip("#")) if isinstance(named, str) else None
    if draft is None:
        shown = quote(named) if isinstance(named, str) else "this"
        text = f"{shown} is not a supported version of JSON Schema; write {' or '.join(map(quote, DRAFTS))}"
        return None, [ShapeProblem(("$schema",), text)], 0
    checked = ShapeCheck(schema, draft)
    scope, problems = _read_match(schema)
    problems += checked.problems
    if not problems and checked.steps > room:
        text = f"the policies ask for more than {MOST_STEPS:,} subschemas and listed values per entry; simplify them"
        problems = [ShapeProblem((), text)]
    if problems:
        return None, problems, 0
    try:
        return Policy(name, schema, scope, make_policy_gate(schema, is_old=draft is Draft.DRAFT_7)), [], checked.steps
    except PolicySchemaError as error:
        return None, [ShapeProblem(tuple(error.path), _schema_text(error.path, error.reason))], 0


def _read_match(schema: dict[str, Any]) -> tuple[Scope, list[ShapeProblem]]:
    """Return the entities that a policy applies to."""
    if MATCH not in schema:
        return FULL_SCOPE, []
    is_list = isinstance(schema[MATCH], list)
    listed = schema[MATCH] if is_list else [schema[MATCH]]
    problems: list[ShapeProblem] = []
    patterns: list[Pattern] = []
    if not listed or len(listed) > MOST_PATTERNS:
        text = f'{MATCH} must hold a pattern, as in {{"user": "svc-*"}}, or up to {MOST_PATTERNS:,}'
        return Scope(), [ShapeProblem((MATCH,), text)]
    for index, node in enumerate(listed):
        path: JsonPath = (MATCH, index) if is_list else (MATCH,)
        if not isinstance(node, dict) or not node:
            problems.append(ShapeProblem(path, f'{MATCH} must hold patterns, as in {{"user": "svc-*"}}'))
            continue
        for entity_type, name in node.items():
            problem = None
            if entity_type not in ENTITY_TYPES:
                guess = did_you_mean(entity_type, ENTITY_TYPES) or "."
                problem = f"unknown entity type {quote(entity_type)}{guess} The types are {', '.join(ENTITY_TYPES)}"
            elif name is not None and (not isinstance(name, str) or not name):
                problem = f"the pattern of {entity_type} must be a glob of names, or null for the default"
            elif name is not None and (problem := pattern_problem(name)):
                problem += "; shorten it"
            if problem:
                problems.append(ShapeProblem((*path, entity_type), problem))
        parts = [(each, None if node[each] == DEFAULT_WORD else node[each]) for each in ENTITY_TYPES if each in node]
        patterns.append(Pattern(tuple(parts)))
    return (Scope() if problems else Scope(include=tuple(patterns))), problems


def _schema_text(path: Sequence[str | int], reason: str) -> str:
    keyword = inert(str(path[-1])) if path else "the policy"
    if keyword == "pattern" or "patternProperties" in path:
        return (
            "the pattern is not a regular expression that can be matched in linear time, without look-around and "
            "backreferences; simplify it"
        )
    if keyword == "format":
        return "the format is unknown; use a pattern"
    short = reason if len(reason) <= _LONGEST_REASON else f"{reason[:_LONGEST_REASON]}…"
    return f"{keyword} is not valid in a JSON Schema: {inert(short)}"
