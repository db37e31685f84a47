"""A process that runs several commands: starting Python, and Spark, for each of them takes long."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from re import MULTILINE
from re import compile as regex
from typing import IO, Any, Final

from tests.workflow.command import Repository, Result, environment, require_calm

_ROOT: Final = Path(__file__).parents[2]


class CommandProcess:
    """See `tests.spark.command_program`; one command runs at a time, each with `options` in addition."""

    def __init__(self, process: subprocess.Popen[str], log: Path, options: tuple[str, ...] = ()) -> None:
        self.options = options
        self._process = process
        self._log = log
        # What it says when it has started.
        self._read()

    def run(self, repository: Repository, *arguments: str | Path, env: Mapping[str, str] | None = None) -> Result:
        """Run `quotaform` in the folder of a repository."""
        words = [*map(str, arguments), *self.options]
        return self._answer(arguments=words, cwd=str(repository.path), env=dict(env or {}))

    def ask(self, env: Mapping[str, str] | None = None, **session: Any) -> Result:
        """Return what `answer` finds in a session of such options; without any, in the one that it has."""
        return self._answer(session=session, env=dict(env or {}))

    def _answer(self, **request: Any) -> Result:
        print(json.dumps(request), file=_pipe(self._process.stdin), flush=True)
        result = Result(**self._read())
        require_calm(result)
        return result

    def _read(self) -> Any:
        line = _pipe(self._process.stdout).readline()
        assert line, self._log.read_text(encoding="utf-8", errors="replace")
        return json.loads(line)


def _pipe(stream: IO[str] | None) -> IO[str]:
    assert stream is not None
    return stream


@contextmanager
def command_process(
    session: Mapping[str, Any] | None, env: Mapping[str, str], log: Path
) -> Iterator[subprocess.Popen[str]]:
    """Start such a process, and end it; what is printed beside the commands goes to the log.

    `session`: the `SessionOptions` of the session in which all its commands run; none if each has its own.
    """
    arguments = [sys.executable, "-m", "tests.spark.command_program", json.dumps(session)]
    with (
        log.open("wb") as errors,
        subprocess.Popen(
            arguments,
            cwd=_ROOT,
            env=environment(env),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            # So that Ctrl-C ends the tests, which then stop it.
            start_new_session=True,
        ) as process,
    ):
        try:
            yield process
        finally:
            _pipe(process.stdin).close()
            try:
                process.wait(60)
            except subprocess.TimeoutExpired:
                process.kill()


_BEGINS: Final = regex(r"^[A-Z].* on Spark( \(.*\))? \.\.\.\n", MULTILINE)
_REACHED: Final = regex(r"^[A-Z].* [\d,]+ of [\d,]+ \(\d+%\) \.\.\.\n", MULTILINE)
"""How far it is: printed every 30 seconds, so on a slow machine only."""


def without_progress(text: str) -> str:
    """Return what is on stderr without the lines that say what Spark begins."""
    return _BEGINS.sub("", _REACHED.sub("", text))


def messages(result: Result) -> str:
    """Return what is on stderr without progress, and the line that says what Spark begins, which must be there once."""
    text, begun = _BEGINS.subn("", _REACHED.sub("", result.err))
    assert begun == 1, result.err
    return text
