"""A process that goes on comparing: rounds, failures, reloads, and memory that stays as it is."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable
from concurrent.futures import Future, wait
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event
from traceback import walk_tb
from typing import Any
from unittest.mock import Mock

import pytest

from quotaform.desired.config import Cluster, Config
from quotaform.desired.loader import LoadedFiles
from quotaform.drift import watch as watch_module
from quotaform.drift.alert import AlertOptions, DriftAlerts, DriftReporter, MetricStore
from quotaform.drift.metric import Sample
from quotaform.drift.watch import Watch, WatchedFiles
from quotaform.model.entity import Entity
from quotaform.model.errors import ClusterError, InvalidFilesError
from quotaform.model.quotas import Quotas
from quotaform.model.settings import PruneMode
from quotaform.plan.base import BaseChoice, read_chosen_base
from quotaform.plan.run import PlanRequest
from quotaform.repository.repository import Repository, Target
from tests.builder import PRODUCER
from tests.git_repository import GitRepository
from tests.scripted_gateway import Clock, ScriptedGateway

ALICE = Entity(user="alice")
DECLARED = f"quotas: [{{match: {{user: alice}}, values: {{{PRODUCER}: 2}}}}]\n"
SYNC: Quotas = {ALICE: {PRODUCER: 2.0}}
DRIFT: Quotas = {ALICE: {PRODUCER: 9.0}}


class Rounds(Clock):
    """A clock that interrupts after some rounds, and does something between them."""

    def __init__(self, between: Callable[[int], None] = lambda _: None) -> None:
        super().__init__()
        self.left = 1
        self.number = 0
        self.between = between

    def sleep(self, seconds: float) -> None:
        super().sleep(seconds)
        self.number += 1
        self.left -= 1
        if self.left <= 0:
            raise KeyboardInterrupt
        self.between(self.number)


@pytest.fixture(autouse=True)
def _few_objects() -> None:
    """Look through no objects of earlier tests: a watch collects garbage whenever the files have changed."""
    gc.freeze()


@dataclass
class World:
    """A folder with files, clusters by name (quotas, or why they are down), and a process that watches them."""

    folder: Path
    live: dict[str, Quotas | ClusterError | Callable[[], Quotas]]
    clock: Rounds = field(default_factory=Rounds)
    interval: float = 30.0
    base: str | None = None
    metrics: Path | None = None
    lines: list[str] = field(default_factory=list)
    asked: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.write("quotas.d/all.yaml", DECLARED)
        self.configure(*self.live)
        repository = Repository.at(self.folder / "quotas.d", None)

        def choose(config: Config) -> tuple[Cluster, ...]:
            return repository.clusters(config, Target(takes_all=True))

        config = repository.config()
        request = PlanRequest(
            repository=repository,
            config=config,
            clusters=choose(config),
            base=None if self.base is None else BaseChoice(refs=(self.base,)),
            prune=PruneMode.REPORT,
        )
        self.watch = Watch(
            files=WatchedFiles(request, choose),
            reporter=DriftReporter(
                metrics=MetricStore(lambda _: self.metrics, self.warn, is_deferred=True),
                alerts=DriftAlerts(options=AlertOptions(), clock=self.clock, warn=self.warn),
                clock=self.clock,
            ),
            connect=self.connect,
            clock=self.clock,
            interval=self.interval,
            jitter=lambda: 0.5,
            log=lambda line: self.lines.append(line),
        )

    def warn(self, warning: str) -> None:
        self.lines.append(warning)

    def write(self, name: str, text: str) -> None:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")

    def configure(self, *names: str, more: str = "") -> None:
        clusters = "".join(f"  {name}: {{bootstrap_servers: ['{name}:9092']}}\n" for name in names)
        self.write("quotaform.yaml", f"clusters:\n{clusters}{more}")

    def connect(self, cluster: Cluster) -> ScriptedGateway:
        self.asked.append(cluster.name)
        live = self.live[cluster.name]
        if isinstance(live, ClusterError):
            raise ClusterError(str(live))
        return ScriptedGateway(live() if callable(live) else live)

    def run(self, rounds: int = 1) -> list[str]:
        """Make rounds, and return the lines that were logged."""
        self.clock.left = rounds
        with suppress(KeyboardInterrupt):
            self.watch.run()
        lines, self.lines = self.lines, []
        return lines

    def sample(self, name: str, *labels: str) -> float | None:
        key: Sample = (f"quotaform_{name}", labels)
        return self.watch.reporter.metrics.samples.get(key)

    @property
    def health(self) -> dict[str, Any]:
        return self.watch.health()[1]


def test_a_line_is_logged_when_something_changes_and_not_at_every_round(tmp_path: Path) -> None:
    world = World(tmp_path, {"eu": SYNC})
    assert world.run(5) == ["eu: No drift. 1 declared entity matches the cluster."]
    world.live["eu"] = DRIFT
    assert world.run(5) == ["eu: Drift: 1 modified, 0 missing, 0 unexpected; 0 in sync."]
    world.live["eu"] = SYNC
    assert world.run(5) == ["eu: No drift. 1 declared entity matches the cluster."]
    assert world.sample("drift_entities", "eu", "modified") == 0


def test_rounds_are_an_interval_apart_with_jitter(tmp_path: Path) -> None:
    world = World(tmp_path, {"eu": SYNC})
    world.watch.jitter = iter([0.0, 0.5, 1.0]).__next__
    world.run(3)
    assert world.clock.pauses == pytest.approx([27.0, 30.0, 33.0])


def test_a_cluster_that_is_down_is_asked_less_often_and_keeps_its_metrics(tmp_path: Path) -> None:
    world = World(tmp_path, {"eu": SYNC, "us": DRIFT})
    world.run()
    world.live["us"] = ClusterError("us is down")
    world.asked.clear()
    assert world.run(40) == ["us: us is down"]
    assert world.asked.count("eu") == 40
    assert world.asked.count("us") == 7  # after 1, 1, 2, 4, 8, 10, 10 rounds
    assert world.sample("drift_entities", "us", "modified") == 1
    assert world.sample("last_run_success", "us", "drift") == 0
    assert world.sample("last_run_success", "eu", "drift") == 1
    assert world.health["status"] == "degraded"
    assert world.health["clusters"]["us"]["status"] == "failed"
    world.live["us"] = SYNC
    assert world.run(10) == ["us: No drift. 1 declared entity matches the cluster."]
    assert world.health["status"] == "ok"


def test_a_cluster_that_hangs_keeps_no_other_waiting_and_is_not_asked_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    is_over = Event()

    def hang() -> Quotas:
        is_over.wait(60)
        return SYNC

    def wait_for_eu(checks: list[Future[None]], timeout: float) -> None:
        assert timeout == 30
        wait(checks[:1], timeout=60)

    monkeypatch.setattr(watch_module, "wait", wait_for_eu)
    world = World(tmp_path, {"eu": SYNC, "us": hang}, interval=30)
    try:
        world.run(4)
        assert world.asked.count("eu") == 4
        assert world.asked.count("us") == 1
        assert world.health["clusters"]["us"]["status"] == "waiting"
        assert world.health["status"] == "starting"
    finally:
        is_over.set()


def test_a_mistake_in_a_check_that_ends_after_its_round_is_not_lost(tmp_path: Path) -> None:
    """Only the checks of the same round were asked for what they raised."""
    is_over = Event()

    def hang() -> Quotas:
        is_over.wait(60)
        return SYNC

    world = World(tmp_path, {"us": hang}, interval=0.05)
    world.watch.reporter = Mock(report=Mock(side_effect=[RuntimeError("broken"), None]))
    try:
        world.run()
    finally:
        is_over.set()
    check = world.watch._clusters["us"].check
    assert check is not None
    wait([check], timeout=60)
    with pytest.raises(RuntimeError, match="broken"):
        world.run()


def test_changed_files_are_read_again_and_unchanged_ones_are_not_parsed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = World(tmp_path, {"eu": SYNC})
    parse = Mock(side_effect=WatchedFiles._parse)
    monkeypatch.setattr(WatchedFiles, "_parse", lambda *given: parse(*given))
    world.run(10)
    assert parse.call_count == 1
    world.write("quotas.d/all.yaml", DECLARED.replace("2", "9"))
    assert world.run(2) == [
        "the files have changed and were read again",
        "eu: Drift: 1 modified, 0 missing, 0 unexpected; 0 in sync.",
    ]
    assert parse.call_count == 2


def test_an_entry_that_expires_is_noticed(tmp_path: Path) -> None:
    world = World(tmp_path, {"eu": SYNC}, interval=3600)
    world.write("quotas.d/all.yaml", DECLARED.replace("values", "expires: 2026-11-21, values"))
    lines = world.run(24)
    assert lines[0] == "eu: No drift. 1 declared entity matches the cluster."
    assert lines[-1] == "eu: Drift: 0 modified, 0 missing, 1 unexpected; 0 in sync."


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("quotas.d/all.yaml", "quotas: [\n", "quotas.d/all.yaml:2:1: error: not valid YAML"),
        ("quotaform.yaml", "clusters: 7\n", "the files cannot be used: "),
        ("quotaform.yaml", "", "the files cannot be used: "),
    ],
)
def test_invalid_files_are_said_once_and_the_last_metrics_stay(tmp_path: Path, name: str, text: str, said: str) -> None:
    world = World(tmp_path, {"eu": DRIFT})
    world.run()
    assert world.health == {
        "status": "ok",
        "files": "ok",
        "clusters": {"eu": {"status": "drift", "checked_at": "2026-11-20T09:12:44+00:00"}},
    }
    before = (tmp_path / name).read_text()
    world.write(name, text)
    lines = [line for line in world.run(5) if line != "the files have changed and were read again"]
    assert len(lines) == 1
    assert said in lines[0]
    assert "\n" not in lines[0], "a log has an event on a line"
    assert (world.health["status"], world.health["files"]) == ("degraded", "invalid")
    assert world.sample("drift_entities", "eu", "modified") == 1
    assert world.sample("last_run_success", "eu", "drift") == 0
    world.write(name, before)
    assert world.run(2)[-1] == "eu: Drift: 1 modified, 0 missing, 0 unexpected; 0 in sync."
    assert (world.health["status"], world.health["files"]) == ("ok", "ok")
    assert world.sample("last_run_success", "eu", "drift") == 1


def test_another_problem_of_the_files_is_logged_too(tmp_path: Path) -> None:
    """Once files were invalid, no other problem of them was logged: a first mistake hid those that followed."""
    world = World(tmp_path, {"eu": SYNC})
    world.write("quotas.d/all.yaml", "quotas: [{match: {user: alice}}]\n")
    (line,) = world.run(3)
    assert "declares no values" in line
    (tmp_path / "quotas.d/all.yaml").unlink()
    lines = world.run(3)
    assert lines[0] == "the files have changed and were read again"
    assert lines[1].startswith("eu: ")
    assert len(lines) == 2


def test_clusters_come_and_go_with_quotaform_yaml(tmp_path: Path) -> None:
    world = World(tmp_path, {"eu": SYNC, "us": SYNC})
    world.run()
    world.live["new"] = DRIFT
    world.configure("eu", "new")
    world.run()
    assert set(world.health["clusters"]) == {"eu", "new"}
    assert world.sample("managed_entities", "us") is None
    assert world.sample("drift_entities", "new", "modified") == 1


def test_metrics_are_written_once_a_round_for_all_clusters_that_there_are(tmp_path: Path) -> None:
    path = tmp_path / "q.prom"
    world = World(tmp_path, {"eu": SYNC, "us": DRIFT}, metrics=path)
    world.watch.is_alone = True
    world.run()
    assert 'quotaform_drift_entities{class="modified",cluster="us"} 1.0' in path.read_text()
    world.live["new"] = DRIFT
    world.configure("eu", "new")
    world.run()
    assert 'quotaform_drift_entities{class="modified",cluster="new"} 1.0' in path.read_text()
    assert 'cluster="us"' not in path.read_text()


def test_metrics_that_cannot_be_written_are_said_once(tmp_path: Path) -> None:
    world = World(tmp_path, {"eu": SYNC}, metrics=tmp_path / "none" / "q.prom")
    lines = [line for line in world.run(3) if "q.prom" in line]
    assert len(lines) == 1
    (tmp_path / "none").mkdir()
    assert world.run() == []
    assert (tmp_path / "none" / "q.prom").exists()


def test_drift_ignore_is_read_again(tmp_path: Path) -> None:
    world = World(tmp_path, {"eu": DRIFT})
    world.run()
    world.configure("eu", more="drift_ignore: [{match: {user: 'a*'}, reason: test, expires: 2026-12-31}]\n")
    assert world.run(2)[-1] == "eu: No drift. 0 declared entities match the cluster; 1 ignored."


def test_what_another_repository_declares_is_no_drift_as_long_as_it_does(tmp_path: Path) -> None:
    world = World(tmp_path / "one", {"eu": {**SYNC, Entity(user="bob"): {PRODUCER: 1.0}}})
    world.configure("eu", more="roots: [../two]\n")
    other = "quotas: [{match: {user: bob}, values: {producer_byte_rate: 1}}]\n"
    world.write("../two/quotaform.yaml", (tmp_path / "one" / "quotaform.yaml").read_text().partition("roots")[0])
    world.write("../two/quotas.d/all.yaml", other)
    assert world.run(3) == ["eu: No drift. 1 declared entity matches the cluster."]
    world.write("../two/quotas.d/all.yaml", "quotas: []\n")
    assert world.run(3)[-1:] == ["eu: Drift: 0 modified, 0 missing, 1 unexpected; 1 in sync."]
    world.write("../two/quotas.d/all.yaml", other)
    assert world.run(3)[-1:] == ["eu: No drift. 1 declared entity matches the cluster."]


def test_a_baseline_that_moves_is_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(tmp_path, {"eu": SYNC})
    git = GitRepository(tmp_path)
    git.git("init", "-q", "-b", "main")
    git.commit()
    world = World(tmp_path, {"eu": SYNC}, base="HEAD")
    read = Mock(side_effect=read_chosen_base)
    monkeypatch.setattr("quotaform.drift.watch.read_chosen_base", read)
    assert world.run(3) == ["eu: No drift. 1 declared entity matches the cluster."]
    world.write("quotas.d/all.yaml", DECLARED.replace("2", "5"))
    assert world.run(3)[-1] == "eu: No drift. 0 declared entities match the cluster; 1 pending."
    assert world.sample("pending_changes", "eu", "update") == 1
    git.commit()
    assert world.run(3)[-1] == "eu: Drift: 1 modified, 0 missing, 0 unexpected; 0 in sync."
    assert read.call_count == 3


def test_a_baseline_that_is_gone_is_said_and_never_in_sync(tmp_path: Path) -> None:
    world = World(tmp_path, {"eu": SYNC}, base="HEAD")
    (line,) = world.run(3)
    assert "the files cannot be used: the base HEAD cannot be read" in line
    assert world.health["status"] == "degraded"


def test_a_mistake_of_our_own_is_a_failed_check(tmp_path: Path) -> None:
    def break_down() -> Quotas:
        raise ZeroDivisionError("oops")

    world = World(tmp_path, {"eu": SYNC, "us": break_down})
    lines = world.run(3)
    assert "us: internal error: ZeroDivisionError: oops; please report it" in lines
    assert world.health["clusters"]["eu"]["status"] == "in-sync"


def test_a_process_that_makes_no_rounds_says_so(tmp_path: Path) -> None:
    world = World(tmp_path, {"eu": SYNC})
    world.run()
    assert world.watch.health()[0]
    world.clock.seconds += 301
    is_alive, document = world.watch.health()
    assert not is_alive
    assert document["status"] == "stalled"


@pytest.mark.exhaustive
def test_memory_stays_as_it_is_over_a_thousand_rounds(tmp_path: Path) -> None:
    entities = {Entity(user=f"u{number}"): {PRODUCER: float(number + 1)} for number in range(20)}
    world = World(tmp_path, {"eu": entities, "us": ClusterError("down")})
    states = [entities, SYNC, {}, {**entities, ALICE: {PRODUCER: 1.0}}]
    world.clock.between = lambda number: world.live.update(eu=states[number % 4])
    world.run(200)
    blocks = []
    for _ in range(4):
        world.run(250)
        world.clock.pauses.clear()
        world.asked.clear()
        gc.collect()
        blocks.append(sys.getallocatedblocks())
    assert blocks[-1] - blocks[0] < 250, blocks
    assert world.clock.number == 1200


def test_files_that_change_again_and_again_are_not_kept(tmp_path: Path) -> None:
    """Files held on to those that they were read after: a watch grew with each change of the repository."""

    def held() -> int:
        gc.collect()
        return sum(isinstance(each, LoadedFiles) for each in gc.get_objects())

    world, before = World(tmp_path, {"eu": SYNC}), held()
    world.clock.between = lambda number: world.write("quotas.d/all.yaml", DECLARED.replace("2", str(number + 2)))
    lines = world.run(8)
    assert lines.count("the files have changed and were read again") == 7
    assert held() - before <= 2


def test_an_error_of_the_files_that_stays_holds_on_to_no_round(tmp_path: Path) -> None:
    """It is raised at each round, and its traceback had the frames of all of them."""
    world = World(tmp_path, {"eu": SYNC})
    world.write("quotas.d/all.yaml", "quotas: [\n")
    world.run(20)
    state = world.watch._state
    assert state is not None
    error = state.desired["eu"]
    assert isinstance(error, InvalidFilesError)
    assert len(list(walk_tb(error.__traceback__))) <= 2


def test_a_repository_that_cannot_be_read_at_the_start_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(InvalidFilesError):
        World(tmp_path, {"bad name": SYNC})
