"""Receipts are read back as they were written, and none is written over another; `story-receipts.txt` finds them."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, date, datetime
from json import loads
from pathlib import Path
from re import escape
from typing import Any
from unittest.mock import Mock

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import structs

from quotaform.apply.report import render_receipt, render_receipt_total
from quotaform.model.entity import Entity
from quotaform.model.errors import SavedFileError
from quotaform.model.finding import Approval
from quotaform.model.outcome import ClusterOutcome
from quotaform.model.quotas import Base
from quotaform.plan.receipt import (
    HEAD,
    RECEIPT_LISTS,
    ReceiptSource,
    Result,
    Run,
    is_started_head,
    load_receipt,
    receipt_lines,
)
from quotaform.plan.receipt_file import last_receipt_base, receipt_path, write_receipt
from quotaform.repository.repository import Repository
from tests.builder import CONSUMER, PRODUCER, dumped_receipt, plan_of, receipt_of, sealed
from tests.strategies import desired, quotas

ALICE = Entity(user="alice")
PLAN = plan_of({ALICE: {PRODUCER: 2.0}, Entity(user="bob"): {PRODUCER: 3.0, CONSUMER: 4.0}}, {ALICE: {PRODUCER: 1.0}})
SEVEN = plan_of({Entity(user=f"u{number}"): {PRODUCER: 1.0} for number in range(7)}, {})
BASE = Base(ref="origin/main", commit="a91be02")
STARTED = receipt_of(PLAN, Result.ALREADY_APPLIED, Result.UNKNOWN, is_started=True)


@settings(max_examples=60)
@given(
    desired(), quotas(), st.sampled_from(Result), st.sampled_from([None, Run(system="gitlab", url=None, actor="ann")])
)
def test_a_receipt_that_was_written_reads_back_equal(wanted: Any, actual: Any, result: Result, run: Run | None) -> None:
    receipt = receipt_of(plan_of(wanted, actual), result, run=run)
    assert load_receipt(dumped_receipt(receipt), "r.json") == receipt.saved()


def test_odd_values_a_base_and_a_start_read_back() -> None:
    odd = receipt_of(plan_of({ALICE: {PRODUCER: 1.0}}, {ALICE: {PRODUCER: float("nan"), CONSUMER: float("inf")}}))
    found = load_receipt(dumped_receipt(odd), "r.json")
    assert dumped_receipt(found) == dumped_receipt(odd)
    assert repr(found) == repr(odd.saved())  # NaN is not equal to itself.
    source = structs.replace(PLAN.header.source, base=BASE)
    based = receipt_of(replace(PLAN, header=structs.replace(PLAN.header, source=source)))
    assert load_receipt(dumped_receipt(based), "r.json").source == ReceiptSource(**structs.asdict(source))
    started = load_receipt(dumped_receipt(STARTED), "r.json")
    assert started == STARTED.saved()
    assert (started.is_started, started.is_complete) == (True, False)
    assert "state" not in loads(dumped_receipt(receipt_of(PLAN)))


def test_a_receipt_without_the_values_is_refused() -> None:
    document = loads(dumped_receipt(receipt_of(PLAN)))
    document["results"][0].pop("keys")
    with pytest.raises(SavedFileError, match=escape("results[0].keys is empty")):
        load_receipt(sealed(document, RECEIPT_LISTS), "r.json")


def test_the_start_of_a_started_receipt_says_so_whatever_it_holds() -> None:
    """With a few hundred approvals, the state came so late that nobody looked for it, and the warning was gone."""
    approval = Approval(
        rule="protect", address="user=alice", reason="r" * 500, approver="ops", expires=date(2026, 12, 1)
    )
    started = structs.replace(STARTED, plan=replace(PLAN, approvals=(approval,) * 300))
    for receipt, expected in ((started, True), (structs.replace(started, is_started=False), False)):
        text = "".join(receipt_lines(receipt))
        assert is_started_head(text.encode()[:HEAD]) is expected
        assert load_receipt(text, "r.json") == receipt.saved()


@pytest.mark.parametrize(("minute", "expected"), [(12, False), (14, True)])
def test_a_receipt_may_be_an_hour_ahead(tmp_path: Path, minute: int, expected: bool) -> None:
    repository = Repository.at(tmp_path / "quotas.d", tmp_path / "quotaform.yaml")
    path = receipt_path(PLAN.digest, repository)
    path.parent.mkdir(parents=True)
    write_receipt(path, receipt_of(PLAN))
    clock = Mock(now=lambda: datetime(2026, 11, 20, 8, minute, tzinfo=UTC))
    assert (last_receipt_base(repository, PLAN.header.cluster.id, clock)[0] is not None) is expected


def test_very_many_entities_that_are_done_have_no_line_each() -> None:
    plan = plan_of({Entity(user=f"u{number}"): {PRODUCER: 1.0} for number in range(101)}, {})
    assert render_receipt(receipt_of(plan)) == "Apply complete! Resources: 101 added, 0 changed, 0 destroyed.\n"


def test_the_last_line_of_several_clusters_counts_what_is_left_on_all() -> None:
    """It had dropped what was there already and what failed."""
    one = plan_of({ALICE: {PRODUCER: 1.0}}, {})
    outcomes = [
        ClusterOutcome("eu", receipt_of(SEVEN, *Result).digest),
        ClusterOutcome("us", receipt_of(one, Result.ALREADY_APPLIED).digest),
    ]
    last = render_receipt_total(outcomes).splitlines()[-1]
    assert last.startswith(
        "Apply incomplete! Resources: 1 added, 0 changed, 0 destroyed (2 already applied); 1 failed, "
    )


def test_two_receipts_of_one_name_are_two_files(tmp_path: Path) -> None:
    """Two applies within one second wrote one file, and one of the receipts was lost."""
    path = tmp_path / "receipt.json"
    receipts = [receipt_of(PLAN, result) for result in (Result.APPLIED, Result.REFUSED, Result.UNKNOWN)]
    with ThreadPoolExecutor() as pool:
        written = list(pool.map(lambda receipt: write_receipt(path, receipt), receipts))
    assert sorted(file.name for file in written) == ["receipt-2.json", "receipt-3.json", "receipt.json"]
    assert [file.read_text() for file in written] == [dumped_receipt(receipt) for receipt in receipts]
    assert len(list(tmp_path.iterdir())) == 3


@pytest.mark.parametrize("name", ["x" * 500, "a/../../b", "..", "a\n::error::b", "ä" * 200])
def test_a_cluster_of_any_name_has_a_receipt_in_the_folder_of_receipts(tmp_path: Path, name: str) -> None:
    """A long name of a cluster made a file name that no file system takes, after everything had been written."""
    plan = replace(PLAN, header=structs.replace(PLAN.header, cluster=structs.replace(PLAN.header.cluster, name=name)))
    path = receipt_path(plan.digest, Repository.at(tmp_path / "quotas.d", tmp_path / "quotaform.yaml"))
    assert path.parent == tmp_path / ".quotaform" / "receipts"
    path.parent.mkdir(parents=True)
    assert write_receipt(path, receipt_of(plan)) == path
