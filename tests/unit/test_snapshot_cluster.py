"""A snapshot that stands for a cluster: what headers say of it, its pinned id, and an import from it."""

from __future__ import annotations

import json
from dataclasses import replace

from quotaform.model.entity import Entity
from quotaform.model.quotas import SnapshotFile
from quotaform.plan.records import load_plan
from quotaform.plan.report import render_plan
from quotaform.report.text import reading_text
from tests.builder import HEADER, PRODUCER, plan_of
from tests.dumped import dumped_plan

ALICE = Entity(user="alice")
CAPTURED = "2026-11-20T09:12:44Z"


def test_a_plan_file_keeps_its_snapshot() -> None:
    plan = plan_of({ALICE: {PRODUCER: 1.0}}, {})
    plan = replace(plan, header=replace(HEADER, snapshot=SnapshotFile("a.json", CAPTURED)))
    text = dumped_plan(plan)
    assert load_plan(text, "plan.json").header == plan.header
    assert dumped_plan(load_plan(text, "plan.json")) == text
    assert "snapshot" not in json.loads(dumped_plan(replace(plan, header=HEADER)))


def test_what_a_snapshot_says_of_itself_cannot_forge_a_line() -> None:
    hostile = SnapshotFile("a\n::error::x.json", "now\x1b[31m")
    text = "".join(render_plan(replace(plan_of({}, {}), header=replace(HEADER, snapshot=hostile))))
    assert 'Snapshot "a\\n::error::x.json", captured "now\\u001b[31m", 0 entities in scope' in text
    assert reading_text("", SnapshotFile("", "")) == "Snapshot captured at an unknown time"
