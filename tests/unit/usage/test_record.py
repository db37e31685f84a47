"""Recording: schedule, gaps, files and what is said when there is nothing to record."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from threading import Event, Thread
from time import monotonic, sleep
from typing import Any
from unittest.mock import Mock

import pytest
from pyarrow import parquet

from quotaform.cli.main import run
from quotaform.model.errors import MetricsError, QuotaformError, UsageError, missing_extra
from quotaform.model.outcome import ClusterOutcome
from quotaform.model.records.schema import gate
from quotaform.model.settings import parse_source
from quotaform.report.format import schema_builder
from quotaform.resolve.spark import arrow_schema
from quotaform.usage.record import run as record
from quotaform.usage.record.reader import open_reader
from quotaform.usage.record.recording import Recording, render_recording
from quotaform.usage.record.run import Recorder, require_usage_directory, usage_table, write_rows
from quotaform.usage.sample import UsageRow
from quotaform.usage.table.schema import USAGE
from tests.http_server import HttpServer, answer

from .recorded import FakeReader

PAGE = b"""\
# TYPE kafka_server_quota_byte_rate gauge
kafka_server_quota_byte_rate{quota_type="Produce",user="CN%3Da",client_id="app"} 1000.5
kafka_server_quota_byte_rate{quota_type="Produce",user="b"} 0.0
kafka_server_quota_throttle_time{quota_type="Produce",user="CN%3Da",client_id="app"} 42.0
kafka_server_quota_throttle_time{quota_type="Produce",user="b"} NaN
kafka_server_quota_queue_size{quota_type="Produce"} 1.0
jvm_threads 5
"""


@dataclass
class Kept:
    """What was written and warned of."""

    rows: list[UsageRow] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)

    def write(self, rows: Sequence[UsageRow]) -> None:
        self.rows += rows


def recorded(kept: Kept, readers: dict[str, Any], seconds: float | None = 0.25, interval: float = 0.05) -> Recording:
    [outcome] = outcomes_of(kept, {"lab": readers}, seconds, interval)
    return outcome.require()


def outcomes_of(
    kept: Kept, readers: dict[str, dict[str, Any]], seconds: float | None, interval: float
) -> list[ClusterOutcome[Recording]]:
    write, warn = kept.write, kept.warnings.append
    return Recorder(usage="usage", readers=readers, interval=interval, seconds=seconds, write=write, warn=warn).run()


def failing(_: int) -> bytes:
    raise MetricsError("http://b1", "cannot be reached")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("error", "problem"),
    [
        (MetricsError("http://b1", "cannot be reached"), "cannot be reached"),
        # Any error but that of a source ended its thread: no gap, no warning, and no more rows of the broker.
        (ValueError("a secret"), "cannot be used because of an internal error: ValueError; please report it"),
    ],
)
def test_a_source_that_fails_for_a_while_is_one_gap_and_others_go_on(error: Exception, problem: str) -> None:
    replies = [PAGE, error, PAGE, PAGE, PAGE]
    kept, good, bad = Kept(), FakeReader(lambda _: PAGE), FakeReader(Mock(side_effect=replies))
    result = recorded(kept, {"1": good, "2": bad}, seconds=1.25, interval=0.25)
    first, second = result.sources
    assert (first.asked, first.read, first.rows, first.gaps, first.size) == (5, 5, 10, (), 5 * len(PAGE))
    assert (len(kept.rows), result.rows, result.files) == (18, 18, 1)
    [gap] = second.gaps
    assert (second.read, gap.missed, gap.reason) == (4, 1, problem)
    assert (gap.first - result.started).total_seconds() == pytest.approx(0.25)
    assert kept.warnings == [
        f"broker 2: http://b1 {problem}; it is asked again",
        "broker 2: http://b1 answers again",
    ]
    assert "    gap " in render_recording(result)


def test_a_slow_source_is_never_asked_twice_at_once_and_each_part_of_a_gap_has_its_own_reason() -> None:
    """An outage after a slow answer was said to be a source that had not been asked, as it was slow."""

    def reply(number: int) -> bytes:
        if number > 2:
            raise MetricsError("http://b1", "cannot be reached")
        if number > 0:
            sleep(0.12)
        return PAGE

    reader = FakeReader(reply)
    [source] = recorded(Kept(), {"1": reader}, seconds=0.8).sources
    reasons = [gap.reason for gap in source.gaps]
    assert any("slow" in reason for reason in reasons)
    assert any("cannot be reached" in reason for reason in reasons)
    assert source.read + sum(gap.missed for gap in source.gaps) == 16
    assert reader.most_at_once == 1
    assert source.read <= 3


def test_a_recording_ends_in_time_although_a_failing_source_would_be_asked_again_later(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A source that failed was waited for until its next slot, up to a minute after the end of the recording."""
    waits: list[float | None] = []

    class Stop(Event):
        def wait(self, timeout: float | None = None) -> bool:
            waits.append(timeout)
            return self.is_set()

    monkeypatch.setattr(record, "Event", Stop)
    result = recorded(Kept(), {"1": FakeReader(lambda _: PAGE), "2": FakeReader(failing)}, seconds=4.0, interval=1.0)
    assert [(source.asked, source.read) for source in result.sources] == [(4, 4), (3, 0)]
    assert max(each or 0.0 for each in waits) <= 4.0


@dataclass
class FullDisk(Kept):
    """A table that cannot be written for its first few files."""

    failures: int = 1
    sizes: list[int] = field(default_factory=list)

    def write(self, rows: Sequence[UsageRow]) -> None:
        self.sizes.append(len(rows))
        if len(self.sizes) <= self.failures:
            raise QuotaformError("usage cannot be written: No space left on device")
        Kept.write(self, rows)


@pytest.mark.slow
def test_rows_that_cannot_be_written_are_kept_for_the_next_file(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first file that could not be written ended the recording, and its rows were lost."""
    monkeypatch.setattr("quotaform.usage.record.run.FLUSH_SECONDS", 0.4)
    kept, reader = FullDisk(), FakeReader(lambda _: PAGE)
    result = recorded(kept, {"1": reader}, seconds=1.5, interval=0.05)
    assert (result.rows, result.unwritten, result.failure) == (len(kept.rows), 0, None)
    assert len(kept.rows) == 2 * result.sources[0].read
    assert [row.ts for row in kept.rows] == sorted(row.ts for row in kept.rows)
    assert kept.warnings == [
        f"usage cannot be written: No space left on device; {kept.sizes[0]:,} rows are kept, and written with the next "
        "file",
        "usage is written again, with the rows that were kept",
    ]


def test_a_recording_that_cannot_be_written_ends_with_its_summary() -> None:
    kept = FullDisk(failures=9)
    result = recorded(kept, {"1": FakeReader(lambda _: PAGE)})
    rows = 2 * result.sources[0].read
    assert (result.rows, result.files, result.unwritten) == (0, 0, rows)
    assert result.failure == "usage cannot be written: No space left on device"
    assert render_recording(result).endswith(
        "0 rows in 0 files of usage.\n"
        f"{rows} more rows could not be written: usage cannot be written: No space left on device.\n"
    )


def test_a_recording_ends_when_more_rows_wait_than_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("quotaform.usage.record.run.MOST_ROWS", 5)
    kept, started = FullDisk(failures=99), monotonic()
    result = recorded(kept, {"1": FakeReader(lambda _: PAGE)}, seconds=None, interval=0.01)
    assert monotonic() - started < 10
    assert result.unwritten > 5
    assert kept.warnings[-1].endswith("rows wait to be written, and no more are kept")


@pytest.mark.parametrize(
    ("program", "problem"),
    [
        ("", r"JMX at localhost:9 cannot be read, as .*java cannot be started: No such"),
        (
            "#!/bin/sh\necho 'InvalidClassException: filter status: REJECTED\nNo matched attributes' >&2\n",
            "JMX at localhost:9 answered with a Java class that is not allowed",
        ),
    ],
    ids=["no-java", "class-not-allowed"],
)
def test_java_that_does_not_read_is_a_failure_of_the_source(tmp_path: Path, program: str, problem: str) -> None:
    java = tmp_path / "java"
    if program:
        java.write_text(program)
        java.chmod(0o755)
    with pytest.raises(MetricsError, match=problem):
        open_reader(parse_source("1=jmx:localhost:9"), "lab", [str(java)]).read(5.0)


def test_no_source_that_answers_is_an_error_at_once() -> None:
    started, broken = monotonic(), FakeReader(Mock(side_effect=MemoryError))
    with pytest.raises(QuotaformError) as caught:
        recorded(Kept(), {"1": FakeReader(failing), "2": broken}, seconds=None, interval=60.0)
    assert monotonic() - started < 10
    assert str(caught.value) == (
        "none of 2 sources of cluster lab can be read:\n  broker 1: http://b1 cannot be reached\n"
        "  broker 2: http://b1 cannot be used because of an internal error: MemoryError; please report it"
    )


def test_a_cluster_that_cannot_be_read_hides_no_other() -> None:
    kept = Kept()
    readers = {"lab": {"1": FakeReader(lambda _: PAGE)}, "far": {"1": FakeReader(failing)}}
    lab, far = outcomes_of(kept, readers, 0.25, 0.05)
    assert (lab.require().rows, lab.require().files) == (len(kept.rows), 1)
    assert len(kept.rows) == 2 * lab.require().sources[0].read > 0
    assert (far.cluster, str(far.error).partition(":")[0]) == ("far", "the source of cluster far cannot be read")
    problem = "cluster far, broker 1: http://b1 cannot be reached"
    assert kept.warnings == [f"{problem}; nothing is recorded of its cluster"]


def test_an_interrupt_ends_a_recording_that_is_written(monkeypatch: pytest.MonkeyPatch) -> None:
    kept, reader = Kept(), FakeReader(lambda _: PAGE)

    def interrupt() -> None:
        while reader.asked < 3:
            sleep(0.005)
        signal.raise_signal(signal.SIGINT)

    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    thread = Thread(target=interrupt)
    try:
        thread.start()
        result = recorded(kept, {"1": reader}, seconds=None)
    finally:
        thread.join()
        signal.signal(signal.SIGINT, before)
    assert result.rows == len(kept.rows) >= 6


# Sources


@pytest.mark.parametrize(
    ("reply", "said"),
    [
        (answer(404), "answered with status 404; check the path of the URL"),
        (
            answer(200, b"<!DOCTYPE html><html></html>"),
            "answered with a web page, not as an exporter of Prometheus does",
        ),
        (b"\x00\x00\x00\x23", "answered with something that is not HTTP; check the URL"),
    ],
    ids=["status", "web-page", "no-http"],
)
def test_what_is_no_exporter_is_said(reply: bytes, said: str) -> None:
    with HttpServer(lambda _: reply) as server, pytest.raises(MetricsError, match="localhost") as caught:
        open_reader(parse_source(f"{server.url}/metrics"), "lab").read(5.0)
    assert said in str(caught.value)


def test_a_source_that_hangs_is_given_up_in_time() -> None:
    hang = Event()

    def reply(_: object) -> list[bytes]:
        hang.wait(30)
        return []

    with HttpServer(reply) as server:
        started = monotonic()
        with pytest.raises(MetricsError, match="did not answer within"):
            open_reader(parse_source(f"{server.url}/metrics"), "lab").read(0.2)
        hang.set()
    assert monotonic() - started < 5


LONG_PAGES = {
    "samples": b"kafka_server_produce_byte_rate 1\n" * 100_000,
    "other-metrics": b"jvm_threads 5\n" * 100_000,
    "comments": b"# HELP\n" * 100_000,
    "lines-that-are-cut": b"kafka_server_produce_byte_rate{\n" * 100_000,
}


@pytest.mark.parametrize("name", LONG_PAGES)
def test_the_time_limit_of_an_answer_holds_while_it_is_read(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A page of 600,000 series was read to its end, whatever `--for` and the timeout said."""
    times = count(step=0.5)
    monkeypatch.setattr("quotaform.usage.record.reader.monotonic", lambda: next(times))
    with HttpServer(lambda _: answer(200, LONG_PAGES[name])) as server:
        reader = open_reader(parse_source(server.url), "lab")
        with pytest.raises(MetricsError, match=r"answered with more than can be read within 3 s; have it serve fewer"):
            reader.read(3.0)


def test_an_answer_is_refused_for_its_samples_and_its_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """A source was given the whole time for its answer, and once more for reading it."""
    reader, times = FakeReader(lambda _: PAGE), iter([0.0, 3.0, 3.1])
    with monkeypatch.context() as patch:
        patch.setattr("quotaform.usage.record.reader.monotonic", lambda: next(times))
        with pytest.raises(MetricsError, match="answered with more than can be read within 3 s"):
            reader.read(3.0)
    monkeypatch.setattr("quotaform.usage.record.reader.MOST_SAMPLES", 2)
    with pytest.raises(MetricsError, match="answered with more than 2 samples; have it serve fewer metrics"):
        reader.read(3.0)


# Files


ROW = UsageRow(1.5, 11.5, "lab", "1", "producer_byte_rate", "a", None, None, 5.0, None)


def test_a_file_is_whole_and_has_the_columns_of_the_table(tmp_path: Path) -> None:
    rows = [
        ROW,
        UsageRow(2.0, 11.5, "lab", None, "connection_creation_rate", None, None, "::1", None, 3.0),
    ]
    [path] = write_rows(tmp_path / "a" / "usage", rows)
    assert path.parent == tmp_path / "a/usage/date=1970-01-01/cluster=lab"
    table = parquet.read_table(path, partitioning=None)
    assert [list(row.values())[1:] for row in table.to_pylist()] == [[row[1], *row[3:]] for row in rows]
    assert [row["ts"].timestamp() for row in table.to_pylist()] == [1.5, 2.0]
    assert [each.name for each in path.parent.iterdir()] == [path.name]
    require_usage_directory(tmp_path / "a" / "usage")


def test_the_columns_are_those_that_spark_reads() -> None:
    assert usage_table([]).schema == arrow_schema(USAGE)
    assert list(UsageRow._fields) == USAGE.names


def test_rows_are_added_to_a_table_without_folders(tmp_path: Path) -> None:
    earlier = usage_table([ROW])
    parquet.write_table(earlier, tmp_path / "earlier.parquet")
    tomorrow = ROW._replace(ts=86_401.5, cluster="eu/1=a")
    paths = write_rows(tmp_path, [ROW, tomorrow])
    assert [str(path.parent.relative_to(tmp_path)) for path in paths] == [
        "date=1970-01-01/cluster=lab",
        "date=1970-01-02/cluster=eu%2F1%3Da",
    ]
    same = parquet.read_table(paths[0], partitioning=None)
    assert same.equals(earlier.drop_columns(["cluster"]))


def test_a_directory_of_something_else_is_refused(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").touch()
    with pytest.raises(UsageError, match="is not empty and no table of usage"):
        require_usage_directory(tmp_path)
    import pyarrow

    parquet.write_table(pyarrow.table({"ts": [1]}), tmp_path / "x.parquet")
    with pytest.raises(UsageError, match="lacks the column window_s"):
        require_usage_directory(tmp_path)
    (tmp_path / "x.parquet").write_bytes(b"PAR1")
    with pytest.raises(UsageError, match=r"holds x\.parquet, which is no Parquet file that can be read"):
        require_usage_directory(tmp_path)


@pytest.fixture
def full_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """No file can be put in its place."""
    monkeypatch.setattr(Path, "replace", Mock(side_effect=OSError(28, "No space left on device")))


@pytest.mark.usefixtures("full_disk")
def test_a_file_that_cannot_be_written_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(QuotaformError, match="cannot be written: No space left on device; files written before stay"):
        write_rows(tmp_path, [ROW])
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []
    require_usage_directory(tmp_path)


# The command


def without(*modules: str, run: list[str]) -> subprocess.CompletedProcess[str]:
    """Run a command where modules cannot be imported."""
    script = (
        f"import sys\nsys.modules |= dict.fromkeys({modules!r})\n"
        f"from quotaform.cli.main import run\nsys.exit(run({run!r}))"
    )
    return subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=False)


SPARK = ("pyspark", "py4j", "pandas", "numpy")


@pytest.mark.slow
def test_recording_and_top_need_nothing_of_spark(tmp_path: Path) -> None:
    """Recording, "without Spark", was said to need the extra `spark`, that is PySpark, for pyarrow."""
    with HttpServer(lambda _: answer(200, PAGE)) as server:
        source = ["--cluster", "lab", "--source", f"{server.url}/metrics"]
        words = ["usage", "record", *source, "--interval", "1s", "--for", "1s", "--usage"]
        done = without(*SPARK, run=[*words, str(tmp_path / "usage")])
        assert (done.returncode, done.stdout[-40:]) == (0, f"2 rows in 1 file of {tmp_path / 'usage'}.\n"[-40:]), done
        missing = without(*SPARK, "pyarrow", run=[*words, str(tmp_path / "other")])
        assert (missing.returncode, missing.stdout) == (1, "")
        assert missing.stderr.endswith(
            f"Error: Parquet files cannot be written without pyarrow: {missing_extra('usage')}.\n"
        )
        snapshot = ["--bootstrap-server", "127.0.0.1:1", *source[2:], "--once", "--format", "json"]
        shown = without(*SPARK, "pyarrow", run=["top", *snapshot])
    assert [row["throttle_ms"] for row in json.loads(shown.stdout)["buckets"]] == [42.0], shown
    assert "Traceback" not in shown.stderr


def recorded_page(page: bytes, usage: Path, *options: str) -> int:
    """Record a page for a second with the command; gives its exit code."""
    with HttpServer(lambda _: answer(200, page)) as server:
        words = ["usage", "record", "--cluster", "lab", "--source", f"{server.url}/metrics", "--usage", str(usage)]
        return run([*words, "--interval", "1s", "--for", "1s", *options])


@pytest.mark.slow
def test_a_recording_without_rows_is_an_error_and_says_why(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert recorded_page(b"jvm_threads 5\n", tmp_path / "u") == 1
    printed = capsys.readouterr()
    assert "no rows: it has no rate of a client" in printed.out
    assert (printed.out + printed.err).count("quotaform alter") == 1  # The remedy was printed twice.
    assert printed.err.endswith(
        "Error: nothing was recorded: no answer had a measurement of a client; see the summary\n"
    )


@pytest.mark.slow
@pytest.mark.usefixtures("full_disk")
def test_rows_that_were_not_written_are_in_the_summary_and_the_exit_code(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert recorded_page(PAGE, tmp_path / "u", "--format", "json") == 1
    printed = capsys.readouterr()
    document = json.loads(printed.out)
    assert gate(schema_builder("usage-record")).is_valid(document)
    assert (document["rows"], document["unwritten"]) == (0, 2)
    assert document["failure"].endswith("u cannot be written: No space left on device; files written before stay")
    assert "Error: 2 rows were not written: " in printed.err
