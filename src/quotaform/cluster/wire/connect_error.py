"""One-sentence messages for all failures to connect, TLS included, which state only what is known.

A connection that ends during a handshake has many causes: a listener without TLS hangs up, and so does a healthy one
behind a proxy or with a connection quota. The messages therefore never suggest disabling TLS.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from re import MULTILINE
from re import compile as regex
from ssl import SSLEOFError, SSLError, SSLZeroReturnError
from typing import Final

from quotaform.cluster.client.config import ClientConfig
from quotaform.cluster.wire.failure import (
    CertificateError,
    CodeError,
    Failure,
    LoginError,
    LostError,
    NotKafkaError,
    RefusedError,
    Stage,
    Validity,
    read_validity,
    shorten,
)
from quotaform.model.errors import AuthenticationError, ClusterError, ConnectError, UnsupportedError
from quotaform.model.server import LIST_IT, UNLISTED, shown_host

SASL_FAILED: Final = 58
"""SASL_AUTHENTICATION_FAILED"""
_CODES: Final = {33: "NotOffered", 34: "NoSasl", SASL_FAILED: "Refused"}
"""UNSUPPORTED_SASL_MECHANISM, and ILLEGAL_SASL_STATE: SASL was begun on a listener without it."""
_NOT_NOW: Final = {9: "is not valid yet", 10: "has expired"}
_HOST_MISMATCH: Final = frozenset({62, 64})
_SELF_SIGNED: Final = 18
"""Verify codes of OpenSSL (x509_vfy.h)."""
_TLS_ALERT: Final = b"\x15"
_HTTP: Final = b"HTTP"

_TEXT: Final = """
CONNECT UnlistedError: {server} {unlisted}; {list_it}
CONNECT gaierror: the host name {host} of {server} cannot be resolved; check its spelling and your DNS
CONNECT LookupTimeoutError: looking up the host name {host} takes longer than {seconds:g} s; check your DNS
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
TLS NotNow: the certificate of {server}, or one in its chain, {state};
    renew it on the broker, or check the clock of this machine
TLS SelfSigned: the certificate of {server} is self-signed and not trusted; if it is the right one, {give_it}
TLS Untrusted: the certificate of {server} is not trusted ({why}); {give_issuer}
TLS NoVersion: {server} and this client have no TLS version in common;
    compare ssl.enabled.protocols of this client and of the broker
TLS NoCertificate: {server} requires a client certificate, but none is configured;
    give one with ssl.keystore.type=PEM and ssl.keystore.location (key and certificate chain)
TLS OwnNotNow: {server} did not accept the client certificate, which {state}: {validity};
    renew it, or check the clock of this machine
TLS OwnExpired: {server} says that the client certificate, or one in its chain, has expired;
    renew it, or check the clocks of this machine and of the broker
TLS OwnRefused: {server} did not accept the client certificate ({reason});
    use one that a CA in the broker's truststore issued, with its whole chain
TLS HandshakeWithCertificate: {server} refused the TLS handshake ({reason});
    check that its truststore holds the CA of the client certificate, and compare ssl.cipher.suites
TLS Handshake: {server} refused the TLS handshake ({reason});
    if it requires a client certificate, give one with ssl.keystore.location; compare ssl.cipher.suites

API_VERSIONS SpeaksTls: {server} speaks TLS but security.protocol is {protocol};
    set security.protocol={with_tls} (and ssl.truststore.location), or use the port of a listener without TLS
API_VERSIONS SpeaksHttp: {server} is a web server; use the port of a Kafka listener
API_VERSIONS NotKafkaError: {server} does not speak the Kafka protocol; use the port of a Kafka listener
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
SASL UnprovenError: {server} did not prove its identity to {who}; check that this is the right server
SASL MalformedError: {server} sent an invalid response ({why}); check that this is a Kafka broker
SASL Exception: {server} closed the connection while {who} was authenticating;
    {check}: brokers close the connection if they are wrong; if they are correct, try again

METADATA TooOldError:
    {server} is a KRaft controller or a broker that is too old: it does not support the requests of clients;
    use the address of a broker
METADATA TimeoutError: {server} stopped answering within {seconds:g} s; check that the broker is healthy
METADATA MalformedError: {server} sent an invalid response ({why}); check that this is a Kafka broker
METADATA WithoutSasl: {server} closed the connection instead of responding, as listeners that require SASL do{how};
    if it requires SASL, set security.protocol={with_sasl}, sasl.mechanism and sasl.jaas.config; otherwise try again,
    and check that the broker is healthy
METADATA Exception: {server} closed the connection{how}; check that the broker is healthy

CLUSTER_ID Exception: {server} {why_other};
    check that all bootstrap servers and advertised listeners are of one cluster
"""
"""The problem and the remedy by stage and case: what was found out, or the class of the cause; see `_cases`."""
_SENTENCES: Final = {
    (stage, case): " ".join(sentence.split()).partition("; ")[::2]
    for stage, case, sentence in regex(r"^([A-Z_]+) (\w+):((?:.*\n)(?: .*\n)*)", MULTILINE).findall(_TEXT)
}
_AUTHENTICATION: Final = frozenset({
    "NoCertificate", "OwnNotNow", "OwnExpired", "OwnRefused", "HandshakeWithCertificate", "Handshake",
    "NotOffered", "NoSasl", "Refused", "UnprovenError",
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
        more=also,
    )


def _explain(config: ClientConfig, failure: Failure) -> tuple[type[ClusterError], str, str]:
    """Return the error to raise, the problem, and the remedy."""
    cause, server, credentials = failure.cause, failure.server, config.credentials
    host = shown_host(server)
    if isinstance(cause, LoginError):
        shown = host if "${" in server else cause.name
        return AuthenticationError, cause.problem.replace("{name}", shown), cause.remedy
    facts: dict[str, object] = {
        "server": server,
        "host": host,
        "seconds": failure.seconds,
        "why": cause.words if isinstance(cause, CertificateError) else shorten(cause),
        "why_other": cause,
        "how": "" if isinstance(cause, LostError) else f" ({shorten(cause)})",
        "reason": getattr(cause, "reason", ""),
        "unlisted": UNLISTED,
        "list_it": LIST_IT,
        "protocol": config.security_protocol,
        "with_tls": "SASL_SSL" if config.is_sasl else "SSL",
        "with_sasl": "SASL_SSL" if config.is_tls else "SASL_PLAINTEXT",
        "without_sasl": "SSL" if config.is_tls else "PLAINTEXT",
        "said": f" and answered {cause.said}" if isinstance(cause, RefusedError) and cause.said else "",
    }
    if credentials is not None:
        who = f"{credentials.who} ({credentials.mechanism})"
        facts |= {"mechanism": credentials.mechanism, "who": who, "check": credentials.check}
    stage, case = next(each for each in _cases(config, failure, facts) if each in _SENTENCES)
    problem, remedy = _SENTENCES[stage, case]
    kind: type[ClusterError] = ConnectError
    if case in _AUTHENTICATION or (stage, case) == ("SASL", "Exception"):
        kind = AuthenticationError
    elif case == "TooOldError":
        kind = UnsupportedError
    return kind, problem.format_map(facts), remedy.format_map(facts)


def _cases(config: ClientConfig, failure: Failure, facts: dict[str, object]) -> Iterator[tuple[str, str]]:
    """Yield stage and case, the most exact one first."""
    cause, stage = failure.cause, failure.stage.name
    if isinstance(cause, CertificateError):
        yield stage, _certificate_case(config, cause, facts)
    elif isinstance(cause, SSLError) and failure.stage in (Stage.TLS, Stage.API_VERSIONS):
        yield Stage.TLS.name, _alert_case(config, cause, facts)
        if isinstance(cause, (SSLEOFError, SSLZeroReturnError)) or "EOF" in (cause.reason or ""):
            yield stage, "Exception"
    elif isinstance(cause, NotKafkaError):
        begin = cause.first_bytes
        yield stage, "SpeaksTls" if begin[:1] == _TLS_ALERT else "SpeaksHttp" if begin == _HTTP else ""
    elif isinstance(cause, CodeError):
        yield stage, _CODES.get(cause.code, "")
    for kind in type(cause).__mro__:
        if kind is Exception and not config.is_sasl:
            yield stage, "WithoutSasl"
        yield stage, kind.__name__


def _certificate_case(config: ClientConfig, error: CertificateError, facts: dict[str, object]) -> str:
    if error.code in _HOST_MISMATCH:
        return "HostMismatch"
    if error.code in _NOT_NOW:
        facts["state"] = _NOT_NOW[error.code]
        return "NotNow"
    give = "give {} with ssl.truststore.type=PEM and ssl.truststore.location"
    if config.tls is not None and config.tls.ca is not None:
        give = "add {} to the truststore of the client properties, which does not contain it"
    facts |= {"give_it": give.format("it"), "give_issuer": give.format("the CA that issued it")}
    return "SelfSigned" if error.code == _SELF_SIGNED else "Untrusted"


def _alert_case(config: ClientConfig, cause: SSLError, facts: dict[str, object]) -> str:
    """Return what a server's TLS alert is about; an empty text for one that says nothing."""
    alert = f"{cause.reason or ''} {cause}".upper()
    if "PROTOCOL_VERSION" in alert or "UNSUPPORTED_PROTOCOL" in alert:
        return "NoVersion"
    if "ALERT" not in alert:
        return ""
    if "CERTIFICATE" in alert or "UNKNOWN_CA" in alert:
        if not config.has_certificate:
            return "NoCertificate"
        validity = certificate_validity(config)
        if validity is not None and (state := _state(validity)):
            facts |= {"state": state, "validity": validity}
            return "OwnNotNow"
        return "OwnExpired" if "EXPIRED" in (cause.reason or "") else "OwnRefused"
    if "HANDSHAKE_FAILURE" in alert:
        return "HandshakeWithCertificate" if config.has_certificate else "Handshake"
    return ""


def _state(validity: Validity) -> str:
    """Return in words why a certificate is not valid now; an empty text if it is."""
    now = datetime.now(UTC)
    return "has expired" if now > validity.end else "is not valid yet" if now < validity.begin else ""


def certificate_validity(config: ClientConfig) -> Validity | None:
    """Return when the client's own certificate is valid; `None` without one, or if that cannot be read."""
    store = config.tls.key_store if config.tls is not None else None
    return read_validity(store.reveal()) if store is not None else None
