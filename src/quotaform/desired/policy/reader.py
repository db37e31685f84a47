"""Reads and evaluates a policy file; says what violates it in words.

The structure of a policy is checked: supported keywords, known fields, local references, limited size. JSON Schema
ignores unknown keywords, so a policy with a misspelt keyword or field would never reject anything. Unknown keywords and
fields are therefore errors.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from itertools import chain
from json import JSONDecodeError, dumps, loads
from math import isfinite
from re import compile as regex
from time import thread_time
from typing import Any, Final, NamedTuple, TypeAlias

from quotaform.desired.policy.policy import MOST_SECONDS, TOO_SLOW, Violation
from quotaform.desired.schema import ENTITY, VALUES, entry
from quotaform.desired.tree import SourceFile, decode
from quotaform.desired.yaml.reader import read_document
from quotaform.model import rule
from quotaform.model.entity import DEFAULT_WORD, ENTITY_TYPES, KNOWN_TYPES, Entity
from quotaform.model.finding import Finding, Location
from quotaform.model.quota_key import QUOTA_KEYS
from quotaform.model.records.document import refuse_constant
from quotaform.model.records.record import ShapeError, refuse_repeated
from quotaform.model.records.schema import make_policy_gate, make_schema, nodes_of, refusals
from quotaform.model.rule import MAX_PROBLEMS
from quotaform.model.scope import FULL_SCOPE, MAX_PATTERN, MOST_PATTERNS, Pattern, Scope
from quotaform.model.text import did_you_mean, inert, listed, quote
from quotaform.model.units import plain, render_value

MATCH: Final = "x-match"
"""The patterns of the entities that a policy applies to; only at the root."""
MESSAGE: Final = "x-message"
"""The message for a violation of a schema or a subschema."""


_OLD: Final = "draft-07"
_NEW: Final = "draft 2020-12"
_BOTH: Final = (_OLD, _NEW)
DRAFTS: Final = {"http://json-schema.org/draft-07/schema": _OLD, "https://json-schema.org/draft/2020-12/schema": _NEW}
"""What `$schema` may say, with or without `#` behind it, and what messages call it."""

# What the value of a keyword holds, as far as schemas and fields are in it: nothing (or schemas that count where they
# are referred to), a list of fields, or schemas, of the `same` value or of a `part`, alone or by field or pattern.
_ROWS: Final = (
    ("nothing", _BOTH, "$ref $comment title description default examples deprecated readOnly writeOnly"),
    ("nothing", _BOTH, "type enum const format minimum maximum exclusiveMinimum exclusiveMaximum multipleOf"),
    ("nothing", _BOTH, "minLength maxLength pattern minItems maxItems uniqueItems minProperties maxProperties"),
    ("nothing", _BOTH, f"$defs definitions {MESSAGE}"),
    ("nothing", (_NEW,), "minContains maxContains"),
    ("same", _BOTH, "not if then else allOf anyOf oneOf"),
    ("same by field", (_OLD,), "dependencies"),
    ("same by field", (_NEW,), "dependentSchemas dependentRequired"),
    ("fields", _BOTH, "required"),
    ("part by field", _BOTH, "properties"),
    ("part", _BOTH, "additionalProperties propertyNames contains items"),
    ("part", (_NEW,), "unevaluatedProperties unevaluatedItems prefixItems"),
    ("part", (_OLD,), "additionalItems"),
    ("part by pattern", _BOTH, "patternProperties"),
)

KEYWORDS: Final = {name: (holds, drafts) for holds, drafts, names in _ROWS for name in names.split()}
"""The keywords allowed in any subschema of a policy: what each holds, and the versions of JSON Schema that know it."""

ROOT_KEYWORDS: Final = frozenset({"$schema", "$id", MATCH})
"""The keywords allowed only at the root."""

_ANNOTATIONS: Final = frozenset({"$comment", "title", "description", "default", "examples", "$defs", "definitions"})
"""The keywords that draft-07 may have next to a $ref, apart from those of quotaform: they are not constraints."""


JsonPath = tuple[str | int, ...]
"""The fields and indexes that lead from the root of a file to a value."""

MOST_STEPS: Final = 50_000
"""The limit on subschemas and listed values that all policies evaluate for one entry, references included; a pattern
counts as 100."""
MAX_DEPTH: Final = 100
"""The limit on the nesting depth of schemas, references included."""

_PATTERN_STEPS: Final = 100
_INDEX: Final = regex(r"0|[1-9][0-9]{0,8}").fullmatch
_COMPARED: Final = frozenset({"enum", "const", "required", "dependentRequired"})
"""Whose values an entry is compared with one by one, or has to have."""


class _ManyProblemsError(Exception):
    """There are more problems than are shown."""


ShapeProblem: TypeAlias = tuple[JsonPath, str]
"""Where something is wrong with a policy, and what."""


class _Subject(NamedTuple):
    """The value that a schema is about."""

    name: str = ""  # what messages call it
    fields: tuple[str, ...] | None = None  # the fields that it can have; `None` when any may be asked for
    inner: Mapping[str, _Subject] = {}  # what is known about the values of its fields, by field


_ANY: Final = _Subject()


class ShapeCheck:
    """Traverses a policy as a validator does, following references."""

    def __init__(self, root: Any, draft: str) -> None:
        self._root = root
        self._draft = draft
        self._known: dict[tuple[int, str], int] = {}
        self._open: set[tuple[int, str]] = set()
        self._reported: set[JsonPath] = set()
        self.problems: list[ShapeProblem] = []  # what is wrong; when there is anything, the policy is not to be used
        self.steps = 0  # how many schemas and listed values it asks of an entry at most
        fields = make_schema(entry)["properties"]
        inner = {name: _Subject(name, tuple(fields[name]["properties"])) for name in (ENTITY, VALUES)}
        with suppress(_ManyProblemsError):
            self.steps = self._walk(root, (), _Subject("an entry", tuple(fields), inner), 0)

    def _walk(self, node: Any, path: JsonPath, subject: _Subject, depth: int) -> int:
        """Check a schema, and return how many schemas and listed values there are in it."""
        if not isinstance(node, dict):
            return 1  # A boolean is a schema; what is none, the validator refuses.
        key = id(node), subject.name
        if key in self._open:
            self._report(path, "the schema refers to itself, which is not supported; replace the $ref")
            return 1
        if depth > MAX_DEPTH:
            self._report(path, f"schemas are nested more than {MAX_DEPTH} deep; simplify the policy")
            return 1
        if key not in self._known:
            self._open.add(key)
            self._known[key] = 1 + sum(self._keyword(node, name, path, subject, depth) for name in node)
            self._open.discard(key)
        return self._known[key]

    def _keyword(self, node: dict[str, Any], name: str, path: JsonPath, subject: _Subject, depth: int) -> int:
        """Check the value of a keyword, and return how many schemas and listed values there are in it."""
        here, value, depth = (*path, name), node[name], depth + 1
        holds, drafts = KEYWORDS.get(name, ("nothing", ()))
        if self._draft not in drafts:
            if path or name not in ROOT_KEYWORDS:
                self._report(here, self._unknown_text(name, is_root=not path))
            return 0
        if name == "$ref":
            return self._reference(node, value, here, subject, depth)
        if name == "pattern":
            return _PATTERN_STEPS
        steps = _count_values(value) if name in _COMPARED else 0
        match holds, value:
            case "fields", list():
                self._fields(dict(enumerate(value)), here, subject)
            case (("same" | "part"), _):
                about = subject if holds == "same" else _ANY
                for step, each in enumerate(value) if isinstance(value, list) else [(None, value)]:
                    steps += self._walk(each, here if step is None else (*here, step), about, depth)
            case "part by pattern", dict():
                steps += _PATTERN_STEPS * len(value)
                steps += sum(self._walk(each, (*here, pattern), _ANY, depth) for pattern, each in value.items())
            case (("same by field" | "part by field"), dict()):
                self._fields({field: field for field in value}, here, subject)
                for field, each in value.items():
                    about = subject if holds == "same by field" else subject.inner.get(field, _ANY)
                    if about is subject and isinstance(each, list):
                        self._fields(dict(enumerate(each)), (*here, field), subject)
                    steps += self._walk(each, (*here, field), about, depth)
        return steps

    def _reference(self, node: dict[str, Any], value: Any, path: JsonPath, subject: _Subject, depth: int) -> int:
        ignored = node.keys() - _ANNOTATIONS - ROOT_KEYWORDS - {"$ref", MESSAGE}
        if self._draft == _OLD and ignored:
            self._report(path, f"draft-07 ignores {min(ignored)} next to $ref; put both in an allOf")
        if not isinstance(value, str):
            return 0
        if not value.startswith("#"):
            text = f"$ref {quote(value)} refers to another file, which is not supported; write #/$defs/NAME"
            self._report(path, text)
        elif (found := _find(self._root, value[1:])) is not None:
            return self._walk(found[1], found[0], subject, depth)
        else:
            self._report(path, f"$ref {quote(value)} does not exist; write #/$defs/NAME with a name in $defs")
        return 0

    def _fields(self, names: Mapping[str | int, Any], path: JsonPath, subject: _Subject) -> None:
        for step, name in names.items():
            if subject.fields is not None and isinstance(name, str) and name not in subject.fields:
                guess = did_you_mean(name, subject.fields) or "."
                text = f"{subject.name} has no field {quote(name)}{guess} The fields are {', '.join(subject.fields)}"
                self._report((*path, step), text)

    def _unknown_text(self, name: str, *, is_root: bool) -> str:
        if name in ROOT_KEYWORDS:
            return f"{name} is allowed only at the root of a policy"
        if name in KEYWORDS:
            return f"{name} has no effect in {self._draft}, it is a keyword of {KEYWORDS[name][1][0]}"
        known = [each for each, (_, drafts) in KEYWORDS.items() if self._draft in drafts]
        guess = did_you_mean(name, [*known, *ROOT_KEYWORDS] if is_root else known)
        return f"unknown keyword {quote(name)}{guess or '; JSON Schema would ignore it'}"

    def _report(self, path: JsonPath, text: str) -> None:
        if path not in self._reported:
            self._reported.add(path)
            self.problems.append((path, text))
        if len(self.problems) > MAX_PROBLEMS:
            raise _ManyProblemsError


def _find(root: Any, fragment: str) -> tuple[JsonPath, Any] | None:
    """Return the path and value of a JSON pointer; none where a validator may find another value (`%`, other `$id`)."""
    if "%" in fragment or fragment[:1] not in {"", "/"}:
        return None
    here = root
    path: list[str | int] = []
    for raw in fragment.split("/")[1:]:
        step = raw.replace("~1", "/").replace("~0", "~")
        if path and isinstance(here, dict) and "$id" in here:
            return None
        if isinstance(here, dict) and step in here:
            path.append(step)
        elif isinstance(here, list) and _INDEX(step) and int(step) < len(here):
            path.append(int(step))
        else:
            return None
        here = here[path[-1]]
    return tuple(path), here


def _count_values(node: Any) -> int:
    """Return how many values there are in a list or a mapping, on all levels; none in another value."""
    count, todo = 0, [node]
    while todo:
        here = todo.pop()
        inner = here.values() if isinstance(here, dict) else here if isinstance(here, list) else ()
        count += len(inner)
        todo += inner
    return count


_BOUNDS: Final = {
    "maximum": "above the maximum of",
    "minimum": "below the minimum of",
    "exclusiveMaximum": "not below",
    "exclusiveMinimum": "not above",
}
_SHOWN: Final = 10


def violation_of(path: JsonPath, refusal: Any, schema: Any) -> Violation:
    """Return what is wrong at a place of an entry, in words, and the quota key that it is about."""
    details = refusal.kind.as_dict()
    key = None
    if path and path[0] == VALUES:
        key = path[1] if len(path) > 1 else details.get("property")
    about = _about(refusal, schema)
    text = f"{_what(path, refusal, details)}{f': {about}' if about else ''}"
    return Violation(text, str(key) if key in QUOTA_KEYS else None)


def _what(path: JsonPath, refusal: Any, details: Mapping[str, Any]) -> str:
    keyword, value = refusal.kind.name, refusal.instance
    name = inert(str(path[-1])) if path else "the entry"
    subject = f"{name} is {_shown(path, value)}" if path else name
    match keyword:
        case "maxItems" if path == ("unlimited",) and details["limit"] == 0:
            return f"{listed(map(str, value))} must not be unlimited"
        case _ if keyword in _BOUNDS:
            return f"{subject}, {_BOUNDS[keyword]} {_shown(path, details['limit'])}"
        case "required":
            owner = "" if not path or path == (VALUES,) else f"{name} has no "
            return f"{owner}{inert(str(details['property']))}{'' if owner else ' is not declared'}"
        case "falseSchema" if list(refusal.schema_path[-1:]) == ["additionalProperties"]:
            return f"{name} has a field that is not allowed"
        case "falseSchema":
            return f"{name} is not allowed"
    # What is asked for, of which there may be very much; the library names it differently for each keyword.
    named = ("limit", "options", "expected_value", "types", "pattern", "format", "unexpected", "multiple_of")
    asked = next((details[each] for each in named if each in details), ())
    options = asked if isinstance(asked, list | tuple) else [asked]
    shown = listed(chain((_shown(path, each) for each in options[:_SHOWN]), options[_SHOWN:]), _SHOWN)
    what = f"{name} does" if not path or isinstance(value, dict | list) else f"{subject}, which does"
    return f"{what} not satisfy {inert(keyword)}{f': {shown}' if options else ''}"


def _shown(path: Sequence[str | int], value: Any) -> str:
    """Return a value of the document, or one that it is compared with: with its unit if it is that of a quota key."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        key = QUOTA_KEYS.get(str(path[-1])) if len(path) == 2 and path[0] == VALUES else None
        return plain(float(value)) if key is None else render_value(key, float(value))
    if isinstance(value, str):
        return quote(value)
    kind = "a mapping" if isinstance(value, dict) else "a list"
    return kind if isinstance(value, dict | list) else dumps(value)


def _about(refusal: Any, schema: Any) -> str:
    """Return what the policy says about a keyword: the text that is nearest to it, through references if need be."""
    written = nodes_of(schema, refusal.schema_path)
    used = nodes_of(schema, refusal.evaluation_path)
    for node in (*reversed(written[1:]), *reversed(used)):
        for keyword in (MESSAGE, "description", "title"):
            text = node.get(keyword)
            if isinstance(text, str) and text.strip():
                return inert(text.strip().rstrip(".")[:500])
    return ""


class Policy:
    """A policy that is a JSON Schema."""

    def __init__(self, name: str, schema: Any, scope: Scope, gate: Any, seconds: float = MOST_SECONDS) -> None:
        self.name = name  # its file, as messages name it
        self._schema, self._scope, self._gate = schema, scope, gate
        self._left = seconds

    def violations(self, entity: Entity, document: Mapping[str, Any]) -> Sequence[Violation]:
        """Return the violations in the document of an entry; none if the policy does not apply to the entity.

        If all entries together take too long, messages included, that alone is returned; see `MOST_SECONDS`.
        """
        begin = thread_time()
        found: Sequence[Violation] = ()
        if self._scope.contains(entity) and not self._gate.is_valid(document):
            found = [violation_of(*refusal, self._schema) for refusal in refusals(self._gate, document, 10)]
            found = found or [Violation("the policy rejects the entry")]
        self._left -= thread_time() - begin - 0.001
        return [TOO_SLOW] if self._left < 0 else found


def read_policy(source: SourceFile, room: int = MOST_STEPS) -> tuple[Policy | None, list[Finding], int]:
    """Read a policy; never raises, whatever it contains.

    Returns the policy, unless anything is wrong; what is wrong; how many schemas and listed values it asks of an entry.
    `room`: how many of these the policies of the repository may still ask.
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
    except ShapeError as error:
        problem = f"{error}; remove one of the two"
    except ValueError as error:
        problem = str(error)
    except OverflowError as error:
        problem = f"{quote(str(error))} is too large a number"
    if problem:
        return None, [rule.BAD_POLICY.finding(problem, location=place)], 0
    policy, problems, steps = _check(source.name, schema, room)
    if policy is not None:
        return policy, [], steps
    places = read_document(source)  # JSON is YAML
    shown = [(text, places.locate(path).key) for path, text in problems[: MAX_PROBLEMS + 1]]
    return None, [rule.BAD_POLICY.finding(problem, location=place) for problem, place in shown], 0


def _float(text: str) -> float:
    number = float(text)
    if not isfinite(number):
        raise OverflowError(text)
    return number


def _check(name: str, schema: Any, room: int) -> tuple[Policy | None, list[ShapeProblem], int]:
    if not isinstance(schema, dict):
        return None, [((), "a policy must be a JSON Schema object: {...}")], 0
    named = schema.get("$schema", "https://json-schema.org/draft/2020-12/schema")
    draft = DRAFTS.get(named.rstrip("#")) if isinstance(named, str) else None
    if draft is None:
        shown = quote(named) if isinstance(named, str) else "this"
        text = f"{shown} is not a supported version of JSON Schema; write {' or '.join(map(quote, DRAFTS))}"
        return None, [(("$schema",), text)], 0
    checked = ShapeCheck(schema, draft)
    scope, problems = _read_match(schema)
    problems += checked.problems
    if not problems and checked.steps > room:
        text = f"the policies ask for more than {MOST_STEPS:,} subschemas and listed values per entry; simplify them"
        problems = [((), text)]
    if problems:
        return None, problems, 0
    try:
        return Policy(name, schema, scope, make_policy_gate(schema, is_old=draft == _OLD)), [], checked.steps
    except ValueError as error:
        path, reason = error.args
        return None, [(tuple(path), _schema_text(path, reason))], 0


def _read_match(schema: dict[str, Any]) -> tuple[Scope, list[ShapeProblem]]:
    if MATCH not in schema:
        return FULL_SCOPE, []
    is_list = isinstance(schema[MATCH], list)
    nodes: list[Any] = schema[MATCH] if is_list else [schema[MATCH]]
    wrong: list[JsonPath] = [(MATCH,)]
    if 0 < len(nodes) <= MOST_PATTERNS:
        paths: list[JsonPath] = [(MATCH, index) for index in range(len(nodes))] if is_list else [(MATCH,)]
        wrong = [path for path, node in zip(paths, nodes, strict=True) if not _is_pattern(node)]
    if wrong:
        text = (
            f'{MATCH} must be a pattern, as in {{"user": "svc-*"}}, or a list of up to {MOST_PATTERNS:,}; each has a '
            f"glob of up to {MAX_PATTERN:,} characters, or null for the default, of {', '.join(ENTITY_TYPES)}"
        )
        return Scope(), [(path, text) for path in wrong]
    parts = (
        [(each, None if node[each] == DEFAULT_WORD else node[each]) for each in ENTITY_TYPES if each in node]
        for node in nodes
    )
    return Scope(include=tuple(Pattern(tuple(some)) for some in parts)), []


def _is_pattern(node: Any) -> bool:
    if not isinstance(node, dict) or not node or not node.keys() <= KNOWN_TYPES.keys():
        return False
    return all(name is None or (isinstance(name, str) and 0 < len(name) <= MAX_PATTERN) for name in node.values())


def _schema_text(path: Sequence[str | int], reason: str) -> str:
    keyword = inert(str(path[-1])) if path else "the policy"
    if keyword == "pattern" or "patternProperties" in path:
        return (
            "the pattern is not a regular expression that can be matched in linear time, without look-around and "
            "backreferences; simplify it"
        )
    if keyword == "format":
        return "the format is unknown; use a pattern"
    short = reason if len(reason) <= 200 else f"{reason[:200]}…"
    return f"{keyword} is not valid in a JSON Schema: {inert(short)}"
