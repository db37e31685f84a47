"""A sandbox on a machine that others use too: what they make of names that it uses neither stops nor misleads it."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from quotaform.cli.console import step_console
from quotaform.cli.main import run
from quotaform.model.errors import SandboxError
from quotaform.sandbox import Sandbox, detached
from quotaform.sandbox.cache import cache_directory, locked, make_directory, open_own_file
from quotaform.sandbox.quorum import SupervisorClient
from quotaform.sandbox.release import Download, growth_reported

pytestmark = pytest.mark.slow


@pytest.fixture
def shared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A temporary directory that everybody may write to."""
    path = tmp_path / "shared"
    path.mkdir()
    path.chmod(0o1777)
    monkeypatch.setenv("TMPDIR", str(path))
    return path


def own_name() -> str:
    return f"quotaform-sandbox-{os.geteuid()}"


def is_gone(pid: int) -> bool:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        try:
            if os.waitpid(pid, os.WNOHANG) != (0, 0):
                return True
        except ChildProcessError:
            return True
        time.sleep(0.05)
    return False


def fifo(shared: Path) -> None:
    for folder in ("quotaform-sandbox-x", own_name()):
        (shared / folder).mkdir(mode=0o700)
        os.mkfifo(shared / folder / "supervisor.lock")
    (shared / own_name() / "inner").mkdir()
    os.mkfifo(shared / own_name() / "inner" / "supervisor.lock")


def taken_by_a_file(shared: Path) -> None:
    (shared / own_name()).write_text("")


def taken_by_a_link(shared: Path) -> None:
    (shared / "elsewhere").mkdir(mode=0o700)
    (shared / own_name()).symlink_to(shared / "elsewhere")


def taken_by_a_directory_for_all(shared: Path) -> None:
    (shared / own_name()).mkdir()
    (shared / own_name()).chmod(0o777)
    os.mkfifo(shared / own_name() / "supervisor.lock")


@pytest.mark.parametrize("attack", [fifo, taken_by_a_file, taken_by_a_link, taken_by_a_directory_for_all])
def test_names_that_others_have_made_stop_no_sandbox(attack: Callable[[Path], None], shared: Path) -> None:
    """A named pipe called supervisor.lock blocked every start, and the supervisor stayed after SIGTERM."""
    attack(shared)
    client = SupervisorClient()
    directory = client.directory
    is_own = attack is fifo
    assert directory.parent == (shared / own_name() if is_own else shared)
    assert directory.stat().st_mode & 0o777 == 0o700
    os.kill(client.pid, signal.SIGTERM)
    assert is_gone(client.pid)
    client.stop()
    assert not directory.exists()


def test_what_a_killed_supervisor_left_is_removed_and_nothing_else(shared: Path) -> None:
    killed = SupervisorClient()
    os.kill(killed.pid, signal.SIGKILL)
    assert is_gone(killed.pid)
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


@pytest.mark.parametrize("kind", ["pipe", "directory", "link", "other user's"])
def test_a_state_that_is_no_own_file_is_refused_and_not_waited_for(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A named pipe in the place of a state or a lock blocked start, stop and status."""
    path = tmp_path / "sandboxes" / "default.json"
    path.parent.mkdir(mode=0o700)
    monkeypatch.setenv("QUOTAFORM_CACHE", str(tmp_path))
    tmp_path.chmod(0o700)
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "directory":
        path.mkdir()
    elif kind == "link":
        (tmp_path / "target").write_text("kept")
        path.symlink_to(tmp_path / "target")
    else:
        path.write_text("")
        path.chmod(0o600)
        monkeypatch.setattr("quotaform.sandbox.cache.os.geteuid", lambda: os.getuid() + 1)
        for creates in (True, False):
            with pytest.raises(SandboxError, match="not a regular file of this user"):
                open_own_file(path, creates=creates)
        return
    for use in (detached.find, detached.stop, detached.start):
        with pytest.raises(SandboxError, match=r"cannot use .*default\.json .*remove it"):
            use("default")
    with pytest.raises(SandboxError), locked(path, patience=1):
        pass
    assert kind != "link" or (tmp_path / "target").read_text() == "kept"


def test_a_cache_that_others_can_write_to_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is in the cache is run: jars, class archives, and signals to the process ids of its states."""
    cache = tmp_path / "cache"
    monkeypatch.setenv("QUOTAFORM_CACHE", str(cache))
    assert make_directory(cache).stat().st_mode & 0o777 == 0o700
    cache.chmod(0o777)
    for start in (lambda: detached.start("default"), Sandbox().start):
        with pytest.raises(SandboxError, match="Other users may write to the cache directory"):
            start()
    cache.chmod(0o700)
    monkeypatch.setattr("quotaform.sandbox.cache.os.geteuid", lambda: os.getuid() + 1)
    with pytest.raises(SandboxError, match="belongs to another user"):
        Sandbox().start()


def test_a_state_names_no_process_that_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("QUOTAFORM_CACHE", str(tmp_path))
    path = tmp_path / "sandboxes" / "default.json"
    state = {
        "name": "default", "bootstrap_servers": "", "brokers": 1, "secured": False, "listeners": {},
        "client_config": None, "cluster_id": "", "data_dir": "",
    }  # fmt: skip
    for pid in (0, 1, -1, "1", True, 2.5, None):
        make_directory(path.parent)
        with locked(path, patience=1):
            path.write_text(json.dumps(state | {"pid": pid}))
            assert detached.find("default") is None, pid


@pytest.mark.parametrize(
    ("name", "value", "reason"),
    [
        ("QUOTAFORM_CACHE", "~nobody-of-this-name/cache", "there is no home directory"),
        ("QUOTAFORM_CACHE", "/" + "a" * 300, "File name too long"),
        ("QUOTAFORM_CACHE", "/dev/null/x\n::error::", "Not a directory"),
    ],
)
def test_a_cache_that_cannot_be_is_one_sentence(
    name: str, value: str, reason: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv(name, value)
    for argument in ("start", "stop", "status"):
        assert run(["sandbox", argument]) == 1
        printed = capsys.readouterr()
        assert printed.out == ""
        assert reason in printed.err
        assert (printed.err.count("\n"), len(printed.err) < 400) == (1, True)


@pytest.mark.parametrize("name", ["a" * 65, "../x", "a\n", "é", "-", "."])
def test_a_name_that_is_no_file_name_is_wrong_usage(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["sandbox", "status", f"--name={name}"]) == 64
    printed = capsys.readouterr()
    assert (printed.out, printed.err.count("\n")) == ("", 1)
    assert "a" * 65 not in printed.err


def test_status_prints_nothing_that_a_script_would_take_for_an_address(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """`$(quotaform sandbox status)` was "default: not running"."""
    monkeypatch.setenv("QUOTAFORM_CACHE", str(tmp_path))
    assert run(["sandbox", "status"]) == 1
    said = "The sandbox default is not running; start it with: quotaform sandbox start\n"
    assert capsys.readouterr() == ("", said)
    assert run(["sandbox", "status", "--name", "trio", "--format", "json"]) == 1
    printed = capsys.readouterr()
    assert json.loads(printed.out) == {"name": "trio", "running": False}
    assert printed.err.endswith("quotaform sandbox start --name trio\n")


def test_a_start_says_what_it_is_doing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """With an empty cache the terminal stayed empty for a minute."""
    monkeypatch.setenv("QUOTAFORM_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("KAFKA_HOME", raising=False)

    def fetch(directory: Path, download: Download) -> list[Path]:
        raise SandboxError("no network")

    monkeypatch.setattr("quotaform.sandbox.release.fetch_with_jgo", fetch)
    assert run(["sandbox", "start"]) == 1
    assert capsys.readouterr() == (
        "",
        "Downloading Apache Kafka 4.3.1 (once, about 45 MB) ...\nError: no network\n",
    )


def test_a_download_is_reported_as_it_grows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("quotaform.sandbox.release._INTERVAL", 0.01)
    seen: list[tuple[str, int, int]] = []
    with growth_reported(tmp_path, 1000, "Downloading", lambda *step: seen.append(step)):
        (tmp_path / "a").mkdir()
        (tmp_path / "a" / "x.jar").write_bytes(b"x" * 400)
        deadline = time.monotonic() + 60
        while ("Downloading", 400, 1000) not in seen and time.monotonic() < deadline:
            time.sleep(0.01)
        (tmp_path / "a" / "y.jar.part").write_bytes(b"x" * 4000)
        while ("Downloading", 1000, 1000) not in seen and time.monotonic() < deadline:
            time.sleep(0.01)
    assert seen[0] == ("Downloading", 0, 1000)
    assert ("Downloading", 400, 1000) in seen
    assert seen[-1] == ("Downloading", 1000, 1000)


def test_each_step_is_a_line_where_there_is_no_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    console = step_console()
    for done in range(3):
        console.progress("Downloading", done, 3)
    console.progress("Starting", 0, 0)
    assert capsys.readouterr().err == "Downloading ...\nStarting ...\n"


def test_places_that_java_or_kafka_take_for_two_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A colon in the cache's name divided Java's class path, and a comma in the temporary directory's Kafka's data."""
    monkeypatch.setenv("QUOTAFORM_CACHE", str(tmp_path / "a:b"))
    assert cache_directory().name == "a:b"
    monkeypatch.setattr("quotaform.sandbox.sandbox.find_jars", lambda *_: (cache_directory() / "kafka" / "x.jar",))
    with pytest.raises(SandboxError, match="Java cannot use jars"):
        Sandbox().start()
    (tmp_path / "a,b").mkdir()
    monkeypatch.setenv("TMPDIR", str(tmp_path / "a,b"))
    monkeypatch.setenv("QUOTAFORM_CACHE", str(tmp_path / "cache"))
    with pytest.raises(SandboxError, match="contains a comma"):
        Sandbox().start()
