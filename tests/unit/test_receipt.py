"""What a receipt says of an apply."""

from __future__ import annotations

import errno
import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from json import loads
from pathlib import Path

import pytest

from quotaform.apply.report import render_receipt, render_receipt_markdown, render_receipt_total
from quotaform.model.entity import Entity
from quotaform.model.outcome import ClusterOutcome
from quotaform.model.quotas import Action
from quotaform.plan.receipt import EntityResult, Receipt, Result
from quotaform.plan.receipt_file import receipt_path, write_receipt
from quotaform.repository.repository import Repository
from tests.builder import PRODUCER, plan_of
from tests.dumped import dumped_receipt

NAMES = ("alice", "bob", "carol", "dave", "eve", "frank", "grace")
PLAN = plan_of({Entity(user=name): {PRODUCER: 1.0} for name in NAMES}, {})


def receipt_of(*results: Result, interrupted_by: str | None = None, message: str = "") -> Receipt:
    return Receipt(
        plan=PLAN,
        results=tuple(
            EntityResult(Entity(user=name), Action.CREATE, result, message)
            for name, result in zip(NAMES, results, strict=False)
        ),
        applied_by="alice",
        started_at="2026-11-20T09:13:00Z",
        finished_at="2026-11-20T09:13:01Z",
        interrupted_by=interrupted_by,
    )


@pytest.mark.parametrize(
    ("result", "holds", "wrote"),
    [
        (Result.APPLIED, True, True),
        (Result.ALREADY_APPLIED, True, False),
        (Result.REFUSED, False, False),
        (Result.UNCONFIRMED, False, True),
        (Result.OVERWRITTEN, False, True),
        (Result.UNKNOWN, False, True),
        (Result.NOT_ATTEMPTED, False, False),
    ],
)
def test_a_result_says_whether_it_holds_and_whether_anything_was_written(
    result: Result, holds: bool, wrote: bool
) -> None:
    assert receipt_of(result).is_complete is holds
    assert receipt_of(result).wrote_anything is wrote


def test_one_entity_that_does_not_hold_makes_it_incomplete() -> None:
    assert not receipt_of(Result.APPLIED, Result.REFUSED).is_complete
    assert receipt_of(Result.APPLIED, Result.REFUSED).wrote_anything


def test_an_apply_of_nothing_is_complete() -> None:
    assert receipt_of().is_complete
    assert not receipt_of().wrote_anything


def test_what_was_there_already_is_not_counted_as_done() -> None:
    receipt = receipt_of(Result.APPLIED, Result.ALREADY_APPLIED, Result.APPLIED)
    assert receipt.count(Action.CREATE) == 2
    assert receipt.count(Action.DELETE) == 0
    assert receipt.tally == {Result.APPLIED: 2, Result.ALREADY_APPLIED: 1}


def test_the_document_counts_every_result_and_names_the_plan() -> None:
    document = loads(dumped_receipt(receipt_of(*Result)))
    assert document["summary"] == {result.value: 1 for result in Result}
    assert document["plan_id"] == PLAN.plan_id
    assert document["complete"] is False
    assert [item["result"] for item in document["results"]] == [result.value for result in Result]
    assert {item["message"] for item in document["results"]} == {None}


def test_each_entity_that_is_done_has_a_line_unless_there_are_very_many() -> None:
    lines = render_receipt(receipt_of(Result.APPLIED, Result.REFUSED, Result.ALREADY_APPLIED)).splitlines()
    assert lines[:2] == ["user=alice: Creation complete", "user=carol: Already applied"]
    many = receipt_of()
    plan = plan_of({Entity(user=f"u{number}"): {PRODUCER: 1.0} for number in range(101)}, {})
    results = tuple(EntityResult(change.entity, change.action, Result.APPLIED) for change in plan.changes)
    text = render_receipt(replace(many, plan=plan, results=results))
    assert text == "Apply complete! Resources: 101 added, 0 changed, 0 destroyed.\n"


def test_the_last_line_of_an_incomplete_apply_counts_what_is_left() -> None:
    lines = render_receipt(receipt_of(*Result, interrupted_by="SIGINT")).splitlines()
    assert lines[-1] == (
        "Apply incomplete! Resources: 1 added, 0 changed, 0 destroyed (1 already applied); "
        "1 failed, 1 unconfirmed, 1 overwritten, 1 unknown, 1 not attempted."
    )
    assert "Interrupted by SIGINT." in lines
    assert lines[-2] == (
        "Error: not all changes are in effect. Nothing is rolled back. Run the same command again to complete the "
        "apply; quotaform plan shows what is left."
    )


def test_what_an_interrupt_kept_from_being_read_back_was_not_waited_for_to_the_time_limit() -> None:
    """SIGTERM in the read-back gave "not visible before the time limit" and "not all changes are in effect"."""
    cut = receipt_of(Result.APPLIED, Result.UNCONFIRMED, interrupted_by="SIGTERM")
    text = render_receipt(cut)
    assert "1 entity accepted, but not confirmed, because the apply was interrupted\n" in text
    assert "Error: it is not known whether all changes are in effect. Nothing is rolled back. Run the same " in text
    assert "**It is not known whether all changes are in effect. Nothing" in render_receipt_markdown(cut)
    late = render_receipt(receipt_of(Result.APPLIED, Result.UNCONFIRMED))
    assert "1 entity accepted, but not visible before the time limit\n" in late
    assert "Error: not all changes are in effect. " in late
    refused = receipt_of(Result.UNCONFIRMED, Result.NOT_ATTEMPTED, interrupted_by="SIGTERM")
    assert "Error: not all changes are in effect. " in render_receipt(refused)
    done = receipt_of(Result.APPLIED, interrupted_by="SIGTERM")
    assert "**All changes are in effect. Nothing" in render_receipt_markdown(done)


def test_the_last_line_of_several_clusters_counts_what_is_left_on_all() -> None:
    """It had dropped what was there already and what failed."""
    outcomes = [
        ClusterOutcome("eu", receipt_of(*Result).digest),
        ClusterOutcome("us", receipt_of(Result.ALREADY_APPLIED).digest),
    ]
    last = render_receipt_total(outcomes).splitlines()[-1]
    assert last.startswith(
        "Apply incomplete! Resources: 1 added, 0 changed, 0 destroyed (2 already applied); 1 failed, "
    )


def test_the_words_of_a_broker_cannot_forge_a_line() -> None:
    receipt = receipt_of(Result.REFUSED, message="no\n::error::forged\x1b[31m")
    text = render_receipt(receipt)
    assert '1 entity refused by the broker: "no\\n::error::forged\\u001b[31m"\n    user=alice\n' in text
    assert "\x1b" not in text
    assert "\x1b" not in dumped_receipt(receipt)


def test_two_receipts_of_one_name_are_two_files(tmp_path: Path) -> None:
    """Two applies within one second wrote one file, and one of the receipts was lost."""
    path = tmp_path / "receipt.json"
    receipts = [receipt_of(result) for result in (Result.APPLIED, Result.REFUSED, Result.UNKNOWN)]
    with ThreadPoolExecutor() as pool:
        written = list(pool.map(lambda receipt: write_receipt(path, receipt), receipts))
    assert sorted(file.name for file in written) == ["receipt-2.json", "receipt-3.json", "receipt.json"]
    assert [file.read_text() for file in written] == [dumped_receipt(receipt) for receipt in receipts]
    assert len(list(tmp_path.iterdir())) == 3


def test_a_receipt_overwrites_nothing_where_there_are_no_hard_links(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError(errno.EPERM, os.strerror(errno.EPERM))

    monkeypatch.setattr(Path, "hardlink_to", refuse)
    path = tmp_path / "receipt.json"
    written = [write_receipt(path, receipt_of(Result.APPLIED)) for _ in range(2)]
    assert [file.name for file in written] == ["receipt.json", "receipt-2.json"]
    assert {file.read_text() for file in written} == {dumped_receipt(receipt_of(Result.APPLIED))}


@pytest.mark.parametrize("name", ["x" * 500, "a/../../b", "..", "a\n::error::b", "ä" * 200])
def test_a_cluster_of_any_name_has_a_receipt_in_the_folder_of_receipts(tmp_path: Path, name: str) -> None:
    """A long name of a cluster made a file name that no file system takes, after everything had been written."""
    plan = replace(PLAN, header=replace(PLAN.header, cluster_name=name))
    path = receipt_path(plan.digest, Repository.at(tmp_path / "quotas.d", tmp_path / "quotaform.yaml"))
    assert path.parent == tmp_path / ".quotaform" / "receipts"
    path.parent.mkdir(parents=True)
    assert write_receipt(path, receipt_of(Result.APPLIED)) == path
