"""Connection failures: the causes, and the facts that messages about them need.

A cause is one of the errors here, an `OSError` of the system (`TimeoutError` when there was no response in time), or an
`SSLError` of OpenSSL.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from socket import gaierror
from ssl import SSLCertVerificationError, SSLError
from typing import TYPE_CHECKING, Final

from quotaform.cluster.wire.certificate import Validity
from quotaform.cluster.wire.codec import MalformedError
from quotaform.errors import ClusterError
from quotaform.model.server import ALLOWED_HOSTS
from quotaform.model.text import inert

if TYPE_CHECKING:
    from quotaform.cluster.sasl.credentials import Credentials


class LostError(Exception):
    """The other side ended the connection; the first argument says how, in a few words."""


class LookupTimeoutError(Exception):
    """The name server did not answer in time."""

    def __init__(self) -> None:
        super().__init__("name not resolved in time")


class UnlistedError(Exception):
    """The operator did not list the host, so that its name was not even looked up."""

    def __init__(self) -> None:
        super().__init__(f"not listed in {ALLOWED_HOSTS}")


class SilentError(TimeoutError):
    """A broker sent nothing for some time, and there was time left.

    Attributes:
        seconds: For how long.
    """

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        super().__init__(f"nothing for {seconds:g} s")


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


class RefusedError(CodeError):
    """A broker did not accept the client, and said more than that.

    Attributes:
        said: What it said: inert, and short.
    """

    def __init__(self, code: int, said: str) -> None:
        self.said = said
        super().__init__(code)


class TooOldError(Exception):
    """A server does not know a request at all."""

    def __init__(self) -> None:
        super().__init__("too old")


class LoginError(Exception):
    """There is nothing to authenticate with, as no token or ticket could be had; nothing was sent to the broker.

    Attributes:
        problem: What is wrong; goes on after "Cannot connect to NAME:", with `{name}` for `name`.
        remedy: What to do.
        name: The name that DNS has for the broker's host; not shown for a server that a variable holds.
    """

    def __init__(self, problem: str, remedy: str, *, name: str = "") -> None:
        self.problem = problem
        self.remedy = remedy
        self.name = name
        super().__init__(problem)


class UnprovenError(Exception):
    """A server did not prove who it is, as SCRAM and GSSAPI require of both sides."""

    def __init__(self) -> None:
        super().__init__("wrong SASL answer")


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
        return "no response in time"
    if isinstance(error, SSLError):
        return f"TLS: {error.reason or 'failed'}"
    if isinstance(error, OSError):
        return error.strerror or type(error).__name__
    if isinstance(error, MalformedError):
        return f"its response is malformed: {error}"
    return str(error.args[0]) if error.args else type(error).__name__


NOT_YET_VALID: Final = 9
EXPIRED: Final = 10
"""Verify codes of OpenSSL (x509_vfy.h)."""


class CertificateError(Exception):
    """A server's certificate was not accepted.

    Attributes:
        code: Why, as OpenSSL numbers it.
        words: The same in OpenSSL's words.
        validity: When the certificate is valid, if that is what is wrong and could be read.
    """

    def __init__(self, cause: SSLCertVerificationError, validity: Validity | None) -> None:
        self.code = cause.verify_code
        self.words = cause.verify_message
        self.validity = validity
        super().__init__(f"certificate not accepted: {self.words}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Intent:
    """What the client was asked to do, as far as a sentence about a failure needs it.

    Attributes:
        name: What messages call the cluster.
        protocol: `security.protocol`.
        credentials: What it authenticates with, if the protocol has SASL.
        has_truststore: Whether the client properties say which certificates are trusted.
        has_certificate: Whether a client certificate is shown.
        certificate_validity: When that certificate is valid, if it can be read.
    """

    name: str
    protocol: str
    credentials: Credentials | None = None
    has_truststore: bool = False
    has_certificate: bool = False
    certificate_validity: Validity | None = None

    @property
    def is_tls(self) -> bool:
        """Whether the protocol is TLS underneath."""
        return self.protocol.endswith("SSL")

    @property
    def is_sasl(self) -> bool:
        """Whether the protocol authenticates by SASL."""
        return self.protocol.startswith("SASL_")


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
    """One attempt at one server that failed.

    Attributes:
        server: The server as `host:port`.
        stage: Where it failed.
        cause: What was raised, see above.
        seconds: How long the attempt was given, to be shown.
    """

    server: str
    stage: Stage
    cause: BaseException
    seconds: float

    @property
    def is_final(self) -> bool:
        """Whether no other server may be tried: repeating wrong credentials locks accounts."""
        return self.stage is Stage.SASL and not isinstance(self.cause, TimeoutError)

    @property
    def is_certain(self) -> bool:
        """Whether trying again, once all servers were tried, makes no sense."""
        return self.is_final or self.stage is Stage.CLUSTER_ID


Sentence = tuple[type[ClusterError], str, str]
"""The error to raise, the problem, and the remedy."""


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
