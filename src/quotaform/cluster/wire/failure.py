"""Connection failures: the causes, and the facts that messages about them need.

A cause is one of the errors here, an `OSError` of the system (`TimeoutError` when there was no response in time), or an
`SSLError` of OpenSSL.
"""

from __future__ import annotations

from binascii import Error as Base64Error
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import IntEnum
from re import DOTALL
from re import compile as regex
from socket import gaierror
from ssl import PEM_cert_to_DER_cert, SSLCertVerificationError, SSLError
from typing import Final, NamedTuple

from quotaform.cluster.wire.message import MalformedError
from quotaform.model.errors import ClusterError
from quotaform.model.server import ALLOWED_HOSTS
from quotaform.model.text import inert

_UTC_TIME: Final = rb"\x17\x0d([0-9]{12})Z"
_GENERALIZED_TIME: Final = rb"\x18\x0f([0-9]{14})Z"
_TIME: Final = rb"(?:" + _UTC_TIME + rb"|" + _GENERALIZED_TIME + rb")"
_VALIDITY: Final = regex(rb"\x30." + _TIME + _TIME, DOTALL).search
"""The Validity of RFC 5280 in DER: a SEQUENCE of two times, each short or long."""

_PEM: Final = regex(r"-----BEGIN CERTIFICATE-----[^-]*-----END CERTIFICATE-----").search


class Validity(NamedTuple):
    """From when until when a certificate is valid, in UTC."""

    begin: datetime
    end: datetime

    def __str__(self) -> str:
        return f"it is valid from {self.begin:%Y-%m-%dT%H:%M:%SZ} until {self.end:%Y-%m-%dT%H:%M:%SZ}"


def read_validity(text: str) -> Validity | None:
    """Return the validity of the first certificate of a PEM text, `None` when there is none that can be read."""
    pem = _PEM(text)
    try:
        found = _VALIDITY(PEM_cert_to_DER_cert(pem[0])) if pem else None
        return Validity(_time(*found.group(1, 2)), _time(*found.group(3, 4))) if found else None
    except (Base64Error, ValueError):
        return None


def _time(short: bytes | None, long: bytes | None) -> datetime:
    if long is not None:
        return datetime.strptime(long.decode(), "%Y%m%d%H%M%S").replace(tzinfo=UTC)
    # Two digits of a year are 1950 to 2049 (RFC 5280, 4.1.2.5.1).
    text = (short or b"").decode()
    century = "19" if text[:2] >= "50" else "20"
    return datetime.strptime(century + text, "%Y%m%d%H%M%S").replace(tzinfo=UTC)


class LostError(Exception):
    """The other side ended the connection; the first argument says how, in a few words."""


class LookupTimeoutError(Exception):
    """The name server did not answer in time."""


class UnlistedError(Exception):
    """The operator did not list the host, so that its name was not even looked up."""


class SilentError(TimeoutError):
    """A broker sent nothing for some time, and there was time left."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        super().__init__(f"nothing for {seconds:g} s")


class NotKafkaError(Exception):
    """What was read makes no sense as the length of an answer.

    `first_bytes` are those that the server sent, four at most.
    """

    def __init__(self, first_bytes: bytes) -> None:
        self.first_bytes = first_bytes
        super().__init__("not the Kafka protocol")


class CodeError(Exception):
    """A broker answered with an error code."""

    def __init__(self, code: int) -> None:
        self.code = code
        super().__init__(f"error code {code}")


class RefusedError(CodeError):
    """A broker did not accept the client, and said more than that.

    `said` is inert, and short.
    """

    def __init__(self, code: int, said: str) -> None:
        self.said = said
        super().__init__(code)


class TooOldError(Exception):
    """A server does not know a request at all."""


class LoginError(Exception):
    """There is nothing to authenticate with, as no token or ticket could be had; nothing was sent to the broker.

    `problem` goes on after "Cannot connect to NAME:", with `{name}` for `name`: the one that DNS has for the
    broker's host, which is not shown for a server that a variable holds.
    """

    def __init__(self, problem: str, remedy: str, *, name: str = "") -> None:
        self.problem = problem
        self.remedy = remedy
        self.name = name
        super().__init__(problem)


class UnprovenError(Exception):
    """A server did not prove who it is, as SCRAM and GSSAPI require of both sides."""


class OtherClusterError(Exception):
    """A server belongs to another cluster than the one that was connected to."""

    def __init__(self, found: str | None, expected: str) -> None:
        self.found = found
        self.expected = expected

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
        return "no response in time"
    if isinstance(error, SSLError):
        return f"TLS: {error.reason or 'failed'}"
    if isinstance(error, OSError):
        return error.strerror or type(error).__name__
    if isinstance(error, MalformedError):
        return f"its response is malformed: {error}"
    return _WORDS.get(type(error)) or (str(error.args[0]) if error.args else type(error).__name__)


_WORDS: Final[dict[type[BaseException], str]] = {
    LookupTimeoutError: "name not resolved in time",
    UnlistedError: f"not listed in {ALLOWED_HOSTS}",
    TooOldError: "too old",
    UnprovenError: "wrong SASL answer",
    OtherClusterError: "another cluster",
}


class CertificateError(Exception):
    """A server's certificate was not accepted."""

    def __init__(self, cause: SSLCertVerificationError) -> None:
        self.code = cause.verify_code
        self.words = cause.verify_message
        super().__init__(f"certificate not accepted: {self.words}")


class Stage(IntEnum):
    """The step of an attempt at which it failed; failures of later steps are the more informative."""

    CONNECT = 0
    """Looking up the name and opening a TCP connection."""
    TLS = 1
    """The TLS handshake."""
    API_VERSIONS = 2
    """The first Kafka request, ApiVersions."""
    SASL = 3
    """SASL authentication."""
    METADATA = 4
    """The first request that needs authentication, Metadata."""
    CLUSTER_ID = 5
    """The check that the server is of the cluster connected to before."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """One attempt at one server that failed."""

    server: str
    stage: Stage
    cause: BaseException
    seconds: float  # how long the attempt was given, to be shown

    @property
    def is_final(self) -> bool:
        """Whether no other server may be tried: repeating wrong credentials locks accounts."""
        return self.stage is Stage.SASL and not isinstance(self.cause, TimeoutError)

    @property
    def is_certain(self) -> bool:
        """Whether trying again, once all servers were tried, makes no sense."""
        return self.is_final or self.stage is Stage.CLUSTER_ID


class UnansweredError(ClusterError):
    """A request was sent and not answered; it may have been carried out."""


def unanswered(server: str, cause: BaseException, seconds: float) -> UnansweredError:
    """Return the error for a request that was sent and not answered."""
    if isinstance(cause, SilentError):
        problem = f"{server} sent nothing for {cause.seconds:g} s."
    elif isinstance(cause, TimeoutError) and cause.errno is None:
        problem = f"{server} did not answer within {seconds:.0f} s."
    elif isinstance(cause, MalformedError):
        problem = f"{server} sent a response that cannot be read: {cause}."
    else:
        problem = f"The connection to {server} was lost before it responded ({shorten(cause)})."
    return UnansweredError(problem, server=server)
