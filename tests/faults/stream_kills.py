"""Kills the command that streams, or a process that it started, again and again, and compares the table.

`make prove` kills a few; `python -m tests.faults.stream_kills 20` takes about 25 seconds a kill. Pages come all the
time, some of them twice, some too late, and some that are none.

| killed | how |
| --- | --- |
| python | the command itself |
| java | the Java process of Spark; the command has to say so and end |
| worker | a Python process in which Spark parses; likewise |
| python-alone | the command, while its Java process stands still, which goes on when the next run is at work |
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Event, Thread, Timer
from time import monotonic, sleep, time
from typing import Final

from quotaform.sandbox import Sandbox
from tests.faults.stream_compared import Sent, compare, require_sum
from tests.spark.shared_classes import JAVA_OPTIONS
from tests.spark.usage_topic import UsageTopic
from tests.waiting import is_alive, wait_until

TOPIC: Final = "killed"
PARTITIONS: Final = 2
WATERMARK: Final = "1h"
"""The time of 240 pages: some 24 seconds of them."""
LONGEST_S: Final = 25.0
"""Up to how long after its start a process is killed; the first batch begins after 6 to 10 seconds."""
VICTIMS: Final = {"python": 5, "java": 3, "worker": 1, "python-alone": 2}
QUICK: Final = f"spark.driver.extraJavaOptions={JAVA_OPTIONS}"
AIMS: Final = {"any": 5, "later": 6, "offsets": 1, "files": 2, "seen": 3, "commits": 3}
"""At any moment; at any moment after the first end of a batch; or as soon as something new is there."""
LATER_S: Final = 10.0


@dataclass(frozen=True, slots=True)
class State:
    """Up to which batch there is what; -1 for none."""

    offsets: int
    files: int
    seen: int
    commits: int


class Folder:
    """The folders of the stream."""

    def __init__(self, path: Path) -> None:
        self.path = path
        checkpoint = path / "checkpoint"
        self._places = {
            "offsets": checkpoint / "spark" / "offsets",
            "files": path / "usage",
            "seen": checkpoint / "seen",
            "commits": checkpoint / "spark" / "commits",
        }

    def last(self, kind: str) -> int:
        """Return up to which batch there is something."""
        try:
            names = [path.name for path in self._places[kind].iterdir()]
        except FileNotFoundError:
            return -1
        if kind == "files":
            names = [name.split("-")[2] for name in names if name.startswith("stream-")]
        return max((int(name) for name in names if name.isdigit()), default=-1)

    def state(self) -> State:
        """Return up to which batch there is what."""
        return State(*(self.last(kind) for kind in State.__dataclass_fields__))

    def is_used_since(self, at: float) -> bool:
        """Whether a run that began then has come to its stream."""
        return any(place.exists() and place.stat().st_mtime > at for place in self._places.values()) or bool(
            list((self.path / "usage").glob("_quotaform-*"))
        )


def moment(folder: Folder, before: State, *, has_java: bool, began: float) -> str:
    """Return in words when a process was killed that has begun then."""
    now = folder.state()
    if not has_java:
        return f"before Spark starts, {'in' if now.offsets > now.commits else 'after'} batch {now.offsets}"
    if not folder.is_used_since(began):
        return f"while Spark starts, {'in' if now.offsets > now.commits else 'after'} batch {now.offsets}"
    if now.offsets == now.commits:
        return f"between batches {now.commits} and {now.commits + 1}"
    again = " again" if now.offsets == before.offsets else ""
    if now.seen == now.offsets:
        return f"batch {now.offsets}{again}, its ids are kept, its end is not noted"
    if now.files == now.offsets:
        return f"batch {now.offsets}{again}, its files are in the table"
    return f"batch {now.offsets}{again}, its rows are made"


def chosen(weights: dict[str, int], moments: random.Random) -> str:
    """Return one of some names at random."""
    return moments.choices(list(weights), list(weights.values()))[0]


def below(pid: int) -> list[int]:
    """Return the processes that a process has started."""
    listed = subprocess.run(["pgrep", "-P", str(pid)], capture_output=True, text=True, check=False).stdout
    return [int(word) for word in listed.split()]


def name_of(pid: int) -> str:
    """Return the name of a process."""
    with suppress(OSError):
        return Path(f"/proc/{pid}/comm").read_text(encoding="utf-8").strip()
    return ""


def java_of(pid: int) -> int | None:
    """Return the Java process of a command, if it has started one."""
    return next((child for child in below(pid) if name_of(child) == "java"), None)


def worker_of(pid: int, moments: random.Random) -> int | None:
    """Return a Python process of the Java process of a command, if there is one."""
    java = java_of(pid)
    daemons = below(java) if java is not None else []
    workers = [worker for daemon in daemons for worker in (daemon, *below(daemon))]
    return moments.choice(workers) if workers else None


class Killer:
    """Kills one process after the other."""

    def __init__(self, command: list[str], folder: Folder, moments: random.Random) -> None:
        self.command = command
        self.folder = folder
        self.moments = moments
        self.paused: list[tuple[int, Timer]] = []

    def kill_one(self) -> str:
        """Start the command, kill it or another process, and return what was killed when."""
        victim, aim = chosen(VICTIMS, self.moments), chosen(AIMS, self.moments)
        before, began = self.folder.state(), time()
        error = self.folder.path / "stderr"
        with (
            error.open("w+", encoding="utf-8") as said,
            subprocess.Popen(self.command, stdout=subprocess.DEVNULL, stderr=said) as process,
        ):
            start = monotonic()
            self._wait(aim)
            age = monotonic() - start
            assert process.poll() is None, error.read_text(encoding="utf-8")
            has_java = java_of(process.pid) is not None
            victim = self._kill(process.pid, victim)
            when = moment(self.folder, before, has_java=has_java, began=began)
            try:
                process.wait(30)
            except subprocess.TimeoutExpired:
                # A worker that had nothing to do.
                process.kill()
        last = error.read_text(encoding="utf-8")
        assert "Traceback" not in last, last
        assert process.returncode == -signal.SIGKILL or (process.returncode == 1 and "Error: " in last), last
        told = "" if process.returncode < 0 else f"; {last.splitlines()[-1]}"
        return f"{victim:<12} {age:4.1f} s  {when}{told}"

    def _wait(self, aim: str) -> None:
        if aim == "any":
            sleep(self.moments.uniform(0, LONGEST_S))
            return
        kind, more = ("commits", 1) if aim == "later" else (aim, self.moments.randint(1, 4))
        target = self.folder.last(kind) + more
        deadline = monotonic() + 2 * LONGEST_S
        while self.folder.last(kind) < target and monotonic() < deadline:
            sleep(0.0005)
        if aim == "later":
            sleep(self.moments.uniform(0, LATER_S))

    def _kill(self, pid: int, victim: str) -> str:
        """Kill a process, the command itself if there is no other one yet, and return which it was."""
        java = java_of(pid)
        found = {"java": java, "worker": worker_of(pid, self.moments) if victim == "worker" else None}.get(victim)
        if victim == "python-alone" and java is not None:
            os.kill(java, signal.SIGSTOP)
            timer = Timer(self.moments.uniform(5, LONGEST_S), lambda: _kill(java, signal.SIGCONT))
            timer.start()
            self.paused.append((java, timer))
        elif found is None:
            victim = "python"
        _kill(found or pid, signal.SIGKILL)
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


@contextmanager
def producing(topic: UsageTopic, sent: Sent) -> Iterator[None]:
    """Send pages for as long as this lasts."""
    from kafka import KafkaProducer

    over, failed = Event(), list[BaseException]()

    def produce() -> None:
        producer = KafkaProducer(bootstrap_servers=topic.servers)
        try:
            while not over.wait(0.5):
                for record in sent.next(5):
                    producer.send(
                        topic.name,
                        record.value,
                        timestamp_ms=record.ts_ms,
                        partition=sent.records % PARTITIONS,
                    )
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


def main() -> None:
    """Kill as often as asked, and compare."""
    kills = int(sys.argv[1])
    seed = int(sys.argv[2]) if len(sys.argv) > 2 else random.randrange(10**6)
    print(f"seed {seed}", flush=True)
    with Sandbox() as broker, TemporaryDirectory() as name:
        topic = UsageTopic(broker.bootstrap_servers, TOPIC)
        topic.start_ms -= 48 * 3600 * 1000
        topic.create(PARTITIONS)
        sent = Sent(topic)
        command = [sys.executable, "-m", "quotaform", "usage", "ingest", *_options(topic, Path(name))]
        command += ["--master", "local[2]", "--spark-conf", QUICK]
        killer = Killer([*command, "--every", "1s", "--batch-records", "40"], Folder(Path(name)), random.Random(seed))
        found: Counter[str] = Counter()
        with producing(topic, sent):
            try:
                for number in range(1, kills + 1):
                    line = killer.kill_one()
                    found[line.split()[0]] += 1
                    print(f"{number:3} {line}", flush=True)
            finally:
                killer.let_go()
        _finish([*command, "--until-empty", "--format", "json"])
        print(f"killed: {dict(found)}; last batch {killer.folder.state().commits}", flush=True)
        compare(sent, Path(name))
        require_sum(sent, Path(name))


def _options(topic: UsageTopic, folder: Path) -> Iterator[str]:
    options: dict[str, str | Path] = {
        "--topic": topic.name,
        "--bootstrap-server": topic.servers,
        "--input-format": "exposition",
        "--cluster": "prod",
        "--broker": "b1",
        "--usage": folder / "usage",
        "--quarantine": folder / "bad",
        "--checkpoint": folder / "checkpoint",
        "--watermark": WATERMARK,
    }
    for option, value in options.items():
        yield from (option, str(value))


def _finish(command: list[str]) -> None:
    """Read the rest."""
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    print(json.loads(done.stdout)["summary"], flush=True)


if __name__ == "__main__":
    main()
