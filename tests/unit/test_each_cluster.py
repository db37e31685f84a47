"""Many clusters are worked on at a time, each has an outcome of its own; and signals are held meanwhile."""

from __future__ import annotations

import signal
import threading
from threading import Barrier, Event
from typing import Any

import pytest

from quotaform.cluster.gateway import Gateway
from quotaform.desired.config import Cluster
from quotaform.model.errors import ClusterError
from quotaform.model.outcome import Progress
from quotaform.repository.gateway import AT_ONCE, work_on
from quotaform.system.process import held_signals
from tests.scripted_gateway import ScriptedGateway


def clusters(count: int) -> tuple[Cluster, ...]:
    return tuple(Cluster(name=f"c{number}") for number in range(count))


def connect(_: Cluster) -> ScriptedGateway:
    return ScriptedGateway({})


def outcomes(count: int, work: Any, connect: Any = connect) -> list[object]:
    return [outcome.error or outcome.value for outcome in work_on(clusters(count), work, connect)]


def test_clusters_are_worked_on_at_a_time() -> None:
    all_here = Barrier(AT_ONCE, timeout=60)

    def work(cluster: Cluster, gateway: Gateway, progress: Progress) -> str:
        all_here.wait()
        return cluster.name

    assert outcomes(AT_ONCE, work) == [f"c{number}" for number in range(AT_ONCE)]


def test_a_mistake_of_our_own_is_no_outcome() -> None:
    def work(cluster: Cluster, gateway: Gateway, progress: Progress) -> None:
        raise RuntimeError("a mistake")

    with pytest.raises(RuntimeError, match="a mistake"):
        outcomes(1, work)


def test_more_clusters_than_threads_all_have_an_outcome_in_their_order_and_their_gateways_are_closed() -> None:
    opened: list[ScriptedGateway] = []

    def reach(cluster: Cluster) -> ScriptedGateway:
        opened.append(ScriptedGateway({}))
        return opened[-1]

    assert outcomes(100, lambda cluster, *_: cluster.name, reach) == [f"c{number}" for number in range(100)]
    assert [gateway.log for gateway in opened] == [["close"]] * 100


def test_an_interrupt_waits_for_no_cluster_and_closes_what_is_open() -> None:
    class Waiting(ScriptedGateway):
        """Waits for a broker until it is closed."""

        closed = Event()

        def close(self) -> None:
            self.closed.set()

    begun = Event()

    def work(cluster: Cluster, gateway: Gateway, progress: Progress) -> None:
        begun.set()
        assert Waiting.closed.wait(60)
        raise ClusterError("closed")

    def interrupt(what: str, done: int, total: int) -> None:
        assert begun.wait(60)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        list(work_on(clusters(1), work, lambda _: Waiting({}), interrupt))
    assert Waiting.closed.is_set()


def test_what_was_finished_before_an_interrupt_is_yielded_although_an_earlier_cluster_still_hangs() -> None:
    """Sections of clusters that were read long ago were lost with the one that hung."""
    over = Event()

    def work(cluster: Cluster, gateway: Gateway, progress: Progress) -> str:
        if cluster.name in ("c1", "c3"):
            assert over.wait(60)
        return cluster.name

    def interrupt(what: str, done: int, total: int) -> None:
        if what == "Waiting for c1, c3":
            assert (done, total) == (4, 6)
            raise KeyboardInterrupt

    found = []

    def collect() -> None:
        for outcome in work_on(clusters(6), work, connect, interrupt, {"c4": ClusterError("invalid")}):
            found.append(outcome.value or str(outcome.error))  # noqa: PERF401

    with pytest.raises(KeyboardInterrupt):
        collect()
    over.set()
    assert found == ["c0", "c2", "invalid", "c5"]


@pytest.mark.slow
def test_progress_names_the_clusters_and_is_repeated_while_one_is_waited_for() -> None:
    """On a terminal nothing was shown for the ten seconds in which a cluster was connected to."""
    told: list[str] = []
    begun, over = Event(), Event()

    def listen(what: str, done: int, total: int) -> None:
        told.append(what)
        if told.count(what) == 3:
            over.set()

    def work(cluster: Cluster, gateway: Gateway, progress: Progress) -> None:
        begun.set()
        assert over.wait(60)

    list(work_on(clusters(1), work, connect, listen))
    assert told[:3] == ["Reading quotas of c0"] * 3
    told.clear()
    list(work_on(clusters(5), lambda *_: None, connect, listen))
    assert told[0] == "Reading quotas of c0, c1, c2 and 2 more"


def test_a_signal_ends_what_the_block_waits_for_and_is_delivered_in_place_of_the_error() -> None:
    waits = threading.Event()
    with pytest.raises(KeyboardInterrupt), held_signals(on_first=waits.set):  # noqa: PT012
        signal.raise_signal(signal.SIGINT)
        assert waits.is_set()
        raise ConnectionError


def test_the_error_stays_where_no_signal_is_the_cause_of_it() -> None:
    with pytest.raises(ConnectionError), held_signals(on_first=threading.Event().set):
        raise ConnectionError


def test_the_error_stays_where_the_handler_of_the_signal_raises_nothing() -> None:
    came: list[int] = []
    before = signal.signal(signal.SIGINT, lambda number, _: came.append(number))
    try:
        with pytest.raises(ConnectionError), held_signals(on_first=threading.Event().set):  # noqa: PT012
            signal.raise_signal(signal.SIGINT)
            raise ConnectionError
    finally:
        signal.signal(signal.SIGINT, before)
    assert came == [signal.SIGINT]
