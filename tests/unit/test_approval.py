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
from quotaform.model.errors import InvalidFilesError, PlanBlockedError, UsageError
from quotaform.model.finding import CHANGE, DELETE, Allowance, Approval
from quotaform.model.quotas import Snapshot
from quotaform.model.rule import APPROVABLE, read_allowances
from quotaform.repository.repository import Repository
from tests.builder import PRODUCER, plan_of
from tests.scripted_gateway import ScriptedGateway

TODAY = date(2026, 11, 20)
TO = (("consumer_byte_rate", 2.0**63), ("producer_byte_rate", 1048576.0))
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


def changed(field: str, value: str) -> str:
    return "\n".join(
        f"{line.partition(field)[0]}{field} {value}" if field in line else line for line in GOOD.splitlines()
    )


def test_an_approval_is_read() -> None:
    (approval,), found = read_approvals(SourceFile("approvals.yaml", GOOD), TODAY)

    assert found == []
    assert approval == Approval(
        rule="protect",
        entity=Entity(user=None),
        reason="the new brokers need less",
        approver="alice@example.com",
        expires=date(2026, 12, 20),
    )
    assert str(approval.location) == "approvals.yaml:1:3"


def test_an_approval_may_depend_on_a_deletion_or_on_values() -> None:
    for more, action, to in (
        ("action: delete", DELETE, ()),
        ("action: change", CHANGE, ()),
        ("to: {producer_byte_rate: 1MiB/s, consumer_byte_rate: unlimited}", CHANGE, TO),
    ):
        (approval,), found = read_approvals(SourceFile("approvals.yaml", f"{GOOD}  {more}\n"), TODAY)
        assert (found, approval.action, approval.to) == ([], action, to)


def test_an_approval_may_be_for_a_cluster_and_a_pattern() -> None:
    text = f"{changed('address:', 'user=svc-*')}\n  cluster: prod-*\n"
    (approval,), found = read_approvals(SourceFile("approvals.yaml", text), TODAY)

    assert found == []
    assert (approval.cluster, approval.entity) == ("prod-*", Entity(user="svc-*"))
    assert approval.target == "user=svc-* on prod-*"
    assert problems(text + text.replace("prod-*", "lab")) == []
    assert problems(text + text)[0].startswith("7:3: error: protect of user=svc-* on prod-* is approved twice")


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


def test_approvals_of_a_change_and_of_a_deletion_are_two() -> None:
    approvals, found = read_approvals(SourceFile("approvals.yaml", f"{GOOD}{GOOD}  action: delete\n"), TODAY)

    assert (len(approvals), found) == (2, [])


@pytest.mark.parametrize("text", ["", "# none\n", "[]\n"])
def test_a_file_may_approve_nothing(text: str) -> None:
    assert read_approvals(SourceFile("approvals.yaml", text), TODAY) == ((), [])


def test_an_expired_approval_is_no_mistake() -> None:
    assert problems(changed("expires:", "2020-01-31")) == []


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            changed("expires:", "2026-12-21"),
            "5:12: error: expires: 2026-12-21 is over 30 days ahead; write 2026-12-20 or earlier [bad-date]",
        ),
        (
            changed("expires:", "soon"),
            '5:12: error: expires: "soon" is not a date; write it as in 2026-12-20 [bad-date]',
        ),
        (changed("expires:", "2026-02-30"), '5:12: error: expires: "2026-02-30" is not a date; write it as in'),
        (changed("expires:", "2026-W50-1"), '5:12: error: expires: "2026-W50-1" is not a date; write it as in'),
        (
            changed("rule:", "delete"),
            "1:9: error: delete is not about one entity, so it cannot be approved here; plan with",
        ),
        (
            changed("rule:", "empty"),
            "1:9: error: empty is not about one entity, so it cannot be approved here; plan with",
        ),
        (
            changed("rule:", "cluster-id"),
            "1:9: error: cluster-id cannot be approved: check the bootstrap servers; change",
        ),
        (changed("rule:", "policy"), "1:9: error: policy cannot be approved: change the entry"),
        (
            changed("rule:", "protected"),
            '1:9: error: "protected" is not a rule that can be approved; did you mean protect?',
        ),
        (
            changed("rule:", "ip-alias"),
            '1:9: error: "ip-alias" is not a rule that can be approved. The rules are change-',
        ),
        (changed("address:", "alice"), '2:12: error: address: "alice" is not an address; write for example user=svc-a'),
        (
            changed("address:", "'client-id=b,user=a'"),
            '2:12: error: address: "client-id=b,user=a" is not in canonical form; write user=a,client-id=b',
        ),
        (changed("reason:", "''"), "3:11: error: reason must not be empty; write for example moves to the new cluster"),
        (changed("approver:", "5"), '4:13: error: approver must be text, but YAML reads 5 as a number; write "5"'),
        (
            GOOD.replace("  approver: alice@example.com\n", ""),
            "1:3: error: item 1 has no approver; add it [missing-field]",
        ),
        (
            GOOD + "  until: x\n",
            '6:3: error: unknown field "until". The fields are rule, address, reason, approver, expires, action',
        ),
        (GOOD + "  action: drop\n", "6:11: error: action must be change or delete"),
        (GOOD + "  to: 5MB/s\n", "6:7: error: to must be a mapping"),
        (GOOD + "  to: {producer_byte_rate: fast}\n", "6:28: error: user=<default> producer_byte_rate: "),
        (GOOD + "  to: {producer_rate: 5MB/s}\n", '6:8: error: user=<default>: unknown quota key "producer_rate"'),
        (
            GOOD + "  action: delete\n  to: {producer_byte_rate: 5MB/s}\n",
            "7:7: error: to: an approval with action: delete concerns the whole entity; remove this field",
        ),
        (
            changed("rule:", "default-entity") + "\n  to: {producer_byte_rate: 5MB/s}\n",
            "6:7: error: to: default-entity concerns the whole entity; remove this field",
        ),
        (GOOD + "  cluster: 5\n", '6:12: error: cluster must be text, but YAML reads 5 as a number; write "5"'),
        (GOOD + "  cluster: ''\n", "6:12: error: cluster must not be empty; write for example prod-*"),
        (
            changed("address:", f"user={'a*' * 600}"),
            "2:12: error: address: a pattern has at most 1,000 characters, and this one has 1,200",
        ),
        (
            changed("address:", "svc-*"),
            '2:12: error: address: "svc-*" is not an address; write for example user=svc-a, '
            "'user=svc-a,client-id=<default>' or 'user=\"CN=a,O=b\"' [",
        ),
        ("rule: protect\n", "1:1: error: the file must be a list, not a mapping [wrong-type]"),
        (
            GOOD + GOOD,
            "6:3: error: protect of user=<default> is approved twice; it is also at approvals.yaml:1:3. "
            "Keep one of the two",
        ),
        ("- [\n", "2:1: error: not valid YAML: "),
    ],
)
def test_a_mistake_is_named_with_its_place(text: str, said: str) -> None:
    found = problems(text)

    assert len(found) == 1, found
    assert found[0].startswith(said)


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


def test_allowances_are_read() -> None:
    assert read_allowances(["to-unlimited", "delete=8", "delete=8"]) == (
        Allowance("delete", 8),
        Allowance("to-unlimited"),
    )


ALL = "The rules are empty, shrink, delete=N, update=N, change-factor, to-unlimited, default-entity, guards-loosened"


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (
            ["delete"],
            "--allow delete: the number is missing; write --allow delete=N, with the number that the plan shows",
        ),
        (
            ["update=x"],
            '--allow update: "x" is not a number; write --allow update=N, with the number that the plan shows',
        ),
        (["delete=-1"], '--allow delete: "-1" is not a number; write --allow delete=N, with the number that'),
        (["delete=٣"], '--allow delete: "٣" is not a number; write --allow delete=N, with the number that'),
        (["to-unlimited=3"], "--allow to-unlimited takes no number; write --allow to-unlimited"),
        (["deletes=3"], f'--allow "deletes": there is no such rule; did you mean delete? {ALL}'),
        (["all"], f'--allow "all": there is no such rule. {ALL}'),
        ([""], f'--allow "": there is no such rule. {ALL}'),
        (["ip-alias"], f'--allow "ip-alias": there is no such rule. {ALL}'),
        (
            ["protect"],
            "--allow protect: no option allows this rule; add an approval for the entity to `approvals.yaml`",
        ),
        (["policy"], "--allow policy: no option allows this rule; change the entry"),
        (["cluster-id"], "--allow cluster-id: no option allows this rule; check the bootstrap servers; change"),
        (["delete=3", "delete=4"], "--allow delete is given with two numbers; give the number of the plan"),
    ],
)
def test_a_wrong_allowance_says_what_to_write(given: list[str], said: str) -> None:
    with pytest.raises(UsageError) as refused:
        read_allowances(given)

    assert str(refused.value).startswith(said)
    assert refused.value.exit_code == 64


def test_what_can_be_approved_is_about_one_entity() -> None:
    assert APPROVABLE == ("change-factor", "to-unlimited", "default-entity", "protect")


def test_one_key_may_be_approved_with_several_values() -> None:
    """Clusters may differ, and approvals.yaml is that of all of them."""
    text = "".join(f"{GOOD}  to: {{producer_byte_rate: {value}}}\n" for value in ("5MB/s", "6MB/s"))

    assert problems(text) == []
    assert len(problems(text + GOOD + "  to: {producer_byte_rate: 5MB/s}\n")) == 1
