"""DescribeClientQuotas and AlterClientQuotas (KIP-546), optimised because they can be large."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from struct import error as StructError  # noqa: N812 (it is a class)
from typing import Final

from quotaform.cluster.wire.message import (
    FLOAT64,
    INT8,
    BrokerRequest,
    BrokerResponse,
    MalformedError,
    Reader,
    Writer,
    read_uvarint,
)
from quotaform.model.alteration import Alteration
from quotaform.model.entity import Entity, Part
from quotaform.model.filter import EntityFilter, FilterComponent, Rule

_MATCH_TYPES: Final = {Rule.EXACT: 0, Rule.DEFAULT: 1, Rule.ANY: 2}

_MAX_ENTITIES: Final = 3_000_000
_MAX_PARTS: Final = 16
_MAX_KEYS: Final = 1_000
"""What an answer may hold: of an entity that takes hundreds of bytes here, a few bytes are enough on the wire."""

Row = tuple[list[Part], int, str | None]
"""A row of a response: the entity's parts in any order, the error code and the broker's message."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribedQuotas(BrokerResponse):
    """The quotas of a cluster."""

    error_code: int
    error_message: str | None
    quotas: dict[Entity, dict[str, float]]  # every entity with every name and value as it came; empty with an error


@dataclass(frozen=True, slots=True)
class DescribeClientQuotas(BrokerRequest[DescribedQuotas]):
    """Ask for the quotas of the entities that a filter selects, which must be one that brokers evaluate."""

    API_KEY = 48
    VERSIONS = range(2)
    FLEXIBLE_FROM = 1
    MAX_RESPONSE = 256 << 20

    entity_filter: EntityFilter

    def write(self, writer: Writer, version: int) -> None:
        """Append the fields."""

        def component(asked: FilterComponent) -> None:
            writer.string(asked.entity_type)
            writer.number(INT8, _MATCH_TYPES[asked.rule])
            writer.nullable_string(asked.match)

        writer.structures(self.entity_filter.components, component)
        writer.boolean(self.entity_filter.is_strict)
        writer.tags()

    def read(self, reader: Reader, version: int) -> DescribedQuotas:
        """Return the quotas."""
        throttle, error_code, error_message = reader.int32(), reader.int16(), reader.nullable_string()
        count = reader.count() or 0
        if count > _MAX_ENTITIES:
            raise MalformedError(f"it has {count:,} entities, more than the limit of {_MAX_ENTITIES:,}")
        quotas = _read_compact_entries(reader, count) if reader.is_flexible else _read_entries(reader, count)
        if len(quotas) != count:
            raise MalformedError("it names an entity twice")
        reader.tags()
        return DescribedQuotas(
            throttle_time_ms=throttle, error_code=error_code, error_message=error_message, quotas=quotas
        )


def _read_entries(reader: Reader, count: int) -> dict[Entity, dict[str, float]]:
    quotas = {}
    for _ in range(count):
        entity = Entity.of(_read_parts(reader))
        number = reader.count() or 0
        _require_few(number, _MAX_KEYS, "quota keys")
        quotas[entity] = {reader.string(): reader.float64() for _ in range(number)}
        if len(quotas[entity]) != number:
            raise MalformedError("it names a quota key of an entity twice")
    return quotas


def _read_parts(reader: Reader) -> list[Part]:
    parts: list[Part] = []
    number = reader.count() or 0
    _require_few(number, _MAX_PARTS, "entity types")
    for _ in range(number):
        parts.append((reader.string(), reader.nullable_string()))
        reader.tags()
    if len(dict(parts)) < number:
        raise MalformedError("it names an entity type of an entity twice")
    return parts


def _require_few(number: int, most: int, what: str) -> None:
    if number > most:
        raise MalformedError(f"an entity in it has {number:,} {what}")


def _read_compact_entries(reader: Reader, count: int) -> dict[Entity, dict[str, float]]:
    """Do what `_read_entries` does for flexible answers, in a third of the time: hardly a call but those to builtins.

    A length that lies leads to an index or a slice beyond the end: the byte after it is missing then, or at the very
    end the position is not that of the end.
    """
    data, position = reader.data, reader.position
    quotas: dict[Entity, dict[str, float]] = {}
    texts: dict[bytes, str] = {}
    of, double = Entity.of, FLOAT64.unpack_from
    try:
        for _ in range(count):
            parts, position = _read_compact_parts(reader, position, texts)
            values: dict[str, float] = {}
            number, position = data[position], position + 1
            if number > 0x7F:
                number, position = read_uvarint(data, position - 1)
                _require_few(number - 1, _MAX_KEYS, "quota keys")
            for _ in range(number - 1):
                size, position = data[position], position + 1
                if size > 0x7F:
                    size, position = read_uvarint(data, position - 1)
                if not size:
                    raise MalformedError("a string in it is null")
                end = position + size - 1
                encoded = data[position:end]
                if (key := texts.get(encoded)) is None:
                    key = texts[encoded] = encoded.decode()
                (values[key],) = double(data, end)
                position = end + 8
                if data[position]:
                    position = _pass_tags(reader, position)
                else:
                    position += 1
            if data[position]:
                position = _pass_tags(reader, position)
            else:
                position += 1
            if len(values) < number - 1:
                raise MalformedError("it names a quota key of an entity twice")
            quotas[of(parts)] = values
    except (IndexError, StructError):
        raise MalformedError("it is truncated") from None
    except UnicodeDecodeError:
        raise MalformedError("a string in it is not UTF-8") from None
    reader.position = position
    return quotas


def _read_compact_parts(reader: Reader, position: int, texts: dict[bytes, str]) -> tuple[list[Part], int]:
    """Return the parts of an entity and the position after them.

    `texts` are the entity types that were decoded before. Raises `IndexError`, `UnicodeDecodeError` or
    `MalformedError`.
    """
    data = reader.data
    parts: list[Part] = []
    number, position = data[position], position + 1
    if number > _MAX_PARTS:
        raise MalformedError("an entity in it has too many entity types")
    for _ in range(number - 1):
        size, position = data[position], position + 1
        if size > 0x7F:
            size, position = read_uvarint(data, position - 1)
        if not size:
            raise MalformedError("a string in it is null")
        end = position + size - 1
        encoded = data[position:end]
        if (entity_type := texts.get(encoded)) is None:
            entity_type = texts[encoded] = encoded.decode()
        size, position = data[end], end + 1
        if size > 0x7F:
            size, position = read_uvarint(data, position - 1)
        if size:
            end = position + size - 1
            parts.append((entity_type, data[position:end].decode()))
            position = end
        else:
            parts.append((entity_type, None))
        if data[position]:
            position = _pass_tags(reader, position)
        else:
            position += 1
    if len(parts) > 1 and len(dict(parts)) < len(parts):
        raise MalformedError("it names an entity type of an entity twice")
    return parts, position


def _pass_tags(reader: Reader, position: int) -> int:
    reader.position = position
    reader.tags()
    return reader.position


@dataclass(frozen=True, slots=True, kw_only=True)
class AlteredQuotas(BrokerResponse):
    """The outcome of an alter, row by row, in any order."""

    rows: Sequence[Row]


@dataclass(frozen=True, slots=True)
class AlterClientQuotas(BrokerRequest[AlteredQuotas]):
    """Alter quotas, which must be what `split_alterations` lets pass."""

    API_KEY = 49
    VERSIONS = range(2)
    FLEXIBLE_FROM = 1
    MAX_RESPONSE = 16 << 20

    alterations: Sequence[Alteration]
    validate_only: bool = False

    def write(self, writer: Writer, version: int) -> None:
        """Append the fields. The broker ignores the value of a removal; Kafka's own client sends 0 there."""
        texts: dict[str, bytes] = {}

        def known(text: str) -> bytes:
            """Return an entity type or a key with its length; there are few."""
            if (encoded := texts.get(text)) is None:
                field = Writer(is_flexible=writer.is_flexible)
                field.string(text)
                encoded = texts[text] = bytes(field.data)
            return encoded

        def part(item: Part) -> None:
            writer.data += known(item[0])
            writer.nullable_string(item[1])
            writer.tags()

        def op(item: tuple[str, float | None]) -> None:
            key, value = item
            writer.data += known(key)
            writer.number(FLOAT64, 0.0 if value is None else value)
            writer.boolean(value is None)
            writer.tags()

        def entry(alteration: Alteration) -> None:
            writer.array(alteration.entity.parts, part)
            writer.array(alteration.ops.items(), op)
            writer.tags()

        writer.array(self.alterations, entry)
        writer.boolean(self.validate_only)
        writer.tags()

    def read(self, reader: Reader, version: int) -> AlteredQuotas:
        """Return the rows."""

        def row() -> Row:
            error_code, error_message = reader.int16(), reader.nullable_string()
            parts = _read_parts(reader)
            reader.tags()
            return parts, error_code, error_message

        throttle = reader.int32()
        count = reader.count() or 0
        if count > len(self.alterations):
            raise MalformedError(f"it has {count:,} rows for {len(self.alterations):,} entities")
        rows = [row() for _ in range(count)]
        reader.tags()
        return AlteredQuotas(throttle_time_ms=throttle, rows=rows)
