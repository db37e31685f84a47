"""DescribeConfigs (KIP-133, KIP-569), for one value of one broker."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from quotaform.cluster.wire.codec import INT8, MalformedError, Reader, Writer
from quotaform.cluster.wire.message import BrokerRequest, BrokerResponse

_BROKER: Final = 4
"""ConfigResource.Type.BROKER."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribedConfig(BrokerResponse):
    """One configuration value; `None` when the broker has none."""

    error_code: int
    error_message: str | None
    value: str | None


@dataclass(frozen=True, slots=True)
class DescribeBrokerConfig(BrokerRequest[DescribedConfig]):
    """Ask a broker for one of its configuration values, which only that broker answers."""

    API_KEY = 32
    VERSIONS = range(1, 5)
    FLEXIBLE_FROM = 4

    node_id: int
    name: str

    def write(self, writer: Writer, version: int) -> None:
        """Append the fields: one resource, one key, neither synonyms nor documentation."""

        def resource(node_id: int) -> None:
            writer.number(INT8, _BROKER)
            writer.string(str(node_id))
            writer.array([self.name], writer.string)
            writer.tags()

        writer.array([self.node_id], resource)
        writer.boolean(False)
        if version >= 3:
            writer.boolean(False)
        writer.tags()

    def read(self, reader: Reader, version: int) -> DescribedConfig:
        """Return the value."""

        def synonym() -> None:
            reader.string()
            reader.nullable_string()
            reader.int8()
            reader.tags()

        def config() -> tuple[str, str | None]:
            found = reader.string(), reader.nullable_string()
            for _ in ("read-only", "source", "sensitive"):
                reader.int8()
            reader.array(synonym)
            if version >= 3:
                reader.int8()  # its type
                reader.nullable_string()  # its documentation
            reader.tags()
            return found

        def result() -> tuple[int, str | None, dict[str, str | None]]:
            code, message = reader.int16(), reader.nullable_string()
            reader.int8()
            reader.string()
            found = code, message, dict(reader.array(config))
            reader.tags()
            return found

        throttle = reader.int32()
        results = reader.array(result)
        reader.tags()
        if len(results) != 1:
            raise MalformedError("it has not one result for one resource")
        [(code, message, values)] = results
        value = values.get(self.name) or None
        return DescribedConfig(throttle_time_ms=throttle, error_code=code, error_message=message, value=value)
