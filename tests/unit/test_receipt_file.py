"""Receipts are read back with suspicion, and found among those of other clusters."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, date, datetime
from json import loads
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import structs

from quotaform.apply.applier import read_run
from quotaform.model.entity import Entity
from quotaform.model.errors import FileReadError
from quotaform.model.finding import Approval
from quotaform.model.quotas import Base
from quotaform.model.records.document import sealed_lines
from quotaform.plan import receipt_file as search
from quotaform.plan.plan import Plan, PlanOptions
from quotaform.plan.receipt import (
    HEAD,
    RECEIPT_LISTS,
    Receipt,
    ReceiptSource,
    Result,
    Run,
    SavedReceipt,
    is_started_head,
    load_receipt,
    receipt_lines,
)
from quotaform.plan.receipt_file import (
    last_receipt,
    load_receipt_file,
    receipt_path,
    write_receipt,
)
from quotaform.repository.repository import Repository
from tests.builder import CONSUMER, PRODUCER, plan_of, result_of
from tests.dumped import dumped_receipt
from tests.strategies import desired, quotas

ALICE, BOB = Entity(user="alice"), Entity(user="bob")
NAN = float("nan")
PLAN = plan_of({ALICE: {PRODUCER: 2.0}, BOB: {PRODUCER: 3.0, CONSUMER: 4.0}}, {ALICE: {PRODUCER: 1.0}})
Edit = Callable[[dict[str, Any]], object]


def receipt_of(plan: Plan = PLAN, result: Result = Result.APPLIED, **more: Any) -> Receipt:
    return Receipt(
        plan=plan,
        results=tuple(result_of(change, result) for change in plan.changes),
        applied_by="alice",
        **{"started_at": "2026-11-20T09:13:00Z", "finished_at": "2026-11-20T09:13:01Z", **more},
    )


TEXT = dumped_receipt(receipt_of())


def sealed(edit: Edit, text: str = TEXT) -> str:
    """A receipt that somebody edited who computes the digest again."""
    document = loads(text)
    del document["digest"]
    edit(document)
    lists = {name for name in RECEIPT_LISTS if isinstance(document.get(name), list)}
    return "".join(sealed_lines(document.items(), lists))


def same(saved: SavedReceipt, receipt: Receipt) -> bool:
    """Whether both are written alike; NaN is not equal to itself."""
    return dumped_receipt(saved) == dumped_receipt(receipt) and repr(saved) == repr(receipt.saved())


@settings(max_examples=60)
@given(
    desired(), quotas(), st.sampled_from(Result), st.sampled_from([None, Run(system="gitlab", url=None, actor="ann")])
)
def test_a_receipt_that_was_written_reads_back_equal(wanted: Any, actual: Any, result: Result, run: Run | None) -> None:
    receipt = receipt_of(plan_of(wanted, actual), result, run=run)
    assert load_receipt(dumped_receipt(receipt), "r.json") == receipt.saved()


def test_values_that_no_file_can_declare_read_back_as_they_were() -> None:
    receipt = receipt_of(plan_of({ALICE: {PRODUCER: 1.0}}, {ALICE: {PRODUCER: NAN, CONSUMER: float("inf")}}))
    assert same(load_receipt(dumped_receipt(receipt), "r.json"), receipt)


def test_a_receipt_says_what_the_files_were_compared_with() -> None:
    source = structs.replace(PLAN.header.source, base=Base(ref="origin/main", commit="a91be02"))
    receipt = receipt_of(replace(PLAN, header=replace(PLAN.header, source=source)))
    assert load_receipt(dumped_receipt(receipt), "r.json").source == ReceiptSource(**structs.asdict(source))


def test_a_receipt_that_was_begun_reads_back_as_that() -> None:
    started = Receipt.started(PLAN, applied={ALICE}, applied_by="alice", at="2026-11-20T09:13:00Z", run=None)
    text = dumped_receipt(started)
    assert loads(text)["state"] == "started"
    found = load_receipt(text, "r.json")
    assert found == started.saved()
    assert (found.is_started, found.is_complete, found.is_whole) == (True, False, False)
    assert "state" not in loads(TEXT)


def test_a_receipt_of_version_1_0_is_read_without_values() -> None:
    def edit(document: dict[str, Any]) -> None:
        document["format_version"] = "1.0"
        del document["declared"], document["options"]
        for item in document["results"]:
            del item["keys"]

    saved = load_receipt(sealed(edit), "r.json")
    assert (saved.declared, saved.options) == (None, None)
    assert [item.rows for item in saved.results] == [(), ()]


def test_a_receipt_that_does_not_exist_is_refused(tmp_path: Path) -> None:
    with pytest.raises(FileReadError, match="cannot be read: No such file or directory"):
        load_receipt_file(tmp_path / "none.json")


def keep(repository: Repository, day: int, plan: Plan = PLAN, result: Result = Result.APPLIED) -> Path:
    """Keep a receipt of noon of a day: those of one day are of one second."""
    path = receipt_path(plan.digest, repository)
    path = path.with_name(f"202611{day:02}T120000Z{path.name[16:]}")
    path.parent.mkdir(parents=True, exist_ok=True)
    return write_receipt(path, receipt_of(plan, result))


def of_cluster(cluster_id: str, plan: Plan = PLAN, **options: Any) -> Plan:
    header = replace(plan.header, cluster_id=cluster_id, options=PlanOptions(**options))
    return replace(plan, header=header)


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    return Repository.at(tmp_path / "quotas.d", tmp_path / "quotaform.yaml")


def test_the_start_of_a_started_receipt_says_so_whatever_it_holds() -> None:
    """With a few hundred approvals, the state came so late that nobody looked for it, and the warning was gone."""
    approval = Approval(rule="protect", entity=ALICE, reason="r" * 500, approver="ops", expires=date(2026, 12, 1))
    plan = replace(PLAN, approvals=(approval,) * 300)
    started = Receipt.started(plan, applied_by="ann", at="2026-11-04T12:00:00Z", run=None)
    for receipt, expected in ((started, True), (replace(started, is_started=False), False)):
        assert is_started_head("".join(receipt_lines(receipt)).encode()[:HEAD]) is expected


def test_a_bounded_number_of_receipts_is_read(repository: Repository, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search, "_MOST_READ", 2)
    keep(repository, 3, of_cluster("one"))
    for day in (4, 5, 6):
        path = keep(repository, day, of_cluster("one"))
        path.write_text(path.read_text()[:-9])
    found = last_receipt(repository, "one")
    assert (found.last, len(found.skipped)) == (None, 2)


@pytest.mark.parametrize(("minute", "expected"), [(12, False), (14, True)])
def test_a_receipt_may_be_an_hour_ahead(repository: Repository, minute: int, expected: bool) -> None:
    keep(repository, 3, of_cluster("one"))
    clock = Mock(now=lambda: datetime(2026, 11, 20, 8, minute, tzinfo=UTC))
    assert (last_receipt(repository, "one", clock=clock).last is not None) is expected


def test_a_link_out_of_the_repository_is_not_followed(repository: Repository, tmp_path: Path) -> None:
    elsewhere = Repository.at(tmp_path / "b" / "quotas.d", tmp_path / "b" / "quotaform.yaml")
    kept = keep(repository, 3, of_cluster("one"))
    (tmp_path / "b" / ".quotaform").mkdir(parents=True)
    (tmp_path / "b" / ".quotaform" / "receipts").symlink_to(kept.parent)
    assert last_receipt(elsewhere, "one").last is None
    os.unlink(tmp_path / "b" / ".quotaform" / "receipts")  # noqa: PTH108
    (tmp_path / "b" / ".quotaform" / "receipts").mkdir()
    (tmp_path / "b" / ".quotaform" / "receipts" / kept.name).symlink_to(kept)
    assert last_receipt(elsewhere, "one").last is None


GITHUB = {
    "GITHUB_ACTIONS": "true",
    "GITHUB_SERVER_URL": "https://github.example",
    "GITHUB_REPOSITORY": "acme/quotas",
    "GITHUB_RUN_ID": "42",
    "GITHUB_ACTOR": "ann",
}


def test_the_job_of_a_ci_system_is_told_by_its_variables() -> None:
    assert read_run(GITHUB) == Run(
        system="github", url="https://github.example/acme/quotas/actions/runs/42", actor="ann"
    )
    assert read_run({**GITHUB, "GITHUB_TRIGGERING_ACTOR": "bob"}) == Run(
        system="github", url="https://github.example/acme/quotas/actions/runs/42", actor="bob"
    )
    assert read_run({"GITLAB_CI": "true"}) == Run(system="gitlab", url=None, actor=None)
    assert read_run({**GITHUB, "GITHUB_ACTIONS": "no"}) is None


@pytest.mark.parametrize(
    "server", ["https://user:secret@github.example", "javascript:x", "https://a b", "https://a\n::error::", "x" * 9999]
)
def test_what_is_no_plain_web_address_is_left_out_of_a_receipt(server: str) -> None:
    run = read_run({**GITHUB, "GITHUB_SERVER_URL": server, "GITHUB_ACTOR": "x" * 9999})
    assert run is not None
    assert run.url is None
    assert run.actor == "x" * 500
