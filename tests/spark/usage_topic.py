"""Topics with pages of metrics, and what a table of usage must have of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from time import time
from typing import Any, Final

from kafka import KafkaProducer
from kafka.admin import KafkaAdminClient, NewTopic
from kafka.errors import TopicAlreadyExistsError

from quotaform.usage.stream import Topic, TopicGateway
from tests.waiting import wait_until

STEP_S: Final = 15
"""Seconds from one page to the next."""
BUCKETS: Final = 5
Row = tuple[int, str, str, float, float | None]
"""Time in milliseconds, user, client-id, rate and throttle time."""


def rates(page: int) -> Iterator[tuple[str, str, float, float | None]]:
    """Yield what a page says: user, client-id, rate and, for some, throttle time."""
    for bucket in range(BUCKETS):
        yield f"user-{bucket % 3}", f"app %2A-{bucket}", page * 1000.5 + bucket, page + 0.25 if bucket % 2 else None


def text(page: int) -> bytes:
    """Return a page of an exporter; it has no times, and a throttle time of those that are not throttled is NaN."""
    lines = []
    for user, client_id, rate, throttle in rates(page):
        labels = f'{{client_id="{client_id}",quota_type="Produce",user="{user}"}}'
        lines.append(f"kafka_server_quota_byte_rate{labels} {rate!r}")
        lines.append(f"kafka_server_quota_throttle_time{labels} {'NaN' if throttle is None else throttle}")
    return "\n".join(lines).encode()


class UsageTopic:
    """A topic of which each record is a page."""

    def __init__(self, servers: str, name: str) -> None:
        """Describe it."""
        self.servers = servers
        self.name = name
        # Brokers delete what is older than a week, and reject what is more than an hour ahead.
        self.start_ms = (int(time()) - 3600) * 1000

    def create(self, partitions: int) -> Topic:
        """Create it, and return what the cluster says of it."""
        with self._admin() as admin, suppress(TopicAlreadyExistsError):
            admin.create_topics([NewTopic(self.name, num_partitions=partitions, replication_factor=1)])
        wait_until(lambda: self.described() is not None)
        topic = self.described()
        assert topic is not None
        return topic

    def recreate(self, before: Topic) -> Topic:
        """Delete it and create it anew, if no consumer of the one before is faster: brokers create what it asks for."""
        with self._admin() as admin:
            admin.delete_topics([self.name])
        wait_until(lambda: self.described() is None or self.described() != before)
        topic = self.create(1)
        assert topic.topic_id != before.topic_id
        return topic

    def described(self) -> Topic | None:
        """Return what the cluster says of it."""
        with TopicGateway.connect(self.servers) as gateway:
            return gateway.topic(self.name)

    def delete_records(self, partition: int, before: int) -> None:
        """Delete the records of a partition before an offset, as the end of their retention does."""
        from kafka import TopicPartition

        with self._admin() as admin:
            admin.delete_records({TopicPartition(self.name, partition): before})

    def time_of(self, page: int) -> int:
        """Return the time of a page, in milliseconds."""
        return self.start_ms + page * STEP_S * 1000

    def send(self, pages: Iterable[int], partitions: int = 1, *, other: Iterable[bytes | None] = ()) -> None:
        """Append pages, each to the partition of its number, and other records with the time of the last page."""
        producer = KafkaProducer(bootstrap_servers=self.servers)
        last = 0
        for last in pages:
            producer.send(self.name, text(last), timestamp_ms=self.time_of(last), partition=last % partitions)
        for value in other:
            producer.send(self.name, value, key=b"key", timestamp_ms=self.time_of(last), partition=0)
        producer.flush()
        producer.close()

    def rows(self, pages: Iterable[int]) -> list[Row]:
        """Return what a table must have of pages, sorted."""
        found: list[Row] = [(self.time_of(page), *each) for page in pages for each in rates(page)]
        return sorted(found, key=str)

    @contextmanager
    def _admin(self) -> Iterator[Any]:
        admin = KafkaAdminClient(bootstrap_servers=self.servers)
        try:
            yield admin
        finally:
            admin.close()
