"""The oldest Kafka of the sandbox, which keeps quotas in ZooKeeper, with a part of the tests that the newest has.

All of them, and the releases between: `make test-brokers`.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from quotaform.cluster.kafka import KafkaGateway
from quotaform.sandbox import Sandbox
from quotaform.sandbox.release import RELEASES
from tests.kafka.test_broker_facts import test_a_broker_does_what_the_table_says_of_its_release as test_facts
from tests.kafka.test_broker_facts import test_the_release_of_a_broker_follows_from_what_it_offers as test_release
from tests.kafka.test_gateway import TestReadingAndWriting, TestRefusals, connected, gateway
from tests.workflow.command import Cluster
from tests.workflow.conftest import cluster, repository
from tests.workflow.test_loop import test_from_quotas_made_by_hand_to_a_repaired_drift as test_loop

pytestmark = pytest.mark.kafka

__all__ = [
    "TestReadingAndWriting",
    "TestRefusals",
    "cluster",
    "connected",
    "gateway",
    "repository",
    "test_facts",
    "test_loop",
    "test_release",
]


@pytest.fixture(scope="module")
def sandbox() -> Iterator[Sandbox]:
    """One broker of the oldest release, with its ZooKeeper."""
    with Sandbox(kafka=str(RELEASES[0])) as kafka:
        yield kafka


@pytest.fixture(scope="module")
def shared_cluster(sandbox: Sandbox) -> Iterator[Cluster]:
    """That broker, seen without the command."""
    with KafkaGateway.connect(sandbox.bootstrap_servers) as gateway:
        yield Cluster(gateway)
