"""One-sentence messages for all connection failures."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from socket import gaierror
from ssl import SSLError
from typing import Final

from quotaform.cluster.wire.codec import MalformedError
from quotaform.cluster.wire.failure import (
    CodeError,
    Failure,
    Intent,
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
    shorten,
)
from quotaform.cluster.wire.tls_error import explain_alert, explain_tls
from quotaform.errors import AuthenticationError, ClusterError, ConnectError, UnsupportedError
from quotaform.model.server import LIST_IT, UNLISTED, shown_host

SASL_FAILED: Final = 58
"""SASL_AUTHENTICATION_FAILED"""
MECHANISM_NOT_OFFERED: Final = 33
"""UNSUPPORTED_SASL_MECHANISM"""
NO_SASL_HERE: Final = 34
"""ILLEGAL_SASL_STATE: SASL was begun on a listener without it"""

_TLS_ALERT: Final = b"\x15"
_HTTP: Final = b"HTTP"


def connect_error(intent: Intent, failures: Sequence[Failure]) -> ClusterError:
    """Return the error for a cluster of which no server could be used.

    It is about the server with which the connection got furthest, and names the others.
    """
    closest = max(failures, key=lambda failure: failure.stage)
    kind, problem, remedy = _explain(intent, closest)
    others = [failure for failure in failures if failure.server != closest.server]
    also = ""
    if others:
        listed = ", ".join(f"{other.server} ({shorten(other.cause)})" for other in others[:3])
        more = f" and {len(others) - 3} more" if len(others) > 3 else ""
        also = f" Also tried: {listed}{more}."
    return kind(
        f"Cannot connect to {intent.name}: {problem}",
        remedy=f"{remedy}.",
        cluster=intent.name,
        server=closest.server,
        more=also,
    )


def _explain(intent: Intent, failure: Failure) -> Sentence:
    explain: Callable[[Intent, Failure, BaseException], Sentence] = {
        Stage.CONNECT: _explain_connect,
        Stage.TLS: explain_tls,
        Stage.API_VERSIONS: _explain_api_versions,
        Stage.SASL: _explain_sasl,
        Stage.METADATA: _explain_metadata,
        Stage.CLUSTER_ID: _explain_cluster_id,
    }[failure.stage]
    return explain(intent, failure, failure.cause)


def _explain_connect(intent: Intent, failure: Failure, cause: BaseException) -> Sentence:
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


def _explain_api_versions(intent: Intent, failure: Failure, cause: BaseException) -> Sentence:
    server = failure.server
    if isinstance(cause, SSLError) and (alert := explain_alert(intent, server, cause)):
        return alert
    first_bytes = cause.first_bytes if isinstance(cause, NotKafkaError) else None
    if first_bytes is not None and first_bytes[:1] == _TLS_ALERT:
        tls = "SASL_SSL" if intent.is_sasl else "SSL"
        return (
            ConnectError,
            f"{server} speaks TLS but security.protocol is {intent.protocol}",
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
        f"check that this is the port of a Kafka listener with security.protocol={intent.protocol}, and whether the"
        " broker limits connections",
    )


def _explain_sasl(intent: Intent, failure: Failure, cause: BaseException) -> Sentence:
    server, credentials = failure.server, intent.credentials
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
        plain = "SSL" if intent.is_tls else "PLAINTEXT"
        return (
            AuthenticationError,
            f"the listener at {server} has no SASL but security.protocol is {intent.protocol}",
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


def _explain_metadata(intent: Intent, failure: Failure, cause: BaseException) -> Sentence:
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
    if not intent.is_sasl:
        sasl = "SASL_SSL" if intent.is_tls else "SASL_PLAINTEXT"
        return (
            ConnectError,
            f"{server} closed the connection instead of responding, as listeners that require SASL do{_how(cause)}",
            f"if it requires SASL, set security.protocol={sasl}, sasl.mechanism and sasl.jaas.config; otherwise try"
            " again, and check that the broker is healthy",
        )
    return ConnectError, f"{server} closed the connection{_how(cause)}", "check that the broker is healthy"


def _explain_cluster_id(intent: Intent, failure: Failure, cause: BaseException) -> Sentence:
    return (
        ConnectError,
        f"{failure.server} {cause}",
        "check that all bootstrap servers and advertised listeners are of one cluster",
    )


def _how(cause: BaseException) -> str:
    """Return how a server closed the connection, in brackets; empty if there is no more to say than that it did."""
    return "" if isinstance(cause, LostError) else f" ({shorten(cause)})"
