"""Named sandboxes that keep running after the command that started them.

The state of a sandbox is a file in the cache directory, and its supervisor holds the lock on that file while it runs. A
state file whose lock is free is therefore stale, even if its process id has been reused.
"""

from __future__ import annotations

import os
import re
import signal
import time
from contextlib import suppress
from pathlib import Path
from typing import Annotated, BinaryIO

from msgspec import DecodeError, Meta, Struct, field, json

from quotaform.model.errors import ArgumentError, SandboxError, UsageError
from quotaform.model.outcome import Progress, no_progress
from quotaform.sandbox.configuration import admin_properties
from quotaform.sandbox.release import cache_directory, make_directory, open_own_file
from quotaform.sandbox.sandbox import Sandbox
from quotaform.system.files import take_lock

_TIMEOUT_SECONDS = 180.0
_MAX_BYTES = 1 << 20
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}", re.ASCII)


class DetachedSandbox(Struct, frozen=True, kw_only=True):
    """A running detached sandbox."""

    name: str
    bootstrap_servers: str
    brokers: int
    secured: bool
    listeners: dict[str, str]  # address of each listener of the first broker
    client_config: str | None  # for a secured one: the client properties of its `admin`
    cluster_id: str
    data_dir: str
    pid: Annotated[int, Meta(gt=1)]  # the supervisor's process id
    metrics: dict[str, str] = field(default_factory=dict)
    """The URL of each broker's metrics, by its id; empty without an exporter."""
    jmx: dict[str, str] = field(default_factory=dict)  # the address of each broker's JMX, by its id; empty without JMX
    kafka: str = ""  # the release of Kafka, such as `4.3.1`


def start(
    name: str,
    *,
    brokers: int = 1,
    secured: bool = False,
    exporter: bool = False,
    jmx: bool = False,
    kafka: str | None = None,
    progress: Progress = no_progress,
) -> tuple[DetachedSandbox, bool]:
    """Start a detached sandbox, unless one of that name already runs.

    Returns the sandbox, and whether it was started by this call. Raises `UsageError` for a wrong name or release,
    and if a sandbox of that name runs another one.
    """
    path = _state_path(name)
    asked = Sandbox(brokers, secured=secured, exporter=exporter, jmx=jmx, kafka=kafka)
    make_directory(cache_directory())
    make_directory(path.parent)
    deadline = time.monotonic() + _TIMEOUT_SECONDS
    while time.monotonic() < deadline:
        with open_own_file(path, creates=True) as state:
            if take_lock(state.fileno()):
                state.truncate(0)
                return _start(state, name, asked, brokers, progress), True
        if found := find(name):
            if kafka is not None and found.kafka != str(asked.release):
                problem = "The sandbox {} runs Kafka {}, not {}; stop it, or choose another {name}."
                raise ArgumentError(problem, name, found.kafka, kafka)
            return found, False
        # Somebody else is starting it at this moment.
        progress(f"Waiting for another process that starts the sandbox {name}", 0, 0)
        time.sleep(0.1)
    raise SandboxError(
        f"Another process has been starting the sandbox {name} for {_TIMEOUT_SECONDS:.0f} seconds; end it."
    )


def find(name: str) -> DetachedSandbox | None:
    """Return the detached sandbox of that name, or `None` if it is not running."""
    try:
        with open_own_file(_state_path(name), creates=False) as state:
            if take_lock(state.fileno(), shared=True):
                return None
            return json.decode(state.read(_MAX_BYTES), type=DetachedSandbox)
    except (FileNotFoundError, DecodeError, UnicodeDecodeError, RecursionError):
        # It is empty while the sandbox starts.
        return None


def stop(name: str) -> bool:
    """Stop a detached sandbox and wait until its brokers and data are gone; return whether there was one."""
    found = find(name)
    if found is None:
        return False
    with suppress(ProcessLookupError):
        os.kill(found.pid, signal.SIGTERM)
    deadline = time.monotonic() + _TIMEOUT_SECONDS
    while time.monotonic() < deadline:
        with open_own_file(_state_path(name), creates=True) as state:
            if take_lock(state.fileno()):
                state.truncate(0)
                return True
        time.sleep(0.05)
    raise SandboxError(
        f"The sandbox {name} did not end within {_TIMEOUT_SECONDS:.0f} seconds; end process {found.pid}."
    )


def _start(state: BinaryIO, name: str, sandbox: Sandbox, brokers: int, progress: Progress) -> DetachedSandbox:
    try:
        sandbox.start(inherited=[state.fileno()], progress=progress)
        client_config = None
        if sandbox.secured:
            client_config = sandbox.data_dir / "admin.properties"
            client_config.write_text(admin_properties(sandbox.release), encoding="utf-8")
        started = DetachedSandbox(
            name=name,
            bootstrap_servers=sandbox.bootstrap_servers,
            brokers=brokers,
            secured=sandbox.secured,
            listeners=sandbox.listeners,
            client_config=str(client_config) if client_config else None,
            cluster_id=sandbox.cluster_id,
            data_dir=str(sandbox.data_dir),
            pid=sandbox.supervisor_pid,
            metrics={str(number): url for number, url in sandbox.metrics_urls.items()},
            jmx={str(number): address for number, address in sandbox.jmx_addresses.items()},
            kafka=str(sandbox.release),
        )
        state.write(json.encode(started))
        state.flush()
        sandbox.detach()
    except BaseException:
        sandbox.stop()
        raise
    return started


def _state_path(name: str) -> Path:
    if not _NAME.fullmatch(name):
        raise UsageError(
            f"A sandbox cannot be called {name[:64]!a}; use up to 64 letters, digits, dots, dashes and underscores."
        )
    return cache_directory() / "sandboxes" / f"{name}.json"
