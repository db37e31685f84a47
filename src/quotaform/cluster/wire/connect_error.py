"""One-sentence messages for all failures to connect, TLS included, which state only what is known."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from socket import gaierror
from ssl import SSLEOFError, SSLError, SSLZeroReturnError
from typing import Final

from quotaform.cluster.client.config import ClientConfig
from quotaform.cluster.wire.failure import (
    EXPIRED,
    NOT_YET_VALID,
    CertificateError,
    CodeError,
    Failure,
    LoginError,
    LookupTimeoutError,
    LostError,
    NotKafkaError,
    RefusedError,
    Sentence,
    Stage,
    TooOldError,
    UnlistedError,
    UnprovenError,
    Validity,
    read_pem_validity,
    shorten,
)
from quotaform.cluster.wire.message import MalformedError
from quotaform.model.errors import AuthenticationError, ClusterError, ConnectError, UnsupportedError
from quotaform.model.server import LIST_IT, UNLISTED, shown_host

# One-sentence messages for TLS failures, which state only what is known.
#
# A connection that ends during the handshake has many causes: a listener without TLS hangs up, and so does a healthy
# one
# behind a proxy or with a connection quota. The messages therefore never suggest disabling TLS.

_HOST_MISMATCH: Final = frozenset({62, 64})
_SELF_SIGNED: Final = 18
"""Verify codes of OpenSSL (x509_vfy.h)."""

_ABOUT_CERTIFICATES: Final = ("CERTIFICATE", "UNKNOWN_CA")


def explain_tls(config: ClientConfig, failure: Failure, cause: BaseException) -> Sentence:
    """Explain why a TLS handshake failed."""
    server = failure.server
    if isinstance(cause, CertificateError):
        return _explain_certificate(config, server, cause)
    if isinstance(cause, SSLError) and (alert := explain_alert(config, server, cause)):
        return alert
    if isinstance(cause, TimeoutError):
        return (
            ConnectError,
            f"{server} did not answer the TLS handshake within {failure.seconds:g} s",
            f"check that the port speaks TLS, as security.protocol={config.security_protocol} says, and that the broker"
            " is healthy",
        )
    if isinstance(cause, SSLError) and not _is_end(cause):
        return (
            ConnectError,
            f"{server} answered the TLS handshake with something that is not TLS, or damaged ({shorten(cause)})",
            f"check that the port is that of a listener with security.protocol={config.security_protocol}",
        )
    return (
        ConnectError,
        f"{server} closed the connection during the TLS handshake",
        "listeners without TLS, brokers that limit connections, and proxies do that: check that the"
        f" port is that of a listener with security.protocol={config.security_protocol}, and try again",
    )


def _is_end(cause: SSLError) -> bool:
    return isinstance(cause, (SSLEOFError, SSLZeroReturnError)) or "EOF" in (cause.reason or "")


def _explain_certificate(config: ClientConfig, server: str, error: CertificateError) -> Sentence:
    if error.code in _HOST_MISMATCH:
        host = shown_host(server)
        return (
            ConnectError,
            f"the certificate of {server} was not issued for {host}",
            "connect by a name that the certificate contains, or have it issued for this one",
        )
    if error.code in (EXPIRED, NOT_YET_VALID):
        return _explain_time(server, error)
    give = "give {} with ssl.truststore.type=PEM and ssl.truststore.location"
    if config.has_truststore:
        give = "add {} to the truststore of the client properties, which does not contain it"
    if error.code == _SELF_SIGNED:
        problem = f"the certificate of {server} is self-signed and not trusted"
        return ConnectError, problem, f"if it is the right one, {give.format('it')}"
    problem = f"the certificate of {server} is not trusted ({error.words})"
    return ConnectError, problem, give.format("the CA that issued it")


def _explain_time(server: str, error: CertificateError) -> Sentence:
    problem = "has expired" if error.code == EXPIRED else "is not valid yet"
    validity, now = error.validity, datetime.now(UTC)
    is_own = validity is not None and not validity.begin <= now <= validity.end
    if is_own:
        problem = f"the certificate of {server} {problem}: {validity}"
    else:
        problem = f"a certificate in the chain of {server} {problem}"
    return ConnectError, problem, "renew it on the broker, or check the clock of this machine"


def explain_alert(config: ClientConfig, server: str, cause: SSLError) -> Sentence | None:
    """Explain what a server's TLS alert is about; `None` for one that says nothing."""
    alert = f"{cause.reason or ''} {cause}".upper()
    if "PROTOCOL_VERSION" in alert or "UNSUPPORTED_PROTOCOL" in alert:
        return (
            ConnectError,
            f"{server} and this client have no TLS version in common",
            "compare ssl.enabled.protocols of this client and of the broker",
        )
    if "ALERT" not in alert:
        return None
    is_about_certificates = any(word in alert for word in _ABOUT_CERTIFICATES)
    if is_about_certificates and config.has_certificate:
        return _explain_client_certificate(certificate_validity(config), server, cause)
    if is_about_certificates:
        return (
            AuthenticationError,
            f"{server} requires a client certificate, but none is configured",
            "give one with ssl.keystore.type=PEM and ssl.keystore.location (key and certificate chain)",
        )
    if "HANDSHAKE_FAILURE" not in alert:
        return None
    if config.has_certificate:
        needed = "check that its truststore holds the CA of the client certificate, and compare ssl.cipher.suites"
    else:
        needed = "if it requires a client certificate, give one with ssl.keystore.location; compare ssl.cipher.suites"
    return AuthenticationError, f"{server} refused the TLS handshake ({cause.reason})", needed


def certificate_validity(config: ClientConfig) -> Validity | None:
    """Return when the client's own certificate is valid; `None` without one, or if that cannot be read."""
    store = config.tls.key_store if config.tls is not None else None
    return read_pem_validity(store.reveal()) if store is not None else None


def _explain_client_certificate(validity: Validity | None, server: str, cause: SSLError) -> Sentence:
    now = datetime.now(UTC)
    if validity is not None and not validity.begin <= now <= validity.end:
        state = "has expired" if now > validity.end else "is not valid yet"
        return (
            AuthenticationError,
            f"{server} did not accept the client certificate, which {state}: {validity}",
            "renew it, or check the clock of this machine",
        )
    if "EXPIRED" in (cause.reason or ""):
        return (
            AuthenticationError,
            f"{server} says that the client certificate, or one in its chain, has expired",
            "renew it, or check the clocks of this machine and of the broker",
        )
    return (
        AuthenticationError,
        f"{server} did not accept the client certificate ({cause.reason})",
        "use one that a CA in the broker's truststore issued, with its whole chain",
    )


SASL_FAILED: Final = 58
"""SASL_AUTHENTICATION_FAILED"""
MECHANISM_NOT_OFFERED: Final = 33
"""UNSUPPORTED_SASL_MECHANISM"""
NO_SASL_HERE: Final = 34
"""ILLEGAL_SASL_STATE: SASL was begun on a listener without it"""

_TLS_ALERT: Final = b"\x15"
_HTTP: Final = b"HTTP"


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


def _explain(config: ClientConfig, failure: Failure) -> Sentence:
    explain: Callable[[ClientConfig, Failure, BaseException], Sentence] = {
        Stage.CONNECT: _explain_connect,
        Stage.TLS: explain_tls,
        Stage.API_VERSIONS: _explain_api_versions,
        Stage.SASL: _explain_sasl,
        Stage.METADATA: _explain_metadata,
        Stage.CLUSTER_ID: _explain_cluster_id,
    }[failure.stage]
    return explain(config, failure, failure.cause)


def _explain_connect(config: ClientConfig, failure: Failure, cause: BaseException) -> Sentence:
    server = failure.server
    host = shown_host(server)
    if isinstance(cause, UnlistedError):
        return ConnectError, f"{server} {UNLISTED}", LIST_IT
    if isinstance(cause, gaierror):
        return ConnectError, f"the host name {host} of {server} cannot be resolved", "check its spelling and your DNS"
    if isinstance(cause, LookupTimeoutError):
        return (
            ConnectError,
            f"looking up the host name {host} takes longer than {failure.seconds:g} s",
            "check your DNS",
        )
    if isinstance(cause, ConnectionRefusedError):
        return (
            ConnectError,
            f"nothing listens at {server} (connection refused)",
            "check the host and port, and whether the broker is running",
        )
    if isinstance(cause, TimeoutError):
        return (
            ConnectError,
            f"{server} did not accept a connection within {failure.seconds:g} s",
            "check the address, and whether a firewall or VPN is in between",
        )
    return ConnectError, f"{server} cannot be reached ({shorten(cause)})", "check the address and your network"


def _explain_api_versions(config: ClientConfig, failure: Failure, cause: BaseException) -> Sentence:
    server = failure.server
    if isinstance(cause, SSLError) and (alert := explain_alert(config, server, cause)):
        return alert
    first_bytes = cause.first_bytes if isinstance(cause, NotKafkaError) else None
    if first_bytes is not None and first_bytes[:1] == _TLS_ALERT:
        tls = "SASL_SSL" if config.is_sasl else "SSL"
        return (
            ConnectError,
            f"{server} speaks TLS but security.protocol is {config.security_protocol}",
            f"set security.protocol={tls} (and ssl.truststore.location), or use the port of a listener without TLS",
        )
    if first_bytes is not None or isinstance(cause, MalformedError):
        what = "is a web server" if first_bytes == _HTTP else "does not speak the Kafka protocol"
        return ConnectError, f"{server} {what}", "use the port of a Kafka listener"
    if isinstance(cause, TimeoutError):
        return (
            ConnectError,
            f"{server} accepted the connection and did not answer within {failure.seconds:g} s",
            "check that this is a Kafka broker and that it is healthy",
        )
    return (
        ConnectError,
        f"{server} closed the connection at the first request{_how(cause)}",
        f"check that this is the port of a Kafka listener with security.protocol={config.security_protocol}, and"
        " whether the broker limits connections",
    )


def _explain_sasl(config: ClientConfig, failure: Failure, cause: BaseException) -> Sentence:
    server, credentials = failure.server, config.credentials
    if isinstance(cause, LoginError):
        name = shown_host(server) if "${" in server else cause.name
        return AuthenticationError, cause.problem.replace("{name}", name), cause.remedy
    if credentials is None:
        return AuthenticationError, str(cause), ""
    code = cause.code if isinstance(cause, CodeError) else None
    if code == MECHANISM_NOT_OFFERED:
        return (
            AuthenticationError,
            f"{server} does not offer the SASL mechanism {credentials.mechanism}",
            "set sasl.mechanism to one of the broker's sasl.enabled.mechanisms",
        )
    if code == NO_SASL_HERE:
        plain = "SSL" if config.is_tls else "PLAINTEXT"
        return (
            AuthenticationError,
            f"the listener at {server} has no SASL but security.protocol is {config.security_protocol}",
            f"use the port of a SASL listener, or security.protocol={plain} for this one",
        )
    who = f"{credentials.who} ({credentials.mechanism})"
    check = credentials.check
    if code == SASL_FAILED:
        said = f" and answered {cause.said}" if isinstance(cause, RefusedError) and cause.said else ""
        return AuthenticationError, f"{server} did not accept {who}{said}", check
    if isinstance(cause, TimeoutError):
        return (
            ConnectError,
            f"{server} did not finish authenticating {who} within {failure.seconds:g} s",
            "check that the broker is healthy",
        )
    if isinstance(cause, UnprovenError):
        return (
            AuthenticationError,
            f"{server} did not prove its identity to {who}",
            "check that this is the right server",
        )
    if isinstance(cause, MalformedError):
        return (
            ConnectError,
            f"{server} sent an invalid response ({shorten(cause)})",
            "check that this is a Kafka broker",
        )
    return (
        AuthenticationError,
        f"{server} closed the connection while {who} was authenticating",
        f"{check}: brokers close the connection if they are wrong; if they are correct, try again",
    )


def _explain_metadata(config: ClientConfig, failure: Failure, cause: BaseException) -> Sentence:
    server = failure.server
    if isinstance(cause, TooOldError):
        return (
            UnsupportedError,
            f"{server} is a KRaft controller or a broker that is too old: it does not support the requests of clients",
            "use the address of a broker",
        )
    if isinstance(cause, TimeoutError):
        return (
            ConnectError,
            f"{server} stopped answering within {failure.seconds:g} s",
            "check that the broker is healthy",
        )
    if isinstance(cause, MalformedError):
        return (
            ConnectError,
            f"{server} sent an invalid response ({shorten(cause)})",
            "check that this is a Kafka broker",
        )
    if not config.is_sasl:
        sasl = "SASL_SSL" if config.is_tls else "SASL_PLAINTEXT"
        return (
            ConnectError,
            f"{server} closed the connection instead of responding, as listeners that require SASL do{_how(cause)}",
            f"if it requires SASL, set security.protocol={sasl}, sasl.mechanism and sasl.jaas.config; otherwise try"
            " again, and check that the broker is healthy",
        )
    return ConnectError, f"{server} closed the connection{_how(cause)}", "check that the broker is healthy"


def _explain_cluster_id(config: ClientConfig, failure: Failure, cause: BaseException) -> Sentence:
    check = "check that all bootstrap servers and advertised listeners are of one cluster"
    return ConnectError, f"{failure.server} {cause}", check


def _how(cause: BaseException) -> str:
    """Return how a server closed the connection, in brackets; empty if there is no more to say than that it did."""
    return "" if isinstance(cause, LostError) else f" ({shorten(cause)})"
