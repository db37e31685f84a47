"""Signals at any moment of a process: the exit code is that of an interrupt or of what was done, and nothing else."""

from __future__ import annotations

import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from socket import create_server
from threading import Event, Thread

import pytest

from quotaform.sandbox.configuration import free_ports
from tests.workflow.command import QUOTAFORM, SCRIPT, environment

pytestmark = pytest.mark.workflow


def start(command: str, *arguments: str, cwd: Path, ignored: bool = False) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [command, *arguments],
        cwd=cwd,
        env=environment(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        # Whatever runs the tests may ignore the signal, which a process inherits.
        preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN if ignored else signal.SIG_DFL),
    )


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_while_a_process_ends_does_not_kill_it(tmp_path: Path, number: int) -> None:
    """After the last line, SIGHUP ended the process by the signal (-1), since its own handlers were gone."""
    for step in range(8):
        process = start(QUOTAFORM, "schema", "plan", cwd=tmp_path)
        assert process.stdout is not None
        process.stdout.readline()
        time.sleep(0.004 * step)
        process.send_signal(number)
        _, err = process.communicate(timeout=120)
        # In its own last lines, typer takes every signal for Ctrl-C.
        assert process.returncode in (0, 130) if number == signal.SIGINT else (0, 130, 143), err
        assert "Traceback" not in err


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 143)])
@pytest.mark.parametrize(
    ("command", "arguments"),
    [
        (QUOTAFORM, ("describe", "--bootstrap-server")),
        (QUOTAFORM, ("apply", "--auto-approve", "--bootstrap-server")),
        (QUOTAFORM, ("drift", "--watch", "1h", "--listen", "LISTEN", "--metrics", "q.prom", "--bootstrap-server")),
        (SCRIPT, ("--describe", "--bootstrap-server")),
    ],
)
def test_every_signal_has_its_exit_code(
    tmp_path: Path, number: int, code: int, command: str, arguments: tuple[str, ...]
) -> None:
    """The command of KIP-546 was killed by SIGTERM and SIGHUP."""
    (tmp_path / "quotas.d").mkdir()
    (tmp_path / "quotas.d" / "a.yaml").write_text(
        "quotas: [{match: {user: a}, values: {producer_byte_rate: 1MiB/s}}]\n"
    )
    # Not the default port: the other cases may run at the same time.
    listen = f"127.0.0.1:{free_ports(1)[0]}"
    given = [listen if argument == "LISTEN" else argument for argument in arguments]
    with socket_that_says_nothing() as (address, accepted):
        process = start(command, *given, address, cwd=tmp_path)
        assert accepted.wait(60), process.poll()
        process.send_signal(number)
        started = time.monotonic()
        _, err = process.communicate(timeout=120)
        assert time.monotonic() - started < 9, "a connection is given up after 10 seconds"
    assert process.returncode == code, err
    assert "Traceback" not in err
    assert "apply" not in arguments or err.endswith("; nothing was written\n")
    assert not (tmp_path / ".quotaform" / "receipts").exists()


def test_a_signal_that_is_ignored_stays_so(tmp_path: Path) -> None:
    """Under nohup, a closed terminal ended the command all the same."""
    with socket_that_says_nothing() as (address, accepted):
        process = start(QUOTAFORM, "describe", "--bootstrap-server", address, cwd=tmp_path, ignored=True)
        assert accepted.wait(60)
        process.send_signal(signal.SIGHUP)
        time.sleep(0.5)
        assert process.poll() is None
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=120)
    assert process.returncode == 143


@contextmanager
def socket_that_says_nothing() -> Iterator[tuple[str, Event]]:
    """Yield the address of a server that accepts a connection and says nothing, and what is set when it has."""
    accepted = Event()
    with create_server(("127.0.0.1", 0)) as listening:

        def accept() -> None:
            connection, _ = listening.accept()
            accepted.set()
            with connection, suppress(OSError):
                while connection.recv(65536):
                    pass

        thread = Thread(target=accept, daemon=True)
        thread.start()
        yield f"127.0.0.1:{listening.getsockname()[1]}", accepted
        thread.join(10)
