"""What becomes of a run whose output cannot be written; `tests/golden/story-unseen.txt` has what commands say then."""

from __future__ import annotations

import os
import subprocess
import sys
from io import BytesIO, TextIOWrapper
from pathlib import Path
from threading import Thread
from time import sleep
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from quotaform.cli.console import GuardedStream, guarded_streams, make_harmless
from quotaform.model.text import COMMAND_MARKS, is_command

pytestmark = pytest.mark.slow

STREAMS = {
    "stdout closed": ">&-",
    "stderr closed": "2>&-",
    "both closed": ">&- 2>&-",
    "all closed": "<&- >&- 2>&-",
    "both full": ">/dev/full 2>/dev/full",
}


@pytest.mark.parametrize("redirection", STREAMS.values(), ids=STREAMS)
@pytest.mark.parametrize(
    ("line", "code"), [("validate", 0), pytest.param("plan --cluster none", 64, marks=pytest.mark.exhaustive)]
)
def test_a_process_ends_with_its_code_whatever_its_streams_are(
    redirection: str, line: str, code: int, tmp_path: Path
) -> None:
    """A closed stdout was an internal error, and the interpreter ended with 120 when it could not flush stderr."""
    (tmp_path / "quotas.d").mkdir()
    (tmp_path / "quotas.d/a.yaml").write_text("quotas: []\n")
    command = f"exec {sys.executable} -m quotaform {line} {redirection}"
    done = subprocess.run(["bash", "-c", command], cwd=tmp_path, capture_output=True, check=False)
    arrives = redirection == "2>&-"
    assert done.returncode == (code if code or arrives else 1)
    assert b"Traceback" not in done.stderr
    assert b"internal error" not in done.stderr


@pytest.mark.parametrize("buffering", [-1, 1], ids=["buffered", "by lines"])
def test_a_full_pipe_that_does_not_block_is_waited_for(buffering: int) -> None:
    """The part that did not fit was lost, and the run ended with an error in the middle of a result.

    A stream that is buffered by lines, as stderr and every terminal is, lost it later still, and all that came after.
    """
    read, write = os.pipe()
    os.set_blocking(write, False)
    text = "".join(f"line {number} ü\n" for number in range(50_000))
    found: list[bytes] = []

    def drain() -> None:
        sleep(0.1)
        while piece := os.read(read, 65_536):
            found.append(piece)

    thread = Thread(target=drain)
    thread.start()
    with open(write, "w", buffering, encoding="utf-8") as stream:  # noqa: PTH123
        guarded = GuardedStream(stream)
        stream.write("before\n")
        guarded.write(text)
        guarded.write("after\n")
    thread.join()
    os.close(read)
    assert guarded.problem is None
    assert b"".join(found).decode() == f"before\n{text}after\n"


@pytest.mark.parametrize(
    ("encoding", "text", "written"),
    [
        # `\xfc` in a JSON string is no JSON.
        ("ascii", '"ü\U0001f600"', rb'"\u00fc\ud83d\ude00"'),
        # What else is escaped is in tests/golden/texts-output.txt.
        ("utf-8", "a\n::error::b\n\x1b[2J", b"a\n:\\u003aerror::b\n\\u001b[2J"),
    ],
)
def test_what_could_do_harm_or_has_no_bytes_is_escaped(
    monkeypatch: pytest.MonkeyPatch, encoding: str, text: str, written: bytes
) -> None:
    stream = BytesIO()
    monkeypatch.setattr(sys, "stdout", TextIOWrapper(stream, encoding))
    with guarded_streams():
        sys.stdout.write(text)
    assert stream.getvalue() == written


@given(
    pieces=st.lists(
        st.one_of(
            st.sampled_from(
                ["#", "##", "[", "vso", "##vso[", ":", "::", "\n", " ", "\t", "error", "\x1b[2J", "\r", "x" * 9]
            ),
            st.text(max_size=3),
        )
    )
)
@example(pieces=["ip=", "::1\n", "a\n", "  ", "::x"])
@example(pieces=["::x"])
def test_how_a_text_is_split_makes_no_difference(pieces: list[str]) -> None:
    """`write("#")` and `write("#[error]")`, or `write(":")` and `write(":error::")`, made a command of two halves."""
    stream: Any = TextIOWrapper(BytesIO(), "utf-8", errors="surrogatepass")
    guarded = GuardedStream(stream)
    for piece in pieces:
        guarded.write(piece)
    written = stream.buffer.getvalue().decode("utf-8", "surrogatepass")
    assert written == make_harmless("".join(pieces))
    assert not any(mark in written for mark in COMMAND_MARKS)
    assert not any(map(is_command, written.split("\n")))


def test_a_guarded_stream_has_no_other_way_to_write() -> None:
    """`writelines` was that of the stream, and wrote everything as it was."""
    stream: Any = TextIOWrapper(BytesIO(), "utf-8")
    guarded = GuardedStream(stream)
    guarded.writelines(["a\n", "::error::", "\x1b[2J\n"])
    assert stream.buffer.getvalue().decode() == "a\n:\\u003aerror::\\u001b[2J\n"
    passed = {name for name in dir(stream) if not name.startswith("_") and hasattr(guarded, name)}
    assert passed == {"closed", "encoding", "errors", "fileno", "flush", "isatty", "write", "writelines"}
