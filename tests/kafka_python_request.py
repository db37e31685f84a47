"""Requests in kafka-python's codec, for what tests ask a broker and quotaform never does."""

from __future__ import annotations

from typing import Any

from quotaform.cluster.wire.message import BrokerRequest, Reader, Writer


class KafkaPythonRequest(BrokerRequest[Any]):
    """A request of kafka-python, whose answer is the one that kafka-python makes of it."""

    MAX_RESPONSE = 64 << 20

    def __init__(self, request: Any, answer: Any, version: int | None = None) -> None:
        """Wrap a request and the class of its answer, in one version or in all that both sides speak."""
        self._request = request
        self._answer = answer
        self.API_KEY = request.API_KEY  # type: ignore[misc]
        self.VERSIONS = range(request.max_version + 1) if version is None else range(version, version + 1)  # type: ignore[misc]
        self.FLEXIBLE_FROM = next(v for v in range(100) if v > request.max_version or request.flexible_version_q(v))  # type: ignore[misc]

    def write(self, writer: Writer, version: int) -> None:
        """Append what kafka-python encodes."""
        writer.data += bytes(self._request.encode(version=version))

    def read(self, reader: Reader, version: int) -> Any:
        """Return what kafka-python decodes."""
        rest, reader.position = reader.data[reader.position :], len(reader.data)
        return self._answer.decode(rest, version=version)
