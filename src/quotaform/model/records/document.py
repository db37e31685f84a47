"""What all JSON documents share: kind and version, canonical numbers, layout, and digest.

| layout | one line per | for |
| --- | --- | --- |
| `document_lines` | field, and item of the lists given | files that are compared line by line, or that are long |
| `sealed_lines` | the same | files whose last field is the digest of everything before it |
| `indented` | field at any depth | results of commands |
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from hashlib import sha256
from itertools import islice
from json import JSONEncoder, dumps
from re import compile as regex
from typing import Any, Final, Literal, NoReturn, TypeAlias, overload

import msgspec
from msgspec import Struct

from quotaform.model.entity import Entity


class DocumentKind(Struct, frozen=True):
    """One format of JSON documents."""

    name: str  # what people call it; `quotaform schema NAME` prints its JSON Schema
    # The `format_version` that is written. Minor versions only add fields; a document of another major version is
    # refused.
    version: str = "1.0"

    @property
    def kind(self) -> str:
        """The document's field `kind`.

        >>> PLAN.kind
        'quotaform.plan'
        """
        return f"quotaform.{self.name}"

    @property
    def major(self) -> str:
        """The part of the version that a reader must know."""
        return self.version.partition(".")[0]


PLAN: Final = DocumentKind("plan", "2.0")
RECEIPT: Final = DocumentKind("receipt", "1.3")
SNAPSHOT: Final = DocumentKind("snapshot")
DRIFT: Final = DocumentKind("drift", "1.2")
OUTCOMES: Final = DocumentKind("outcomes")


_AT_ONCE: Final = 1_000
_LINES: Final = 50
"""How many items of a list are in a piece."""
_canonical: Final = JSONEncoder(sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False).encode


Number: TypeAlias = int | float | Literal["NaN", "Infinity", "-Infinity"]
"""A value as JSON holds it."""


@overload
def json_number(value: float) -> Number: ...
@overload
def json_number(value: float | None) -> Number | None: ...
def json_number(value: float | None) -> Number | None:
    """Return a value as JSON holds it: whole doubles as their exact integer, NaN and infinities as words.

    >>> json_number(2.0**63), json_number(0.5), json_number(float("nan"))
    (9223372036854775808, 0.5, 'NaN')
    """
    if value is None:
        return None
    try:
        whole = int(value)
    except ValueError:
        return "NaN"
    except OverflowError:
        return "Infinity" if value > 0 else "-Infinity"
    return whole if whole == value else value


def digest(content: object) -> str:
    """Return `sha256:…` over the canonical JSON of a value: sorted keys, no white space, ASCII; see `json_pieces`."""
    hashed = sha256()
    for piece in json_pieces(content) if isinstance(content, dict) else (_canonical(content),):
        hashed.update(piece.encode("ascii"))
    return f"sha256:{hashed.hexdigest()}"


def json_pieces(fields: Mapping[str, Any]) -> Iterator[str]:
    """Yield the canonical JSON of a mapping in pieces; an iterator is a list of which only some items are made at once.

    >>> "".join(json_pieces({"b": iter([1, 2]), "a": 0}))
    '{"a":0,"b":[1,2]}'
    """
    separator = "{"
    for name in sorted(fields):
        yield f"{separator}{_canonical(name)}:"
        separator = ","
        value = fields[name]
        if isinstance(value, Iterator):
            gap = "["
            while some := list(islice(value, _AT_ONCE)):
                yield gap + _canonical(some)[1:-1]
                gap = ","
            yield "[]" if gap == "[" else "]"
        else:
            yield _canonical(value)
    yield "}" if separator == "," else "{}"


_SEAL: Final = b',\n  "digest": "'
_END: Final = "\n}\n"


def indented(document: Mapping[str, Any]) -> str:
    """Return a document as indented JSON."""
    return dumps(document, indent=2, allow_nan=False) + "\n"


def as_json(value: object) -> object:
    """Return as JSON what msgspec doesn't know."""
    if isinstance(value, Entity):
        return value.names
    raise NotImplementedError(f"{type(value).__name__} is no JSON")


_encode: Final = msgspec.json.Encoder(enc_hook=as_json).encode
_SPECIAL: Final = regex("[^\x00-\x7f]")


def json_line(value: object) -> str:
    """Return a record, or other JSON, on one line; ASCII, so that no name moves the cursor of a terminal.

    >>> json_line({"user": "\u202e", "to": [1, 0.5, None]})
    '{"user": "\\\\u202e", "to": [1, 0.5, null]}'
    """
    try:
        text = msgspec.json.format(_encode(value), indent=0).decode()
    except UnicodeEncodeError:  # A lone surrogate, as in a path that is not UTF-8.
        return dumps(msgspec.to_builtins(value, enc_hook=as_json))
    return text if text.isascii() else _SPECIAL.sub(lambda found: dumps(found[0])[1:-1], text)


def document_lines(fields: Iterable[tuple[str, Any]], lists: Collection[str]) -> Iterator[str]:
    """Yield a document as JSON in pieces: one per field, and one per some items of its lists; see `field_lines`."""
    yield from field_lines(fields, lists)
    yield _END


def field_lines(fields: Iterable[tuple[str, Any]], lists: Collection[str]) -> Iterator[str]:
    """Yield the pieces of a document without its end, where more fields can follow.

    `fields`: name and value; the value of one of the lists may be any iterable, and is consumed as it is written.
    `lists`: the names of the fields that have a line per item.
    """
    separator = "{\n"
    for name, value in fields:
        if name in lists:
            yield f'{separator}  "{name}": ['
            gap, items = "\n    ", map(json_line, value)
            while some := ",\n    ".join(islice(items, _LINES)):
                yield gap + some
                gap = ",\n    "
            yield "]" if gap == "\n    " else "\n  ]"
        else:
            yield f'{separator}  "{name}": {json_line(value)}'
        separator = ",\n"


def sealed_lines(fields: Iterable[tuple[str, Any]], lists: Collection[str]) -> Iterator[str]:
    """Yield the lines of `document_lines`; the last field is the digest of everything before it."""
    hashed = sha256()
    for piece in field_lines(fields, lists):
        hashed.update(piece.encode("ascii"))
        yield piece
    hashed.update(_END.encode())
    yield f',\n  "digest": "sha256:{hashed.hexdigest()}"{_END}'


def seal_start(content: bytes) -> int | None:
    """Return where the digest of a file begins; `None` if it is not, to the letter, that of `sealed_lines`."""
    end = content.rfind(_SEAL)
    if end < 0:
        return None
    hashed = sha256(memoryview(content)[:end])
    hashed.update(_END.encode())
    return end if content[end:] == _SEAL + f'sha256:{hashed.hexdigest()}"{_END}'.encode() else None


MOST_VALUES: Final = 2_000_000
"""How many values a text may hold that is read as a whole; an entity of a snapshot has eight or so."""


def refuse_constant(word: str) -> NoReturn:
    """Raise `ValueError` for NaN, Infinity or -Infinity, bare words that Python would take for numbers."""
    raise ValueError(f"{word} is not JSON; write a number")
