"""Which cluster is meant, and what of the files is for it."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from quotaform.model.entity import Entity
from quotaform.sandbox import Sandbox
from tests.workflow.command import QUOTAFORM, Cluster, Repository, environment

pytestmark = pytest.mark.workflow

OWN = """\
  - match: {user: a}
    values: {producer_byte_rate: 2MiB/s}
"""
COMMON = """\
  - match: {user: a}
    values: {producer_byte_rate: 1MiB/s}
"""
UPDATED = "Plan: 0 to add, 1 to change, 0 to destroy."
MIB = 1048576.0


def without_time(text: str) -> str:
    """Leave the times out of an output."""
    return re.sub(r"[0-9-]{10}T[0-9:]{8}Z", "TIME", text)


@pytest.fixture
def layered(repository: Repository, cluster: Cluster) -> Repository:
    """A cluster that holds what the common files say, while its own file says something else."""
    cluster.alter({Entity(user="a"): {"producer_byte_rate": MIB}})
    repository.quotas(COMMON)
    repository.quotas(OWN, "lab/own.yaml")
    return repository


def test_a_snapshot_is_planned_with_the_files_of_the_cluster_that_it_is_of(layered: Repository) -> None:
    """The cluster's own layer was left out: a plan against its snapshot said that nothing changes."""
    assert layered("plan").last == UPDATED
    assert layered("snapshot", "--output", "snapshots/today.json").code == 0
    offline = layered("plan", "--snapshot", "snapshots/today.json")
    assert offline.last == UPDATED
    assert offline.out.startswith("Cluster  lab ")
    assert layered("plan", "--cluster", "lab", "--snapshot", "snapshots/today.json").last == UPDATED


def test_an_address_on_the_command_line_stands_for_the_only_cluster(layered: Repository, sandbox: Sandbox) -> None:
    layered.config("clusters: {lab: {bootstrap_servers: ['127.0.0.1:1'], cluster_id: another}}\n")
    seen = layered("plan", "--bootstrap-server", sandbox.bootstrap_servers)
    assert seen.last == UPDATED
    assert (seen.code, "is pinned to id another" in seen.out) == (4, True)


def test_what_is_imported_of_one_of_several_clusters_is_its_own(
    repository: Repository, cluster: Cluster, sandbox: Sandbox
) -> None:
    """It went to the common files, so that a plan for any other cluster wanted to create it there."""
    cluster.alter({Entity(user="a"): {"producer_byte_rate": MIB}})
    servers = sandbox.bootstrap_servers
    repository.config(
        f"clusters: {{lab: {{bootstrap_servers: ['{servers}']}}, prod: {{bootstrap_servers: ['x:1']}}}}\n"
    )
    seen = repository("import", "--cluster", "lab")
    assert seen.out.startswith("Wrote quotas.d/lab/imported.yaml (1 entity)"), seen
    assert "$schema=../../schemas/" in (repository.path / "quotas.d/lab/imported.yaml").read_text()
    assert repository("plan", "--cluster", "lab", "--detailed-exitcode").code == 0


def test_a_configuration_that_is_named_must_be_there(layered: Repository) -> None:
    """It was ignored, with its scope, its profiles and its pinned id."""
    for command in (["validate"], ["plan", "--bootstrap-server", "127.0.0.1:1"]):
        seen = layered(*command, "--config", "nope.yaml")
        assert seen.code == 3
        assert "nope.yaml: error: does not exist" in seen.said


def test_global_options_may_stand_before_the_command(layered: Repository) -> None:
    """The two outputs were compared as they were, and each names the second in which the cluster was read."""
    before, after = layered("--color", "always", "-q", "plan"), layered("plan", "--color", "always", "-q")
    assert without_time(before.out) == without_time(after.out)
    assert "\x1b[" in before.out


def test_output_that_cannot_be_written_is_one_sentence(layered: Repository) -> None:
    with Path("/dev/full").open("wb") as full:
        seen = subprocess.run(
            [QUOTAFORM, "plan"], cwd=layered.path, env=environment(), stdout=full, stderr=subprocess.PIPE, check=False
        )
    assert seen.returncode == 1
    assert seen.stderr.decode() == "Error: the output cannot be written: No space left on device\n"
