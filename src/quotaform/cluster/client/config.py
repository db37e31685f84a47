"""The connection settings of a cluster."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ssl import SSLContext

    from quotaform.cluster.client.tls import Tls
    from quotaform.model.secret import Secret
    from quotaform.model.server import Server


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientConfig:
    """The settings of a client; what is left out is as in Kafka's own clients.

    It holds everything that it needs, PEM texts included, so that it can be sent to another machine.

    Attributes:
        bootstrap_servers: `host:port`, used where no others are given.
        client_id: What the broker calls this client in logs, metrics and quotas.
        security_protocol: PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL.
        sasl_mechanism: PLAIN, SCRAM-SHA-256 or SCRAM-SHA-512, if the protocol has SASL.
        sasl_username: The user name for it.
        sasl_password: The password for it.
        shown_username: What messages call the user.
        tls: What is trusted and shown, if the protocol has TLS.
        request_timeout: Seconds for one request.
        api_timeout: Seconds for one operation with all its retries.
    """

    bootstrap_servers: tuple[str | Server, ...] = ()
    client_id: str | None = None
    security_protocol: str = "PLAINTEXT"
    sasl_mechanism: str | None = None
    sasl_username: str | None = None
    sasl_password: Secret | None = None
    shown_username: str | None = field(default=None, compare=False)
    tls: Tls | None = None
    request_timeout: float = 30.0
    api_timeout: float = 60.0

    @property
    def has_certificate(self) -> bool:
        """Whether a client certificate is shown."""
        return self.tls is not None and self.tls.key_store is not None

    def ssl_context(self) -> SSLContext | None:
        """Return a TLS context; `None` for a protocol without TLS."""
        return self.tls.context() if self.tls else None

    def connection_settings(self) -> dict[str, Any]:
        """Return the settings of a kafka-python connection, with the password in the clear."""
        settings: dict[str, Any] = {"security_protocol": self.security_protocol}
        if self.sasl_mechanism and self.sasl_username is not None and self.sasl_password is not None:
            user = self.sasl_username
            if self.sasl_mechanism.startswith("SCRAM"):
                # RFC 5802 spells these two; kafka-python sends a name as it is given.
                user = user.replace("=", "=3D").replace(",", "=2C")
            settings |= {
                "sasl_mechanism": self.sasl_mechanism,
                "sasl_plain_username": user,
                "sasl_plain_password": self.sasl_password.reveal(),
            }
        return settings
