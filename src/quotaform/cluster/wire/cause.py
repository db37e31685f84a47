"""What can go wrong between a client and a server, in terms of our own, Python's and OpenSSL's."""

from __future__ import annotations

from socket import gaierror
from ssl import SSLError

from quotaform.model.text import inert


class LostError(Exception):
    """The other side ended the connection; the first argument says how, in a few words."""


class NotKafkaError(Exception):
    """What was read makes no sense as the length of an answer.

    Attributes:
        first_bytes: The first bytes that the server sent, four at most.
    """

    def __init__(self, first_bytes: bytes) -> None:
        self.first_bytes = first_bytes
        super().__init__("not the Kafka protocol")


class CodeError(Exception):
    """A broker answered with an error code.

    Attributes:
        code: The code as in Kafka's protocol.
    """

    def __init__(self, code: int) -> None:
        self.code = code
        super().__init__(f"error code {code}")


class TooOldError(Exception):
    """A server does not know a request at all."""

    def __init__(self) -> None:
        super().__init__("too old")


class UnprovenError(Exception):
    """A server did not prove that it knows the password, which SCRAM asks of both sides."""

    def __init__(self) -> None:
        super().__init__("wrong SCRAM answer")


class OtherClusterError(Exception):
    """A server belongs to another cluster than the one that was connected to.

    Attributes:
        found: The id of its cluster, if it has one.
        expected: The id of the cluster that was connected to.
    """

    def __init__(self, found: str | None, expected: str) -> None:
        self.found = found
        self.expected = expected
        super().__init__("another cluster")

    def __str__(self) -> str:
        found = inert(self.found) if self.found else "without an id"
        return f"is cluster {found}, not {inert(self.expected)}"


def shorten(error: BaseException) -> str:
    """Return a few words about an error."""
    if isinstance(error, gaierror):
        return "name not resolved"
    if isinstance(error, ConnectionRefusedError):
        return "connection refused"
    if isinstance(error, TimeoutError):
        return "no answer in time"
    if isinstance(error, SSLError):
        return f"TLS: {error.reason or 'failed'}"
    if isinstance(error, OSError):
        return error.strerror or type(error).__name__
    return str(error.args[0]) if error.args else type(error).__name__
