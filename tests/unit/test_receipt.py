"""What a receipt says of an apply."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from quotaform.apply.report import render_receipt, render_receipt_total
from quotaform.model.entity import Entity
from quotaform.model.outcome import ClusterOutcome
from quotaform.plan.receipt import Receipt, Result
from quotaform.plan.receipt_file import receipt_path, write_receipt
from quotaform.repository.repository import Repository
from tests.builder import PRODUCER, plan_of, result_of
from tests.dumped import dumped_receipt

NAMES = ("alice", "bob", "carol", "dave", "eve", "frank", "grace")
PLAN = plan_of({Entity(user=name): {PRODUCER: 1.0} for name in NAMES}, {})


def receipt_of(*results: Result, interrupted_by: str | None = None, message: str = "") -> Receipt:
    return Receipt(
        plan=PLAN,
        results=tuple(
            result_of(change, result, message) for change, result in zip(PLAN.changes, results, strict=False)
        ),
        applied_by="alice",
        started_at="2026-11-20T09:13:00Z",
        finished_at="2026-11-20T09:13:01Z",
        interrupted_by=interrupted_by,
    )


def test_very_many_entities_that_are_done_have_no_line_each() -> None:
    plan = plan_of({Entity(user=f"u{number}"): {PRODUCER: 1.0} for number in range(101)}, {})
    results = tuple(result_of(change) for change in plan.changes)
    text = render_receipt(replace(receipt_of(), plan=plan, results=results))
    assert text == "Apply complete! Resources: 101 added, 0 changed, 0 destroyed.\n"


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


def test_two_receipts_of_one_name_are_two_files(tmp_path: Path) -> None:
    """Two applies within one second wrote one file, and one of the receipts was lost."""
    path = tmp_path / "receipt.json"
    receipts = [receipt_of(result) for result in (Result.APPLIED, Result.REFUSED, Result.UNKNOWN)]
    with ThreadPoolExecutor() as pool:
        written = list(pool.map(lambda receipt: write_receipt(path, receipt), receipts))
    assert sorted(file.name for file in written) == ["receipt-2.json", "receipt-3.json", "receipt.json"]
    assert [file.read_text() for file in written] == [dumped_receipt(receipt) for receipt in receipts]
    assert len(list(tmp_path.iterdir())) == 3


@pytest.mark.parametrize("name", ["x" * 500, "a/../../b", "..", "a\n::error::b", "ä" * 200])
def test_a_cluster_of_any_name_has_a_receipt_in_the_folder_of_receipts(tmp_path: Path, name: str) -> None:
    """A long name of a cluster made a file name that no file system takes, after everything had been written."""
    plan = replace(PLAN, header=replace(PLAN.header, cluster_name=name))
    path = receipt_path(plan.digest, Repository.at(tmp_path / "quotas.d", tmp_path / "quotaform.yaml"))
    assert path.parent == tmp_path / ".quotaform" / "receipts"
    path.parent.mkdir(parents=True)
    assert write_receipt(path, receipt_of(Result.APPLIED)) == path
