"""The connection settings of a cluster."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ssl import SSLContext

    from quotaform.cluster.client.tls import Tls
    from quotaform.cluster.sasl.credentials import Credentials
    from quotaform.model.server import Server


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientConfig:
    """The settings of a client; what is left out is as in Kafka's own clients.

    It holds everything that it needs, PEM texts included, so that it can be sent to another machine.

    Attributes:
        bootstrap_servers: `host:port`, used where no others are given.
        client_id: What the broker calls this client in logs, metrics and quotas.
        canonical_names: Whether bootstrap servers are connected to by the names that their addresses have.
        security_protocol: PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL.
        credentials: What to authenticate with, if the protocol has SASL.
        tls: What is trusted and shown, if the protocol has TLS.
        request_timeout: Seconds for one request.
        api_timeout: Seconds for one operation with all its retries.
    """

    bootstrap_servers: tuple[str | Server, ...] = ()
    client_id: str | None = None
    canonical_names: bool = False
    security_protocol: str = "PLAINTEXT"
    credentials: Credentials | None = None
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
