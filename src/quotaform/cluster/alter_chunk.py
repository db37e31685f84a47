"""Splits alterations into requests that a broker accepts, and interprets the responses.

Why requests are split (measured on Kafka 4.3.1):

| limit | behaviour of a broker beyond it |
| --- | --- |
| 10,000 changed values in a request | POLICY_VIOLATION on every entity, nothing applied |
| 8 MiB of records in a request | the active controller resigns, and `validate_only` does not warn |
| 32,767 bytes in a name | hangs up |
| one entity twice in a request | applies the first and reports both as invalid |
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import isfinite
from typing import Final

from quotaform.cluster.error_code import cut_words, grant
from quotaform.errors import AuthorizationError, UnsupportedError
from quotaform.model.alteration import (
    CLUSTER_AUTHORIZATION_FAILED,
    ERRORS_BY_CODE,
    UNKNOWN_CODES,
    Alteration,
    AlterRow,
    Outcome,
)
from quotaform.model.entity import MAX_NAME_BYTES as MAX_NAME_BYTES
from quotaform.model.entity import Entity, Part, spell_name

MAX_OPS: Final = 4_000
"""Ops per request: larger requests are not faster per op, and brokers reject more than 10,000."""
MAX_BYTES: Final = 1 << 20
"""Encoded bytes per request, an eighth of the size at which a controller resigns."""

_ENTRY_BYTES: Final = 8
_STRING_BYTES: Final = 4
_OP_BYTES: Final = 16

ALTER_ACL: Final = f"The principal is not authorised to alter client quotas: {grant('ALTER_CONFIGS')}"

RawRow = tuple[Iterable[Part], int, str | None]
"""A row of a response: the entity's parts in any order, the error code and the broker's message."""


def split_alterations(
    alterations: Sequence[Alteration], *, max_ops: int = MAX_OPS, max_bytes: int = MAX_BYTES
) -> list[range]:
    """Return the index ranges of the requests, after checking that a broker can take every alteration.

    A request has at most `max_ops` ops (an alteration without ops counts as one) and `max_bytes` bytes; an
    alteration is never cut, so that one that is larger than both goes alone.

    Raises:
        ValueError: One entity twice, or something that a broker could not read or must not be sent.
    """
    chunks: list[range] = []
    seen: set[Entity] = set()
    sizes: dict[str, int] = {}
    start = ops = size = 0
    for index, alteration in enumerate(alterations):
        if alteration.entity in seen:
            raise ValueError(
                f"{alteration.entity.address} is altered twice in one call; merge its ops into one alteration"
            )
        seen.add(alteration.entity)
        own_ops = len(alteration.ops) or 1
        own_size = _measure(alteration, sizes)
        if index > start and (ops + own_ops > max_ops or size + own_size > max_bytes):
            chunks.append(range(start, index))
            start, ops, size = index, 0, 0
        ops += own_ops
        size += own_size
    if start < len(alterations):
        chunks.append(range(start, len(alterations)))
    return chunks


def _measure(alteration: Alteration, sizes: dict[str, int]) -> int:
    """Return an upper bound of the encoded size; `sizes` remembers types and keys, which are few."""
    parts = alteration.entity.parts
    if len(parts) > 1 and len(dict(parts)) < len(parts):
        raise ValueError(f"{alteration.entity.address} names an entity type twice")
    total = _ENTRY_BYTES
    for entity_type, name in parts:
        if (size := sizes.get(entity_type)) is None:
            size = sizes[entity_type] = _string_size(alteration, entity_type, "entity type")
        total += size + _STRING_BYTES
        if name is not None:
            short = type(name) is str and name.isascii() and len(name) <= MAX_NAME_BYTES
            total += len(name) if short else _string_size(alteration, name, "name")
    for key, value in alteration.ops.items():
        if (size := sizes.get(key)) is None:
            size = sizes[key] = _string_size(alteration, key, "quota key")
        total += size + _OP_BYTES
        if value is not None:
            _check_value(alteration, key, value)
    return total


def _string_size(alteration: Alteration, text: object, what: str) -> int:
    if not isinstance(text, str):
        raise ValueError(f"{alteration.entity!r:.200}: the {what} {text!r:.100} is not a string")
    try:
        size = len(text.encode())
    except UnicodeEncodeError:
        raise ValueError(
            f"{_address(alteration)}: {what} {spell_name(text)} contains a lone surrogate, which is not valid Unicode"
        ) from None
    if size > MAX_NAME_BYTES:
        raise ValueError(
            f"{_address(alteration)}: the {what} has {size:,} bytes in UTF-8; a broker reads at most {MAX_NAME_BYTES:,}"
        )
    return size + _STRING_BYTES


def _check_value(alteration: Alteration, key: str, value: float) -> None:
    try:
        finite = isfinite(value)
    except OverflowError:
        finite = False
    if not finite:
        raise ValueError(f"{_address(alteration)}: {spell_name(key)} is not a finite number; a quota must be one")
    if float(value) != value:
        raise ValueError(
            f"{_address(alteration)}: {spell_name(key)} is {value}, which a double cannot represent exactly; the "
            f"nearest is {int(float(value))}"
        )


def _address(alteration: Alteration) -> str:
    address = alteration.entity.address
    return address if len(address) <= 120 else f"{address[:100]}… ({len(address):,} characters)"


def match_rows(chunk: Sequence[Alteration], answer: Iterable[RawRow], hint: str = "") -> tuple[AlterRow, ...]:
    """Return one row per alteration of a request, in its order.

    The rows of a response and the parts within a row are in any order. An outcome follows from the code alone,
    since the words differ between versions:

    | the answer says | outcome |
    | --- | --- |
    | 0 | ok |
    | -1 or 7 | unknown |
    | nothing about the entity, or something twice | unknown |
    | any other code | refused |
    """
    answers: dict[Entity, tuple[int, str | None]] = {}
    repeated: set[Entity] = set()
    for parts, code, message in answer:
        entity = Entity.of(parts)
        if entity in answers:
            repeated.add(entity)
        answers[entity] = (code, message)
    rows = []
    for alteration in chunk:
        entity = alteration.entity
        found = answers.get(entity)
        if found is None:
            rows.append(
                AlterRow(entity, Outcome.UNKNOWN, None, "The response of the broker has no row for this entity.")
            )
        elif entity in repeated:
            rows.append(
                AlterRow(
                    entity,
                    Outcome.UNKNOWN,
                    found[0],
                    "The response of the broker has more than one row for this entity.",
                )
            )
        else:
            rows.append(_row(entity, *found, hint))
    return tuple(rows)


def _row(entity: Entity, code: int, message: str | None, hint: str) -> AlterRow:
    message = cut_words(message) if message else message
    if code == 0:
        return AlterRow(entity, Outcome.OK)
    if code in UNKNOWN_CODES:
        return AlterRow(entity, Outcome.UNKNOWN, code, message or f"The broker answered with error code {code}.")
    if hint and ERRORS_BY_CODE.get(code) in {AuthorizationError, UnsupportedError}:
        return AlterRow(entity, Outcome.REFUSED, code, hint)
    if code == CLUSTER_AUTHORIZATION_FAILED:
        return AlterRow(entity, Outcome.REFUSED, code, ALTER_ACL)
    return AlterRow(entity, Outcome.REFUSED, code, message or f"The broker rejected it with error code {code}.")


def rows_of(chunk: Iterable[Alteration], outcome: Outcome, reason: str) -> tuple[AlterRow, ...]:
    """Return the same row for each alteration, for requests without a response."""
    return tuple(AlterRow(alteration.entity, outcome, None, reason) for alteration in chunk)
