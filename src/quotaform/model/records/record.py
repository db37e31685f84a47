"""Records: what is written as JSON and read back. The fields of a class are its JSON, its checks and its schema.

A field is `name: Annotated[type, about("What it is.", example, minimum=0)]`, the docstring of the class describes the
object. In a class with `omit_defaults=True` a field is left out when it has its default, unless that is `written`; one
of a type `... | UnsetType` when it is `UNSET`. Unknown fields are ignored: minor versions only add some.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import datetime
from functools import cache
from json import loads
from re import compile as regex
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    Final,
    Generic,
    Literal,
    NamedTuple,
    TypeAlias,
    TypeVar,
    dataclass_transform,
)

import msgspec
from msgspec import UNSET as UNSET
from msgspec import Meta, Struct, StructMeta
from msgspec import UnsetType as UnsetType
from msgspec.structs import force_setattr

from quotaform.model.entity import ENTITY_TYPES, Entity
from quotaform.model.errors import SavedFileChangedError, SavedFileError
from quotaform.model.precedence import LEVELS
from quotaform.model.quota_key import key_order
from quotaform.model.records.document import (
    MOST_VALUES,
    PLAN,
    RECEIPT,
    DocumentKind,
    Number,
    as_json,
    field_lines,
    indented,
    json_number,
    seal_start,
    sealed_lines,
)
from quotaform.model.text import MIB, option_of, quote, size_text

Item = TypeVar("Item")
R = TypeVar("R", bound="Record")
T = TypeVar("T")

LARGEST_COUNT: Final = 2**53 - 1
"""The largest integer that every reader of JSON takes exactly (RFC 8259)."""


class _Derived(NamedTuple):
    make: Callable[[Any], object]
    name: str | None


def _derive(record: Any) -> None:
    for name, make in record._derived.items():
        force_setattr(record, name, make(record))


def derived(make: Callable[[Any], object], *, name: str | None = None, init: Literal[False] = False) -> Any:
    """Return the value of a field that follows from the others: it is written, and made again when it is read.

    `make` takes the record. `name` is what JSON calls the field.
    """
    return _Derived(make, name)


def written(*, default: Any, name: str | None = None) -> Any:
    """Return the default of a field that is written although it has it, in a record with `omit_defaults`.

    msgspec leaves out what *is* the default of a field; of a function that returns it, it knows nothing. `name` is what
    JSON calls the field.

    >>> class Rate(Record, omit_defaults=True):
    ...     value: Double
    ...     unit: str | None = None
    ...     window: int | None = written(default=None)
    >>> builtins(Rate(value=5.0)), decode(b'{"value": "Infinity", "unit": "B/s"}', Rate)
    ({'value': 5, 'window': None}, Rate(value=inf, unit='B/s', window=None))
    """
    return msgspec.field(default_factory=lambda: default, name=name)


class _RecordMeta(StructMeta):
    def __new__(
        mcls,
        name: str,
        bases: tuple[type, ...],
        namespace: dict[str, Any],
        document: DocumentKind | str | None = None,
        **options: bool,
    ) -> Any:
        if document is not None:
            document = DocumentKind(document) if isinstance(document, str) else document
            version = about("Minor versions only add fields.", pattern=rf"^{document.major}\.[0-9]+$")
            kind = Annotated[Literal[document.kind], about("The kind of this document.")]  # type: ignore[name-defined]
            fields = {"format_version": Annotated[str, version], "kind": kind, **namespace["__annotations__"]}
            namespace |= {"__annotations__": fields, "format_version": written(default=document.version)}
            namespace["kind"] = written(default=document.kind)
        own = {field: value for field, value in namespace.items() if isinstance(value, _Derived)}
        if own:
            inherited: Mapping[str, Any] = next((base._derived for base in bases if hasattr(base, "_derived")), {})
            namespace["_derived"] = {**inherited, **{field: value.make for field, value in own.items()}}
            namespace["__post_init__"] = _derive
            namespace |= {field: written(default=None, name=value.name) for field, value in own.items()}
        options = {"frozen": True, "kw_only": True, "gc": "dict" in options, **options}
        return super().__new__(mcls, name, bases, namespace, **options)  # type: ignore[arg-type]


@dataclass_transform(frozen_default=True, kw_only_default=True, field_specifiers=(msgspec.field, derived, written))
class Record(Struct, metaclass=_RecordMeta, frozen=True):
    """An object of a document; `class X(Record, document="x")` is a whole one, which begins with version and kind."""


def about(description: str, *examples: Any, **constraints: Any) -> Meta:
    """Return what the schema says of a field; constraints such as `min_length` and `ge` are checked when it is read."""
    return Meta(description=description, examples=list(examples) or None, **constraints)


Value: TypeAlias = Annotated[
    Number,
    about("The exact decimal of an IEEE-754 double; NaN and infinities are strings.", 10485760, 12.5, 2**63, "NaN"),
]

if TYPE_CHECKING:
    Double: TypeAlias = float
else:

    class _AnyFloat(type):
        def __instancecheck__(cls, value: object) -> bool:
            return isinstance(value, float)

    class Double(metaclass=_AnyFloat):
        """A float, which JSON holds as a `Value`."""


Moment: TypeAlias = Annotated[datetime, about("As ISO 8601 in UTC.", tz=True)]
Count: TypeAlias = Annotated[int, Meta(ge=0, le=LARGEST_COUNT)]
Timestamp: TypeAlias = Annotated[
    str, about("ISO 8601 in UTC.", pattern="^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}Z$", max_length=20)
]
Digest: TypeAlias = Annotated[str, about("A digest.", pattern="^sha256:[0-9a-f]{64}$", max_length=71)]


Address: TypeAlias = Annotated[
    str, about("The address of the entity: unique, and safe to print.", "user=svc-orders", min_length=1)
]
EntityTypeName: TypeAlias = Annotated[str, Meta(pattern=f"^({'|'.join(ENTITY_TYPES)})$")]
ClusterName: TypeAlias = Annotated[str, about("The name of the cluster.", "prod-eu")]
QuotaKeyName: TypeAlias = Annotated[str, about("The quota key.", "producer_byte_rate", min_length=1)]
SourceName: TypeAlias = Annotated[
    str | None,
    about(
        "The name of this kind of entry in KIP-248, or null.",
        extra_json_schema={"enum": [*(level.source for level in LEVELS), None]},
    ),
]
_VALUES: Final = about("Quota key to value.", {"producer_byte_rate": 10485760, "request_percentage": 150}, min_length=1)
KeyDoubles: TypeAlias = Annotated[Mapping[str, Double], _VALUES]
KeyValues: TypeAlias = Annotated[dict[str, Value], _VALUES]


def in_order(values: Mapping[str, float]) -> dict[str, float]:
    """Return values in the order of the keys."""
    return {key: values[key] for key in (sorted(values, key=key_order) if len(values) > 1 else values)}


class ClusterRecord(Record):
    """The cluster."""

    name: Annotated[str, about("The name in quotaform.yaml, or the bootstrap servers.")]
    id: Annotated[str, about("The cluster id.")]


def builtins(record: Record) -> dict[str, Any]:
    """Return a record as dicts and lists, as `json.dumps` takes them; its numbers are those of `json_number`."""
    fields: dict[str, Any] = _plain(record)
    return fields


@cache
def left_out(kind: type[Record]) -> Mapping[str, Any]:
    """Return the fields that are left out when they have their default, as JSON calls them, with the default."""
    found = {field.encode_name: field.default for field in msgspec.structs.fields(kind)}
    omits = kind.__struct_config__.omit_defaults
    return {
        name: value for name, value in found.items() if value is UNSET or (omits and value is not msgspec.NODEFAULT)
    }


def written_fields(record: Record, lists: Collection[str]) -> Iterator[tuple[str, Any]]:
    """Yield the fields of a record as JSON; the items of long lists are made one by one."""
    defaults = left_out(type(record))
    for field, name in zip(record.__struct_fields__, record.__struct_encode_fields__, strict=True):
        value = getattr(record, field)
        if name not in defaults or value is not defaults[name]:
            yield name, map(_plain, value) if name in lists else _plain(value)


def _plain(value: object) -> Any:
    return _canonical(msgspec.to_builtins(value, enc_hook=as_json))


def dump_record(record: Record) -> str:
    """Return a record as indented JSON."""
    return indented(builtins(record))


def _decode(kind: type, value: Any) -> object:
    """Return what JSON stands for that msgspec doesn't know. Raises `TypeError` or `ValueError`."""
    if kind is Entity:
        if isinstance(value, dict) and value and all(name is None or type(name) is str for name in value.values()):
            return Entity.of(value.items())
        raise ValueError("an entity has a name for each of its types")
    if type(value) not in (int, float) and value not in ("NaN", "Infinity", "-Infinity"):
        raise ValueError("it is not a number")
    try:
        number = float(value)
    except OverflowError as error:
        raise ValueError("it is too large") from error
    if type(value) is int and number != value:
        raise ValueError("no double is this number: it would be shown as another")
    return number


def schema_of(kind: type) -> dict[str, Any]:
    """Return the schema of what msgspec doesn't know."""
    if kind is Double:
        return msgspec.json.schema(Value)
    if kind is not Entity:
        raise NotImplementedError(f"{kind.__name__} has no schema")
    return {
        "description": f"Entity type ({', '.join(ENTITY_TYPES)} or one that only the broker knows) to name; null is "
        "the default of the type.",
        "type": "object",
        "additionalProperties": {"anyOf": [{"type": "string"}, {"type": "null"}]},
        "minProperties": 1,
        "examples": [{"user": "svc-orders"}, {"user": None, "client-id": "etl"}],
    }


def _canonical(value: Any) -> Any:
    kind = type(value)
    if kind is float:
        return json_number(value)
    if kind is dict:
        return {name: item if item is None or type(item) is str else _canonical(item) for name, item in value.items()}
    return list(map(_canonical, value)) if kind in (list, tuple) else value


# Reading, whatever wrote the document.

_PLACE: Final = regex(r"^(.*?)(?: - at `(?:key in )?\$(.*)`)?$").search
_MISSING: Final = regex(r"^Object missing required field `(\w+)`$").search
_BYTE: Final = regex(r"\(byte (\d+)\)").search
_UNREADABLE: Final = (KeyError, TypeError, ValueError, AttributeError, OverflowError)
"""The errors raised when a document matches its schema but was not written by quotaform."""


class ShapeError(Exception):
    """A document is invalid."""

    def __init__(self, path: str, problem: str) -> None:
        self.path = path  # where; empty for the document as a whole
        self.problem = problem  # what is wrong there
        super().__init__(f"{path} {problem}".strip())


def decode(content: bytes, kind: type[R]) -> R:
    """Return a document that is JSON.

    Raises `ShapeError`: a field is missing, or has another type or value than its class says.
    """
    try:
        return msgspec.json.decode(content, type=kind, dec_hook=_decode)
    except msgspec.ValidationError as error:
        found = _PLACE(str(error))
        problem, path = (found[1], found[2] or "") if found else (str(error), "")
        missing = _MISSING(problem)
        text = "has a wrong type or value" if missing is None else f'lacks the field "{missing[1]}"'
        raise ShapeError(path.removeprefix("."), text) from error
    except UnicodeDecodeError as error:
        raise ShapeError("", "contains a name that is not valid Unicode") from error


class _Head(Struct):
    """What says whether a document can be read; other fields are skipped."""

    kind: Any = None
    format_version: Any = None


@contextmanager
def reading(content: bytes, kind: DocumentKind) -> Iterator[None]:
    """Make sure that JSON is a document of a kind and of a version that is read, and that a block can read it.

    Raises `ShapeError`, which says what is wrong where.
    """
    try:
        head = _Head()
        with suppress(msgspec.ValidationError):  # It is no object.
            head = msgspec.json.decode(content, type=_Head)
        if head.kind != kind.kind:
            raise ShapeError("", f'its kind is not "{kind.kind}"{_TAKEN_ELSEWHERE.get(str(head.kind), "")}')
        version = head.format_version
        if not isinstance(version, str) or version.partition(".")[0] != kind.major:
            found = f"is {quote(version, 20)}" if isinstance(version, str) else "is missing or not a string"
            known = f"this quotaform reads {kind.version} (the one that wrote it reads this file)"
            raise ShapeError("", f"its format_version {found}, and {known}")
        yield
    except RecursionError as error:
        raise ShapeError("", "it is nested too deeply") from error
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        place = _BYTE(str(error))
        at = len(content.rstrip()) if place is None else int(place[1])
        where = f" at line {content[:at].count(10) + 1}"
        is_object = not content.strip() or content.lstrip().startswith(b"{")
        raise ShapeError("", f"its JSON is truncated or invalid{where}" if is_object else "it is not JSON") from error


def refuse_repeated(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return an object of its pairs. Raises `ShapeError` if a name comes twice."""
    content = dict(pairs)
    if len(content) < len(pairs):
        name = next(name for name, count in Counter(name for name, _ in pairs).items() if count > 1)
        raise ShapeError("", f"{quote(name)} appears twice in one object")
    return content


def require_few_values(content: bytes) -> None:
    """Raise `ShapeError` if JSON may hold so many values that reading it takes all memory; its strings count, too."""
    if sum(map(content.count, (b"{", b"[", b","))) > MOST_VALUES:
        raise ShapeError("", f"it contains more than {MOST_VALUES:,} values")


def made_of(fields: Mapping[str, Any], kind: type[R]) -> R:
    """Return a record of its fields, as the columns of a row have them; other columns are left out."""
    names = zip(kind.__struct_fields__, kind.__struct_encode_fields__, strict=True)
    return msgspec.convert({name: fields[field] for field, name in names if field in fields}, kind, dec_hook=_decode)


@contextmanager
def readable() -> Iterator[None]:
    """Raise `ShapeError` if a decoded document has a value that cannot be read."""
    try:
        yield
    except _UNREADABLE as error:
        raise ShapeError("", "it has a value that this version cannot read") from error


def load_items(path: str, items: Iterable[Item], load: Callable[[Item], T]) -> Iterator[T]:
    """Yield what items of a list stand for. Raises `ShapeError` with the place of one that stands for nothing."""
    read = 0
    try:
        for item in items:
            yield load(item)
            read += 1
    except _UNREADABLE as error:
        raise ShapeError(f"{path}[{read}]", "has a value that this version cannot read") from error


# Files that end with the digest of their bytes: plans and receipts. One that was changed, or sealed again, is refused.
#
# | check | rejects |
# | --- | --- |
# | kind and version | another document, or one of an unknown major version |
# | digest | a file that was modified without recomputing it |
# | record | a missing field, or one of the wrong type |
# | contents | what quotaform never writes: an entity twice, a value that files cannot declare |
# | derived fields | a field that differs from what is written of the others |

WHOLE_LIMIT: Final = 64 * MIB
"""The most bytes of a file that is not to the letter what this version writes, as those of newer versions are not."""

_TAKEN_ELSEWHERE: Final = {
    PLAN.kind: ", but that of a plan, which quotaform apply takes",
    RECEIPT.kind: f", but that of a receipt, which quotaform plan {option_of('revert')} takes",
}
"""The kind of a document to what it is, and which command takes it."""


class SealedFormat(Struct, Generic[R], frozen=True, kw_only=True):
    """A kind of documents that end with their digest, and what messages say about its files."""

    kind: DocumentKind
    record: type[R]
    lists: Collection[str]  # The fields with a line per item
    rows: str  # That of them with a record per entity
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
        raise SavedFileError(file, f"is not a valid {form.kind.name} file: {error}; {form.remedy}") from error


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

    Raises `ShapeError`.
    """
    if len(content) > WHOLE_LIMIT:
        raise ShapeError("", f"it is larger than {size_text(WHOLE_LIMIT)}, and is not as quotaform writes it")
    require_few_values(content)
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
    """Raise `ShapeError` where a value differs from what is expected; a mapping may have more fields."""
    if isinstance(expected, Mapping) and isinstance(found, Mapping):
        for name, value in expected.items():
            _require_no_difference(value, found.get(name, UNSET), f"{path}.{name}")
    elif isinstance(expected, list) and isinstance(found, list) and len(expected) == len(found):
        for index, (one, other) in enumerate(zip(expected, found, strict=True)):
            _require_no_difference(one, other, f"{path}[{index}]")
    elif expected != found:
        raise ShapeError(path.removeprefix("."), "does not follow from the other fields")
