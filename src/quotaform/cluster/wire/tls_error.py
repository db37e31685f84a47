"""One-sentence messages for TLS failures, which state only what is known.

A connection that ends during the handshake has many causes: a listener without TLS hangs up, and so does a healthy one
behind a proxy or with a connection quota. The messages therefore never suggest disabling TLS.
"""

from __future__ import annotations

from datetime import UTC, datetime
from ssl import SSLEOFError, SSLError, SSLZeroReturnError
from typing import Final

from quotaform.cluster.wire.certificate import Validity
from quotaform.cluster.wire.failure import EXPIRED, NOT_YET_VALID, CertificateError, Failure, Intent, Sentence, shorten
from quotaform.errors import AuthenticationError, ConnectError
from quotaform.model.server import shown_host

_HOST_MISMATCH: Final = frozenset({62, 64})
_SELF_SIGNED: Final = 18
"""Verify codes of OpenSSL (x509_vfy.h)."""

_ABOUT_CERTIFICATES: Final = ("CERTIFICATE", "UNKNOWN_CA")


def explain_tls(intent: Intent, failure: Failure, cause: BaseException) -> Sentence:
    """Explain why a TLS handshake failed."""
    server = failure.server
    if isinstance(cause, CertificateError):
        return _explain_certificate(intent, server, cause)
    if isinstance(cause, SSLError) and (alert := explain_alert(intent, server, cause)):
        return alert
    if isinstance(cause, TimeoutError):
        return (
            ConnectError,
            f"{server} did not answer the TLS handshake within {failure.seconds:g} s",
            f"check that the port speaks TLS, as security.protocol={intent.protocol} says, and that the broker is "
            "healthy",
        )
    if isinstance(cause, SSLError) and not _is_end(cause):
        return (
            ConnectError,
            f"{server} answered the TLS handshake with something that is not TLS, or damaged ({shorten(cause)})",
            f"check that the port is that of a listener with security.protocol={intent.protocol}",
        )
    return (
        ConnectError,
        f"{server} closed the connection during the TLS handshake",
        "listeners without TLS, brokers that limit connections, and proxies do that: check that the"
        f" port is that of a listener with security.protocol={intent.protocol}, and try again",
    )


def _is_end(cause: SSLError) -> bool:
    return isinstance(cause, (SSLEOFError, SSLZeroReturnError)) or "EOF" in (cause.reason or "")


def _explain_certificate(intent: Intent, server: str, error: CertificateError) -> Sentence:
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
    if intent.has_truststore:
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


def explain_alert(intent: Intent, server: str, cause: SSLError) -> Sentence | None:
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
    if is_about_certificates and intent.has_certificate:
        return _explain_client_certificate(intent.certificate_validity, server, cause)
    if is_about_certificates:
        return (
            AuthenticationError,
            f"{server} requires a client certificate, but none is configured",
            "give one with ssl.keystore.type=PEM and ssl.keystore.location (key and certificate chain)",
        )
    if "HANDSHAKE_FAILURE" not in alert:
        return None
    if intent.has_certificate:
        needed = "check that its truststore holds the CA of the client certificate, and compare ssl.cipher.suites"
    else:
        needed = "if it requires a client certificate, give one with ssl.keystore.location; compare ssl.cipher.suites"
    return AuthenticationError, f"{server} refused the TLS handshake ({cause.reason})", needed


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
