"""What a run in GitHub Actions counts, and the paths of its annotations; `story-ci.txt` has all that it adds."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest

from quotaform.cli.ci import Ci, end_step, note_outcomes
from quotaform.model.entity import Entity
from quotaform.model.outcome import ClusterOutcome
from quotaform.plan.receipt import Receipt, Result
from tests.builder import PRODUCER, plan_of, result_of


def test_an_apply_counts_what_it_changed_or_may_have_changed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It counted entities that the broker refused, and those that it was never asked to change."""
    (tmp_path / "output").touch()
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    monkeypatch.setenv("GITHUB_OUTPUT", str(tmp_path / "output"))
    plan = plan_of({Entity(user=result.value): {PRODUCER: 1.0} for result in Result}, {})
    results = tuple(result_of(change, result) for change, result in zip(plan.changes, Result, strict=True))
    moment = "2026-11-20T09:12:44Z"
    receipt = Receipt(plan=plan, results=results, applied_by="ada", started_at=moment, finished_at=moment)
    note_outcomes([ClusterOutcome("eu", receipt)])
    assert end_step(6) is None
    lines = (tmp_path / "output").read_text().splitlines()
    found = {line.partition("<<")[0]: value for line, value in pairwise(lines) if "<<" in line}
    assert (found["changes"], found["create"]) == ("4", "1")


def test_a_path_is_that_from_the_top_of_the_repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "infra").mkdir()
    monkeypatch.chdir(tmp_path / "infra")
    variables = {"GITHUB_ACTIONS": "true", "GITHUB_WORKSPACE": str(tmp_path)}
    place = Ci(Path("quotas.d"), variables=variables).options["place"]
    assert place("quotas.d/a.yaml") == "infra/quotas.d/a.yaml"
    assert place("../other/a.yaml") == "other/a.yaml"
    assert place(str(tmp_path / "infra/x.yaml")) == "infra/x.yaml"
    assert place("../../a.yaml") is None
    assert place("/etc/passwd") is None
    assert Ci(Path("quotas.d"), variables={}).options["place"]("quotas.d/a.yaml") == "quotas.d/a.yaml"
