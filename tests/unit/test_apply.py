"""An apply beyond single scripts (`story-apply.txt`): very many changes, approvals, lock, receipts, audit log."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Collection, Sequence
from contextlib import closing, nullcontext
from dataclasses import replace
from datetime import date, timedelta
from hashlib import sha256
from json import loads
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from quotaform.api import apply, apply_clusters
from quotaform.apply.audit import AuditFile
from quotaform.apply.ledger import ClusterPlan, ReceiptKeeper, cluster_lock, list_receipts, listed_receipts
from quotaform.apply.run import apply_plan, require_plan_id
from quotaform.desired.approval import read_approvals
from quotaform.desired.tree import SourceFile
from quotaform.model.alteration import AlterRow
from quotaform.model.entity import Entity
from quotaform.model.errors import (
    FileReadError,
    NotApprovedError,
    PlanBlockedError,
    PlanIdError,
    QuotaformError,
    StaleError,
    UsageError,
)
from quotaform.model.finding import Approval
from quotaform.model.outcome import Kept
from quotaform.model.quotas import Quotas
from quotaform.model.records.record import ClusterRecord
from quotaform.model.settings import DEFAULT_GUARD_LIMITS
from quotaform.plan.check.guard import check_changes
from quotaform.plan.plan import Plan
from quotaform.plan.receipt import Receipt, Result
from quotaform.plan.receipt_file import load_plan_file, load_receipt_file
from quotaform.repository.repository import Repository
from quotaform.system.clock import today
from tests.builder import PRODUCER, dumped_plan, guarded, plan_of
from tests.scripted_gateway import FINE, NEVER_SHOWN, Clock, ScriptedGateway

ALICE, BOB, DAVE = (Entity(user=name) for name in ("alice", "bob", "dave"))
BEFORE: Quotas = {ALICE: {PRODUCER: 1.0}, DAVE: {PRODUCER: 1.0}}
AFTER: Quotas = {ALICE: {PRODUCER: 2.0}, BOB: {PRODUCER: 2.0}}
PLAN = plan_of({**AFTER, DAVE: {}}, BEFORE)
MANY = plan_of({Entity(user=f"u{number:04}"): {PRODUCER: 2.0} for number in range(1_001)}, {})
CHECKED: tuple[None, None] = (None, None)
"""The reads before anything is written: before the dry run, and after it."""


@pytest.fixture
def clock() -> Clock:
    return Clock()


def applied(plan: Plan, gateway: ScriptedGateway, *more: Any, clock: Clock | None = None, **options: Any) -> Receipt:
    return apply_plan(plan, gateway, *more, clock=clock or Clock(), **options)


class CountingGateway(ScriptedGateway):
    """Also keeps how many entities each read asked for."""

    asked: list[int]

    def describe_entities(self, entities: Collection[Entity], *, timeout: float | None = None) -> Quotas:
        self.asked = [*getattr(self, "asked", []), len(entities)]
        return super().describe_entities(entities, timeout=timeout)


def test_of_very_many_changes_one_is_watched_until_it_shows() -> None:
    """All of 100,000 entities were read again and again, which kept a busy broker from making the changes."""
    half = {change.entity: change.after for change in MANY.changes[:500]}
    gateway = CountingGateway({}, reads=[*CHECKED, {}, half, half])
    assert applied(MANY, gateway).is_complete
    assert gateway.asked == [1_001, 1_001, 1, 1, 1, 1, 1_001]


def test_very_many_changes_that_never_show_are_read_once_more_when_time_is_up(clock: Clock) -> None:
    gateway = CountingGateway({}, writes=[FINE] * 10 + [NEVER_SHOWN])
    receipt = applied(MANY, gateway, clock=clock)
    assert [item.result for item in receipt.results] == [Result.APPLIED] * 1_000 + [Result.UNCONFIRMED]
    assert (gateway.asked[:2], set(gateway.asked[2:-1]), gateway.asked[-1]) == ([1_001, 1_001], {1}, 1_001)
    assert sum(clock.pauses) == pytest.approx(30.0, abs=1.5)


def test_of_very_many_changes_one_that_somebody_else_changed_is_not_waited_for(clock: Clock) -> None:
    theirs = {change.entity: change.after for change in MANY.changes}
    theirs[MANY.changes[-1].entity] = {PRODUCER: 5.0}
    receipt = applied(MANY, ScriptedGateway({}, reads=[*CHECKED, *[theirs] * 100]), clock=clock)
    assert [item.result for item in receipt.results][-2:] == [Result.APPLIED, Result.OVERWRITTEN]
    assert sum(clock.pauses) < 5


def test_progress_is_told_while_writing_and_reading_back() -> None:
    told: list[tuple[str, int, int]] = []
    applied(PLAN, ScriptedGateway(BEFORE, chunk_size=2), lambda *step: told.append(step))
    assert [step for step in told if step[0] == "Applying"] == [("Applying", done, 3) for done in (0, 2, 3)]
    assert told[0] == ("Reading quotas of lab", 0, 0)
    assert ("Reading back", 0, 3) in told


def test_the_started_receipt_is_kept_before_the_first_change_is_sent() -> None:
    gateway = ScriptedGateway({**BEFORE, BOB: {PRODUCER: 2.0}})
    started: list[Receipt] = []

    class Keeper(ReceiptKeeper):
        def start(self, receipt: Receipt) -> None:
            assert gateway.log == ["describe", "validate", "describe"]
            started.append(receipt)

    receipt = applied(PLAN, gateway, keeper=Keeper(None))
    assert [[each.result for each in one.results] for one in started] == [
        [Result.UNKNOWN, Result.UNKNOWN, Result.ALREADY_APPLIED]
    ]
    assert [each.is_started for each in (*started, receipt)] == [True, False]
    applied(PLAN, ScriptedGateway(AFTER), keeper=Keeper(None))
    assert len(started) == 1, "without a change to send there is nothing to start"


def test_the_expected_plan_id_may_be_given_with_or_without_its_prefix() -> None:
    for expected in (None, PLAN.plan_id, PLAN.plan_id.removeprefix("sha256:")):
        require_plan_id(PLAN.plan_id, expected)


@pytest.mark.parametrize("expected", ["", "sha256:", "sha256:" + "0" * 64, PLAN.plan_id[:20]])
def test_another_plan_id_is_stale(expected: str) -> None:
    with pytest.raises(StaleError, match=r"so nothing was written: .*; review the new plan"):
        require_plan_id(PLAN.plan_id, expected)


def test_a_saved_plan_is_applied_as_it_was_made(tmp_path: Path) -> None:
    path = tmp_path / "plan.json"
    path.write_text(dumped_plan(guarded(PLAN)), encoding="utf-8")
    gateway = ScriptedGateway(BEFORE)
    assert applied(load_plan_file(path), gateway).is_complete
    assert gateway.quotas == AFTER
    with pytest.raises(FileReadError, match=r"none\.json cannot be read: No such file or directory; quotaform plan"):
        load_plan_file(tmp_path / "none.json")


def test_a_thousand_approvals_are_enough() -> None:
    item = "- {rule: protect, address: user=u%d, reason: r, approver: a, expires: 2026-12-20}\n"
    text = "".join(item % number for number in range(1001))
    (problem,) = read_approvals(SourceFile("approvals.yaml", text), date(2026, 11, 20))[1]
    assert problem.message == "the file contains more than the limit of 1,000; remove some"


def test_a_plan_whose_approval_has_expired_meanwhile_is_not_applied() -> None:
    alice, clock = Entity(user="alice"), Clock()
    approval = Approval(rule="change-factor", address=alice.address, reason="r", approver="a", expires=today(clock))
    plan = plan_of({alice: {PRODUCER: 100.0}}, {alice: {PRODUCER: 1.0}})
    for days, is_valid in ((0, False), (1, True), (30, True), (31, False)):
        gateway = ScriptedGateway({alice: {PRODUCER: 1.0}})
        given = structs.replace(approval, expires=today(clock) + timedelta(days))
        refused = pytest.raises(PlanBlockedError, match="depends on an approval of change-factor for user=alice")
        with nullcontext() if is_valid else refused:
            apply_plan(replace(plan, approvals=(given,)), gateway, clock=clock)
        assert gateway.quotas == {alice: {PRODUCER: 100.0 if is_valid else 1.0}}


def test_what_blocks_an_apply_is_bounded_and_says_where_the_rest_is_and_why() -> None:
    """It said `--format json`, which of an apply has no findings; expired approvals were all listed, without a rule."""
    users = [Entity(user=f"u{number}") for number in range(9)]
    plan = plan_of({user: {PRODUCER: 100.0} for user in users}, {user: {PRODUCER: 1.0} for user in users})
    approvals = [
        Approval(rule="change-factor", address=user.address, reason="r", approver="a", expires=today(Clock()))
        for user in users
    ]
    blocked = replace(plan, findings=tuple(check_changes(plan, DEFAULT_GUARD_LIMITS)))
    for given, named in ((blocked, "change-factor"), (replace(plan, approvals=tuple(approvals)), "expired-approval")):
        with pytest.raises(PlanBlockedError) as caught:
            applied(given, ScriptedGateway({}))
        assert "and 4 more (list: quotaform plan, or quotaform show of a saved one)" in str(caught.value)
        assert named in caught.value.rules


LAB = plan_of({ALICE: {PRODUCER: 2.0}}, {})


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
                    pytest.raises(QuotaformError, match="another apply"),
                    cluster_lock(self.repository.config_path.parent, "lab", LAB.header.cluster.id),
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


@pytest.mark.parametrize("keep", [lambda plan: plan, lambda plan: Kept(plan.digest, lambda: plan)])
def test_a_dry_run_checks_on_the_broker_and_leaves_nothing_behind(
    repository: Repository, tmp_path: Path, keep: Callable[[Plan], Any]
) -> None:
    """A plan that is kept on disk, as for Spark, was an internal error."""
    gateway, audit = ScriptedGateway({}), tmp_path / "audit.jsonl"
    with closing(AuditFile(audit)) as log:
        each = ClusterPlan(repository.config().clusters["lab"], keep(LAB))
        options: dict[str, Any] = {"dry_run": True, "clock": Clock(), "connect": lambda _: gateway}
        [kept] = apply_clusters(repository, [each], log, **options)
    [checked] = apply(repository, [LAB], audit=audit, dry_run=True, clock=Clock(), connect=lambda _: gateway)
    assert [change.entity for change in checked.require().pending] == [ALICE]
    assert kept.require() == checked.require()
    assert (gateway.quotas, receipts(repository), audit.read_text()) == ({}, [], "")


def test_what_is_not_approved_is_audited_and_not_applied(repository: Repository, tmp_path: Path) -> None:
    def refuse(plans: Sequence[ClusterPlan[Plan]]) -> None:
        raise NotApprovedError

    audit = tmp_path / "audit.jsonl"
    gateway = ScriptedGateway({})
    other = replace(LAB, header=structs.replace(LAB.header, cluster=ClusterRecord(name="other", id="3JxQ0v7pT2a")))
    wrong: list[tuple[list[Any], dict[str, Any], type[Exception]]] = [
        ([LAB], {"approve": refuse}, NotApprovedError),
        ([LAB], {"approve": lambda plans: False}, NotApprovedError),
        ([LAB], {"expect_plan_id": f"sha256:{'0' * 64}"}, PlanIdError),
        ([LAB, LAB], {}, UsageError),
        ([other], {}, UsageError),
        ([LAB], {"receipts": {"lab": tmp_path / "quotaform.yaml"}}, UsageError),
        ([LAB], {"max_age": timedelta(seconds=1)}, StaleError),
        ([str(tmp_path / "plan.json")], {}, TypeError),
        ([LAB], {"approve": True}, TypeError),
        ([LAB], {"dry_run": None}, TypeError),
        ([LAB], {"max_age": "24h"}, TypeError),
        ([LAB], {"receipts": {"lab": "receipt.json"}}, TypeError),
        ([LAB], {"engine": "spark"}, TypeError),
    ]
    for plans, options, error in wrong:
        with pytest.raises(error):
            list(apply(repository, plans, audit=audit, connect=lambda _: gateway, **options))
    assert [loads(line)["outcome"] for line in audit.read_text().splitlines()] == ["refused"] * 4
    assert not gateway.sent
    assert receipts(repository) == []


@pytest.mark.slow
def test_the_lock_of_a_killed_process_is_gone(tmp_path: Path) -> None:
    code = (
        "import os, pathlib\n"
        "from quotaform.apply.ledger import cluster_lock\n"
        "with cluster_lock(pathlib.Path(), 'lab', 'id-1'):\n"
        "    print('held', flush=True)\n"
        "    os.read(0, 1)\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code], cwd=tmp_path, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"held\n"
        with pytest.raises(QuotaformError, match="another apply"), cluster_lock(tmp_path, "lab", "id-1"):
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
        list_receipts(lock, receipts)
    listed = listed_receipts(tmp_path, "id-1")
    assert 100 < len(listed) < 1000
    assert listed == receipts[: len(listed)]
