"""Every view, on one plan that has everything in it."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from json import loads

import pytest
from msgspec import structs

from quotaform.apply.report import render_receipt, render_receipt_markdown
from quotaform.drift.drift import make_drift
from quotaform.drift.records import dump_drift
from quotaform.drift.report import render_drift, render_drift_markdown
from quotaform.plan.receipt import Result
from quotaform.plan.records import load_plan
from quotaform.plan.report import render_plan, render_plan_summary
from quotaform.plan.report_markdown import render_plan_markdown
from quotaform.report.format import FORMATS, render
from quotaform.report.text import Style
from tests.builder import receipt_of
from tests.dumped import dumped_plan, dumped_receipt
from tests.golden.conftest import FOLDER, Golden
from tests.golden.drift_example import example_drift
from tests.golden.example import based_plan, empty_plan, example_plan, guarded_plan, of_the_right_cluster
from tests.golden.fleet_example import example_apply_report, example_drift_report, example_fleet_report
from tests.golden.principals_example import principals_plan


def test_plan_text(golden: Golden) -> None:
    golden("plan.txt", "".join(render_plan(example_plan())))


def test_plan_text_with_everything_shown(golden: Golden) -> None:
    golden("plan-full.txt", "".join(render_plan(example_plan(), shows_unchanged=True, shows_unmanaged=True)))


def test_plan_text_in_colour(golden: Golden) -> None:
    golden("plan-colour.txt", "".join(render_plan(example_plan(), Style(True))))


def test_plan_text_without_changes(golden: Golden) -> None:
    golden("plan-empty.txt", "".join(render_plan(empty_plan())))


def test_the_report_of_a_fleet(golden: Golden) -> None:
    for name, suffix in (("text", "txt"), ("json", "json"), ("markdown", "md")):
        golden(f"fleet-report.{suffix}", "".join(render("fleet-report", name, example_fleet_report())))
    golden("fleet-report-apply.txt", "".join(render("fleet-report", "text", example_apply_report())))
    golden("fleet-report-drift.txt", "".join(render("fleet-report", "text", example_drift_report())))


def test_plan_with_a_base(golden: Golden) -> None:
    golden("plan-base.txt", "".join(render_plan(based_plan())))
    golden("plan-base.json", dumped_plan(based_plan()))


def test_plan_with_guards(golden: Golden) -> None:
    golden("plan-guarded.txt", "".join(render_plan(guarded_plan())))
    golden("plan-guarded.json", dumped_plan(guarded_plan()))
    assert dumped_plan(load_plan(dumped_plan(guarded_plan()), "plan.json")) == dumped_plan(guarded_plan())


def test_plan_summary(golden: Golden) -> None:
    golden("plan-summary.txt", "".join(render_plan_summary(example_plan())))


def test_plan_markdown(golden: Golden) -> None:
    golden("plan.md", render_plan_markdown(example_plan(), run_url="https://ci.example/runs/1"))


def test_plan_with_its_blast_radius(golden: Golden) -> None:
    plan = principals_plan()
    golden("plan-principals.txt", "".join(render_plan(plan)))
    golden("plan-principals-summary.txt", "".join(render_plan_summary(plan)))
    golden("plan-principals.md", render_plan_markdown(plan))
    golden("plan-principals.json", dumped_plan(plan))
    assert load_plan(dumped_plan(plan), "plan.json") == replace(plan, base=None)


def test_the_file_of_all_changes_of_limits(golden: Golden) -> None:
    for name in FORMATS["limit-changes"]:
        golden(f"limit-changes.{name}", "".join(render("limit-changes", name, principals_plan())))


def test_plan_json(golden: Golden) -> None:
    golden("plan.json", dumped_plan(example_plan()))


def test_drift_text(golden: Golden) -> None:
    golden("drift.txt", render_drift(make_drift(of_the_right_cluster(example_plan()))))


def test_drift_markdown(golden: Golden) -> None:
    golden(
        "drift.md",
        render_drift_markdown(make_drift(of_the_right_cluster(example_plan())), run_url="https://ci.example/runs/1"),
    )


@pytest.mark.parametrize("name", ["github", "sarif", "gitlab"])
def test_findings_beside_the_files(name: str, golden: Golden) -> None:
    golden(f"plan.{name}", "".join(render("plan", name, example_plan())))
    golden(f"drift.{name}", "".join(render("drift", name, make_drift(of_the_right_cluster(example_plan())))))


def test_drift_json(golden: Golden) -> None:
    golden("drift.json", dump_drift(make_drift(of_the_right_cluster(example_plan()))))


def test_drift_against_a_baseline(golden: Golden) -> None:
    golden("drift-baseline.txt", render_drift(example_drift()))
    golden("drift-baseline.json", dump_drift(example_drift()))


def test_no_drift_text(golden: Golden) -> None:
    golden("drift-empty.txt", render_drift(make_drift(empty_plan())))


def test_receipt_of_a_complete_apply(golden: Golden) -> None:
    plan = example_plan(with_findings=False)
    receipt = receipt_of(plan, *[Result.APPLIED] * (len(plan.changes) - 1), Result.ALREADY_APPLIED)
    golden("receipt.txt", render_receipt(receipt))
    golden("receipt.md", render_receipt_markdown(receipt))
    golden("receipt.json", dumped_receipt(receipt))


def test_receipt_of_an_incomplete_apply(golden: Golden) -> None:
    plan = example_plan(with_findings=False)
    results = [Result.APPLIED, Result.REFUSED, Result.UNKNOWN, Result.UNCONFIRMED]
    rest = [Result.NOT_ATTEMPTED] * (len(plan.changes) - 4)
    receipt = receipt_of(plan, *results, *rest, interrupted_by="SIGINT")
    whys = ("why" if each.result is Result.REFUSED else "" for each in receipt.results)
    receipt = replace(
        receipt,
        results=tuple(structs.replace(each, message=why) for each, why in zip(receipt.results, whys, strict=True)),
    )
    golden("receipt-incomplete.json", dumped_receipt(receipt))
    golden("receipt-incomplete.txt", render_receipt(receipt))
    golden("receipt-incomplete.md", render_receipt_markdown(receipt, run_url="https://ci.example/runs/1"))


@pytest.mark.parametrize(
    "text", ["".join(render_plan(example_plan())), dumped_plan(example_plan())], ids=["text", "json"]
)
def test_no_name_can_forge_a_line(text: str) -> None:
    assert not any(line.startswith("::") for line in text.splitlines())
    assert "\x1b" not in text


@pytest.mark.slow
@pytest.mark.parametrize("seed", ["1", "2"])
def test_equal_input_gives_equal_bytes_in_any_order_and_in_any_process(seed: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tests.golden.shuffled", seed],
        cwd=FOLDER.parents[1],
        env=os.environ | {"PYTHONHASHSEED": seed},
        capture_output=True,
        check=True,
    )
    for name, text in loads(done.stdout).items():
        assert text == (FOLDER / name).read_text(encoding="utf-8"), f"{name} depends on the order"
