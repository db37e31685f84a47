"""What all JSON documents share: kind and version, layout, and digest.

| layout | one line per | for |
| --- | --- | --- |
| `document_lines` | field, and item of the lists given | files that are compared line by line, or that are long |
| `sealed_lines` | the same | files whose last field is the digest of everything before it |
| `indented` | field at any depth | results of commands |
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from hashlib import sha256
from json import dumps
from typing import Any, Final

from quotaform.model.document_kind import DocumentKind

_SEAL: Final = b',\n  "digest": "'
_END: Final = "\n}\n"


class Spelled(str):
    """A value that is JSON on one line already."""

    __slots__ = ()


class EnvelopeError(ValueError):
    """A document that is not of the kind that was expected."""


class KindError(EnvelopeError):
    """It is no object, or its `kind` is another."""


class VersionError(EnvelopeError):
    """Its major version is not known. `version` is what stands there; `None` if it is missing or not a string."""

    def __init__(self, version: str | None) -> None:
        super().__init__(version)
        self.version = version


def envelope(kind: DocumentKind, fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return a document of its fields, with its kind and version in front."""
    return {"format_version": kind.version, "kind": kind.kind, **fields}


def require_kind(document: object, kind: DocumentKind) -> dict[str, Any]:
    """Return what was read if it is a document of a kind and a version whose meaning is known.

    Raises `KindError` if it is of another kind, and `VersionError` if it is of an unknown major version.
    """
    if not isinstance(document, dict) or document.get("kind") != kind.kind:
        raise KindError
    version = document.get("format_version")
    if not isinstance(version, str):
        raise VersionError(None)
    if version.partition(".")[0] != kind.major:
        raise VersionError(version)
    return document


def indented(document: Mapping[str, Any]) -> str:
    """Return a document as indented JSON."""
    return dumps(document, indent=2, allow_nan=False) + "\n"


def _spell(value: object) -> str:
    """Return a value as JSON on one line."""
    return value if type(value) is Spelled else dumps(value)


def document_lines(
    fields: Iterable[tuple[str, Any]], lists: Collection[str], spell: Callable[[Any], str] = _spell
) -> Iterator[str]:
    """Yield a document as JSON in pieces: one per field, and one per item of its lists.

    Args: as `field_lines`.
    """
    yield from field_lines(fields, lists, spell)
    yield _END


def field_lines(
    fields: Iterable[tuple[str, Any]], lists: Collection[str], spell: Callable[[Any], str] = _spell
) -> Iterator[str]:
    """Yield the pieces of a document without its end, where more fields can follow.

    Args:
        fields: Name and value; the value of one of the lists may be any iterable, and is consumed as it is written.
        lists: The names of the fields that have a line per item.
        spell: Returns a value as JSON on one line.
    """
    separator = "{\n"
    for name, value in fields:
        if name in lists:
            yield f'{separator}  "{name}": ['
            gap = "\n    "
            for item in value:
                yield f"{gap}{spell(item)}"
                gap = ",\n    "
            yield "]" if gap == "\n    " else "\n  ]"
        else:
            yield f'{separator}  "{name}": {spell(value)}'
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


def document_digest(document: Mapping[str, Any], lists: Collection[str]) -> str:
    """Return the digest that `sealed_lines` gives a document; white space in a file does not change it.

    Raises `RecursionError` if it is nested too deeply.
    """
    hashed = sha256()
    present = {name for name in lists if isinstance(document.get(name), list)}
    for piece in document_lines(document.items(), present):
        hashed.update(piece.encode("ascii"))
    return f"sha256:{hashed.hexdigest()}"
