"""Kills the command that streams, or a process that it started, again and again, and compares the table.

`make prove` kills a few; `python -m tests.faults.stream_kills 20` takes about 25 seconds a kill. Pages come all the
time, some of them twice, some late, and some that are none.

| killed | how |
| --- | --- |
| python | the command itself |
| java | the Java process of Spark; the command has to say so and end |
| worker | a Python process in which Spark parses; likewise |
| python-alone | the command, while its Java process stands still, which goes on when the next run is at work |
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Event, Thread, Timer
from time import monotonic, sleep
from typing import Any, Final

from quotaform.sandbox import Sandbox
from quotaform.usage.table.schema import USAGE
from tests.spark.shared_classes import JAVA_OPTIONS
from tests.spark.usage_topic import BUCKETS, UsageTopic, text
from tests.waiting import is_alive, wait_until

PARTITIONS: Final = 2
LONGEST_S: Final = 25.0
"""Up to how long after its start a process is killed; the first batch begins after 6 to 10 seconds."""
LATE_MS: Final = 24 * 3600 * 1000
"""How far the time of a late page is behind."""
VICTIMS: Final = {"python": 5, "java": 3, "worker": 1, "python-alone": 2}
AIMS: Final = {"": 5, "offsets": 3, "state/0/0": 3, "commits": 6}
"""At any moment, or as soon as a batch has written something new into a folder of the checkpoint, or soon after."""
INGEST: Final = (
    *(sys.executable, "-m", "quotaform", "usage", "ingest"),
    *("--input-format", "exposition", "--cluster", "prod", "--broker", "b1"),
)


@dataclass
class Sent:
    """What was sent: pages, how many of them twice, the records that are no pages, and the pages that are late."""

    topic: UsageTopic
    pages: int = 0
    copies: int = 0
    garbage: list[str] = field(default_factory=list)
    late: list[int] = field(default_factory=list)

    def next(self, pages: int) -> Iterator[tuple[bytes, int]]:
        """Yield so many new pages and what is between them, each with its time."""
        for page in range(self.pages, self.pages + pages):
            self.pages += 1
            at = self.topic.time_of(page)
            yield text(page), at
            if page % 7 == 0:
                self.copies += 1
                yield text(page), at
            if page % 20 == 0:
                self.late.append(page)
                yield text(10**6 + page), at - LATE_MS
            if page % 25 == 0:
                self.garbage.append(f"no metric {page} {{")
                yield self.garbage[-1].encode(), at

    @contextmanager
    def producing(self) -> Iterator[None]:
        """Send pages for as long as this lasts."""
        from kafka import KafkaProducer

        over, failed = Event(), list[BaseException]()

        def produce() -> None:
            producer = KafkaProducer(bootstrap_servers=self.topic.servers)
            try:
                while not over.wait(0.5):
                    for number, (value, at) in enumerate(self.next(5)):
                        producer.send(self.topic.name, value, timestamp_ms=at, partition=number % PARTITIONS)
                    producer.flush()
            except BaseException as error:
                failed.append(error)
            finally:
                producer.close()

        thread = Thread(target=produce)
        thread.start()
        try:
            yield
        finally:
            over.set()
            thread.join()
        assert not failed, failed


def compare(sent: Sent, folder: Path) -> None:
    """Compare the table and the quarantine with those that a batch ingest makes of the same pages."""
    stream, bad = rows(folder / "usage"), rows(folder / "bad")
    recording = folder / "recording.txt"
    with recording.open("w", encoding="utf-8") as file:
        for page in range(sent.pages):
            _write(file, text(page), sent.topic.time_of(page))
        for page in sent.late:
            _write(file, text(10**6 + page), sent.topic.time_of(page) - LATE_MS)
        file.writelines(f"{line}\n" for line in sent.garbage)
    run([*INGEST, str(recording), "--usage", str(folder / "batch")])
    batch, batch_bad = rows(folder / "batch"), rows(folder / "batch-quarantine")
    found, expected = Counter(map(_key, stream)), Counter(map(_key, batch))
    print(f"{sent.pages} pages, {sent.copies} twice, {len(sent.late)} late")
    assert found == expected, ([*(expected - found)][:5], [*(found - expected)][:5])
    assert len(batch) == BUCKETS * (sent.pages + len(sent.late))
    unread = Counter(row["record"] for row in bad)
    assert unread == Counter(row["record"] for row in batch_bad) == Counter(sent.garbage), unread


def _write(file: Any, page: bytes, ts_ms: int) -> None:
    file.writelines(f"{line} {ts_ms}\n" for line in page.decode().splitlines())


def rows(folder: Path) -> list[dict[str, Any]]:
    """Return the rows of a table, by another reader of Parquet than Spark."""
    from pyarrow import parquet

    found: list[dict[str, Any]] = parquet.read_table(folder).to_pylist() if list(folder.rglob("*.parquet")) else []
    return found


def _key(row: dict[str, Any]) -> tuple[Any, ...]:
    return (round(row["ts"].timestamp() * 1000), *(row[name] for name in USAGE.names if name != "ts"))


def run(command: Sequence[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def below(pid: int) -> list[int]:
    listed = subprocess.run(["pgrep", "-P", str(pid)], capture_output=True, text=True, check=False).stdout
    return [int(word) for word in listed.split()]


def java_of(pid: int) -> int | None:
    for child in below(pid):
        with suppress(OSError):
            if Path(f"/proc/{child}/comm").read_text(encoding="utf-8").strip() == "java":
                return child
    return None


@dataclass
class Killer:
    command: list[str]
    folder: Path
    moments: random.Random
    paused: list[tuple[int, Timer]] = field(default_factory=list)

    def kill_one(self) -> str:
        """Start the command, kill it or another process, and return what was killed when."""
        victim, aim = (self.moments.choices([*each], [*each.values()])[0] for each in (VICTIMS, AIMS))
        error = self.folder / "stderr"
        with (
            error.open("w+", encoding="utf-8") as said,
            subprocess.Popen(self.command, stdout=subprocess.DEVNULL, stderr=said) as process,
        ):
            start = monotonic()
            self._wait(aim)
            age = monotonic() - start
            assert process.poll() is None, error.read_text(encoding="utf-8")
            victim = self._kill(process.pid, victim)
            batches = f"batch {self.last('offsets')}, {self.last('commits')} complete"
            try:
                process.wait(30)
            except subprocess.TimeoutExpired:
                process.kill()  # A worker that had nothing to do.
        last = error.read_text(encoding="utf-8")
        assert "Traceback" not in last, last
        assert process.returncode == -signal.SIGKILL or (process.returncode == 1 and "Error: " in last), last
        return f"{victim:<12} {age:4.1f} s, {aim or 'at random'}, {batches}"

    def last(self, place: str) -> int:
        """Return up to which batch there is something; -1 for none."""
        names = [path.stem for path in (self.folder / "checkpoint").glob(f"*/{place}/*")]
        return max((int(stem) for stem in names if stem.isdigit()), default=-1)

    def _wait(self, aim: str) -> None:
        if not aim:
            sleep(self.moments.uniform(0, LONGEST_S))
            return
        target, deadline = self.last(aim) + self.moments.randint(1, 4), monotonic() + 2 * LONGEST_S
        while self.last(aim) < target and monotonic() < deadline:
            sleep(0.0005)
        sleep(self.moments.choice([0, self.moments.uniform(0, 10)]))

    def _kill(self, pid: int, victim: str) -> str:
        """Kill a process, the command itself if there is no other one yet, and return which it was."""
        java = java_of(pid)
        daemons = below(java) if java is not None else []
        workers = [worker for daemon in daemons for worker in (daemon, *below(daemon))]
        if victim == "python-alone" and java is not None:
            os.kill(java, signal.SIGSTOP)
            timer = Timer(self.moments.uniform(5, LONGEST_S), lambda: _kill(java, signal.SIGCONT))
            timer.start()
            self.paused.append((java, timer))
            found = pid
        elif victim == "java" and java is not None:
            found = java
        elif victim == "worker" and workers:
            found = self.moments.choice(workers)
        else:
            victim, found = "python", pid
        _kill(found, signal.SIGKILL)
        return victim

    def let_go(self) -> None:
        """Let all processes go on that stand still, and wait for their end."""
        for pid, timer in self.paused:
            timer.cancel()
            _kill(pid, signal.SIGCONT)
            wait_until(lambda pid=pid: not is_alive(pid))  # type: ignore[misc]


def _kill(pid: int, number: signal.Signals) -> None:
    with suppress(ProcessLookupError):
        os.kill(pid, number)


def main() -> None:
    kills = int(sys.argv[1])
    seed = int(sys.argv[2]) if len(sys.argv) > 2 else random.randrange(10**6)
    print(f"seed {seed}", flush=True)
    with Sandbox() as broker, TemporaryDirectory() as name:
        folder, topic = Path(name), UsageTopic(broker.bootstrap_servers, "killed")
        topic.start_ms -= 48 * 3600 * 1000
        topic.create(PARTITIONS)
        sent = Sent(topic)
        command = [
            *(*INGEST, "--topic", topic.name, "--bootstrap-server", topic.servers, "--watermark", "1h"),
            *("--usage", f"{folder}/usage", "--quarantine", f"{folder}/bad", "--checkpoint", f"{folder}/checkpoint"),
            *("--master", "local[2]", "--spark-conf", f"spark.driver.extraJavaOptions={JAVA_OPTIONS}"),
        ]
        killer = Killer([*command, "--every", "1s", "--batch-records", "40"], folder, random.Random(seed))
        with sent.producing():
            try:
                for number in range(1, kills + 1):
                    print(f"{number:3} {killer.kill_one()}", flush=True)
            finally:
                killer.let_go()
        run([*command, "--until-empty"])
        compare(sent, folder)


if __name__ == "__main__":
    main()
