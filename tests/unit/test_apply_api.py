"""Who calls the use case from Python has what the command has: the lock, both receipts, the audit log."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from json import loads
from pathlib import Path
from typing import Any

import pytest

from quotaform.apply.ledger import ClusterPlan
from quotaform.apply.lock import cluster_lock
from quotaform.apply.run import apply
from quotaform.model.alteration import AlterRow
from quotaform.model.entity import Entity
from quotaform.model.errors import ApplyRunningError, NotApprovedError, PlanIdError, UsageError
from quotaform.plan.plan import Plan
from quotaform.plan.receipt_file import load_receipt_file
from quotaform.repository.repository import Repository
from tests.builder import PRODUCER, plan_of
from tests.dumped import dumped_plan
from tests.scripted_gateway import Clock, ScriptedGateway

ALICE = Entity(user="alice")
PLAN = plan_of({ALICE: {PRODUCER: 2.0}}, {})
LAB = replace(PLAN, header=replace(PLAN.header, cluster_name="lab"))


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    (tmp_path / "quotaform.yaml").write_text("clusters: {lab: {bootstrap_servers: ['lab:1']}}\n")
    return Repository.at(tmp_path / "quotas.d", tmp_path / "quotaform.yaml")


def receipts(repository: Repository) -> list[Path]:
    return list((repository.config_path.parent / ".quotaform/receipts").glob("*.json"))


class Watched(ScriptedGateway):
    """A cluster; when it is written to, there is a started receipt, and its lock is held."""

    repository: Repository

    def alter_chunks(self, *arguments: Any, validate_only: bool = False, **options: Any) -> Any:
        def rows() -> Any:
            if not validate_only:
                assert load_receipt_file(*receipts(self.repository)).is_started
                with (
                    pytest.raises(ApplyRunningError),
                    cluster_lock(self.repository.config_path.parent, "lab", LAB.header.cluster_id),
                ):
                    raise AssertionError
            yield from chunks

        chunks: Sequence[tuple[AlterRow, ...]] | Any = super().alter_chunks(
            *arguments, validate_only=validate_only, **options
        )
        return rows()


@pytest.mark.parametrize("is_saved", [False, True])
def test_an_apply_is_locked_on_record_and_audited(repository: Repository, tmp_path: Path, is_saved: bool) -> None:
    gateway = Watched({})
    gateway.repository = repository
    audit, saved = tmp_path / "audit.jsonl", tmp_path / "plan.json"
    saved.write_text(dumped_plan(LAB))
    asked: list[ClusterPlan[Plan]] = []
    [outcome] = apply(
        repository,
        [saved if is_saved else LAB],
        approve=asked.extend,
        audit=audit,
        clock=Clock(),
        connect=lambda _: gateway,
    )
    applied = outcome.require()
    assert [each.cluster.name for each in asked] == ["lab"]
    assert gateway.quotas == {ALICE: {PRODUCER: 2.0}}
    assert [applied.path] == receipts(repository)
    assert (applied.unsaved, applied.late) == (None, ())
    assert load_receipt_file(receipts(repository)[0]).is_complete
    assert [loads(line)["event"] for line in audit.read_text().splitlines()] == ["start", "change", "end"]


def test_what_is_not_approved_is_audited_and_not_applied(repository: Repository, tmp_path: Path) -> None:
    def refuse(plans: Sequence[ClusterPlan[Plan]]) -> None:
        raise NotApprovedError([each.cluster.name for each in plans])

    audit = tmp_path / "audit.jsonl"
    gateway = ScriptedGateway({})
    other = replace(LAB, header=replace(LAB.header, cluster_name="other"))
    wrong: list[tuple[list[Plan], dict[str, Any], type[Exception]]] = [
        ([LAB], {"approve": refuse}, NotApprovedError),
        ([LAB], {"expect_plan_id": f"sha256:{'0' * 64}"}, PlanIdError),
        ([LAB, LAB], {}, UsageError),
        ([other], {}, UsageError),
        ([LAB], {"receipts": {"lab": tmp_path / "quotaform.yaml"}}, UsageError),
    ]
    for plans, options, error in wrong:
        with pytest.raises(error):
            list(apply(repository, plans, audit=audit, connect=lambda _: gateway, **options))
    assert [loads(line)["outcome"] for line in audit.read_text().splitlines()] == ["refused", "refused"]
    assert not gateway.sent
    assert receipts(repository) == []
