"""Who applies from Python has what the command has: the lock, both receipts, the audit log; and what a lock is."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from hashlib import sha256
from json import loads
from pathlib import Path
from typing import Any

import pytest

from quotaform.apply.ledger import ClusterPlan
from quotaform.apply.lock import cluster_lock, listed_receipts
from quotaform.apply.run import apply
from quotaform.model.alteration import AlterRow
from quotaform.model.entity import Entity
from quotaform.model.errors import ApplyRunningError, NotApprovedError, PlanIdError, UsageError
from quotaform.plan.plan import Plan
from quotaform.plan.receipt_file import load_receipt_file
from quotaform.repository.repository import Repository
from tests.builder import PRODUCER, dumped_plan, plan_of
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


@pytest.mark.slow
def test_the_lock_of_a_killed_process_is_gone(tmp_path: Path) -> None:
    code = (
        "import os, pathlib\n"
        "from quotaform.apply.lock import cluster_lock\n"
        "with cluster_lock(pathlib.Path(), 'lab', 'id-1'):\n"
        "    print('held', flush=True)\n"
        "    os.read(0, 1)\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code], cwd=tmp_path, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"held\n"
        with pytest.raises(ApplyRunningError), cluster_lock(tmp_path, "lab", "id-1"):
            raise AssertionError
        process.kill()
        process.wait()
    with cluster_lock(tmp_path, "lab", "id-1"):
        pass


def test_where_no_file_can_be_made_there_is_no_lock(tmp_path: Path) -> None:
    (tmp_path / ".quotaform").write_text("a file")
    with cluster_lock(tmp_path, "lab", "id-1"):
        pass


def test_a_link_of_a_repository_is_not_opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    outside = tmp_path.parent / f"{tmp_path.name}-outside"
    outside.mkdir()
    (tmp_path / ".quotaform").mkdir()
    (tmp_path / ".quotaform" / "locks").symlink_to(outside)
    with cluster_lock(Path(), "lab", "id-1"):
        pass
    assert list(outside.iterdir()) == []
    listed = Path(".quotaform/locks") / f"{sha256(b'id-1').hexdigest()[:16]}.lock"
    listed.write_text("receipt.json\n")
    assert listed_receipts(Path(), "id-1") == []


def test_a_long_list_of_started_receipts_is_cut_between_two_of_them(tmp_path: Path) -> None:
    """The last path of a long list was cut in its middle, and what was not read was dropped from the list."""
    receipts = [tmp_path / f"{number:04}-{'long' * 50}.json" for number in range(1000)]
    with cluster_lock(tmp_path, "lab", "id-1") as lock:
        lock.write(receipts)
    listed = listed_receipts(tmp_path, "id-1")
    assert 100 < len(listed) < 1000
    assert listed == receipts[: len(listed)]
