"""Files that end with the digest of their bytes: plans and receipts. One that was changed, or sealed again, is refused.

| check | rejects |
| --- | --- |
| kind and version | another document, or one of an unknown major version |
| digest | a file that was modified without recomputing it |
| record | a missing field, or one of the wrong type |
| contents | what quotaform never writes: an entity twice, a value that files cannot declare |
| derived fields | a field that differs from what is written of the others |
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from json import loads
from typing import Any, Final, Generic, TypeVar

from msgspec import Struct

from quotaform.model.errors import SavedFileChangedError, SavedFileError
from quotaform.model.records.document import (
    MOST_VALUES,
    PLAN,
    RECEIPT,
    DocumentKind,
    KindError,
    field_lines,
    has_too_many_values,
    refuse_repeated,
    seal_start,
    sealed_lines,
)
from quotaform.model.records.record import (
    Record,
    ShapeError,
    builtins,
    decode,
    first_difference,
    reading,
    written_fields,
)
from quotaform.model.text import MIB, option_of, size_text

R = TypeVar("R", bound=Record)
T = TypeVar("T")

WHOLE_LIMIT: Final = 64 * MIB
"""The most bytes of a file that is not to the letter what this version writes, as those of newer versions are not."""

_TAKEN_ELSEWHERE: Final = {
    PLAN.kind: ", but a plan, which quotaform apply takes",
    RECEIPT.kind: f", but a receipt, which quotaform plan {option_of('revert')} takes",
}
"""The kind of a file to what it is, and which command takes it."""


class SealedFormat(Struct, Generic[R], frozen=True, kw_only=True):
    """A kind of documents that end with their digest, and what messages say about its files."""

    kind: DocumentKind
    record: type[R]
    lists: Collection[str]  # The fields with a line per item
    rows: str  # That of them with a record per entity
    noun: str
    command: str
    remedy: str  # What to do about a file that is invalid


Fields = Iterable[tuple[str, Any]]


def sealed_fields(record: Record, lists: Collection[str], **made: Iterable[Record]) -> Fields:
    """Return the fields of a record without its digest; `made` are items of long lists that are made one by one."""
    return [(name, made.get(name, value)) for name, value in written_fields(record, lists) if name != "digest"]


def read_sealed(text: str | bytes, file: str, form: SealedFormat[R], load: Callable[[R], T]) -> T:
    """Return what a document stands for.

    `file` is its name, for messages. `load` makes something of the record, and raises a `ShapeError` if that is
    nothing that is written. Raises `SavedFileError` or `SavedFileChangedError`.
    """
    content = text.encode(errors="replace") if isinstance(text, str) else text
    try:
        with reading(content, form.kind):
            end = seal_start(content)
            if end is None:
                raise SavedFileChangedError(file, "digest", form.remedy)
            record = decode(content, form.record)
            made = {form.rows: getattr(record, form.rows)}
            # The fields are made as they are written, and so for each use.
            is_exact = _has_fields(content, end, sealed_fields(record, form.lists, **made), form.lists)
            documents = None if is_exact else _documents(content, sealed_fields(record, form.lists, **made), form)
            value = load(record)
            if documents is not None:
                _require_no_difference(*documents)
            return value
    except ShapeError as error:
        raise SavedFileError(file, f"is not a valid {form.noun} file: {error}; {form.remedy}") from error
    except KindError as error:
        unknown = f": it has no kind {form.kind.kind!r}; make one with {form.command}"
        why = _TAKEN_ELSEWHERE.get(str(error.kind), unknown)
        raise SavedFileError(file, f"is not a {form.noun} file{why}") from None


def _has_fields(content: bytes, end: int, fields: Fields, lists: Collection[str]) -> bool:
    """Whether a file is, to the letter, what is written of these fields, up to its digest."""
    position = 0
    for piece in field_lines(fields, lists):
        if not content.startswith(piece.encode("ascii"), position):
            return False
        position += len(piece)
    return position == end


def _documents(content: bytes, fields: Fields, form: SealedFormat[R]) -> tuple[Any, Any]:
    """Return what is written of these fields, and a file of another spelling, which may have more.

    Raises `ShapeError` or `RepeatedNameError`.
    """
    if len(content) > WHOLE_LIMIT:
        raise ShapeError("", f"it is larger than {size_text(WHOLE_LIMIT)}, and is not formatted as {form.command} does")
    if has_too_many_values(content):
        raise ShapeError(
            "", f"it contains more than {MOST_VALUES:,} values, and is not formatted as {form.command} does"
        )
    document = loads(content, object_pairs_hook=refuse_repeated)
    expected = loads("".join(sealed_lines(fields, form.lists)))
    return expected | {"digest": document["digest"]}, document


def require_same(expected: Record, found: Record, path: str = "") -> None:
    """Make sure that a record that was read, at a path of its document, is what is written of what it stands for.

    Raises `ShapeError`.
    """
    if expected != found:
        fields = builtins(expected)
        fields.pop("format_version", None)  # A newer one only adds fields.
        _require_no_difference(fields, builtins(found), path)


def _require_no_difference(expected: Any, found: Any, path: str = "") -> None:
    difference = first_difference(expected, found, path)
    if difference is not None:
        raise ShapeError(difference, "does not follow from the other fields")
