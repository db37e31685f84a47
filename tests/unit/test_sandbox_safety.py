"""A sandbox on a machine that others use too: what they make of names that it uses neither stops nor misleads it."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path

import pytest

from quotaform.cli.console import step_console
from quotaform.cli.main import run
from quotaform.model.errors import SandboxError
from quotaform.sandbox.supervisor_client import SupervisorClient
from tests.waiting import wait_until

pytestmark = pytest.mark.slow


@pytest.fixture
def shared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A temporary directory that everybody may write to."""
    path = tmp_path / "shared"
    path.mkdir()
    path.chmod(0o1777)
    monkeypatch.setenv("TMPDIR", str(path))
    return path


PIPES = (
    "mkdir -m 700 quotaform-sandbox-x OWN OWN/inner;"
    " mkfifo quotaform-sandbox-x/supervisor.lock OWN/supervisor.lock OWN/inner/supervisor.lock"
)


@pytest.mark.parametrize(
    "attack",
    [
        PIPES,
        "touch OWN",
        "mkdir -m 700 elsewhere; ln -s elsewhere OWN",
        "mkdir -m 777 OWN; mkfifo OWN/supervisor.lock",
    ],
)
def test_names_that_others_have_made_stop_no_sandbox(attack: str, shared: Path) -> None:
    """A named pipe called supervisor.lock blocked every start, and the supervisor stayed after SIGTERM."""
    own = f"quotaform-sandbox-{os.geteuid()}"
    subprocess.run(["/bin/sh", "-ec", attack.replace("OWN", own)], cwd=shared, check=True)
    client = SupervisorClient()
    directory = client.directory
    assert directory.parent == (shared / own if attack == PIPES else shared)
    assert directory.stat().st_mode & 0o777 == 0o700
    os.kill(client.pid, signal.SIGTERM)
    wait_until(lambda: os.waitpid(client.pid, os.WNOHANG) != (0, 0))
    client.stop()
    assert not directory.exists()


def test_what_a_killed_supervisor_left_is_removed_and_nothing_else(shared: Path) -> None:
    killed = SupervisorClient()
    os.kill(killed.pid, signal.SIGKILL)
    wait_until(lambda: os.waitpid(killed.pid, os.WNOHANG) != (0, 0))
    killed.stop()
    foreign = shared / "quotaform-sandbox-foreign"
    foreign.mkdir()
    (foreign / "supervisor.lock").touch()
    client = SupervisorClient()
    try:
        # The removal comes before the first answer.
        assert not killed.directory.exists()
        assert foreign.exists()
        assert client.directory.exists()
    finally:
        client.stop()


def test_a_start_says_what_it_is_doing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """With an empty cache the terminal stayed empty for a minute."""
    monkeypatch.setenv("QUOTAFORM_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("KAFKA_HOME", raising=False)

    def fetch(path: str) -> bytes:
        raise SandboxError("no network")

    monkeypatch.setattr("quotaform.sandbox.release.fetch_jar", fetch)
    assert run(["sandbox", "start"]) == 1
    assert capsys.readouterr() == (
        "",
        "Downloading Apache Kafka 4.3.1 (once, about 45 MB) ...\nError: no network\n",
    )


def test_each_step_is_a_line_where_there_is_no_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    console = step_console()
    for done in range(3):
        console.progress("Downloading", done, 3)
    console.progress("Starting", 0, 0)
    assert capsys.readouterr().err == "Downloading ...\nStarting ...\n"
