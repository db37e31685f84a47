"""The one module that imports kafka-python: for its SASL mechanisms, which take and give tokens and touch no socket.

It is imported when it is needed, since importing any part of it takes a third of a second. None of its messages and
connections are used, and what its mechanisms would log is about settings that they are not given here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final, Protocol
from warnings import catch_warnings, simplefilter

from quotaform.cluster.client.config import ClientConfig
from quotaform.errors import ClusterError

KNOWN: Final = "3.0.12"
"""The release that quotaform is tested with."""


class SaslMechanism(Protocol):
    """One run of a SASL mechanism, on the side of the client."""

    def auth_bytes(self) -> bytes:
        """Return the next token for the server."""

    def receive(self, auth_bytes: bytes) -> Any:
        """Take the server's token.

        Raises:
            ValueError: It is not what the mechanism prescribes.
            KeyError: The same.
        """

    def is_done(self) -> bool:
        """Whether no more tokens are to be sent."""

    def is_authenticated(self) -> bool:
        """Whether both sides are satisfied."""


def make_sasl_mechanism(config: ClientConfig, host: str) -> SaslMechanism:
    """Begin to authenticate to a host.

    Raises:
        ClusterError: The kafka-python that is installed does not have what is needed.
    """
    settings = config.connection_settings()
    # With it they log a warning about SASL_PLAINTEXT.
    del settings["security_protocol"]
    try:
        with _import_warnings_ignored():
            from kafka.net.sasl import get_sasl_mechanism
        mechanism: SaslMechanism = get_sasl_mechanism(config.sasl_mechanism)(host=host, **settings)
        for member in ("auth_bytes", "receive", "is_done", "is_authenticated"):
            getattr(mechanism, member)
    except Exception as error:
        from kafka import __version__ as installed

        raise ClusterError(
            f"quotaform cannot use the SASL mechanism {config.sasl_mechanism} of kafka-python {installed}"
            f" ({type(error).__name__}: {error}); nothing was sent. {KNOWN} is known to work:"
            f' pip install "kafka-python=={KNOWN}".'
        ) from None
    return mechanism


def name_broker_version(versions: Mapping[int, tuple[int, int]]) -> str:
    """Return the release of Kafka that speaks these versions by API key, as well as it can be known; for messages."""
    try:
        with _import_warnings_ignored():
            from kafka.protocol.broker_version_data import BrokerVersionData
        return ".".join(map(str, BrokerVersionData(api_versions=dict(versions)).broker_version))
    except Exception:
        return "of an unknown version"


@contextmanager
def _import_warnings_ignored() -> Iterator[None]:
    with catch_warnings():
        # It reads its message schemas in a way that Python 3.11 calls deprecated.
        simplefilter("ignore", DeprecationWarning)
        yield
