"""Reads and evaluates a policy file."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from json import JSONDecodeError, JSONDecoder, loads
from math import isfinite
from re import compile as regex
from time import thread_time
from typing import TYPE_CHECKING, Any, Final, NoReturn

from quotaform.core.check import rule
from quotaform.core.check.finding_list import MAX_PROBLEMS
from quotaform.core.check.policy import Policy, SlowPolicyError, Violation
from quotaform.core.scope import FULL_SCOPE, MOST_PATTERNS, Pattern, Scope, pattern_problem
from quotaform.desired.policy.keyword import DRAFTS, MATCH, Draft
from quotaform.desired.policy.shape import MOST_STEPS, JsonPath, ShapeCheck, ShapeProblem
from quotaform.desired.policy.violation import violation_of
from quotaform.desired.tree import SourceFile, decode
from quotaform.model.entity import DEFAULT_WORD, ENTITY_TYPES, Entity
from quotaform.model.finding import Finding
from quotaform.model.location import Location
from quotaform.model.text import did_you_mean, explain_json_error, inert, line_and_column, quote

if TYPE_CHECKING:
    from quotaform.schema.validator import PolicyGate

MOST_SECONDS: Final = 10.0
"""The time limit of a policy in seconds, plus a millisecond per entry; 10,000 entries take some 10 ms."""
_SECONDS_PER_ENTRY: Final = 0.001
MOST_VIOLATIONS: Final = 10
"""The limit on violations shown for one entry and policy."""
_LONGEST_REASON: Final = 200
_TOO_MUCH: Final = f"the policies ask for more than {MOST_STEPS:,} subschemas and listed values per entry"


class SchemaPolicy:
    """A policy that is a JSON Schema.

    Attributes:
        name: Its file, as messages name it.
    """

    __slots__ = ("_gate", "_left", "_schema", "_scope", "name")

    def __init__(self, name: str, schema: Any, scope: Scope, gate: PolicyGate, seconds: float = MOST_SECONDS) -> None:
        self.name = name
        self._schema, self._scope, self._gate = schema, scope, gate
        self._left = seconds

    def violations(self, entity: Entity, document: Mapping[str, Any]) -> Sequence[Violation]:
        """Return the violations in the document of an entry, usually none, and none if it doesn't apply to the entity.

        Raises `SlowPolicyError` if all entries together take too long, messages included.
        """
        begin = thread_time()
        found: Sequence[Violation] = ()
        if self._scope.contains(entity) and not self._gate.is_valid(document):
            found = [violation_of(refusal, self._schema) for refusal in self._gate.refusals(document, MOST_VIOLATIONS)]
            found = found or [Violation("the policy rejects the entry")]
        self._left -= thread_time() - begin - _SECONDS_PER_ENTRY
        if self._left < 0:
            raise SlowPolicyError(MOST_SECONDS)
        return found


def read_policy(source: SourceFile, room: int = MOST_STEPS) -> tuple[Policy | None, list[Finding], int]:
    """Read a policy; never raises, whatever it contains.

    Args:
        room: How many schemas and listed values the policies of the repository may still ask of an entry.

    Returns:
        The policy, unless anything is wrong; what is wrong; how many schemas and values it asks of an entry.
    """
    text = decode(source)
    if isinstance(text, Finding):
        return None, [text], 0
    try:
        schema = loads(text, object_pairs_hook=_object, parse_constant=_refuse_word, parse_float=_float, parse_int=_int)
    except JSONDecodeError as error:
        at, problem = explain_json_error(error)
        place = Location(source.name, *line_and_column(text, at))
        return None, [rule.BAD_POLICY.finding(f"a policy is JSON, and this is not: {problem}", location=place)], 0
    except RecursionError:
        return None, [_whole(source, "it is nested too deeply")], 0
    except _BadJsonError as error:
        return None, [_whole(source, str(error))], 0

    def report(problems: Sequence[ShapeProblem]) -> list[Finding]:
        return [
            rule.BAD_POLICY.finding(each.text, location=Location(source.name, *place_of(text, each.path)))
            for each in problems[: MAX_PROBLEMS + 1]
        ]

    draft, unknown = _draft(schema)
    if unknown is not None:
        return None, report([unknown]), 0
    checked = ShapeCheck(schema, draft)
    scope, problems = _read_match(schema)
    problems += checked.problems
    if not problems and checked.steps > room:
        problems = [ShapeProblem((), f"{_TOO_MUCH}; simplify them")]
    if not problems:
        from quotaform.schema.validator import PolicySchemaError, make_policy_gate

        try:
            gate = make_policy_gate(schema, is_old=draft is Draft.DRAFT_7)
        except PolicySchemaError as error:
            problems = [ShapeProblem(tuple(error.path), _schema_text(error.path, error.reason))]
        else:
            return SchemaPolicy(source.name, schema, scope, gate), [], checked.steps
    return None, report(problems), 0


class _BadJsonError(Exception):
    """Text that Python accepts as JSON and other parsers do not."""


def _whole(source: SourceFile, text: str) -> Finding:
    return rule.BAD_POLICY.finding(text, location=Location(source.name))


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    content = dict(pairs)
    if len(content) < len(pairs):
        twice, _ = Counter(name for name, _ in pairs).most_common(1)[0]
        raise _BadJsonError(f"the field {quote(twice)} is written twice in one object; remove one of the two")
    return content


def _refuse_word(word: str) -> NoReturn:
    raise _BadJsonError(f"{word} is not JSON; write a number")


def _float(text: str) -> float:
    number = float(text)
    if not isfinite(number):
        raise _BadJsonError(f"{quote(text)} is too large a number")
    return number


def _int(text: str) -> int | float:
    return int(text) if len(text) <= 20 else _float(text)


def _draft(schema: Any) -> tuple[Draft, ShapeProblem | None]:
    named = schema.get("$schema") if isinstance(schema, dict) else None
    if not isinstance(schema, dict):
        return Draft.DRAFT_2020, ShapeProblem((), "a policy must be a JSON Schema object: {...}")
    if named is None:
        return Draft.DRAFT_2020, None
    draft = DRAFTS.get(named.rstrip("#")) if isinstance(named, str) else None
    if draft is None:
        shown = quote(named) if isinstance(named, str) else "this"
        text = f"{shown} is not a supported version of JSON Schema; write {' or '.join(map(quote, DRAFTS))}"
        return Draft.DRAFT_2020, ShapeProblem(("$schema",), text)
    return draft, None


def _read_match(schema: dict[str, Any]) -> tuple[Scope, list[ShapeProblem]]:
    """Return the entities that a policy applies to."""
    if MATCH not in schema:
        return FULL_SCOPE, []
    listed = schema[MATCH] if isinstance(schema[MATCH], list) else [schema[MATCH]]
    problems: list[ShapeProblem] = []
    patterns: list[Pattern] = []
    if not listed or len(listed) > MOST_PATTERNS:
        text = f'{MATCH} must hold a pattern, as in {{"user": "svc-*"}}, or up to {MOST_PATTERNS:,}'
        return Scope(), [ShapeProblem((MATCH,), text)]
    for index, node in enumerate(listed):
        path: JsonPath = (MATCH, index) if isinstance(schema[MATCH], list) else (MATCH,)
        if not isinstance(node, dict) or not node:
            problems.append(ShapeProblem(path, f'{MATCH} must hold patterns, as in {{"user": "svc-*"}}'))
            continue
        for entity_type, name in node.items():
            if problem := _match_problem(entity_type, name):
                problems.append(ShapeProblem((*path, entity_type), problem))
        parts = [(each, None if node[each] == DEFAULT_WORD else node[each]) for each in ENTITY_TYPES if each in node]
        patterns.append(Pattern(tuple(parts)))
    return (Scope() if problems else Scope(include=tuple(patterns))), problems


def _match_problem(entity_type: str, name: Any) -> str | None:
    if entity_type not in ENTITY_TYPES:
        guess = did_you_mean(entity_type, ENTITY_TYPES) or "."
        return f"unknown entity type {quote(entity_type)}{guess} The types are {', '.join(ENTITY_TYPES)}"
    if name is not None and (not isinstance(name, str) or not name):
        return f"the pattern of {entity_type} must be a glob of names, or null for the default"
    problem = pattern_problem(name) if name is not None else None
    return problem and f"{problem}; shorten it"


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


_SPACE: Final = regex(r"[ \t\n\r]*")
_BETWEEN: Final = regex(r"[ \t\n\r,]*")


def place_of(text: str, path: tuple[str | int, ...]) -> tuple[int, int]:
    """Return the line and the column, from 1 on, of the value at a path; for a field, where its name begins.

    >>> place_of('{"a": 1,\\n "b": [0, {"c": 2}]}', ("b", 1, "c"))
    (2, 12)

    Args:
        text: It is known to be JSON.
        path: The fields and indexes that lead there; where it leads nowhere, the last value on the way is meant.
    """
    position = shown = _after(_SPACE, text, 0)
    for step in path:
        found = _find(text, position, step)
        if found is None:
            break
        shown, position = found
    return line_and_column(text, shown)


def _find(text: str, position: int, step: str | int) -> tuple[int, int] | None:
    """Return where a member of the container at a position is shown, and where its value begins."""
    decoder = JSONDecoder()
    is_object = text[position] == "{"
    if text[position] not in "{[" or is_object != isinstance(step, str):
        return None
    closing, index = "}" if is_object else "]", 0
    position += 1
    while text[position := _after(_BETWEEN, text, position)] != closing:
        shown, name = position, index
        if is_object:
            name, position = decoder.raw_decode(text, position)
            position = _after(_SPACE, text, _after(_SPACE, text, position) + 1)
        if name == step:
            return shown, position
        _, position = decoder.raw_decode(text, position)
        index += 1
    return None


def _after(space: object, text: str, position: int) -> int:
    match = space.match(text, position)  # type: ignore[attr-defined]
    return match.end() if match else position
