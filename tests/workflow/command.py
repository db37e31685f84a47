"""The command as a user runs it, a small quota repository to run it in, and a cluster to look at.

`run` calls the command in this process: that costs a tenth of a process of its own, and exit code, messages and files
are the same. What belongs to a process is tested with one, by `run_process`, `Running` or `terminal.talk`: signals,
terminals, broken pipes, start-up and imports, installed entry points, anything of Spark; and each command once
(`test_process`), in comparison with `run`.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import chdir, contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO, Any
from unittest import mock

from quotaform.cluster.broker import AlterClientQuotas
from quotaform.cluster.kafka import KafkaGateway
from quotaform.model.alteration import Alteration
from quotaform.model.entity import Entity
from quotaform.model.quotas import Quotas, same_value
from tests.broker import wait_for
from tests.waiting import wait_until

QUOTAFORM = str(Path(sys.executable).with_name("quotaform"))
"""The command that an install put beside this interpreter."""

SCRIPT = str(Path(sys.executable).with_name("kafka-client-quotas"))
"""The other one."""

CHANGED_ENVIRONMENT = (
    *("NO_COLOR", "CLICOLOR", "FORCE_COLOR", "COLUMNS", "SOURCE_DATE_EPOCH"),
    *("GITHUB_ACTIONS", "GITLAB_CI"),
)


@dataclass(frozen=True, slots=True)
class Result:
    """What one run of the command left behind."""

    code: int
    out: str
    err: str

    @property
    def last(self) -> str:
        """The last line on stdout."""
        return self.out.rstrip("\n").rpartition("\n")[2]

    @property
    def said(self) -> str:
        """Everything that was printed."""
        return self.out + self.err


def environment(extra: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return this process's environment without what would change the command's output, and with more."""
    kept = {name: value for name, value in os.environ.items() if name not in CHANGED_ENVIRONMENT}
    return kept | {"TERM": "xterm-256color"} | dict(extra or {})


def run(*arguments: str | Path, cwd: Path, env: Mapping[str, str] | None = None, stdin: str | None = None) -> Result:
    """Run `quotaform` in this process, without a terminal; whatever happens, it never shows a traceback."""
    from quotaform.cli import main

    return call(main.run, *arguments, cwd=cwd, env=env, stdin=stdin)


def call(
    command: Callable[[list[str]], int],
    *arguments: str | Path,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
    stdin: str | None = None,
) -> Result:
    """Call what an entry point calls, with files for the standard streams, and leave this process as it was."""
    with TemporaryFile() as read, TemporaryFile() as out, TemporaryFile() as err:
        read.write((stdin or "").encode())
        read.seek(0)
        variables = mock.patch.dict(os.environ, environment(env), clear=True)
        with chdir(cwd or Path.cwd()), variables, own_streams(read, out, err):
            try:
                code = int(command([*map(str, arguments)]))
            except SystemExit as end:
                code = int(end.code or 0)
        out.seek(0)
        err.seek(0)
        result = Result(code, out.read().decode(), err.read().decode())
    require_calm(result)
    return result


@contextmanager
def own_streams(*files: IO[bytes]) -> Iterator[None]:
    """Put files in the place of the standard streams, for Python and for what writes to the descriptors."""
    names = "stdin", "stdout", "stderr"
    before = [(getattr(sys, name), os.dup(number)) for number, name in enumerate(names)]
    try:
        for number, (name, file) in enumerate(zip(names, files, strict=True)):
            os.dup2(file.fileno(), number)
            setattr(sys, name, open(number, "w" if number else "r", encoding="utf-8", closefd=False))  # noqa: SIM115
        yield
    finally:
        for number, (name, (stream, descriptor)) in enumerate(zip(names, before, strict=True)):
            getattr(sys, name).close()
            setattr(sys, name, stream)
            os.dup2(descriptor, number)
            os.close(descriptor)


def run_process(
    *arguments: str | Path,
    cwd: Path,
    env: Mapping[str, str] | None = None,
    stdin: str | None = None,
    timeout: float = 240,
    command: str = QUOTAFORM,
) -> Result:
    """Run `quotaform` in a process of its own to its end, without a terminal."""
    done = subprocess.run(
        [command, *map(str, arguments)],
        cwd=cwd,
        env=environment(env),
        input=(stdin or "").encode(),
        capture_output=True,
        timeout=timeout,
        check=False,
    )
    result = Result(done.returncode, done.stdout.decode(), done.stderr.decode())
    require_calm(result)
    return result


class Running:
    """A command that runs; what it prints goes to files, so that it never waits for a reader."""

    def __init__(self, *arguments: str | Path, cwd: Path) -> None:
        self._out = TemporaryFile()  # noqa: SIM115
        self._err = TemporaryFile()  # noqa: SIM115
        self._process = subprocess.Popen(
            [QUOTAFORM, *map(str, arguments)],
            cwd=cwd,
            env=environment(),
            stdin=subprocess.DEVNULL,
            stdout=self._out,
            stderr=self._err,
            # Whatever runs the tests may ignore the signal, as nohup does, and a process inherits that.
            preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_DFL),
        )

    @property
    def is_over(self) -> bool:
        """Whether it ended."""
        return self._process.poll() is not None

    @property
    def pid(self) -> int:
        """The id of its process."""
        return self._process.pid

    def signal(self, number: int) -> None:
        """Send it a signal."""
        self._process.send_signal(number)

    def end(self, *, timeout: float = 200) -> Result:
        """Wait until it ends."""
        try:
            code = self._process.wait(timeout)
        finally:
            if not self.is_over:
                self._process.kill()
                self._process.wait()
        with self._out as out, self._err as err:
            out.seek(0)
            err.seek(0)
            result = Result(code, out.read().decode(), err.read().decode())
        require_calm(result)
        return result


def require_calm(result: Result) -> None:
    """Make sure that a run ended in words and not in an accident."""
    assert "Traceback" not in result.said, result.said
    assert "internal error:" not in result.said, result.said
    assert "\x1b[" not in result.err, result.err


class Repository:
    """A folder with quotaform.yaml and quotas.d, and the command run in it."""

    def __init__(self, path: Path, bootstrap_servers: str | None = None) -> None:
        self.path = path
        path.mkdir(parents=True, exist_ok=True)
        if bootstrap_servers is not None:
            servers = ", ".join(f'"{server}"' for server in bootstrap_servers.split(","))
            self.config(f"clusters:\n  lab:\n    bootstrap_servers: [{servers}]\n")

    def config(self, text: str) -> Path:
        """Write quotaform.yaml."""
        return self.write("quotaform.yaml", text)

    def quotas(self, text: str, name: str = "quotas.yaml") -> Path:
        """Write a file of quotas.d; what stands under `quotas:` is enough."""
        whole = text if "quotas:" in text or not text.strip() else f"quotas:\n{text}"
        return self.write(f"quotas.d/{name}", whole)

    def write(self, name: str, content: str | bytes) -> Path:
        """Write any file."""
        path = self.path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return path

    def read(self, name: str) -> str:
        """Read any file."""
        return (self.path / name).read_text(encoding="utf-8")

    def __call__(self, *arguments: str | Path, **options: Any) -> Result:
        """Run the command here, in this process."""
        return run(*arguments, cwd=self.path, **options)

    def process(self, *arguments: str | Path, **options: Any) -> Result:
        """Run the installed command here, in a process of its own."""
        return run_process(*arguments, cwd=self.path, **options)

    def start(self, *arguments: str | Path) -> Running:
        """Start the command here."""
        return Running(*arguments, cwd=self.path)

    @property
    def receipts(self) -> list[Path]:
        """The receipts, oldest first."""
        return sorted((self.path / ".quotaform" / "receipts").glob("*.json"))


class Cluster:
    """A cluster behind git's back: read and changed without the command."""

    def __init__(self, gateway: KafkaGateway) -> None:
        self.gateway = gateway

    @property
    def id(self) -> str:
        """The cluster's own id."""
        return self.gateway.cluster_id()

    def read(self) -> Quotas:
        """Return everything that it holds."""
        return self.gateway.describe()

    def read_until(self, expected: Quotas) -> Quotas:
        """Read until the cluster has these quotas: accepted changes show with a delay."""
        wait_for(self.gateway, expected)
        return expected

    def values(self, **names: str | None) -> Mapping[str, float]:
        """Return the values of one entity, empty when it is not there."""
        return self.read().get(Entity(**names), {})

    def set(self, values: Mapping[str, float | None], **names: str | None) -> None:
        """Set (or, with `None`, remove) values of one entity."""
        self.alter({Entity(**names): values})

    def alter(self, quotas: Mapping[Entity, Mapping[str, float | None]]) -> None:
        """Send what a careful tool would refuse, too, in one request, and wait until it shows."""
        request = AlterClientQuotas([Alteration(entity, ops) for entity, ops in quotas.items()])
        answer = self.gateway.connection.send(request, timeout=60)
        refused = [row for row in answer if row[1]]
        assert not refused, refused

        def shows() -> bool:
            live = self.read()
            return all(
                same_value(live.get(entity, {}).get(key), v) for entity, ops in quotas.items() for key, v in ops.items()
            )

        wait_until(shows)

    def settle(self) -> None:
        """Wait until everything accepted so far shows: a broker follows the controller's log in its order."""
        marker = Entity(user="settled")
        self.alter({marker: {"producer_byte_rate": 1.0}})
        self.alter({marker: {"producer_byte_rate": None}})

    def wipe(self) -> None:
        """Remove everything."""
        while quotas := self.read():
            some = dict(list(quotas.items())[:2000])
            self.alter({entity: dict.fromkeys(values) for entity, values in some.items()})
