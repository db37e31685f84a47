"""Drift that no file can express has an end all the same."""

from __future__ import annotations

import pytest

from tests.workflow.command import Cluster, Repository

pytestmark = pytest.mark.workflow


def test_a_host_name_as_an_ip_is_removed_with_alter(repository: Repository, cluster: Cluster) -> None:
    """Drift exited with 2 for ever, and its finding sent people to Kafka's tools."""
    cluster.wipe()
    cluster.set({"connection_creation_rate": 5.0}, ip="localhost")
    repository.quotas("quotas: []\n")
    seen = repository("drift")
    assert seen.code == 2
    assert "remove it with quotaform alter ip=localhost --delete KEY" in seen.out
    done = repository("alter", "ip=localhost", "--delete", "connection_creation_rate")
    assert done.code == 0, done.said
    assert cluster.read_until({}) == {}
    assert repository("drift").code == 0


def test_what_is_out_of_scope_is_no_drift(repository: Repository, cluster: Cluster) -> None:
    """An entity that files cannot express stayed drift, whatever the scope excluded."""
    cluster.wipe()
    cluster.set({"connection_creation_rate": 5.0}, ip="localhost")
    repository.quotas("quotas: []\n")
    config = repository.read("quotaform.yaml")
    repository.config(f"{config}scope: {{exclude: [{{ip: localhost}}]}}\n")
    assert repository("drift").code == 0
