"""Values, locations and findings as plain JSON values, and the digest over them."""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import sha256
from json import dumps
from typing import Any, Final

from quotaform.model.finding import Finding
from quotaform.model.location import Location
from quotaform.model.quota_key import key_order
from quotaform.model.quotas import Values

_LONG: Final = frozenset({"changes", "unmanaged", "findings", "results"})


_SEAL: Final = b',\n  "digest": "'


def render_document(document: Mapping[str, Any]) -> str:
    """Return a document as JSON with one line per field, and one per item of its long lists."""
    fields = []
    for name, value in document.items():
        if name in _LONG and value and isinstance(value, list):
            items = ",\n    ".join([dumps(item) for item in value])
            fields.append(f'  "{name}": [\n    {items}\n  ]')
        else:
            fields.append(f'  "{name}": {dumps(value)}')
    return "{\n" + ",\n".join(fields) + "\n}\n"


def seal_document(document: Mapping[str, Any]) -> str:
    """Return a document as JSON whose last field is the digest of everything before it."""
    text = render_document(document)
    return f'{text[:-3]},\n  "digest": "{_text_digest(text)}"\n}}\n'


def is_sealed(content: bytes) -> bool:
    """Whether a file is to the letter what `seal_document` returned; needs no second copy of it."""
    end = content.rfind(_SEAL)
    if end < 0:
        return False
    hashed = sha256(memoryview(content)[:end])
    hashed.update(b"\n}\n")
    return content[end:] == _SEAL + f'sha256:{hashed.hexdigest()}"\n}}\n'.encode()


def document_digest(document: Mapping[str, Any]) -> str:
    """Return the digest that `seal_document` gives a document; white space in a file does not change it."""
    return _text_digest(render_document(document))


def _text_digest(text: str) -> str:
    return "sha256:" + sha256(text.encode("ascii")).hexdigest()


def json_number(value: float | None) -> int | float | str | None:
    """Return a value as JSON holds it: whole doubles as their exact integer, NaN and infinities as words.

    >>> json_number(2.0**63), json_number(0.5), json_number(float("nan"))
    (9223372036854775808, 0.5, 'NaN')
    """
    if value is None:
        return None
    if value != value:
        return "NaN"
    if value in (float("inf"), float("-inf")):
        return "Infinity" if value > 0 else "-Infinity"
    return int(value) if value == int(value) else value


def digest(content: object) -> str:
    """Return `sha256:…` over the canonical JSON of a value: sorted keys, no white space, ASCII."""
    text = dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False)
    return _text_digest(text)


def values_document(values: Values) -> dict[str, Any]:
    """Return values as JSON holds them, in the order of the keys."""
    keys = values if len(values) == 1 else sorted(values, key=key_order)
    return {key: json_number(values[key]) for key in keys}


def location_document(location: Location | None) -> dict[str, Any] | None:
    """Return a location as JSON holds it."""
    if location is None:
        return None
    return {"file": location.file, "line": location.line, "column": location.column}


def finding_document(finding: Finding) -> dict[str, Any]:
    """Return a finding as JSON holds it."""
    return {
        "rule": finding.rule,
        "severity": finding.severity.value,
        "blocking": finding.blocking,
        "address": finding.address,
        "key": finding.key,
        "message": finding.message,
        "override": finding.override,
        "location": location_document(finding.location),
    }
