"""The installed command as a user runs it, a small quota repository to run it in, and a cluster to look at."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from quotaform.cluster.kafka import KafkaGateway
from quotaform.model.entity import Entity
from quotaform.model.quotas import Quotas

QUOTAFORM = str(Path(sys.executable).with_name("quotaform"))
"""The command that an install put beside this interpreter."""

CHANGED_ENVIRONMENT = ("NO_COLOR", "CLICOLOR", "FORCE_COLOR", "COLUMNS", "SOURCE_DATE_EPOCH")


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


def run(
    *arguments: str | Path,
    cwd: Path,
    env: Mapping[str, str] | None = None,
    stdin: str | None = None,
    timeout: float = 120,
) -> Result:
    """Run `quotaform` to its end, without a terminal; whatever happens, it never shows a traceback."""
    done = subprocess.run(
        [QUOTAFORM, *map(str, arguments)],
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
        self._out = tempfile.TemporaryFile()  # noqa: SIM115
        self._err = tempfile.TemporaryFile()  # noqa: SIM115
        self._process = subprocess.Popen(
            [QUOTAFORM, *map(str, arguments)],
            cwd=cwd,
            env=environment(),
            stdin=subprocess.DEVNULL,
            stdout=self._out,
            stderr=self._err,
        )

    @property
    def is_over(self) -> bool:
        """Whether it ended."""
        return self._process.poll() is not None

    def signal(self, number: int) -> None:
        """Send it a signal."""
        self._process.send_signal(number)

    def end(self, *, timeout: float = 60) -> Result:
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
    assert "internal error" not in result.said, result.said
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
        """Run the command here."""
        return run(*arguments, cwd=self.path, **options)

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

    def values(self, **names: str | None) -> Mapping[str, float]:
        """Return the values of one entity, empty when it is not there."""
        return self.read().get(Entity(**names), {})

    def set(self, values: Mapping[str, float | None], **names: str | None) -> None:
        """Set (or, with `None`, remove) values of one entity."""
        self.alter({Entity(**names): values})

    def alter(self, quotas: Mapping[Entity, Mapping[str, float | None]]) -> None:
        """Send what a careful tool would refuse, too, in one request, and wait until it shows."""
        from quotaform.cluster.wire.link import alter_request

        entries = [
            (entity.parts, [(key, value or 0.0, value is None) for key, value in ops.items()])
            for entity, ops in quotas.items()
        ]
        response = self.gateway._link.send(lambda: alter_request(entries, validate_only=False), timeout=60)
        refused = [row for row in response.entries if row.error_code]
        assert not refused, refused
        for _ in range(200):
            live = self.read()
            if all((entity in live) == any(v is not None for v in ops.values()) for entity, ops in quotas.items()):
                return
            time.sleep(0.05)
        raise AssertionError("the cluster does not show what was written")

    def wipe(self) -> None:
        """Remove everything."""
        while quotas := self.read():
            some = dict(list(quotas.items())[:2000])
            self.alter({entity: dict.fromkeys(values) for entity, values in some.items()})
