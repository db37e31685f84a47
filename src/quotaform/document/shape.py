"""Validates a document from an untrusted source.

Errors have a path such as `changes[3].keys[0].after`. Long lists are validated item by item while they are read.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from itertools import zip_longest
from json import loads
from re import compile as regex
from typing import Any, Final, TypeVar

from quotaform.document.envelope import Spelled
from quotaform.document.line_layout import ItemLines
from quotaform.model.text import quote
from quotaform.schema.validator import gate

T = TypeVar("T")

_UNREADABLE: Final = (KeyError, TypeError, ValueError, AttributeError, OverflowError)
"""The errors raised when a document matches its schema but was not written by quotaform."""
_WORD: Final = regex(r"[A-Za-z0-9_-]{1,40}").fullmatch
_MISSING: Final = object()


class ShapeError(Exception):
    """A document is invalid.

    Attributes:
        path: Where; empty for the document as a whole.
        problem: What is wrong there.
    """

    def __init__(self, path: str, problem: str) -> None:
        self.path = path
        self.problem = problem
        super().__init__(f"{path} {problem}".strip())


def require_shape(document: Mapping[str, Any], schema: str, lists: Collection[str]) -> None:
    """Raise `ShapeError` unless a document fits its schema; the items of its long lists are left to `shaped_items`."""
    are_lists: dict[str, list[Any]] = {name: [] for name in lists if isinstance(document.get(name), (list, ItemLines))}
    _require_valid({**document, **are_lists}, "", schema)


def shaped_items(document: Mapping[str, Any], name: str, schema: str, definition: str) -> Iterator[Any]:
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
    document: Mapping[str, Any], name: str, load: Callable[[Any], T], schema: str, definition: str
) -> Iterator[T]:
    """Yield what the items of a long list stand for.

    Args:
        load: Returns what an item stands for.
        definition: The definition of an item in it.

    Raises:
        ShapeError: An item does not match the schema, or holds something that the schema takes for a value.
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


def _require_valid(item: object, path: str, schema: str, definition: str | None = None) -> None:
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

    Args:
        fields: The expected ones, as they are written.
        lists: The fields with a line per item; each may be any iterable, and is consumed.

    Raises:
        ShapeError: A field says something else than those from which it follows.
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
