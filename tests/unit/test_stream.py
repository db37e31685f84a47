"""What becomes of a run whose output cannot be written: the exit code tells of the cluster, stderr of the output."""

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

from quotaform.cli.main import run
from quotaform.cli.stream import GuardedStream, GuardedStreams, make_harmless
from quotaform.cluster.snapshot import dump_snapshot
from quotaform.model.entity import Entity
from quotaform.model.printable import COMMAND_MARKS, is_command
from quotaform.model.quotas import Snapshot
from tests.builder import PRODUCER
from tests.scripted_gateway import ScriptedGateway

pytestmark = pytest.mark.slow

ALICE = Entity(user="alice")
LOST = "Error: the output cannot be written: No space left on device\n"
ENTRY = "- match: {user: alice}\n  values: {producer_byte_rate: 2MiB/s}\n"


@pytest.fixture
def gateway(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ScriptedGateway:
    """A folder with a cluster that differs from the files, and the cluster."""
    monkeypatch.chdir(tmp_path)
    Path("quotaform.yaml").write_text("clusters: {lab: {bootstrap_servers: ['127.0.0.1:1']}, old: {snapshot: s.json}}")
    Path("quotas.d").mkdir()
    Path("quotas.d/a.yaml").write_text(f"quotas:\n{ENTRY}")
    taken = Snapshot(cluster_name="old", cluster_id="id", captured_at="2026-11-20T09:12:44Z", quotas={})
    Path("s.json").write_text(dump_snapshot(taken))
    scripted = ScriptedGateway({ALICE: {PRODUCER: 2.0**20}})
    monkeypatch.setattr("quotaform.cluster.kafka.KafkaGateway.connect", lambda *_, **__: scripted)
    return scripted


def run_full(*arguments: str) -> int:
    """Run a command whose stdout is full; pytest gives each phase of a test a stdout of its own, so no fixture can."""
    before = sys.stdout
    with open("/dev/full", "w", encoding="utf-8") as stream:  # noqa: PTH123
        sys.stdout = stream
        try:
            return run([*arguments])
        finally:
            sys.stdout = before
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


@pytest.mark.parametrize("form", ["text", "json"])
def test_a_complete_apply_is_complete_whatever_becomes_of_the_output(
    form: str, gateway: ScriptedGateway, capsys: pytest.CaptureFixture[str]
) -> None:
    """`apply > /dev/full` wrote everything and exited with 1, which means that nothing was written."""
    assert run_full("apply", "--cluster", "lab", "--auto-approve", "--format", form) == 0
    assert gateway.quotas == {ALICE: {PRODUCER: 2.0**21}}
    assert len(list(Path(".quotaform/receipts").iterdir())) == 1
    assert capsys.readouterr().err.endswith(LOST)


def test_alter_and_import_tell_of_what_they_did(gateway: ScriptedGateway, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_full("alter", "--cluster", "lab", "user=bob", "--add", f"{PRODUCER}=1") == 0
    assert gateway.quotas[Entity(user="bob")] == {PRODUCER: 1.0}
    assert run_full("import", "--cluster", "lab") == 0
    assert any("bob" in path.read_text() for path in Path("quotas.d").rglob("*.yaml"))
    assert run_full("snapshot", "--cluster", "lab", "--output", "taken.json") == 0
    assert capsys.readouterr().err == LOST * 3


@pytest.mark.parametrize(
    "line",
    [
        "plan --cluster old",
        "validate",
        "snapshot --cluster old",
        "snapshot --cluster old --output -",
        "schema plan",
        "--help",
        "--version",
    ],
)
def test_a_result_that_did_not_arrive_is_an_error(
    line: str, gateway: ScriptedGateway, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_full(*line.split()) == 1
    assert capsys.readouterr().err == LOST


def test_a_plan_that_cannot_be_shown_is_not_approved(
    gateway: ScriptedGateway, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The question would go to nowhere with the plan, and whoever types yes has seen neither."""
    answers = TextIOWrapper(BytesIO(b"yes\n"))
    monkeypatch.setattr(answers, "isatty", lambda: True)
    monkeypatch.setattr(sys, "stdin", answers)
    assert run_full("apply", "--cluster", "lab") == 4
    assert "the plan cannot be shown, so it was not approved; nothing was written" in capsys.readouterr().err
    assert not gateway.sent


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
    redirection: str, line: str, code: int, gateway: ScriptedGateway, tmp_path: Path
) -> None:
    """A closed stdout was an internal error, and the interpreter ended with 120 when it could not flush stderr."""
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


def test_what_an_encoding_lacks_is_escaped_as_in_json(monkeypatch: pytest.MonkeyPatch) -> None:
    r"""`\xfc` in a JSON string is no JSON."""
    written = BytesIO()
    monkeypatch.setattr(sys, "stdout", TextIOWrapper(written, "ascii"))
    with GuardedStreams():
        sys.stdout.write('"ü\U0001f600"')
    assert written.getvalue() == rb'"\u00fc\ud83d\ude00"'


def test_what_could_do_harm_is_escaped_on_its_way_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """What else is escaped is in tests/golden/texts-output.txt."""
    written = BytesIO()
    monkeypatch.setattr(sys, "stdout", TextIOWrapper(written, "utf-8"))
    with GuardedStreams():
        sys.stdout.write("a\n::error::b\n\x1b[2J")
    assert written.getvalue() == rb"a\n:\u003aerror::b\n\u001b[2J".replace(rb"\n", b"\n")


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
