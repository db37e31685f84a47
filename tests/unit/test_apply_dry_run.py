"""`apply --dry-run` while another apply is running, and when it is interrupted; `story-dry.txt` has the rest."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest

from quotaform.apply.lock import cluster_lock
from quotaform.cli.main import run
from quotaform.model.entity import Entity
from quotaform.model.errors import ApplyRunningError, PlanBlockedError
from quotaform.model.finding import Finding
from tests.builder import PRODUCER
from tests.scripted_gateway import ScriptedGateway

ALICE = Entity(user="alice")


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
