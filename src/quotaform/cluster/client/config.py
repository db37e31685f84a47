"""What a connection is made with: the settings of a client, and the credentials of a SASL mechanism."""

from __future__ import annotations

from collections.abc import Generator
from typing import TYPE_CHECKING, Protocol

from msgspec import Struct

if TYPE_CHECKING:
    from quotaform.cluster.client.tls import Tls
    from quotaform.model.server import Server


class ClientConfig(Struct, frozen=True, kw_only=True):
    """The settings of a client; what is left out is as in Kafka's own clients.

    It holds everything that it needs, PEM texts included, so that it can be sent to another machine.
    """

    bootstrap_servers: tuple[str | Server, ...] = ()
    client_id: str | None = None  # what the broker calls this client in logs, metrics and quotas
    canonical_names: bool = False  # whether bootstrap servers are connected to by the names that their addresses have
    security_protocol: str = "PLAINTEXT"
    credentials: Credentials | None = None
    tls: Tls | None = None
    request_timeout: float = 30.0  # seconds for one request
    api_timeout: float = 60.0  # seconds for one operation with all its retries


Exchange = Generator[bytes, bytes, None]
"""One run of a mechanism on the side of the client, which touches no connection to the broker.

It yields tokens for the broker and is sent the broker's answers; when it returns, both sides are satisfied. It raises
`LoginError` when there is nothing to authenticate with; any other error says that an answer is not what the mechanism
prescribes, or proves nothing. A refusal of the broker is thrown into it as an `AttemptError`, which it may replace by
one that says more.
"""


class Credentials(Protocol):
    """What a client authenticates with. Can be pickled: a task on another machine connects with it, too.

    No member but `exchange` and `java_properties` shows a secret, or the value of a variable.
    """

    @property
    def mechanism(self) -> str:
        """The mechanism, as the broker is asked for it."""

    @property
    def who(self) -> str:
        """What messages call the client, such as `user alice`."""

    @property
    def check(self) -> str:
        """What to check if a broker does not accept the client; ends the sentence of an error."""

    def exchange(self, host: str) -> Exchange:
        """Begin to authenticate to the broker on a host."""

    def java_properties(self) -> dict[str, str]:
        """Return the `sasl.*` properties of a Java client that authenticates in the same way; with the secrets."""
