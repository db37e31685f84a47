"""Connections to the shared broker."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from quotaform import QuotaAdmin
from quotaform.cluster.client.config import ClientConfig
from quotaform.cluster.wire.cluster_connection import ClusterConnection
from quotaform.model.server import parse_servers
from quotaform.sandbox import Sandbox

if TYPE_CHECKING:
    from tests.doors import Doors


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


@pytest.fixture(scope="session")
def opened(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Doors]:
    """One broker with every mechanism, for the files that `tests.worker` keeps together."""
    from tests.doors import open_doors

    with open_doors(tmp_path_factory.mktemp("doors")) as doors:
        yield doors


@pytest.fixture
def doors(opened: Doors, monkeypatch: pytest.MonkeyPatch) -> Doors:
    """The same broker, with this process as a client of its KDC."""
    monkeypatch.setenv("KRB5_CONFIG", str(opened.kdc.krb5_conf))
    monkeypatch.setenv("KRB5CCNAME", str(opened.kdc.folder / "none"))
    return opened
