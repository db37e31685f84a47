"""Whether the kafka-python that is installed has what is used of it.

Its connection and its event loop are not among what it documents, and any release may change them. That is said
before a connection is opened, and not in the middle of an apply.
"""

from __future__ import annotations

from operator import attrgetter
from typing import Any, Final

from quotaform.errors import ClusterError

KNOWN: Final = "3.0.12"
"""The release that quotaform is tested with."""

SELECTOR: Final = (
    *("poll", "call_soon", "call_soon_threadsafe", "cancel", "close", "sleep"),
    *("wait_read", "wait_write", "unregister_event"),
)
"""What is used of a `NetworkSelector`."""

CONNECTION: Final = (
    *("connection_made", "initialize", "init_future", "send_request", "close"),
    *("node_id", "connected", "paused", "broker_version_data", "config", "_reauth.is_reauthenticating"),
)
"""What is used of a `KafkaConnection`."""

SETTINGS: Final = (
    *("client_id", "client_software_name", "client_software_version", "receive_message_max_bytes"),
    *("security_protocol", "sasl_mechanism", "sasl_plain_username", "sasl_plain_password"),
)
"""What a `KafkaConnection` is told; it passes over in silence what it does not know."""


def require_members(version: str, *, selector: Any, connection: Any) -> None:
    """Make sure that kafka-python has what is used of it.

    Args:
        version: The release that is installed.
        selector: Its `NetworkSelector`, the class.
        connection: A `KafkaConnection`.

    Raises:
        ClusterError: Something is missing.
    """
    for owner, name, members in ((selector, "NetworkSelector", SELECTOR), (connection, "KafkaConnection", CONNECTION)):
        for member in members:
            try:
                attrgetter(member)(owner)
            except AttributeError:
                raise unusable(version, f"it has no {name}.{member}") from None
    for setting in SETTINGS:
        if setting not in connection.config:
            raise unusable(version, f"its KafkaConnection has no setting {setting}")


def unusable(version: str, why: str) -> ClusterError:
    """Return the error for a release that does not have what is used of it."""
    return ClusterError(
        f"quotaform cannot work with kafka-python {version}: {why}; nothing was sent. {KNOWN} is known to work: "
        f'pip install "kafka-python=={KNOWN}".'
    )
