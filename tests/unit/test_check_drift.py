"""A cluster that could not be compared is never in sync."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from quotaform.desired.config import Cluster
from quotaform.drift.alert import known_drift
from quotaform.drift.drift import Drift
from quotaform.drift.run import check_drift
from quotaform.model.entity import Entity
from quotaform.model.errors import AuthorizationError, BaseError, ClusterError, QuotaformError, UnsettledError
from quotaform.model.outcome import ClusterOutcome, Progress, exit_code, no_progress
from quotaform.model.quotas import Quotas
from quotaform.plan.base import BaseChoice
from quotaform.plan.plan import Plan
from quotaform.plan.run import PlanRequest, plan
from quotaform.repository.repository import Repository, Target
from quotaform.system.clock import SYSTEM_CLOCK
from quotaform.system.clock import Clock as ClockProtocol
from tests.builder import PRODUCER
from tests.git_repository import GitRepository
from tests.scripted_gateway import Clock, ScriptedGateway

ALICE = Entity(user="alice")
SYNC: Quotas = {ALICE: {PRODUCER: 1.0}}


def checked(
    folder: Path, gateway: ScriptedGateway | QuotaformError, *, pin: str = "", base: str | None = None
) -> ClusterOutcome[Drift]:
    """What comes of comparing one cluster with files that are in sync with it."""
    pinned = f", cluster_id: {pin}" if pin else ""
    (folder / "quotas.d").mkdir(exist_ok=True)
    (folder / "quotaform.yaml").write_text(f"clusters: {{lab: {{bootstrap_servers: ['b:9092']{pinned}}}}}\n")
    if not (folder / "quotas.d" / "a.yaml").exists():
        (folder / "quotas.d" / "a.yaml").write_text(f"quotas: [{{match: {{user: alice}}, values: {{{PRODUCER}: 1}}}}]")
    repository = Repository.at(folder / "quotas.d", None)
    config = repository.config()
    request = PlanRequest(
        repository=repository,
        config=config,
        clusters=repository.clusters(config, Target()),
        base=None if base is None else BaseChoice(refs=(base,)),
    )

    def connect(_: Cluster) -> ScriptedGateway:
        if isinstance(gateway, QuotaformError):
            raise gateway
        return gateway

    def planner(
        request: PlanRequest, *, clock: ClockProtocol = SYSTEM_CLOCK, progress: Progress = no_progress
    ) -> Iterator[ClusterOutcome[Plan]]:
        return plan(request, clock=clock, progress=progress, connect=connect)

    (outcome,) = check_drift(request, planner, clock=Clock())
    return outcome


def require_unknown(outcome: ClusterOutcome[Drift]) -> str:
    drift, error = known_drift(outcome)
    assert drift is None
    assert error
    assert exit_code([outcome]) == exit_code([outcome], counts_differences=False) == 1
    return error


def test_a_cluster_that_is_as_the_files_say_is_in_sync(tmp_path: Path) -> None:
    drift, error = known_drift(checked(tmp_path, ScriptedGateway(SYNC)))
    assert drift is not None
    assert (drift.status, error) == ("in-sync", None)


@pytest.mark.parametrize(
    "error", [ClusterError("down"), AuthorizationError("not allowed"), UnsettledError("lab", 60.0)], ids=str
)
def test_a_read_that_fails_is_unknown(tmp_path: Path, error: ClusterError) -> None:
    assert require_unknown(checked(tmp_path, ScriptedGateway(SYNC, reads=[error]))) == str(error)
    assert require_unknown(checked(tmp_path, error)) == str(error)


def test_a_read_that_fails_the_second_time_is_unknown(tmp_path: Path) -> None:
    """Many entities differ, so that the cluster is read again: what the first read showed does not count."""
    many: Quotas = {Entity(user=f"u{number}"): {PRODUCER: 1.0} for number in range(100)}
    (tmp_path / "quotas.d").mkdir()
    users = ", ".join(f"u{number}" for number in range(100))
    text = f"quotas: [{{match: {{user: [{users}]}}, values: {{{PRODUCER}: 2}}}}]\n"
    (tmp_path / "quotas.d" / "a.yaml").write_text(text)
    gateway = ScriptedGateway(many, reads=[None, ClusterError("gone")])
    assert require_unknown(checked(tmp_path, gateway)) == "gone"


def test_another_cluster_than_the_pinned_one_is_unknown(tmp_path: Path) -> None:
    outcome = checked(tmp_path, ScriptedGateway(SYNC), pin="another")
    assert "is pinned to id another" in require_unknown(outcome)
    assert outcome.require().status == "unknown"


def test_a_baseline_that_cannot_be_read_is_unknown(tmp_path: Path) -> None:
    outcome = checked(tmp_path, ScriptedGateway(SYNC), base="origin/main")
    assert isinstance(outcome.error, BaseError)
    why = "the baseline origin/main cannot be read: quotas.d is not in a git work tree"  # It was called "the base".
    assert require_unknown(outcome).replace(f"{tmp_path}/", "") == why


def test_a_baseline_with_invalid_files_is_unknown(tmp_path: Path) -> None:
    """The cluster was compared with the files instead, and nothing said so."""
    git = GitRepository(tmp_path)
    git.git("init", "-q", "-b", "main")
    checked(tmp_path, ScriptedGateway(SYNC))
    git.write("quotas.d/a.yaml", "quotas: [{match: {user: 7}}]\n")
    git.commit()
    (tmp_path / "quotas.d" / "a.yaml").unlink()
    outcome = checked(tmp_path, ScriptedGateway(SYNC), base="HEAD")
    assert "are invalid" in require_unknown(outcome)
