"""A connection of its own to the shared broker, for what a gateway would refuse to send."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from quotaform.cluster.client.config import ClientConfig
from quotaform.cluster.wire.cluster_connection import ClusterConnection
from quotaform.model.server import parse_servers
from quotaform.sandbox import Sandbox


@pytest.fixture(scope="session")
def connection(sandbox: Sandbox) -> Iterator[ClusterConnection]:
    made = ClusterConnection(parse_servers(sandbox.bootstrap_servers), ClientConfig(), name="lab", timeout=10)
    yield made
    made.close()
