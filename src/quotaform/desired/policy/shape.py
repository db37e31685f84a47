"""Checks the structure of a policy: supported keywords, known fields, local references, limited size.

JSON Schema ignores unknown keywords, so a policy with a misspelt keyword or field would never reject anything. Unknown
keywords and fields are therefore errors.
"""

from __future__ import annotations

from collections.abc import Mapping
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


_BOTH: Final = frozenset(Draft)
_OLD: Final = frozenset({Draft.DRAFT_7})
_NEW: Final = frozenset({Draft.DRAFT_2020})

_ROWS: Final = (
    (Holds.NOTHING, _BOTH, "$ref $comment title description default examples deprecated readOnly writeOnly"),
    (Holds.NOTHING, _BOTH, "type enum const format minimum maximum exclusiveMinimum exclusiveMaximum multipleOf"),
    (Holds.NOTHING, _BOTH, "minLength maxLength pattern minItems maxItems uniqueItems minProperties maxProperties"),
    (Holds.NOTHING, _BOTH, f"$defs definitions {MESSAGE}"),
    (Holds.NOTHING, _NEW, "minContains maxContains"),
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


class ShapeCheck:
    """Traverses a policy as a validator does, following references."""

    def __init__(self, root: Any, draft: Draft) -> None:
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
        """Check a schema, and return how many there are in it."""
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
        holds, drafts = KEYWORDS.get(name, (Holds.NOTHING, frozenset()))
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
            case Holds.FIELDS, list():
                self._fields(dict(enumerate(value)), here, subject)
            case ((Holds.SAME | Holds.PART), _):
                about = subject if holds is Holds.SAME else _ANY
                for step, each in enumerate(value) if isinstance(value, list) else [(None, value)]:
                    steps += self._walk(each, here if step is None else (*here, step), about, depth)
            case Holds.PART_BY_PATTERN, dict():
                steps += _PATTERN_STEPS * len(value)
                steps += sum(self._walk(each, (*here, pattern), _ANY, depth) for pattern, each in value.items())
            case ((Holds.SAME_BY_FIELD | Holds.PART_BY_FIELD), dict()):
                self._fields({field: field for field in value}, here, subject)
                for field, each in value.items():
                    about = subject if holds is Holds.SAME_BY_FIELD else subject.inner.get(field, _ANY)
                    if about is subject and isinstance(each, list):
                        self._fields(dict(enumerate(each)), (*here, field), subject)
                    steps += self._walk(each, (*here, field), about, depth)
        return steps

    def _reference(self, node: dict[str, Any], value: Any, path: JsonPath, subject: _Subject, depth: int) -> int:
        ignored = node.keys() - _ANNOTATIONS - ROOT_KEYWORDS - {"$ref", MESSAGE}
        if self._draft is Draft.DRAFT_7 and ignored:
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
        """Check the fields that are named in some places of a path."""
        for step, name in names.items():
            if subject.fields is not None and isinstance(name, str) and name not in subject.fields:
                guess = did_you_mean(name, subject.fields) or "."
                text = f"{subject.name} has no field {quote(name)}{guess} The fields are {', '.join(subject.fields)}"
                self._report((*path, step), text)

    def _unknown_text(self, name: str, *, is_root: bool) -> str:
        if name in ROOT_KEYWORDS:
            return f"{name} is allowed only at the root of a policy"
        if name in KEYWORDS:
            other = next(iter(KEYWORDS[name][1])).value
            return f"{name} has no effect in {self._draft.value}, it is a keyword of {other}"
        known = [each for each, (_, drafts) in KEYWORDS.items() if self._draft in drafts]
        guess = did_you_mean(name, [*known, *ROOT_KEYWORDS] if is_root else known)
        return f"unknown keyword {quote(name)}{guess or '; JSON Schema would ignore it'}"

    def _report(self, path: JsonPath, text: str) -> None:
        if path not in self._reported:
            self._reported.add(path)
            self.problems.append(ShapeProblem(path, text))
        if len(self.problems) > MAX_PROBLEMS:
            raise _ManyProblemsError


def _find(root: Any, fragment: str) -> tuple[JsonPath, Any] | None:
    """Return the value that a JSON pointer means, with its path; `None` when there is none.

    There is none either where a validator may find another one: what is percent-encoded, or within another `$id`.
    """
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
