"""approvals.yaml and --allow: what they say, and what is said about their mistakes."""

from __future__ import annotations

from dataclasses import replace
from datetime import date, timedelta
from pathlib import Path

import pytest

from quotaform.apply.run import apply_plan
from quotaform.cli.main import run
from quotaform.cluster.snapshot import dump_snapshot
from quotaform.desired.approval import read_approvals
from quotaform.desired.tree import SourceFile
from quotaform.model.entity import Entity
from quotaform.model.errors import InvalidFilesError, PlanBlockedError
from quotaform.model.finding import Approval
from quotaform.model.quotas import Snapshot
from quotaform.model.rule import APPROVABLE
from quotaform.repository.repository import Repository
from tests.builder import PRODUCER, plan_of
from tests.scripted_gateway import ScriptedGateway

TODAY = date(2026, 11, 20)
GOOD = """\
- rule: protect
  address: user=<default>
  reason: the new brokers need less
  approver: alice@example.com
  expires: 2026-12-20
"""


def problems(text: str) -> list[str]:
    _, found = read_approvals(SourceFile("approvals.yaml", text), TODAY)
    return [str(problem).removeprefix("approvals.yaml:") for problem in found]


def test_an_approval_is_for_its_cluster_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """An approval for one cluster lifted the rule on all of them."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "quotaform.yaml").write_text("clusters: {eu: {snapshot: eu.json}, us: {snapshot: us.json}}\n")
    (tmp_path / "quotas.d").mkdir()
    (tmp_path / "quotas.d/a.yaml").write_text("quotas: [{match: {user: a}, values: {producer_byte_rate: 100}}]\n")
    for name in ("eu", "us"):
        quotas = {Entity(user="a"): {PRODUCER: 1.0}}
        taken = Snapshot(cluster_name=name, cluster_id=name, captured_at="2026-11-20T09:12:44Z", quotas=quotas)
        (tmp_path / f"{name}.json").write_text(dump_snapshot(taken))
    day = date.today() + timedelta(days=9)
    item = f"- {{rule: change-factor, address: user=a, cluster: CLUSTER, reason: r, approver: c, expires: {day}}}\n"
    for cluster, codes in (("eu", [0, 4]), ("u?", [4, 0]), ("'*'", [0, 0])):
        (tmp_path / "approvals.yaml").write_text(item.replace("CLUSTER", cluster))
        assert [run(["plan", "--cluster", name]) for name in ("eu", "us")] == codes
        assert "unused-approval" not in capsys.readouterr().out
    (tmp_path / "approvals.yaml").write_text(item.replace("CLUSTER", "ue"))
    for command in (["plan", "--cluster", "eu"], ["validate"]):
        assert run(command) == 3
        out, err = capsys.readouterr()
        assert 'approvals.yaml:1:3: error: cluster: unknown cluster "ue"' in out + err


def test_a_thousand_approvals_are_enough() -> None:
    items = "".join(GOOD.replace("user=<default>", f"user=u{number}") for number in range(1001))

    assert [line.partition("error: ")[2] for line in problems(items)] == [
        "the file contains more than the limit of 1,000 approvals; remove some [too-large]"
    ]


def test_approvals_are_read_beside_the_configuration(tmp_path: Path) -> None:
    repository = Repository.at(tmp_path / "quotas.d", tmp_path / "quotaform.yaml")
    assert repository.approvals(TODAY) == ()
    (tmp_path / "approvals.yaml").write_text(GOOD)
    assert [each.rule for each in repository.approvals(TODAY)] == ["protect"]
    (tmp_path / "approvals.yaml").write_text("- 5\n")
    with pytest.raises(InvalidFilesError, match=r"approvals\.yaml:1:3: error: item 1 must be a mapping"):
        repository.approvals(TODAY)


def test_approvals_are_not_read_through_a_link_that_leads_out(tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere.yaml"
    elsewhere.write_text(GOOD)
    (tmp_path / "repository").mkdir()
    (tmp_path / "repository" / "approvals.yaml").symlink_to(elsewhere)
    repository = Repository.at(tmp_path / "repository" / "quotas.d", tmp_path / "repository" / "quotaform.yaml")
    with pytest.raises(InvalidFilesError, match="a link leads out of the directory"):
        repository.approvals(TODAY)


def test_a_plan_whose_approval_has_expired_meanwhile_is_not_applied() -> None:
    alice = Entity(user="alice")
    approval = Approval(rule="change-factor", entity=alice, reason="r", approver="a", expires=date(2020, 1, 31))
    plan = plan_of({alice: {PRODUCER: 100.0}}, {alice: {PRODUCER: 1.0}})
    for day in (date(2020, 1, 31), date(9999, 1, 1)):
        gateway = ScriptedGateway({alice: {PRODUCER: 1.0}})
        with pytest.raises(PlanBlockedError, match="the plan depends on an approval of change-factor for user=alice"):
            apply_plan(replace(plan, approvals=(replace(approval, expires=day),)), gateway)
        assert gateway.quotas == {alice: {PRODUCER: 1.0}}


def test_what_can_be_approved_is_about_one_entity() -> None:
    assert APPROVABLE == ("change-factor", "to-unlimited", "default-entity", "protect")
