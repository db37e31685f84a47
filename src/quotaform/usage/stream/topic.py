"""Describes a topic of a running cluster."""

from __future__ import annotations

from base64 import urlsafe_b64encode
from dataclasses import dataclass
from os import environ
from typing import Final

from quotaform.cluster.kafka import BrokerGateway
from quotaform.cluster.wire.message import Metadata
from quotaform.model.errors import AuthorizationError, ClusterError, ConnectError, UsageError
from quotaform.model.text import quote

_TIMEOUT: Final = 15.0
"""Seconds for a read with all its retries; a topic that was made just now may take a moment."""
_UNKNOWN_TOPIC: Final = 3
_INVALID_TOPIC: Final = 17
_NOT_AUTHORIZED: Final = 29


@dataclass(frozen=True, slots=True, kw_only=True)
class Topic:
    """A topic."""

    name: str  # Its name
    topic_id: str | None  # What tells it from a topic of the same name that was there before; `None` before Kafka 2.8
    partitions: int  # How many partitions it has
    cluster_id: str | None  # The id of its cluster, if that has one


class TopicGateway(BrokerGateway):
    """The topics of one cluster."""

    def topic(self, name: str) -> Topic | None:
        """Return a topic; `None` if there is none of that name.

        Raises `AuthorizationError` if the principal lacks DESCRIBE on the topic. Raises `UsageError` if no topic can
        have such a name. Raises `ConnectError` if a broker is not in `QUOTAFORM_ALLOWED_HOSTS`, and Spark connects to
        all of them by itself. Raises `ClusterError` if the cluster could not be read.
        """
        for server in self.connection.brokers.values():
            if problem := server.problem(environ):
                raise ConnectError(f"{server} {problem}")
        problem = f"Cannot read the topic {quote(name)} of {self.name}"
        try:
            code, topic_id, partitions = self._read(Metadata([name]), _TIMEOUT, problem=problem).topics[0]
        except ValueError as error:
            raise UsageError(f"{quote(name)} is not the name of a topic: {error}") from None
        if code == _UNKNOWN_TOPIC:
            return None
        if code == _INVALID_TOPIC:
            raise UsageError(
                f"{quote(name)} is not the name of a topic; a name has up to 249 of the characters a-z, A-Z, 0-9, "
                "dot, underscore and hyphen"
            )
        if code == _NOT_AUTHORIZED:
            raise AuthorizationError(
                f"The principal is not authorised to read the topic {quote(name)} of {self.name}",
                remedy="grant it READ and DESCRIBE on the topic.",
                code=code,
            )
        if code:
            raise ClusterError(f"{problem}; the broker responded with error code {code}", code=code)
        # Uuid.ZERO_UUID stands for none.
        shown_id = urlsafe_b64encode(topic_id).decode().rstrip("=") if any(topic_id) else None
        return Topic(name=name, topic_id=shown_id, partitions=partitions, cluster_id=self.connection.cluster_id)
