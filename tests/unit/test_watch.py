"""A process that goes on comparing: its rounds, hanging clusters and memory; `story-watch.txt` has what it logs."""

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

from quotaform.cli.option.cluster import Clusters
from quotaform.desired.config import Cluster, Config
from quotaform.desired.loader import LoadedFiles
from quotaform.drift import watch as watch_module
from quotaform.drift.alert import DriftReporter
from quotaform.drift.metric import MetricSample, MetricStore
from quotaform.drift.watch import Watch
from quotaform.model.entity import Entity
from quotaform.model.errors import ClusterError, InvalidFilesError, UsageError
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
            request=request,
            choose=choose,
            reporter=DriftReporter(
                metrics=MetricStore(lambda _: self.metrics, self.warn),
                clock=self.clock,
                warn=self.warn,
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
        key: MetricSample = (f"quotaform_{name}", labels)
        return self.watch.reporter.metrics.samples.get(key)

    @property
    def health(self) -> dict[str, Any]:
        return self.watch.health()[1]


def test_rounds_are_an_interval_apart_with_jitter(tmp_path: Path) -> None:
    world = World(tmp_path, {"eu": SYNC})
    world.watch.jitter = iter([0.0, 0.5, 1.0]).__next__
    world.run(3)
    assert world.clock.pauses == pytest.approx([27.0, 30.0, 33.0])


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
    parse = Mock(side_effect=LoadedFiles)
    monkeypatch.setattr("quotaform.drift.watch.LoadedFiles", parse)
    world.run(10)
    assert parse.call_count == 1
    world.write("quotas.d/all.yaml", DECLARED.replace("2", "9"))
    assert world.run(2) == [
        "the files have changed and were read again",
        "eu: Drift: 1 modified, 0 missing, 0 unexpected; 0 in sync.",
    ]
    assert parse.call_count == 2


def test_a_baseline_is_read_when_it_or_the_files_have_moved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    World(tmp_path, {"eu": SYNC})
    git = GitRepository(tmp_path)
    git.git("init", "-q", "-b", "main")
    git.commit()
    world = World(tmp_path, {"eu": SYNC}, base="HEAD")
    read = Mock(side_effect=read_chosen_base)
    monkeypatch.setattr("quotaform.drift.watch.read_chosen_base", read)
    world.run(3)
    world.write("quotas.d/all.yaml", DECLARED.replace("2", "5"))
    world.run(3)
    git.commit()
    world.run(3)
    assert read.call_count == 3


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
    error = world.watch._compare["eu"]
    assert isinstance(error, InvalidFilesError)
    assert len(list(walk_tb(error.__traceback__))) <= 2


@pytest.mark.parametrize(
    ("text", "option"),
    [
        ("clusters: {}\n", "give --bootstrap-server HOST:PORT"),
        (
            "clusters: {a: {bootstrap_servers: ['a:1']}, b: {bootstrap_servers: ['b:1']}}\n",
            "choose with --cluster, by name or glob",
        ),
    ],
)
def test_a_watch_without_a_choice_of_clusters_names_options(tmp_path: Path, text: str, option: str) -> None:
    """A watch logged `give bootstrap_server HOST:PORT`, with the name of an argument of Python, and no option."""
    (tmp_path / "quotaform.yaml").write_text(text)
    target = Clusters(config=tmp_path / "quotaform.yaml")
    with pytest.raises(UsageError, match=f"{option}$"):
        target.choose(target.repository())
