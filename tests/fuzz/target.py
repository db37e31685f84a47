"""What is fuzzed: a reader of documents, valid ones to begin with, and what must be true of every answer."""

from __future__ import annotations

import signal
import traceback
from atexit import register
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from shutil import rmtree
from tempfile import mkdtemp
from time import monotonic
from types import FrameType
from typing import Any, Final, NoReturn

from quotaform.model.errors import InvalidFilesError
from quotaform.model.finding import Finding

CANARY: Final = "canary-7dk2-password"
"""A secret in documents; no message may show it."""

_CORPUS: Final = Path(__file__).with_name("corpus")
_CPU_SECONDS: Final = 4.0
_SECONDS: Final = 30.0
_SOON: Final = 0.001
_MOST_PROBLEMS: Final = 300
_LONGEST_MESSAGE: Final = 1_000_000


@dataclass(frozen=True, slots=True, eq=False)
class Target:
    name: str  # for the command line and the folder of regressions
    # Reads a document; raises one of `errors` if it refuses it, and `AssertionError` if what it read is wrong
    read: Callable[[bytes], object]
    errors: tuple[type[Exception], ...]  # the documented errors
    # Valid documents: what returns them, or a pattern of files below tests; without it they are kept by the name
    valid: Callable[[], Sequence[bytes]] | str = ""
    refused: Sequence[bytes] = ()  # documents to begin with that are invalid

    def corpus(self) -> Sequence[bytes]:
        return kept(self.valid or self.name) if isinstance(self.valid, str) else self.valid()


def kept(name: str) -> list[bytes]:
    """Return the valid documents that are kept: the files of a folder, or what is between blank lines of a file."""
    path = _CORPUS / name
    if "/" in name or path.is_dir():
        files = sorted(_CORPUS.parents[1].glob(name) if "/" in name else path.iterdir())
        assert files, name
        return [file.read_bytes() for file in files]
    return path.with_suffix(".txt").read_bytes().rstrip(b"\n").split(b"\n\n")


@cache
def scratch() -> Path:
    folder = Path(mkdtemp(prefix="quotaform-fuzz-"))
    register(rmtree, folder, ignore_errors=True)
    return folder


def text_of(document: bytes) -> str:
    """Return an argument as Python has it: bytes that are not UTF-8 are surrogates; there is no NUL in one."""
    return document.replace(b"\0", b"").decode("utf-8", "surrogateescape")


def round_trip(load: Callable[[Any], Any], dump: Callable[[Any], Any]) -> Callable[[bytes], object]:
    """Return a reader of what is written when it was read, and read again."""

    def read(document: bytes) -> None:
        written = dump(load(document))
        assert dump(load(written)) == written, "what was written does not read back"

    return read


def require_none(findings: Sequence[Finding]) -> None:
    if findings:
        raise InvalidFilesError(findings)


def require_words(errors: type[Exception], reads: Iterable[Callable[[], object]], known: str = "") -> None:
    """Make sure that each reader returns, or refuses in words."""
    for read in reads:
        try:
            read()
        except errors as error:
            problems = list(line_problems(str(error).replace(known, "") if known else str(error)))
            assert not problems, problems


class TooSlowError(BaseException):
    """Reading takes too long; not an `Exception`, which readers may catch."""


def examine(target: Target, document: bytes) -> str | None:
    """Return what is wrong with how a document was read; `None` if nothing."""
    try:
        with _time_limit():
            target.read(document)
    except target.errors as error:
        return "; ".join(message_problems(error)) or None
    except TooSlowError as error:
        return f"too slow {_place(error)}"
    except Exception as error:
        return f"{type(error).__name__} {_place(error)}: {str(error)[:300]!a}"
    return None


def kind(problem: str) -> str:
    """Return what is the same in all reports of one mistake."""
    return problem.partition(":")[0]


def message_problems(error: Exception) -> Iterator[str]:
    """Yield what is wrong with the message of an error."""
    if isinstance(error, InvalidFilesError):
        yield from finding_problems(error.problems)
    else:
        yield from line_problems(str(error))


def finding_problems(findings: Iterable[Finding]) -> Iterator[str]:
    """Yield what is wrong with findings: each is one inert line, and there is an end of them."""
    for number, finding in enumerate(findings):
        yield from line_problems(str(finding))
        if number == _MOST_PROBLEMS:
            yield "more problems than anybody reads"
            return


def line_problems(line: str) -> Iterator[str]:
    """Yield what is wrong with a line of output."""
    if CANARY in line:
        yield f"shows a secret: {line[:500]!a}"
    elif not line.isprintable():
        yield f"not one printable line: {line[:500]!a}"
    elif len(line) > _LONGEST_MESSAGE:
        yield f"a message without end: {line[:500]!a}"
    elif not line.strip():
        yield "an empty message"


@contextmanager
def _time_limit() -> Iterator[None]:
    with (
        _timer(signal.ITIMER_PROF, signal.SIGPROF, _CPU_SECONDS),
        _timer(signal.ITIMER_REAL, signal.SIGALRM, _SECONDS),
    ):
        yield


@contextmanager
def _timer(timer: int, number: signal.Signals, seconds: float) -> Iterator[None]:
    """Set a timer for a while; one that runs already, as that of pytest-timeout does, goes on afterwards."""
    handler = signal.signal(number, _too_slow)
    left, interval = signal.setitimer(timer, seconds)
    began = monotonic()
    try:
        yield
    finally:
        signal.setitimer(timer, 0)
        signal.signal(number, handler)
        if left:
            signal.setitimer(timer, max(_SOON, left - (monotonic() - began)), interval)


def _too_slow(_number: int, _frame: FrameType | None) -> NoReturn:
    raise TooSlowError


def _place(error: BaseException) -> str:
    """Return where an error was raised, innermost frame of quotaform's first."""
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if "/quotaform/" in frame.filename or "/fuzz/" in frame.filename]
    if not own:
        return "somewhere"
    frame = own[-1]
    return f"in {frame.filename.rpartition('/src/')[2].rpartition('/tests/')[2]} {frame.name}"
