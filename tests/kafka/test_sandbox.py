"""The sandbox itself: that it answers, that it can be hurt, and that nothing of it stays behind."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from quotaform.model.errors import SandboxError
from quotaform.sandbox import Sandbox, detached
from quotaform.sandbox import sandbox as sandbox_module
from quotaform.sandbox.configuration import accepts, brokers_seen, free_ports
from quotaform.sandbox.release import cache_directory
from tests.broker import client_properties, kafka_configs
from tests.faulty_sandbox import FaultySandbox
from tests.waiting import is_alive, wait_until
from tests.workflow import command

pytestmark = pytest.mark.kafka

READING = ("--describe", "--entity-type", "users")

# A process that owns a sandbox, tells about it and then waits for its fate.
OWNER = """
import json, sys, time
from quotaform.sandbox import Sandbox
with Sandbox() as kafka:
    print(json.dumps([kafka.bootstrap_servers, str(kafka.data_dir), kafka.supervisor_pid]), flush=True)
    {fate}
"""
# The child inherits the owner's end of the pipe, so the pipe alone would never close.
LEAVES_A_CHILD = "import os; os.fork() and os._exit(0); os.closerange(1, 3); time.sleep(90); os._exit(0)"


def answers(address: str) -> bool:
    return accepts(int(address.split(":")[1]))


def ask(kafka: Sandbox, node: int) -> bool:
    address = kafka.bootstrap_servers.split(",")[node - 1]
    return brokers_seen(int(address.split(":")[1]), kafka.cluster_id) > 0


@pytest.fixture
def own_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep what a killed supervisor leaves behind from sandboxes of other tests, which would remove it."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))


@pytest.fixture
def owner() -> Iterator[Callable[[str], tuple[subprocess.Popen[str], str, Path, int]]]:
    """Start another Python that owns a sandbox; make sure that it ends."""
    owners: list[subprocess.Popen[str]] = []

    def start(fate: str = "time.sleep(300)") -> tuple[subprocess.Popen[str], str, Path, int]:
        process = subprocess.Popen(
            [sys.executable, "-c", OWNER.format(fate=fate)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        owners.append(process)
        assert process.stdout is not None
        address, directory, supervisor = json.loads(process.stdout.readline())
        return process, address, Path(directory), supervisor

    yield start
    for process in owners:
        process.kill()
        process.communicate()


@pytest.mark.prove
def test_a_temporary_directory_may_have_any_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # Kafka reads its properties as ISO-8859-1 and made its data in another directory.
    (tmp_path / "t m p é").mkdir()
    monkeypatch.setenv("TMPDIR", str(tmp_path / "t m p é"))
    with Sandbox(secured=True) as kafka:
        assert kafka.data_dir.parent.parent == tmp_path / "t m p é"
        config = kafka.data_dir / "client.properties"
        config.write_text(client_properties(kafka, "MTLS"))
        done = kafka_configs(kafka, *READING, listener="MTLS", config=config)
        assert done.returncode == 0, done.stderr
    own = tmp_path / "t m p é" / f"quotaform-sandbox-{os.geteuid()}"
    assert sorted(tmp_path.rglob("*")) == [own.parent, own]


# Ends


def test_stop_removes_the_process_and_the_data() -> None:
    kafka = Sandbox().start()
    address, directory, pid = kafka.bootstrap_servers, kafka.data_dir, kafka.pids[1]
    assert directory.is_dir()
    kafka.stop()
    kafka.stop()
    assert not directory.exists()
    assert not is_alive(pid)
    assert not answers(address)
    with pytest.raises(SandboxError, match="not running; start it first"):
        _ = kafka.bootstrap_servers


@pytest.mark.parametrize(
    ("number", "fate"),
    [
        (signal.SIGKILL, "time.sleep(300)"),
        pytest.param(signal.SIGINT, "time.sleep(300)", marks=pytest.mark.prove),
        pytest.param(None, LEAVES_A_CHILD, marks=pytest.mark.prove),
    ],
)
def test_no_owner_leaves_a_broker_however_it_ends(owner: Any, number: signal.Signals | None, fate: str) -> None:
    process, address, directory, _ = owner(fate)
    if number is not None:
        assert answers(address)
        process.send_signal(number)
    process.wait(120)
    wait_until(lambda: not directory.exists())
    assert not answers(address)


@pytest.mark.usefixtures("own_directory")
@pytest.mark.skipif(sys.platform != "linux", reason="prctl(2) is Linux's")
def test_a_killed_supervisor_takes_its_broker_along_and_the_next_one_removes_its_data(owner: Any) -> None:
    _, address, directory, supervisor = owner()
    os.kill(supervisor, signal.SIGKILL)
    wait_until(lambda: not answers(address))
    # Nobody was left to remove the data; the next sandbox does.
    assert directory.exists()
    with Sandbox() as kafka:
        assert not directory.exists()
        assert kafka.data_dir.exists()


@pytest.mark.prove
def test_a_broker_that_stands_still_is_stopped_too() -> None:
    with FaultySandbox() as kafka:
        directory, pid = kafka.data_dir, kafka.pids[1]
        kafka.pause(1)
    assert not is_alive(pid)
    assert not directory.exists()


def test_a_broker_that_cannot_start_says_why(tmp_path: Path) -> None:
    with pytest.raises(SandboxError, match="nonsense") as caught:
        Sandbox(properties={"num.io.threads": "nonsense"}).start()
    assert "\n" not in str(caught.value)


@pytest.mark.prove
def test_a_port_that_somebody_took_meanwhile_is_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    chosen: list[list[int]] = []

    def choose(count: int) -> list[int]:
        chosen.append(taken if not chosen else free_ports(count))
        return chosen[-1]

    with socket.socket() as thief:
        thief.bind(("127.0.0.1", 0))
        thief.listen()
        taken = [thief.getsockname()[1], *free_ports(1)]
        monkeypatch.setattr(sandbox_module, "free_ports", choose)
        with Sandbox() as kafka:
            assert ask(kafka, 1)
    assert len(chosen) == 2


# Security


def test_a_plain_sandbox_has_one_listener(sandbox: Sandbox) -> None:
    assert list(sandbox.listeners) == ["PLAINTEXT"]


@pytest.mark.parametrize(
    ("listener", "more", "allowed"),
    [
        ("SASL_PLAINTEXT", {}, True),
        ("SASL_SSL", {"user": "plainuser"}, False),
        ("MTLS", {"certificate": "tenant"}, False),
        ("TLS", {}, False),
    ],
)
def test_a_java_client_gets_in_with_the_properties_and_has_its_rights(
    secured_sandbox: Sandbox, tmp_path: Path, listener: str, more: dict[str, str], allowed: bool
) -> None:
    config = tmp_path / "client.properties"
    config.write_text(client_properties(secured_sandbox, listener, **more))
    done = kafka_configs(secured_sandbox, *READING, listener=listener, config=config)
    if allowed:
        assert done.returncode == 0, done.stderr
    else:
        assert "ClusterAuthorizationException" in done.stderr


# The command


@pytest.fixture
def name() -> Iterator[str]:
    """A detached sandbox's name that nobody else uses; it does not run afterwards."""
    name = f"test-{os.getpid()}"
    yield name
    detached.stop(name)
    (cache_directory() / "sandboxes" / f"{name}.json").unlink(missing_ok=True)


def run(*arguments: str) -> tuple[int, str]:
    result = command.run("sandbox", *arguments, cwd=Path.cwd())
    return result.code, result.out.strip()


def test_the_command_starts_tells_and_stops_a_sandbox(name: str) -> None:
    """A script took "NAME: not running" for the address: it stood on stdout."""
    assert run("status", "--name", name) == (1, "")
    code, address = run("start", "--name", name)
    assert code == 0
    assert answers(address)
    assert run("status", "--name", name) == (0, address)
    told = json.loads(run("status", "--name", name, "--format", "json")[1])
    assert told["running"]
    assert told["bootstrap_servers"] == address
    assert run("start", "--name", name) == (0, address)
    assert run("stop", "--name", name) == (0, f"{name}: stopped")
    assert not answers(address)
    assert not Path(told["data_dir"]).exists()
    assert run("stop", "--name", name) == (0, f"{name}: not running")
    assert json.loads(run("status", "--name", name, "--format", "json")[1]) == {"name": name, "running": False}


def test_a_detached_sandbox_outlives_the_process_that_started_it(name: str) -> None:
    script = f"from quotaform.sandbox import detached; print(detached.start({name!r}, secured=True)[0].client_config)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=240, check=True)
    found = detached.find(name)
    assert found is not None
    assert answers(found.bootstrap_servers)
    assert "ScramLoginModule" in Path(done.stdout.strip()).read_text()
    assert detached.stop(name)


@pytest.mark.prove
@pytest.mark.usefixtures("own_directory")
def test_a_state_whose_supervisor_was_killed_is_stale(name: str) -> None:
    # A live process with the recorded id must not pass for the sandbox.
    started, _ = detached.start(name)
    os.kill(started.pid, signal.SIGKILL)
    wait_until(lambda: detached.find(name) is None)
    wait_until(lambda: not answers(started.bootstrap_servers))
    assert Path(started.data_dir).exists()
    again, is_new = detached.start(name)
    assert is_new
    assert again.cluster_id != started.cluster_id
    assert not Path(started.data_dir).exists()


@pytest.mark.prove
def test_two_starts_at_once_start_one_sandbox(name: str) -> None:
    script = f"from quotaform.sandbox import detached; print(detached.start({name!r})[0].cluster_id)"
    both = [
        subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True, start_new_session=True)
        for _ in range(2)
    ]
    told = [process.communicate(timeout=240)[0] for process in both]
    assert told[0] == told[1] != ""


@pytest.mark.prove
def test_a_sandbox_that_runs_already_says_which_metrics_it_lacks(name: str) -> None:
    started = json.loads(run("start", "--name", name, "--metrics", "--format", "json")[1])
    assert started["metrics"]["1"].startswith("http://127.0.0.1:")
    assert started["jmx"] == {}
    again = command.run("sandbox", "start", "--name", name, "--metrics", "--jmx", cwd=Path.cwd())
    assert f"metrics of broker 1: {started['metrics']['1']}\n" in again.err
    assert again.err.endswith("was already running without --jmx; stop it to start it again.\n")
