"""Connections to the shared broker."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from quotaform import QuotaAdmin
from quotaform.cluster.client.config import ClientConfig
from quotaform.cluster.wire.cluster_connection import ClusterConnection
from quotaform.model.server import parse_servers
from quotaform.sandbox import Sandbox


@pytest.fixture(scope="session")
def connection(sandbox: Sandbox) -> Iterator[ClusterConnection]:
    """For what a gateway would refuse to send."""
    made = ClusterConnection(parse_servers(sandbox.bootstrap_servers), ClientConfig(), name="lab", timeout=10)
    yield made
    made.close()


@pytest.fixture(scope="session")
def admin(sandbox: Sandbox) -> Iterator[QuotaAdmin]:
    """As others use the package."""
    with QuotaAdmin.connect(sandbox.bootstrap_servers) as made:
        yield made
