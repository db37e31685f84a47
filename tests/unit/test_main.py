"""`quotaform.cli.main.run` leaves its process as it was, and nothing of the current folder is run or imported."""

from __future__ import annotations

import gc
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from importlib.resources import files
from io import BytesIO, TextIOWrapper
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from typer.main import get_command

from quotaform.cli import main
from quotaform.cli.command import sandbox
from quotaform.cli.console import Console
from quotaform.cli.main import COMMANDS, build_app, run
from quotaform.model.errors import ExitCode
from quotaform.system.executable import find_executable, find_java_commands
from quotaform.system.process import interrupt_code


def settings() -> tuple[object, ...]:
    """What a run changes for as long as it lasts."""
    handlers = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)]
    streams = [getattr(stream, "errors", None) for stream in (sys.stdout, sys.stderr)]
    return (*handlers, *streams, sys.stdout, sys.stderr, gc.get_threshold(), gc.isenabled(), gc.get_freeze_count())


@pytest.fixture
def nothing_frozen() -> Iterator[None]:
    """Nothing is frozen for the garbage collector, as in a new process: what is frozen may be freed at any time."""
    gc.unfreeze()
    yield
    gc.freeze()


@pytest.mark.usefixtures("nothing_frozen")
@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["--version"], 0),
        (["--help"], 0),
        (["schema"], 0),
        (["nonsense"], 64),
        (["plan", "--cluster="], 64),
        (["validate", "nowhere"], 3),
        (["resolve", "--name", "user=a"], 64),
    ],
)
def test_a_run_leaves_the_process_as_it_was(
    arguments: list[str], code: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Handlers of signals, thresholds of the garbage collector and error handling of streams stayed changed."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.stdout", TextIOWrapper(BytesIO(), "ascii", errors="strict"))
    before = settings()
    assert run(arguments) == code
    assert settings() == before


def test_only_the_command_changes_the_garbage_collector() -> None:
    """Reading files and resolving switched it off and on, for every thread of the program that called them."""
    package = Path(str(files("quotaform")))
    changing = re.compile(r"\bgc\.(set_threshold|enable|disable|freeze)\b")
    users = {
        path.relative_to(package).as_posix() for path in package.rglob("*.py") if changing.search(path.read_text())
    }
    assert users == {"system/process.py", "cli/console.py"}


def test_a_run_may_be_in_any_thread(capsys: pytest.CaptureFixture[str]) -> None:
    """Only the main thread can handle signals: elsewhere a run ended with an internal error."""
    codes: list[int] = []
    thread = Thread(target=lambda: codes.append(run(["schema"])))
    thread.start()
    thread.join()
    assert (codes, capsys.readouterr().err) == ([0], "")


class Unread(BytesIO):
    """A pipe whose reader went away."""

    def write(self, _content: object) -> int:
        raise BrokenPipeError


def test_a_reader_that_went_away_does_not_silence_later_runs(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The descriptor of stdout was pointed at /dev/null, for the process and whatever ran in it afterwards."""
    with monkeypatch.context() as patch:
        stream = TextIOWrapper(Unread(), write_through=True)
        patch.setattr("sys.stdout", stream)
        assert run(["schema", "quotas"]) == 0
    assert run(["schema"]) == 0
    assert "quotas\n" in capsys.readouterr().out


@cache
def commands_of_the_whole() -> dict[str, Any]:
    commands: dict[str, Any] = get_command(build_app()).commands  # type: ignore[attr-defined]
    return commands


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_that_is_built_alone_is_the_command_of_the_whole(name: str) -> None:
    alone = get_command(build_app(name)).commands[name]  # type: ignore[attr-defined]
    whole = commands_of_the_whole()
    assert set(whole) == set(COMMANDS)
    assert described(alone) == described(whole[name])


def described(command: Any) -> tuple[Any, ...]:
    """What `--help` and completion read."""
    options = [(option.name, option.opts, option.secondary_opts) for option in command.params]
    return command.short_help, command.help, options, sorted(getattr(command, "commands", ()))


@pytest.mark.slow
def test_a_plan_imports_no_other_command_and_nothing_of_client_properties_without_a_file(tmp_path: Path) -> None:
    """Importing and inspecting all commands took a quarter of a plan."""
    (tmp_path / "a.yaml").write_text("quotas: []")
    program = (
        "import sys\nfrom quotaform.cli.main import run\n"
        f"run(['plan', {str(tmp_path)!r}, '--bootstrap-server', 'localhost:1'])\n"
        "print(*sorted(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    loaded = done.stdout.split()
    assert "quotaform.cluster.wire.broker_connection" in loaded
    assert [name for name in loaded if name.startswith("quotaform.cli.command.")] == ["quotaform.cli.command.plan"]
    assert {f"quotaform.cluster.client.{name}" for name in ("config_reader", "jaas", "tls")}.isdisjoint(loaded)


@pytest.mark.parametrize("code", [ExitCode.INTERRUPTED, ExitCode.TERMINATED])
def test_a_demo_that_is_interrupted_while_a_command_runs_ends_as_interrupted(
    monkeypatch: pytest.MonkeyPatch, code: ExitCode
) -> None:
    # Since commands run in its process, it ended with 1, as if the command had failed.
    monkeypatch.setattr(main, "run", lambda _: code)
    kafka: Any = None
    with pytest.raises(KeyboardInterrupt) as raised, sandbox._Session(Console("never"), kafka, 1) as session:
        session.play("$ quotaform plan", "")
    assert interrupt_code(raised.value) == code


@pytest.mark.parametrize("command", ["main", "client_quotas"])
def test_an_interrupt_while_a_command_is_imported_ends_it_quietly(command: str) -> None:
    """Ctrl-C in the first quarter of a second was a traceback."""
    program = (
        "import os, signal, sys\n"
        "class Interrupting:\n"
        "    def find_spec(self, name, *_):\n"
        "        if name == 'quotaform.cli.console': os.kill(os.getpid(), signal.SIGINT)\n"
        "sys.meta_path.insert(0, Interrupting())\n"
        f"from quotaform.__main__ import {command}\n{command}()"
    )
    done = subprocess.run([sys.executable, "-c", program, "--help"], capture_output=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (ExitCode.INTERRUPTED, b"", b"")


def make_command(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("#!/bin/sh\nexit 0\n")
    path.chmod(0o755)
    return path


def test_relative_folders_of_the_path_are_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With `.` or an empty folder in the PATH, a file called git or java of the repository was run."""
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    monkeypatch.delenv("JAVA_HOME", raising=False)
    for folder in (".", "bin"):
        make_command(tmp_path / "here" / folder / "java")
    monkeypatch.setenv("PATH", os.pathsep.join([".", "", "bin", "../here"]))
    assert find_executable("java") is None
    assert list(find_java_commands()) == []
    installed = make_command(tmp_path / "installed" / "java")
    monkeypatch.setenv("PATH", os.pathsep.join([".", "", "bin", str(installed.parent)]))
    assert find_executable("java") == installed
    assert [path for _, path in find_java_commands()] == [installed]


def test_a_folder_can_be_left_out_whatever_leads_to_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_command(tmp_path / "repository" / "bin" / "git")
    (tmp_path / "link").symlink_to(tmp_path / "repository" / "bin")
    outside = make_command(tmp_path / "outside" / "git")
    folders = [tmp_path / "repository" / "bin", tmp_path / "link", outside.parent]
    monkeypatch.setenv("PATH", os.pathsep.join(map(str, folders)))
    assert find_executable("git", outside=tmp_path / "repository") == outside


@pytest.mark.slow
def test_modules_in_the_current_folder_are_not_imported(tmp_path: Path) -> None:
    """`python -m quotaform plan` in a repository imported its yaml.py, which ran as whoever planned."""
    for module in ("yaml", "typer", "typing", "jsonschema_rs", "subprocess", "selectors"):
        (tmp_path / f"{module}.py").write_text("open('marker', 'w'); raise SystemExit('executed')\n")
    done = subprocess.run(
        [sys.executable, "-m", "quotaform", "plan"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.stderr.startswith("Error: "), done.stderr
    assert not (tmp_path / "marker").exists()
