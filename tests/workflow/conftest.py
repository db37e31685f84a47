"""The shared broker, empty for every test, and a folder to work in."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from quotaform.cluster.kafka import KafkaGateway
from quotaform.sandbox import Sandbox
from tests.workflow.command import Cluster, Repository


@pytest.fixture(scope="session")
def shared_cluster(sandbox: Sandbox) -> Iterator[Cluster]:
    """The shared broker, seen without the command."""
    with KafkaGateway.connect(sandbox.bootstrap_servers) as gateway:
        yield Cluster(gateway)


@pytest.fixture
def cluster(shared_cluster: Cluster) -> Cluster:
    """The shared broker without any quotas."""
    shared_cluster.wipe()
    return shared_cluster


@pytest.fixture
def repository(tmp_path: Path, sandbox: Sandbox) -> Repository:
    """A folder whose quotaform.yaml names the shared broker `lab`."""
    return Repository(tmp_path / "repository", sandbox.bootstrap_servers)


@pytest.fixture
def offline(tmp_path: Path) -> Repository:
    """A folder without a quotaform.yaml, for what needs no broker."""
    return Repository(tmp_path / "repository")
