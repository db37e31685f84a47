"""Checks the structure of a policy: supported keywords, known fields, local references, limited size.

JSON Schema ignores unknown keywords, so a policy with a misspelt keyword or field would never reject anything. Unknown
keywords and fields are therefore errors.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from enum import Enum
from re import compile as regex
from typing import Any, Final, NamedTuple

from quotaform.desired.schema import ENTITY, VALUES, entry
from quotaform.model.finding_list import MAX_PROBLEMS
from quotaform.model.records.schema import make_schema
from quotaform.model.text import did_you_mean, quote

MATCH: Final = "x-match"
"""The patterns of the entities that a policy applies to; only at the root."""
MESSAGE: Final = "x-message"
"""The message for a violation of a schema or a subschema."""


class Draft(Enum):
    """A version of JSON Schema."""

    DRAFT_7 = "draft-07"
    DRAFT_2020 = "draft 2020-12"


DRAFTS: Final = {
    "http://json-schema.org/draft-07/schema": Draft.DRAFT_7,
    "https://json-schema.org/draft/2020-12/schema": Draft.DRAFT_2020,
}
"""What `$schema` may say, with or without `#` behind it."""


class Holds(Enum):
    """What the value of a keyword is, as far as schemas and fields are in it."""

    NOTHING = "neither, or schemas that count where they are referred to"
    SAME = "a schema for the same value, or a list of some"
    PART = "a schema for parts of the value, or a list of some"
    SAME_BY_FIELD = "a schema for the same value, or a list of fields, per field"
    PART_BY_FIELD = "a schema per field, for that field"
    PART_BY_PATTERN = "a schema per pattern, for the fields that match it"
    FIELDS = "a list of fields"


class Keyword(NamedTuple):
    """A keyword."""

    holds: Holds
    drafts: frozenset[Draft]  # the versions of JSON Schema that know it


_BOTH: Final = frozenset(Draft)
_OLD: Final = frozenset({Draft.DRAFT_7})
_NEW: Final = frozenset({Draft.DRAFT_2020})

_ROWS: Final = (
    (Holds.NOTHING, _BOTH, "$ref $comment title description default examples deprecated readOnly writeOnly"),
    (Holds.NOTHING, _BOTH, "type enum const format minimum maximum exclusiveMinimum exclusiveMaximum multipleOf"),
    (Holds.NOTHING, _BOTH, "minLength maxLength pattern minItems maxItems uniqueItems minProperties maxProperties"),
    (Holds.NOTHING, _BOTH, f"$defs definitions {MESSAGE}"),
    (Holds.NOTHING, _NEW, "$anchor minContains maxContains"),
    (Holds.SAME, _BOTH, "not if then else allOf anyOf oneOf"),
    (Holds.SAME_BY_FIELD, _OLD, "dependencies"),
    (Holds.SAME_BY_FIELD, _NEW, "dependentSchemas dependentRequired"),
    (Holds.FIELDS, _BOTH, "required"),
    (Holds.PART_BY_FIELD, _BOTH, "properties"),
    (Holds.PART, _BOTH, "additionalProperties propertyNames contains items"),
    (Holds.PART, _NEW, "unevaluatedProperties unevaluatedItems prefixItems"),
    (Holds.PART, _OLD, "additionalItems"),
    (Holds.PART_BY_PATTERN, _BOTH, "patternProperties"),
)

KEYWORDS: Final[Mapping[str, Keyword]] = {
    name: Keyword(holds, drafts) for holds, drafts, names in _ROWS for name in names.split()
}
"""The keywords allowed in any subschema of a policy."""

ROOT_KEYWORDS: Final = frozenset({"$schema", "$id", MATCH})
"""The keywords allowed only at the root."""

ANNOTATIONS: Final = frozenset(
    {"$comment", "title", "description", "default", "examples", "$defs", "definitions", MESSAGE}
)
"""The keywords that are not constraints."""


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


class ShapeProblem(NamedTuple):
    """What is wrong with a policy, and where."""

    path: JsonPath
    text: str


class _Subject(NamedTuple):
    """The value that a schema is about."""

    name: str = ""  # what messages call it
    fields: tuple[str, ...] | None = None  # the fields that it can have; `None` when any may be asked for
    inner: Mapping[str, _Subject] = {}  # what is known about the values of its fields, by field


_ANY: Final = _Subject()


def _entry_place() -> _Subject:
    properties = make_schema(entry)["properties"]
    inner = {name: _Subject(name, tuple(properties[name]["properties"])) for name in (ENTITY, VALUES)}
    return _Subject("an entry", tuple(properties), inner)


class ShapeCheck:
    """Traverses a policy as a validator does, following references."""

    def __init__(self, root: Any, draft: Draft) -> None:
        self._root = root
        self._draft = draft
        self._known: dict[tuple[int, str], int] = {}
        self._open: set[tuple[int, str]] = set()
        self._reported: set[JsonPath] = set()
        self._anchors: dict[str, tuple[JsonPath, Any] | None] | None = None
        self.problems: list[ShapeProblem] = []  # what is wrong; when there is anything, the policy is not to be used
        self.steps = 0  # how many schemas and listed values it asks of an entry at most
        with suppress(_ManyProblemsError):
            self.steps = self._walk(root, (), _entry_place(), 0)

    def _walk(self, node: Any, path: JsonPath, place: _Subject, depth: int) -> int:
        """Check a schema, and return how many there are in it."""
        if not isinstance(node, dict):
            return 1  # A boolean is a schema; what is none, the validator refuses.
        key = id(node), place.name
        if key in self._open:
            self._report(path, "the schema refers to itself, which is not supported; replace the $ref")
            return 1
        if depth > MAX_DEPTH:
            self._report(path, f"schemas are nested more than {MAX_DEPTH} deep; simplify the policy")
            return 1
        if key in self._known:
            return self._known[key]
        self._open.add(key)
        steps = 1 + sum(self._keyword(node, name, path, place, depth) for name in node)
        self._open.discard(key)
        self._known[key] = steps
        return steps

    def _keyword(self, node: dict[str, Any], name: str, path: JsonPath, place: _Subject, depth: int) -> int:
        here, value = (*path, name), node[name]
        keyword = KEYWORDS.get(name)
        if keyword is None or self._draft not in keyword.drafts:
            if path or name not in ROOT_KEYWORDS:
                self._report(here, self._unknown(name, is_root=not path))
            return 0
        if name == "$ref":
            return self._reference(node, value, here, place, depth)
        if name == "pattern":
            return _PATTERN_STEPS
        for field, where in _field_names(keyword.holds, value, here):
            self._field(field, where, place)
        steps = _count_values(value) if name in _COMPARED else 0
        if keyword.holds is Holds.PART_BY_PATTERN and isinstance(value, dict):
            steps = _PATTERN_STEPS * len(value)
        for inner, step, inner_place in _schemas(keyword.holds, value, place):
            steps += self._walk(inner, (*here, *step), inner_place, depth + 1)
        return steps

    def _reference(self, node: dict[str, Any], value: Any, path: JsonPath, place: _Subject, depth: int) -> int:
        if self._draft is Draft.DRAFT_7 and (ignored := node.keys() - ANNOTATIONS - ROOT_KEYWORDS - {"$ref"}):
            text = f"draft-07 ignores {min(ignored)} next to $ref; put both in an allOf"
            self._report(path, text)
        if not isinstance(value, str):
            return 0
        if not value.startswith("#"):
            text = f"$ref {quote(value)} refers to another file, which is not supported; write #/$defs/NAME"
            self._report(path, text)
            return 0
        found = self._find(value[1:])
        if found is None:
            self._report(path, f"$ref {quote(value)} does not exist; write #/$defs/NAME with a name in $defs")
            return 0
        return self._walk(found[1], found[0], place, depth + 1)

    def _find(self, fragment: str) -> tuple[JsonPath, Any] | None:
        """Return the value that the fragment of a reference means, with its path; `None` when there is none.

        There is none either where a validator may find another one: what is percent-encoded, or within another `$id`.
        """
        if "%" in fragment:
            return None
        if not fragment or fragment.startswith("/"):
            return _find(self._root, fragment)
        if self._anchors is None:
            self._anchors = _anchors(self._root)
        return self._anchors.get(fragment)

    def _field(self, name: Any, path: JsonPath, place: _Subject) -> None:
        if place.fields is not None and isinstance(name, str) and name not in place.fields:
            guess = did_you_mean(name, place.fields) or "."
            text = f"{place.name} has no field {quote(name)}{guess} The fields are {', '.join(place.fields)}"
            self._report(path, text)

    def _unknown(self, name: str, *, is_root: bool) -> str:
        if name in ROOT_KEYWORDS:
            return f"{name} is allowed only at the root of a policy"
        if name in KEYWORDS:
            other = next(iter(KEYWORDS[name].drafts)).value
            return f"{name} has no effect in {self._draft.value}, it is a keyword of {other}"
        known = [each for each, row in KEYWORDS.items() if self._draft in row.drafts]
        guess = did_you_mean(name, [*known, *ROOT_KEYWORDS] if is_root else known)
        return f"unknown keyword {quote(name)}{guess or '; JSON Schema would ignore it'}"

    def _report(self, path: JsonPath, text: str) -> None:
        if path not in self._reported:
            self._reported.add(path)
            self.problems.append(ShapeProblem(path, text))
        if len(self.problems) > MAX_PROBLEMS:
            raise _ManyProblemsError


def _schemas(holds: Holds, value: Any, place: _Subject) -> Iterator[tuple[Any, JsonPath, _Subject]]:
    """Yield the schemas in the value of a keyword, with the way there and what each is about."""
    if holds in {Holds.SAME, Holds.PART}:
        about = place if holds is Holds.SAME else _ANY
        if not isinstance(value, list):
            yield value, (), about
            return
        for index, each in enumerate(value):
            yield each, (index,), about
    elif holds not in {Holds.NOTHING, Holds.FIELDS} and isinstance(value, dict):
        for name, each in value.items():
            inner = place.inner.get(name, _ANY) if holds is Holds.PART_BY_FIELD else _ANY
            yield each, (name,), place if holds is Holds.SAME_BY_FIELD else inner


def _field_names(holds: Holds, value: Any, path: JsonPath) -> Iterator[tuple[Any, JsonPath]]:
    """Yield the fields that the value of a keyword names, with the place of each."""
    if holds in {Holds.SAME_BY_FIELD, Holds.PART_BY_FIELD} and isinstance(value, dict):
        for name, inner in value.items():
            yield name, (*path, name)
            if holds is Holds.SAME_BY_FIELD:
                yield from _field_names(Holds.FIELDS, inner, (*path, name))
    elif holds is Holds.FIELDS and isinstance(value, list):
        yield from ((name, (*path, index)) for index, name in enumerate(value))


def _find(root: Any, fragment: str) -> tuple[JsonPath, Any] | None:
    """Return the value that a JSON pointer means, with its path; `None` when there is none."""
    here = root
    path: list[str | int] = []
    for raw in fragment.split("/")[1:]:
        step = raw.replace("~1", "/").replace("~0", "~")
        if path and isinstance(here, dict) and "$id" in here:
            return None
        if isinstance(here, dict) and step in here:
            here = here[step]
            path.append(step)
        elif isinstance(here, list) and _INDEX(step) and int(step) < len(here):
            here = here[int(step)]
            path.append(int(step))
        else:
            return None
    return tuple(path), here


def _anchors(root: Any) -> dict[str, tuple[JsonPath, Any] | None]:
    """Return each anchor of a policy with the path of its schema, and the schema; `None` for one that is twice."""
    found: dict[str, tuple[JsonPath, Any] | None] = {}
    todo: list[tuple[JsonPath, Any]] = [((), root)]
    while todo:
        path, here = todo.pop()
        if isinstance(here, dict):
            for name in (here.get("$anchor"), here.get("$dynamicAnchor")):
                if isinstance(name, str):
                    found[name] = None if name in found else (path, here)
            todo += [((*path, step), each) for step, each in here.items()]
        elif isinstance(here, list):
            todo += [((*path, step), each) for step, each in enumerate(here)]
    return found


def _count_values(node: Any) -> int:
    """Return how many values there are in a list or a mapping, on all levels; none in another value."""
    count, todo = 0, [node]
    while todo:
        here = todo.pop()
        inner = here.values() if isinstance(here, dict) else here if isinstance(here, list) else ()
        count += len(inner)
        todo += inner
    return count
