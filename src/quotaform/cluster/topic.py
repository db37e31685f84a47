"""Describes a topic of a running cluster."""

from __future__ import annotations

from dataclasses import dataclass
from os import environ
from typing import Final

from quotaform.cluster.broker_gateway import BrokerGateway
from quotaform.cluster.wire.describe_topic import DescribeTopic
from quotaform.errors import AuthorizationError, ClusterError, ConnectError, UsageError
from quotaform.model.text import quote

_TIMEOUT: Final = 15.0
"""Seconds for a read with all its retries; a topic that was made just now may take a moment."""
_TRIES: Final = 3
_UNKNOWN_TOPIC: Final = 3
_INVALID_TOPIC: Final = 17
_NOT_AUTHORIZED: Final = 29


@dataclass(frozen=True, slots=True, kw_only=True)
class Topic:
    """A topic.

    Attributes:
        name: Its name.
        topic_id: What tells it from a topic of the same name that was there before; `None` before Kafka 2.8.
        partitions: How many partitions it has.
        cluster_id: The id of its cluster, if that has one.
    """

    name: str
    topic_id: str | None
    partitions: int
    cluster_id: str | None


class TopicGateway(BrokerGateway):
    """The topics of one cluster."""

    def topic(self, name: str) -> Topic | None:
        """Return a topic; `None` if there is none of that name.

        Raises:
            AuthorizationError: The principal lacks DESCRIBE on the topic.
            UsageError: No topic can have such a name.
            ConnectError: A broker is not in `QUOTAFORM_ALLOWED_HOSTS`, and Spark connects to all of them by itself.
            ClusterError: The cluster could not be read.
        """
        for server in self.connection.brokers.values():
            if problem := server.problem(environ):
                raise ConnectError(f"{server} {problem}")
        try:
            request = DescribeTopic(name)
            answer = self._read(
                request,
                problem=f"Cannot read the topic {quote(name)} of {self.name}",
                request_timeout=_TIMEOUT,
                api_timeout=_TIMEOUT,
                tries=_TRIES,
            )
        except ValueError as error:
            raise UsageError(f"{quote(name)} is not the name of a topic: {error}") from None
        if answer.error_code == _UNKNOWN_TOPIC:
            return None
        if answer.error_code == _INVALID_TOPIC:
            raise UsageError(
                f"{quote(name)} is not the name of a topic; a name has up to 249 of the characters a-z, A-Z, 0-9, "
                "dot, underscore and hyphen"
            )
        if answer.error_code == _NOT_AUTHORIZED:
            raise AuthorizationError(
                f"The principal is not authorised to read the topic {quote(name)} of {self.name}",
                remedy="grant it READ and DESCRIBE on the topic.",
                code=answer.error_code,
            )
        if answer.error_code:
            raise ClusterError(
                f"Cannot read the topic {quote(name)} of {self.name}; the broker responded with error code "
                f"{answer.error_code}",
                code=answer.error_code,
            )
        return Topic(
            name=name,
            topic_id=answer.topic_id,
            partitions=answer.partitions,
            cluster_id=self.connection.cluster_id,
        )
