"""Connection failures: the causes, and one sentence about each, TLS included, which states only what is known.

A cause is one of the errors here, a `MalformedError`, an `OSError` of the system (`TimeoutError` when there was no
response in time), or an `SSLError` of OpenSSL.

A connection that ends during a handshake has many causes: a listener without TLS hangs up, and so does a healthy one
behind a proxy or with a connection quota. The messages therefore never suggest disabling TLS.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from enum import IntEnum
from re import MULTILINE
from re import compile as regex
from socket import gaierror
from ssl import SSLCertVerificationError, SSLEOFError, SSLError, SSLZeroReturnError
from typing import Final

from msgspec import Struct

from quotaform.cluster.client.config import ClientConfig
from quotaform.cluster.wire.message import MalformedError
from quotaform.model.errors import AuthenticationError, ClusterError, ConnectError, UnsupportedError
from quotaform.model.server import LIST_IT, UNLISTED


class AttemptError(Exception):
    """What ended an attempt: `case` names its sentence below, `words` say it briefly, and the sentence holds `more`.

    | case | what happened |
    | --- | --- |
    | Lost | the other side ended the connection, or this one closed it |
    | LookupTimeout | the name server did not answer in time |
    | Unlisted | the operator did not list the host, so that its name was not even looked up |
    | Silent | a broker sent nothing for some time, and there was time left |
    | SpeaksTls, SpeaksHttp, NotKafka | what was read makes no sense as the length of an answer |
    | TooOld | a server does not know a request at all |
    | NotOffered, NoSasl, Refused, Code | a broker answered with an error code, and `more`, inert and short, besides |
    | Unproven | a server did not prove who it is, as SCRAM and GSSAPI require of both sides |
    | OtherCluster | a server belongs to another cluster than the one that was connected to |
    """

    def __init__(self, case: str, words: str, more: str = "") -> None:
        self.case = case
        self.more = more
        super().__init__(words)


SASL_FAILED: Final = 58
"""SASL_AUTHENTICATION_FAILED"""
_CODES: Final = {33: "NotOffered", 34: "NoSasl", SASL_FAILED: "Refused"}
"""UNSUPPORTED_SASL_MECHANISM, and ILLEGAL_SASL_STATE: SASL was begun on a listener without it."""


def code_error(code: int, said: str = "") -> AttemptError:
    """Return the error for an error code; see `AttemptError`."""
    return AttemptError(_CODES.get(code, "Code"), f"error code {code}", said)


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


def shorten(error: BaseException) -> str:
    """Return a few words about an error."""
    if known := next((_WORDS[kind] for kind in type(error).__mro__ if kind in _WORDS), ""):
        return known
    if isinstance(error, SSLCertVerificationError):
        return f"certificate not accepted: {error.verify_message}"
    if isinstance(error, SSLError):
        return f"TLS: {error.reason or 'failed'}"
    if isinstance(error, OSError):
        return error.strerror or type(error).__name__
    if isinstance(error, MalformedError):
        return f"its response is malformed: {error}"
    return str(error.args[0]) if error.args else type(error).__name__


_WORDS: Final[dict[type, str]] = {
    gaierror: "name not resolved",
    ConnectionRefusedError: "connection refused",
    TimeoutError: "no response in time",
}


class Stage(IntEnum):
    """The step of an attempt at which it failed; failures of later steps are the more informative."""

    CONNECT = 0  # looking up the name and opening a TCP connection
    TLS = 1  # the TLS handshake
    API_VERSIONS = 2  # the first Kafka request, ApiVersions
    SASL = 3  # SASL authentication
    METADATA = 4  # the first request that needs authentication, Metadata
    CLUSTER_ID = 5  # the check that the server is of the cluster connected to before


class Failure(Struct, frozen=True, kw_only=True):
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
    if isinstance(cause, AttemptError) and cause.case == "Silent":
        problem = f"{server} sent {cause}."
    elif isinstance(cause, TimeoutError) and cause.errno is None:
        problem = f"{server} did not answer within {seconds:.0f} s."
    elif isinstance(cause, MalformedError):
        problem = f"{server} sent a response that cannot be read: {cause}."
    else:
        problem = f"The connection to {server} was lost before it responded ({shorten(cause)})."
    return UnansweredError(problem, server=server)


_CERTIFICATE_CODES: Final = {9: "NotNow", 10: "NotNow", 62: "HostMismatch", 64: "HostMismatch"}
"""Verify codes of OpenSSL (x509_vfy.h)."""

_TEXT: Final = """
CONNECT Unlisted: {server} {unlisted}; {list_it}
CONNECT gaierror: the host name {host} of {server} cannot be resolved; check its spelling and your DNS
CONNECT LookupTimeout: looking up the host name {host} takes longer than {seconds:g} s; check your DNS
CONNECT ConnectionRefusedError: nothing listens at {server} (connection refused);
    check the host and port, and whether the broker is running
CONNECT TimeoutError: {server} did not accept a connection within {seconds:g} s;
    check the address, and whether a firewall or VPN is in between
CONNECT Exception: {server} cannot be reached ({why}); check the address and your network

TLS TimeoutError: {server} did not answer the TLS handshake within {seconds:g} s;
    check that the port speaks TLS, as security.protocol={protocol} says, and that the broker is healthy
TLS SSLError: {server} answered the TLS handshake with something that is not TLS, or damaged ({why});
    check that the port is that of a listener with security.protocol={protocol}
TLS Exception: {server} closed the connection during the TLS handshake;
    listeners without TLS, brokers that limit connections, and proxies do that: check that the port is that of a
    listener with security.protocol={protocol}, and try again
TLS HostMismatch: the certificate of {server} was not issued for {host};
    connect by a name that the certificate contains, or have it issued for this one
TLS NotNow: the certificate of {server}, or one in its chain, is not valid now ({why});
    renew it on the broker, or check the clock of this machine
TLS Untrusted: the certificate of {server} is not trusted ({why}); {give_issuer}
TLS NoVersion: {server} and this client have no TLS version in common;
    compare ssl.enabled.protocols of this client and of the broker
TLS NoCertificate: {server} requires a client certificate, but none is configured;
    give one with ssl.keystore.type=PEM and ssl.keystore.location (key and certificate chain)
TLS OwnRefused: {server} did not accept the client certificate ({reason});
    use one that is valid now and that a CA in the broker's truststore issued, with its whole chain
TLS Handshake: {server} refused the TLS handshake ({reason});
    if it requires a client certificate, give one with ssl.keystore.location whose CA is in its truststore; compare
    ssl.cipher.suites

API_VERSIONS SpeaksTls: {server} speaks TLS but security.protocol is {protocol};
    set security.protocol={with_tls} (and ssl.truststore.location), or use the port of a listener without TLS
API_VERSIONS SpeaksHttp: {server} is a web server; use the port of a Kafka listener
API_VERSIONS NotKafka: {server} does not speak the Kafka protocol; use the port of a Kafka listener
API_VERSIONS MalformedError: {server} does not speak the Kafka protocol; use the port of a Kafka listener
API_VERSIONS TimeoutError: {server} accepted the connection and did not answer within {seconds:g} s;
    check that this is a Kafka broker and that it is healthy
API_VERSIONS Exception: {server} closed the connection at the first request{how};
    check that this is the port of a Kafka listener with security.protocol={protocol}, and whether the broker limits
    connections

SASL NotOffered: {server} does not offer the SASL mechanism {mechanism};
    set sasl.mechanism to one of the broker's sasl.enabled.mechanisms
SASL NoSasl: the listener at {server} has no SASL but security.protocol is {protocol};
    use the port of a SASL listener, or security.protocol={without_sasl} for this one
SASL Refused: {server} did not accept {who}{said}; {check}
SASL TimeoutError: {server} did not finish authenticating {who} within {seconds:g} s; check that the broker is healthy
SASL Unproven: {server} did not prove its identity to {who}; check that this is the right server
SASL MalformedError: {server} sent an invalid response ({why}); check that this is a Kafka broker
SASL Exception: {server} closed the connection while {who} was authenticating;
    {check}: brokers close the connection if they are wrong; if they are correct, try again

METADATA TooOld:
    {server} is a KRaft controller or a broker that is too old: it does not support the requests of clients;
    use the address of a broker
METADATA TimeoutError: {server} stopped answering within {seconds:g} s; check that the broker is healthy
METADATA MalformedError: {server} sent an invalid response ({why}); check that this is a Kafka broker
METADATA WithoutSasl: {server} closed the connection instead of responding, as listeners that require SASL do{how};
    if it requires SASL, set security.protocol={with_sasl}, sasl.mechanism and sasl.jaas.config; otherwise try again,
    and check that the broker is healthy
METADATA Exception: {server} closed the connection{how}; check that the broker is healthy

CLUSTER_ID Exception: {server} {more};
    check that all bootstrap servers and advertised listeners are of one cluster
"""
"""The problem and the remedy by stage and case: what was found out, or the class of the cause; see `_cases`."""
_SENTENCES: Final = {
    (stage, case): " ".join(sentence.split()).partition("; ")[::2]
    for stage, case, sentence in regex(r"^([A-Z_]+) (\w+):((?:.*\n)(?: .*\n)*)", MULTILINE).findall(_TEXT)
}
AUTHENTICATION: Final = frozenset({
    "NoCertificate", "OwnRefused", "Handshake", "NotOffered", "NoSasl", "Refused", "Code", "Unproven",
})  # fmt: skip
"""The cases that are an `AuthenticationError`, as is a connection that ends while one authenticates."""


def connect_error(name: str, config: ClientConfig, failures: Sequence[Failure]) -> ClusterError:
    """Return the error for a cluster of which no server could be used.

    It is about the server with which the connection got furthest, and names the others.
    """
    closest = max(failures, key=lambda failure: failure.stage)
    kind, problem, remedy = _explain(config, closest)
    others = [failure for failure in failures if failure.server != closest.server]
    also = ""
    if others:
        listed = ", ".join(f"{other.server} ({shorten(other.cause)})" for other in others[:3])
        more = f" and {len(others) - 3} more" if len(others) > 3 else ""
        also = f" Also tried: {listed}{more}."
    return kind(
        f"Cannot connect to {name}: {problem}",
        remedy=f"{remedy}.",
        cluster=name,
        server=closest.server,
    ).with_more(also)


def _explain(config: ClientConfig, failure: Failure) -> tuple[type[ClusterError], str, str]:
    cause, server, credentials = failure.cause, failure.server, config.credentials
    host = server if server.endswith("}") else server.rpartition(":")[0]
    if isinstance(cause, LoginError):
        shown = host if "${" in server else cause.name
        return AuthenticationError, cause.problem.replace("{name}", shown), cause.remedy
    has_truststore = config.tls is not None and config.tls.ca is not None
    is_tls = config.security_protocol.endswith("SSL")
    is_lost = isinstance(cause, AttemptError) and cause.case == "Lost"
    facts: dict[str, object] = {
        "server": server,
        "host": host,
        "seconds": round(failure.seconds, 1),
        "why": cause.verify_message if isinstance(cause, SSLCertVerificationError) else shorten(cause),
        "more": getattr(cause, "more", cause),
        "how": "" if is_lost else f" ({shorten(cause)})",
        "reason": getattr(cause, "reason", ""),
        "unlisted": UNLISTED,
        "list_it": LIST_IT,
        "protocol": config.security_protocol,
        "with_tls": "SASL_SSL" if config.security_protocol.startswith("SASL_") else "SSL",
        "with_sasl": "SASL_SSL" if is_tls else "SASL_PLAINTEXT",
        "without_sasl": "SSL" if is_tls else "PLAINTEXT",
        "give_issuer": "add the CA that issued it to the truststore of the client properties, which does not contain it"
        if has_truststore
        else "give the CA that issued it with ssl.truststore.type=PEM and ssl.truststore.location",
        "said": f" and answered {cause.more}" if isinstance(cause, AttemptError) and cause.more else "",
    }
    if credentials is not None:
        who = f"{credentials.who} ({credentials.mechanism})"
        facts |= {"mechanism": credentials.mechanism, "who": who, "check": credentials.check}
    stage, case = next(each for each in _cases(config, failure) if each in _SENTENCES)
    problem, remedy = _SENTENCES[stage, case]
    kind: type[ClusterError] = ConnectError
    if case in AUTHENTICATION or (stage, case) == ("SASL", "Exception"):
        kind = AuthenticationError
    elif case == "TooOld":
        kind = UnsupportedError
    return kind, problem.format_map(facts), remedy.format_map(facts)


def _cases(config: ClientConfig, failure: Failure) -> Iterator[tuple[str, str]]:
    """Yield stage and case, the most exact one first."""
    cause, stage = failure.cause, failure.stage.name
    if isinstance(cause, SSLCertVerificationError):
        yield stage, _CERTIFICATE_CODES.get(cause.verify_code, "Untrusted")
    elif isinstance(cause, SSLError) and failure.stage in (Stage.TLS, Stage.API_VERSIONS):
        # With TLS 1.3 the alert about a client certificate comes after the handshake.
        alert = f"{cause.reason or ''} {cause}".upper()
        if "PROTOCOL_VERSION" in alert or "UNSUPPORTED_PROTOCOL" in alert:
            yield "TLS", "NoVersion"
        elif "ALERT" in alert and ("CERTIFICATE" in alert or "UNKNOWN_CA" in alert):
            yield "TLS", "OwnRefused" if config.tls and config.tls.key_store else "NoCertificate"
        elif "ALERT" in alert and "HANDSHAKE_FAILURE" in alert:
            yield "TLS", "Handshake"
        if isinstance(cause, (SSLEOFError, SSLZeroReturnError)) or "EOF" in (cause.reason or ""):
            yield stage, "Exception"
    elif isinstance(cause, AttemptError):
        yield stage, cause.case
    for kind in type(cause).__mro__:
        if kind is Exception and not config.security_protocol.startswith("SASL_"):
            yield stage, "WithoutSasl"
        yield stage, kind.__name__
