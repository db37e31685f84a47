"""DescribeClientQuotas and AlterClientQuotas (KIP-546)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from quotaform.cluster.wire.message import FLOAT64, INT8, BrokerRequest, Described, MalformedError, Reader, Writer
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
RawQuotas = dict[Entity, dict[str, float]]
"""Every entity with every name and value as it came."""


@dataclass(frozen=True, slots=True)
class DescribeClientQuotas(BrokerRequest[Described[RawQuotas]]):
    """Ask for the quotas of the entities that a filter selects, which must be one that brokers evaluate."""

    API_KEY = 48
    VERSIONS = range(2)
    FLEXIBLE_FROM = 1
    MAX_RESPONSE = 256 << 20

    entity_filter: EntityFilter

    def _write(self, writer: Writer, version: int) -> None:
        def component(asked: FilterComponent) -> None:
            writer.string(asked.entity_type)
            writer.number(INT8, _MATCH_TYPES[asked.rule])
            writer.nullable_string(asked.match)

        writer.structures(self.entity_filter.components, component)
        writer.boolean(self.entity_filter.is_strict)

    def _read(self, reader: Reader, version: int) -> Described[RawQuotas]:
        error_code, error_message = reader.int16(), reader.nullable_string()
        count = reader.count(_MAX_ENTITIES, "entities")
        quotas: RawQuotas = {}
        for _ in range(count):
            entity = Entity.of(_read_parts(reader))
            number = reader.count(_MAX_KEYS, "quota keys")
            values = quotas[entity] = {}
            for _ in range(number):
                key = reader.string()
                values[key] = reader.float64()
                reader.tags()
            reader.tags()
            if len(values) != number:
                raise MalformedError("it names a quota key of an entity twice")
        if len(quotas) != count:
            raise MalformedError("it names an entity twice")
        return Described(error_code, error_message, quotas)


def _read_parts(reader: Reader) -> list[Part]:
    parts: list[Part] = []
    for _ in range(reader.count(_MAX_PARTS, "entity types")):
        parts.append((reader.string(), reader.nullable_string()))
        reader.tags()
    if len(parts) > 1 and len(dict(parts)) < len(parts):
        raise MalformedError("it names an entity type of an entity twice")
    return parts


@dataclass(frozen=True, slots=True)
class AlterClientQuotas(BrokerRequest[Sequence[Row]]):
    """Alter quotas, which must be what `split_alterations` lets pass; its answer has a row for each, in any order."""

    API_KEY = 49
    VERSIONS = range(2)
    FLEXIBLE_FROM = 1
    MAX_RESPONSE = 16 << 20

    alterations: Sequence[Alteration]
    validate_only: bool = False

    def _write(self, writer: Writer, version: int) -> None:
        def part(item: Part) -> None:
            writer.string(item[0])
            writer.nullable_string(item[1])

        def op(item: tuple[str, float | None]) -> None:
            key, value = item
            writer.string(key)
            # The broker ignores the value of a removal; Kafka's own client sends 0.
            writer.number(FLOAT64, 0.0 if value is None else value)
            writer.boolean(value is None)

        def entry(alteration: Alteration) -> None:
            writer.structures(alteration.entity.parts, part)
            writer.structures(alteration.ops.items(), op)

        writer.structures(self.alterations, entry)
        writer.boolean(self.validate_only)

    def _read(self, reader: Reader, version: int) -> Sequence[Row]:
        def row() -> Row:
            error_code, error_message = reader.int16(), reader.nullable_string()
            return _read_parts(reader), error_code, error_message

        rows = reader.structures(row)
        if len(rows) > len(self.alterations):
            raise MalformedError(f"it has {len(rows):,} rows for {len(self.alterations):,} entities")
        return rows
