"""`quotaform usage record` and `quotaform top` as processes: signals, a terminal, and a pipe."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyarrow import parquet

from tests.http_server import HttpServer, answer
from tests.waiting import wait_until
from tests.workflow.command import QUOTAFORM, Running, environment
from tests.workflow.terminal import talk

pytestmark = pytest.mark.workflow

PAGE = b"""\
kafka_server_quota_byte_rate{quota_type="Produce",user="alice"} 1200.0
kafka_server_quota_throttle_time{quota_type="Produce",user="alice"} 900.0
"""
SNAPSHOT = """\
{"format_version": "1.0", "kind": "quotaform.snapshot", "cluster": {"name": "lab", "id": "x"},
 "captured_at": "2026-11-22T17:00:00Z",
 "quotas": [{"entity": {"user": "alice"}, "values": {"producer_byte_rate": 1000}}]}
"""


@pytest.fixture
def server(tmp_path: Path) -> Iterator[HttpServer]:
    """An exporter of a broker; its cluster is in quotaform.yaml of the working directory."""
    with HttpServer(lambda _: answer(200, PAGE)) as exporter:
        (tmp_path / "lab.json").write_text(SNAPSHOT)
        (tmp_path / "quotaform.yaml").write_text(
            f"clusters: {{lab: {{snapshot: lab.json, metrics: {{brokers: ['1={exporter.url}/metrics']}}}}}}\n"
        )
        yield exporter


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_a_recording_and_keeps_it(tmp_path: Path, server: HttpServer, number: signal.Signals) -> None:
    running = Running("usage", "record", "--usage", "usage", "--interval", "1s", cwd=tmp_path)
    wait_until(lambda: len(server.received) >= 2)
    running.signal(number)
    done = running.end()
    assert done.code == 0, done.err
    rows = parquet.read_table(tmp_path / "usage").num_rows
    assert rows >= 1
    assert done.out.endswith(f"{rows} row{'s' * (rows != 1)} in 1 file of usage.\n")
    [file] = (path for path in (tmp_path / "usage").rglob("*") if path.is_file())
    assert file.match("date=*/cluster=*/*.parquet")


def test_a_kill_leaves_no_part_of_a_file(tmp_path: Path, server: HttpServer) -> None:
    running = Running("usage", "record", "--usage", "usage", "--interval", "1s", cwd=tmp_path)
    wait_until(lambda: server.received)
    running.signal(signal.SIGKILL)
    running.end()
    assert list((tmp_path / "usage").rglob("*.parquet")) == []


@pytest.mark.parametrize("key", ["q", "\x03"])
def test_top_takes_the_terminal_over_and_gives_it_back(tmp_path: Path, server: HttpServer, key: str) -> None:
    code, screen = talk("top", "--interval", "1s", cwd=tmp_path, answers=[("shared by", key)], hides_answers=False)
    assert code == 0
    assert screen.startswith("\x1b[?1049h\x1b[?25l")
    assert screen.endswith("\x1b[?25h\x1b[?1049l")
    assert "by the quota of user=alice (User)" in screen


def test_top_in_a_pipe_prints_table_after_table_until_nobody_reads(tmp_path: Path, server: HttpServer) -> None:
    with subprocess.Popen(
        [QUOTAFORM, "top", "--interval", "1s"],
        cwd=tmp_path,
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        seen = 0
        while seen < 2:
            seen += "1 bucket throttled" in process.stdout.readline()
        process.stdout.close()
        process.wait(60)
        assert process.stderr.read() == ""
