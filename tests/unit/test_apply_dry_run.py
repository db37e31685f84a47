"""`apply --dry-run`: everything before the first change, the broker's check included, and nothing after it."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest

from quotaform.apply.lock import cluster_lock
from quotaform.cli.main import run
from quotaform.model.entity import Entity
from quotaform.model.errors import ApplyRunningError, ClusterError, PlanBlockedError
from quotaform.model.finding import Finding
from tests.builder import PRODUCER
from tests.scripted_gateway import Answer, ScriptedGateway

ALICE, BOB = Entity(user="alice"), Entity(user="bob")
LINE: Final = "Resources: 1 to add, 1 to change, 0 to destroy. Nothing was written."


@pytest.fixture
def gateways(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, ScriptedGateway]:
    """Two clusters, and a repository in the current folder with saved plans for both."""
    (tmp_path / "quotaform.yaml").write_text(
        "clusters: {a: {bootstrap_servers: ['a:1']}, b: {bootstrap_servers: ['b:1']}}\n"
    )
    (tmp_path / "quotas.d").mkdir()
    (tmp_path / "quotas.d" / "all.yaml").write_text(
        f"quotas:\n  - {{match: {{user: [alice, bob]}}, values: {{{PRODUCER}: 2KiB/s}}}}\n"
    )
    made = {name: ScriptedGateway({ALICE: {PRODUCER: 1024.0}}, cluster_id=name) for name in "ab"}
    monkeypatch.setattr("quotaform.cluster.kafka.KafkaGateway.connect", lambda *_, name, **__: made[name])
    monkeypatch.chdir(tmp_path)
    assert run(["plan", "--all", "--out", "{cluster}.json", "-q"]) == 0
    return made


def nothing_was_written(gateways: dict[str, ScriptedGateway]) -> bool:
    return not Path(".quotaform").exists() and not any(gateway.sent for gateway in gateways.values())


@pytest.mark.parametrize("arguments", [["a.json"], ["--cluster", "a"]])
def test_a_plan_is_checked_on_the_broker_and_not_applied(
    gateways: dict[str, ScriptedGateway], capsys: pytest.CaptureFixture[str], arguments: list[str]
) -> None:
    capsys.readouterr()
    assert run(["apply", *arguments, "--dry-run"]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == f"Dry run complete! {LINE}"
    assert gateways["a"].validated == [["user=alice", "user=bob"]]
    assert nothing_was_written(gateways)


@pytest.mark.parametrize("arguments", [["a.json", "b.json"], ["--all"]])
def test_of_several_clusters_each_is_checked(
    gateways: dict[str, ScriptedGateway], capsys: pytest.CaptureFixture[str], arguments: list[str]
) -> None:
    gateways["a"]._validates.append(Answer(refused={ALICE: (40, "Nope")}))
    capsys.readouterr()
    assert run(["apply", *arguments, "--dry-run"]) == 4
    out = capsys.readouterr().out
    assert "user=alice: Nope" in out
    assert out.endswith(f"2 clusters: 1 can be applied, 1 failed: a.\nDry run failed! {LINE}\n")
    assert nothing_was_written(gateways)


def test_a_dry_run_ends_with_the_code_that_apply_would_have(
    gateways: dict[str, ScriptedGateway], capsys: pytest.CaptureFixture[str]
) -> None:
    gateways["a"].quotas = {ALICE: {PRODUCER: 4096.0}}
    capsys.readouterr()
    assert run(["apply", "a.json", "--dry-run"]) == 5
    shown, told = capsys.readouterr()
    assert shown == "Dry run failed! Nothing was written.\n"
    assert told.startswith("Error: the cluster has changed since the plan was made")
    gateways["b"]._reads.append(ClusterError("no connection"))
    assert run(["apply", "b.json", "--dry-run"]) == 1
    assert run(["apply", "b.json", "--dry-run", "--expect-plan-id", f"sha256:{'0' * 64}"]) == 5
    assert nothing_was_written(gateways)


def test_a_dry_run_fails_where_apply_could_keep_no_receipt(
    gateways: dict[str, ScriptedGateway], capsys: pytest.CaptureFixture[str]
) -> None:
    """It passed, and the apply did nothing."""
    Path(".quotaform").write_text("no folder")
    for arguments in (["--dry-run"], ["--auto-approve"]):
        assert run(["apply", "a.json", *arguments]) == 1
        assert ".quotaform/receipts/" in capsys.readouterr().err
    assert not gateways["a"].validated


def test_a_dry_run_fails_while_an_apply_is_running(
    gateways: dict[str, ScriptedGateway], capsys: pytest.CaptureFixture[str]
) -> None:
    """It passed, and the apply was refused."""
    with cluster_lock(Path(), "a", "a"):
        assert run(["apply", "a.json", "--dry-run"]) == 1
        assert run(["apply", "a.json", "b.json", "--dry-run"]) == 1
    assert str(ApplyRunningError("a")) in capsys.readouterr().err


SAVED: Final = ("a.json",)


@pytest.mark.parametrize(
    ("place", "arguments"),
    [
        ("apply.run.load_plan_file", SAVED),
        ("apply.run.load_plan_file", (*SAVED, "--dry-run")),
        ("repository.repository.Repository.config", ("--cluster", "a")),
        ("cluster.kafka.KafkaGateway.connect", ("--cluster", "a")),
        ("cluster.kafka.KafkaGateway.connect", SAVED),
    ],
)
def test_an_interrupt_before_the_first_change_says_that_nothing_was_written(
    gateways: dict[str, ScriptedGateway],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    place: str,
    arguments: tuple[str, ...],
) -> None:
    """While a plan was loaded, it said no more than `interrupted`."""

    def interrupt(*_: object, **__: object) -> object:
        raise KeyboardInterrupt

    monkeypatch.setattr(f"quotaform.{place}", interrupt)
    capsys.readouterr()
    assert run(["apply", "--auto-approve", *arguments]) == 130
    assert capsys.readouterr().err == "Error: interrupted; nothing was written\n"
    assert gateways["a"].sent == []


def test_a_blocked_plan_says_what_would_allow_each_finding() -> None:
    """It named the first twenty, `and 11 more`, and no remedy."""
    many = [
        Finding(rule="to-unlimited", message="no limit", blocking=True, address=f"user=u{n}", override="--allow x")
        for n in range(40)
    ]
    one = Finding(rule="delete", message="40 of 40", blocking=True, override="--allow delete=40")
    other = Finding(rule="cluster-id", message="another one", blocking=True)
    text = str(PlanBlockedError("lab", [*many, one, other]))
    assert text.splitlines() == [
        "the plan is blocked and nothing was written:",
        *(f"  to-unlimited: user=u{n}: no limit" for n in range(5)),
        "  to-unlimited: ... and 35 more",
        "    Allow: --allow x",
        "  delete: 40 of 40",
        "    Allow: --allow delete=40",
        "  cluster-id: another one",
        "quotaform plan shows all of them, and quotaform show those of a saved plan.",
        "Correct the files, or plan again and allow what is meant: --allow x --allow delete=40",
    ]


@pytest.mark.parametrize("options", [["--dry-run"], []])
def test_a_refused_plan_can_be_approved_as_its_plan_says(
    gateways: dict[str, ScriptedGateway], capsys: pytest.CaptureFixture[str], options: list[str]
) -> None:
    """`plan` named an approval or an option, `apply` of the same plan the option alone."""
    gateways["a"].quotas = {ALICE: {PRODUCER: 1.0}}
    Path("quotaform.yaml").write_text("clusters: {a: {bootstrap_servers: ['a:1']}}\nguards: {change_factor: 10}\n")
    assert run(["plan", "--out", "a.json"]) == 4
    allow = "Allow: an approval in approvals.yaml (one entity), or --allow change-factor (all)\n"
    assert allow in capsys.readouterr().out
    assert run(["apply", "a.json", *options]) == 4
    shown, told = capsys.readouterr()
    assert allow in told
    assert told.endswith("plan again and allow what is meant: approvals, or --allow change-factor\n")
    assert shown.endswith("Dry run failed! Nothing was written.\n") if options else "Dry run" not in shown
