"""`quotaform plan` and `show`: what they print, write and end with."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from pathlib import Path

import pytest

from quotaform.model.entity import Entity
from tests.workflow.command import QUOTAFORM, Cluster, Repository, environment, run
from tests.workflow.test_signals import socket_that_says_nothing

pytestmark = pytest.mark.workflow

MIB = 1048576.0
UNLIMITED = 2.0**63
CHANGES = """\
  - match: {user: new}
    values: {producer_byte_rate: 1MiB/s}
  - match: {user: changed}
    values: {producer_byte_rate: 1MiB/s}
  - match: {user: same}
    values: {producer_byte_rate: 1MiB/s}
  - match: {user: gone}
    state: absent
    reason: left the company
  - match: {user: expired}
    values: {producer_byte_rate: 1MiB/s}
    expires: 2020-01-31
"""


@pytest.fixture
def changing(repository: Repository, cluster: Cluster) -> Repository:
    """A repository with one create, one update and two deletes to plan, and one entity that nobody declared."""
    live = {"changed": 2 * MIB, "same": MIB, "gone": UNLIMITED, "expired": UNLIMITED, "stranger": MIB}
    cluster.alter({Entity(user=user): {"producer_byte_rate": value} for user, value in live.items()})
    repository.quotas(CHANGES)
    return repository


def without(document: str, *fields: str) -> dict[str, object]:
    return {name: value for name, value in json.loads(document).items() if name not in fields}


def test_the_exit_code_says_that_there_are_differences_only_when_asked(changing: Repository, cluster: Cluster) -> None:
    before = cluster.read()
    plain = changing("plan")
    assert (plain.code, plain.err) == (0, "")
    assert plain.last == "Plan: 1 to add, 1 to change, 2 to destroy."
    assert changing("plan", "--detailed-exitcode").code == 2
    assert "stranger" not in plain.out
    assert "Not managed, left unchanged: 1 in scope, 0 out of scope (list: --show-unmanaged)." in plain.out
    assert "user=gone will be destroyed\n  # (quotas.d/quotas.yaml:8:5; state: absent)" in plain.out
    assert "user=expired will be destroyed" in plain.out
    assert "expired 2020-01-31" in plain.out
    listed = changing("plan", "--show-unmanaged")
    assert "    user=stranger: producer_byte_rate = 1 MiB/s\n" in listed.out
    assert cluster.read() == before


def test_every_rendering_of_one_run_says_the_same(changing: Repository) -> None:
    shown = changing("plan", "--out", "json=plan.json", "--out", "text=plan.txt", "--out", "second.json")
    assert shown.code == 0
    assert changing.read("plan.txt") == shown.out
    assert changing.read("second.json") == changing.read("plan.json")
    printed = changing("plan", "--format", "json")
    assert printed.err == ""
    assert without(printed.out, "created_at", "digest") == without(changing.read("plan.json"), "created_at", "digest")
    assert changing("show", "plan.json").out == shown.out
    assert changing("show", "plan.json", "--format", "json").out == changing.read("plan.json")
    assert "stranger: producer" in changing("show", "plan.json", "--show-unmanaged").out
    assert not list(changing.path.glob("*.tmp*")), "files are written by rename"


def test_a_selection_makes_a_partial_plan_that_touches_nothing_else(changing: Repository, cluster: Cluster) -> None:
    planned = changing("plan", "--select", "user=*e*", "--exclude", "user=expired", "--out", "part.json")
    assert planned.last == "Plan: 1 to add, 1 to change, 1 to destroy."
    document = json.loads(changing.read("part.json"))
    assert document["complete"] is False
    assert {change["address"] for change in document["changes"]} == {"user=new", "user=changed", "user=gone"}
    assert "--select user=*e*, --exclude user=expired" in planned.out or "--select" in planned.out
    assert changing("apply", "part.json").code == 0
    assert cluster.values(user="new") == {"producer_byte_rate": MIB}
    assert cluster.values(user="gone") == {}
    assert cluster.values(user="expired") == {"producer_byte_rate": UNLIMITED}
    assert cluster.values(user="stranger") == {"producer_byte_rate": MIB}


def test_a_saved_plan_takes_no_selection(changing: Repository) -> None:
    changing("plan", "--out", "plan.json")
    refused = changing("apply", "plan.json", "--select", "user=new")
    assert refused.code == 64
    assert "a saved plan is applied completely" in refused.err


@pytest.fixture
def sandbox_servers(cluster: Cluster) -> str:
    return cluster.gateway.name


def test_a_cluster_can_be_named_on_the_command_line(changing: Repository, sandbox_servers: str) -> None:
    (changing.path / "quotaform.yaml").unlink()
    without_config = changing("plan")
    assert without_config.code == 64
    assert "quotaform.yaml does not exist" in without_config.err
    assert "--bootstrap-server HOST:PORT" in without_config.err
    planned = changing("plan", "--bootstrap-server", sandbox_servers, "--out", "plan.json")
    assert planned.last == "Plan: 1 to add, 1 to change, 2 to destroy."
    nowhere = changing("apply", "plan.json")
    assert nowhere.code == 64
    assert "give its address: --bootstrap-server HOST:PORT" in nowhere.err
    assert changing("apply", "plan.json", "--bootstrap-server", sandbox_servers).code == 0


def test_a_snapshot_is_planned_against_without_any_broker(changing: Repository, offline_path: Path) -> None:
    live = changing("plan")
    (changing.path / "snapshots").mkdir()
    taken = changing("snapshot", "--output", "snapshots/lab.json")
    assert taken.out == "Wrote 5 entities of lab to snapshots/lab.json.\n"
    away = Repository(offline_path)
    away.write("snapshots/lab.json", changing.read("snapshots/lab.json"))
    away.quotas(CHANGES)
    away.config("clusters: {lab: {snapshot: snapshots/lab.json}}\n")
    by_config = away("plan", "--detailed-exitcode")
    assert by_config.code == 2

    def body(text: str) -> list[str]:
        return text.splitlines()[2:]

    assert body(by_config.out) == body(live.out)
    by_flag = away("plan", "--snapshot", "snapshots/lab.json", "--format", "json")
    assert json.loads(by_flag.out)["plan_id"] == json.loads(changing("plan", "--format", "json").out)["plan_id"]
    assert away("drift").code == 2
    refused = away("apply", "--auto-approve")
    assert refused.code == 64
    assert "can be planned but not applied" in refused.err
    assert (away.path / "quotas.d" / "imported.yaml").exists() is False


@pytest.fixture
def offline_path(tmp_path: Path) -> Path:
    return tmp_path / "away"


def test_colour_is_for_terminals_and_for_those_who_ask(changing: Repository) -> None:
    assert "\x1b[" not in changing("plan").out
    assert "\x1b[" in changing("plan", "--color", "always").out
    assert "\x1b[" in changing("plan", "--color", "always", env={"NO_COLOR": "1"}).out
    assert "\x1b[" not in changing("plan", "--color", "never").out
    assert "\x1b[" in changing("drift", "--color", "always").out
    changing("plan", "--color", "always", "--out", "text=plan.txt", "--out", "json=plan.json")
    assert "\x1b[" not in changing.read("plan.txt") + changing.read("plan.json"), "files are never coloured"


def test_a_reader_that_goes_away_is_no_accident(changing: Repository, cluster: Cluster) -> None:
    for arguments, code in (
        ("plan", 0),
        ("plan --format json --detailed-exitcode", 2),
        ("snapshot", 0),
        ("drift", 2),
        ("validate", 0),
        ("apply --auto-approve", 0),
    ):
        reader, writer = os.pipe()
        os.close(reader)
        done = subprocess.run(
            [QUOTAFORM, *arguments.split(), "-q"],
            cwd=changing.path,
            env=environment(),
            stdin=subprocess.DEVNULL,
            stdout=writer,
            stderr=subprocess.PIPE,
            timeout=240,
            check=False,
        )
        os.close(writer)
        assert (done.returncode, done.stderr) == (code, b""), arguments
    assert cluster.values(user="new") == {"producer_byte_rate": MIB}
    assert len(changing.receipts) == 1


def test_a_repository_can_be_named_from_elsewhere(changing: Repository, tmp_path: Path) -> None:
    here = changing("plan").out.splitlines()[3:]
    for directory in (changing.path, changing.path / "quotas.d"):
        seen = run("plan", directory, cwd=tmp_path)
        assert seen.code == 0
        assert [line.replace(f"{changing.path}/", "") for line in seen.out.splitlines()[3:]] == here
    assert run("apply", changing.path, "--auto-approve", cwd=tmp_path).code == 0
    assert len(changing.receipts) == 1, "the receipt lies beside quotaform.yaml"


def test_a_plan_that_is_cut_short_while_reading_says_so(changing: Repository) -> None:
    for number, code, word in ((signal.SIGINT, 130, "interrupted"), (signal.SIGTERM, 143, "terminated")):
        with socket_that_says_nothing() as (address, accepted):
            changing.config(f"clusters: {{lab: {{bootstrap_servers: ['{address}']}}}}\n")
            running = changing.start("apply", "--auto-approve")
            assert accepted.wait(60)
            running.signal(number)
            stopped = running.end()
        assert (stopped.code, stopped.out) == (code, "")
        assert stopped.err.endswith(f"Error: {word}; nothing was written\n")
    assert changing.receipts == []
