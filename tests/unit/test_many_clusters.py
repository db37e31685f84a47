"""`plan`, `drift` and `apply` of several clusters: a section, a file and an outcome for each, and one exit code."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from socket import create_server
from time import monotonic

import pytest
from jsonschema import Draft7Validator

from quotaform.cli.console import Console
from quotaform.cli.main import run
from quotaform.cluster.snapshot import dump_snapshot
from quotaform.model.entity import Entity
from quotaform.model.quotas import Quotas, Snapshot
from quotaform.system.process import TerminatedError
from tests.builder import PRODUCER
from tests.loading import load_schema

ALICE = Entity(user="alice")
DOWN = "127.0.0.1:1"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with three clusters: eu differs from the files, us does not, and nothing listens where lab should be."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "quotaform.yaml").write_text(
        f"clusters: {{eu: {{snapshot: eu.json}}, lab: {{bootstrap_servers: ['{DOWN}']}}, us: {{snapshot: us.json}}}}\n"
    )
    (tmp_path / "quotas.d").mkdir()
    (tmp_path / "quotas.d/all.yaml").write_text(
        f"quotas: [{{match: {{user: alice}}, values: {{{PRODUCER}: 2MiB/s}}}}]\n"
    )
    snapshot(tmp_path, "eu", {ALICE: {PRODUCER: 2.0**20}})
    snapshot(tmp_path, "us", {ALICE: {PRODUCER: 2.0**21}})
    return tmp_path


def snapshot(folder: Path, name: str, quotas: Quotas) -> None:
    taken = Snapshot(cluster_name=name, cluster_id=f"id-{name}", captured_at="2026-11-20T09:12:44Z", quotas=quotas)
    (folder / f"{name}.json").write_text(dump_snapshot(taken))


def test_json_is_one_document_that_holds_those_of_the_clusters(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["plan", "--all", "--format", "json"]) == 1
    document = json.loads(capsys.readouterr().out)
    Draft7Validator(load_schema("outcomes")).validate(document)
    assert [outcome["cluster"] for outcome in document["outcomes"]] == ["eu", "lab", "us"]
    assert document["outcomes"][1]["result"] is None
    assert document["outcomes"][1]["error"]["exit_code"] == 1
    plan = document["outcomes"][0]["result"]
    Draft7Validator(load_schema("plan")).validate(plan)


@pytest.fixture
def hanging(folder: Path) -> Iterator[None]:
    """Lab accepts a connection and never answers."""
    with create_server(("127.0.0.1", 0)) as silent:
        address = "{}:{}".format(*silent.getsockname())
        config = folder / "quotaform.yaml"
        config.write_text(config.read_text().replace(DOWN, address))
        yield


@pytest.mark.slow
@pytest.mark.parametrize(
    ("command", "interrupt", "code", "message", "total"),
    [
        ("plan", KeyboardInterrupt(), 130, "interrupted", "3 clusters: 1 with changes, 1 not read: lab."),
        ("drift", TerminatedError("SIGTERM"), 143, "terminated", "3 clusters: 1 with drift, 1 not read: lab."),
    ],
)
@pytest.mark.usefixtures("hanging")
def test_what_was_read_before_an_interrupt_is_printed_and_written(
    command: str,
    interrupt: KeyboardInterrupt,
    code: int,
    message: str,
    total: str,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """While one cluster hung, Ctrl-C printed only `quotaform: interrupted`: no section and no file of the others."""
    interrupted: list[float] = []

    def stop(self: Console, what: str, done: int, total: int) -> None:
        if what == "Waiting for lab":
            interrupted.append(monotonic())
            raise interrupt

    monkeypatch.setattr(Console, "progress", stop)
    assert run([command, "--all", "--out", "made/{cluster}.json"]) == code
    assert monotonic() - interrupted[0] < 9, "the connection is given up after 10 seconds"
    printed = capsys.readouterr()
    saved = ["Saved the plans to: made/eu.json, made/us.json"] if command == "plan" else []
    assert printed.err.splitlines() == [*saved, f"Error: {message}"]
    lines = printed.out.splitlines()
    assert [line.split()[1] for line in lines if line.startswith("Cluster ")] == ["eu", "us"]
    assert total in lines
    assert sorted(path.name for path in (folder / "made").iterdir()) == ["eu.json", "us.json"]
