"""Whether a document fits its schema: the one module that imports the JSON Schema libraries.

`gate` answers yes or no and takes next to no time; `explainer` says what is wrong where, and is needed only then.
`make_policy_gate` is for schemas that a repository brings along.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from itertools import islice, zip_longest
from json import loads
from re import compile as regex
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

from quotaform.model.records.document import ItemLines, Spelled
from quotaform.model.records.schema import Builder, make_schema
from quotaform.model.text import quote

if TYPE_CHECKING:
    from jsonschema import Draft7Validator
    from jsonschema_rs import Draft7Validator as Gate
    from jsonschema_rs import Validator


class Refusal(NamedTuple):
    """One keyword that a document does not satisfy."""

    keyword: str
    details: Mapping[str, Any]  # what it asked for, as `jsonschema_rs.ValidationErrorKind.as_dict` names it
    path: Sequence[str | int]  # the place in the document
    value: Any
    schema_path: Sequence[str | int]  # the keyword in the file of the policy
    used_path: Sequence[str | int]  # the way to it, through references


_PATTERN_BYTES: Final = 1 << 18
"""How much memory a compiled pattern of a foreign schema may take."""


@cache
def gate(build: Builder, definition: str | None = None) -> Gate:
    """Return the validator that only says whether a document is valid, or a part of one.

    `definition` is one of the schema, for an item of a long list that is never in memory whole.
    """
    from jsonschema_rs import Draft7Validator as Gate

    schema = make_schema(build)
    if definition is None:
        return Gate(schema)
    return Gate({**schema["definitions"][definition], "definitions": schema["definitions"]})


@cache
def explainer(build: Builder) -> Draft7Validator:
    """Return the validator that says what is wrong and where.

    It does not collect why each alternative of an `anyOf` does not fit, which for a long list takes minutes.
    """
    from jsonschema import Draft7Validator, ValidationError
    from jsonschema.validators import extend

    def any_of(validator: Any, alternatives: list[Any], instance: Any, schema: Any) -> Iterator[ValidationError]:
        if not any(validator.evolve(schema=alternative).is_valid(instance) for alternative in alternatives):
            yield ValidationError("no alternative fits")

    explaining: type[Draft7Validator] = extend(  # type: ignore[no-untyped-call]
        Draft7Validator, {"anyOf": any_of}
    )
    return explaining(make_schema(build))


class PolicySchemaError(Exception):
    """A foreign schema is none.

    `path`: the fields and indexes that lead to what is wrong in it. `reason`: what the validator says; it may quote the
    schema.
    """

    def __init__(self, path: Sequence[str | int], reason: str) -> None:
        self.path, self.reason = path, reason
        super().__init__(reason)


class PolicyGate:
    """A foreign schema, ready to be asked."""

    __slots__ = ("_validator", "is_valid")

    def __init__(self, validator: Validator) -> None:
        self._validator = validator
        self.is_valid = validator.is_valid

    def refusals(self, document: Any, most: int) -> list[Refusal]:
        """Return what a document does not satisfy, up to a number."""

        return [
            Refusal(
                keyword=error.kind.name,
                details=error.kind.as_dict(),
                path=error.instance_path,
                value=error.instance,
                schema_path=error.schema_path,
                used_path=error.evaluation_path,
            )
            for error in islice(self._validator.iter_errors(document), most)
        ]


def make_policy_gate(schema: dict[str, Any], *, is_old: bool) -> PolicyGate:
    """Compile a schema that nobody vouches for: nothing is fetched, and patterns are matched in linear time.

    `is_old` says whether it is one of draft-07; else it is one of draft 2020-12. Raises `PolicySchemaError` if it is no
    schema, or refers to something outside of itself.
    """
    from jsonschema_rs import Draft7Validator, Draft202012Validator, RegexOptions, ValidationError

    make = Draft7Validator if is_old else Draft202012Validator
    options = RegexOptions(size_limit=_PATTERN_BYTES, dfa_size_limit=_PATTERN_BYTES)
    try:
        validator = make(
            schema, pattern_options=options, offline=True, validate_formats=True, ignore_unknown_formats=False
        )
    except ValidationError as error:
        raise PolicySchemaError(error.instance_path, error.message) from None
    except ValueError as error:
        raise PolicySchemaError((), str(error)) from None
    return PolicyGate(validator)


# Validates a document from an untrusted source.
#
# Errors have a path such as `changes[3].keys[0].after`. Long lists are validated item by item while they are read.

T = TypeVar("T")

_UNREADABLE: Final = (KeyError, TypeError, ValueError, AttributeError, OverflowError)
"""The errors raised when a document matches its schema but was not written by quotaform."""
_WORD: Final = regex(r"[A-Za-z0-9_-]{1,40}").fullmatch
_MISSING: Final = object()


class ShapeError(Exception):
    """A document is invalid."""

    def __init__(self, path: str, problem: str) -> None:
        self.path = path  # where; empty for the document as a whole
        self.problem = problem  # what is wrong there
        super().__init__(f"{path} {problem}".strip())


def require_shape(document: Mapping[str, Any], schema: Builder, lists: Collection[str]) -> None:
    """Raise `ShapeError` unless a document fits its schema; the items of its long lists are left to `shaped_items`."""
    are_lists: dict[str, list[Any]] = {name: [] for name in lists if isinstance(document.get(name), (list, ItemLines))}
    _require_valid({**document, **are_lists}, "", schema)


def shaped_items(document: Mapping[str, Any], name: str, schema: Builder, definition: str) -> Iterator[Any]:
    """Yield the items of a long list, each after making sure that it fits its definition in the schema.

    Raises `ShapeError` if one does not.
    """
    is_valid = gate(schema, definition).is_valid
    for index, item in enumerate(document.get(name, ())):
        try:
            fits = is_valid(item)
        except ValueError:  # The library takes no lone surrogate.
            fits = False
        if not fits:
            _require_valid(item, f"{name}[{index}]", schema, definition)
        yield item


def loaded_items(
    document: Mapping[str, Any], name: str, load: Callable[[Any], T], schema: Builder, definition: str
) -> Iterator[T]:
    """Yield what the items of a long list stand for.

    `load`: returns what an item stands for. `definition`: the definition of an item in it.

    Raises `ShapeError`: an item does not match the schema, or holds something that the schema takes for a value.
    """
    read = 0
    try:
        for item in shaped_items(document, name, schema, definition):
            yield load(item)
            read += 1
    except _UNREADABLE as error:
        raise ShapeError(f"{name}[{read}]", "has a value that this version cannot read") from error


@contextmanager
def readable(path: str = "") -> Iterator[None]:
    """Make sure that something can be made of a document: a schema takes some texts for values that are none.

    `path` is the field; empty for the whole document. Raises `ShapeError` if it cannot.
    """
    try:
        yield
    except _UNREADABLE as error:
        raise ShapeError(path, f"{'' if path else 'it '}has a value that this version cannot read") from error


def _require_valid(item: object, path: str, schema: Builder, definition: str | None = None) -> None:
    try:
        error = next(iter(gate(schema, definition).iter_errors(item)), None)
    except ValueError:
        raise ShapeError(path, "contains a name that is not valid Unicode") from None
    if error is not None:
        missing = getattr(error.kind, "property", None)
        problem = "has a wrong type or value" if missing is None else f"lacks the field {quote(str(missing))}"
        raise ShapeError((path + "".join(map(_step, error.instance_path))).removeprefix("."), problem)


def require_derived(fields: Mapping[str, Any], document: Mapping[str, Any], lists: Collection[str]) -> None:
    """Make sure that a document has the fields that are expected of it, but for the version; it may have more.

    `fields`: the expected ones, as they are written. `lists`: the fields with a line per item; each may be any
    iterable, and is consumed.

    Raises `ShapeError`: a field says something else than those from which it follows.
    """
    for name, expected in fields.items():
        found = document.get(name)
        if name == "format_version":
            continue
        if name not in lists:
            _require_same(expected, found, name)
            continue
        for index, (item, other) in enumerate(zip_longest(expected, found or ())):
            _require_same(loads(item) if isinstance(item, Spelled) else item, other, f"{name}[{index}]")


def _require_same(expected: object, found: object, path: str) -> None:
    difference = first_difference(expected, found, path)
    if difference is not None:
        raise ShapeError(difference, "does not follow from the other fields")


def first_difference(expected: Any, found: Any, path: str = "") -> str | None:
    """Return where a value differs from what is expected; a mapping may have more fields.

    >>> first_difference({"a": [1, 2]}, {"a": [1, 3], "b": 4})
    '.a[1]'
    """
    if isinstance(expected, Mapping) and isinstance(found, Mapping):
        pairs = [(_step(name), value, found.get(name, _MISSING)) for name, value in expected.items()]
    elif isinstance(expected, list) and isinstance(found, list) and len(expected) == len(found):
        pairs = [(_step(index), *both) for index, both in enumerate(zip(expected, found, strict=True))]
    else:
        return None if expected == found else path
    paths = (first_difference(one, other, path + step) for step, one, other in pairs)
    return next((each for each in paths if each is not None), None)


def _step(name: object) -> str:
    if isinstance(name, int):
        return f"[{name}]"
    return f".{name}" if _WORD(str(name)) else f".{quote(str(name), 40)}"
