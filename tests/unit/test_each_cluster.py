"""Many clusters are worked on at a time, and each has an outcome of its own."""

from __future__ import annotations

from threading import Barrier, Event
from typing import Any

import pytest

from quotaform.cluster.gateway import Gateway
from quotaform.desired.config import Cluster
from quotaform.model.errors import ClusterError
from quotaform.repository.cluster_work import AT_ONCE, ClusterWork, Steps
from tests.scripted_gateway import ScriptedGateway


def clusters(count: int) -> tuple[Cluster, ...]:
    return tuple(Cluster(name=f"c{number}") for number in range(count))


def connect(_: Cluster) -> ScriptedGateway:
    return ScriptedGateway({})


def outcomes(count: int, work: Any, connect: Any = connect) -> list[object]:
    with ClusterWork(clusters(count), work, connect) as working:
        return [outcome.error or outcome.value for outcome in map(working.outcome, clusters(count))]


def test_clusters_are_worked_on_at_a_time() -> None:
    all_here = Barrier(AT_ONCE, timeout=60)

    def work(cluster: Cluster, gateway: Gateway) -> str:
        all_here.wait()
        return cluster.name

    assert outcomes(AT_ONCE, work) == [f"c{number}" for number in range(AT_ONCE)]


def test_a_mistake_of_our_own_is_no_outcome() -> None:
    def work(cluster: Cluster, gateway: Gateway) -> None:
        raise RuntimeError("a mistake")

    with pytest.raises(RuntimeError, match="a mistake"):
        outcomes(1, work)


def test_more_clusters_than_threads_all_have_an_outcome_in_their_order_and_their_gateways_are_closed() -> None:
    opened: list[ScriptedGateway] = []

    def reach(cluster: Cluster) -> ScriptedGateway:
        opened.append(ScriptedGateway({}))
        return opened[-1]

    assert outcomes(100, lambda cluster, gateway: cluster.name, reach) == [f"c{number}" for number in range(100)]
    assert [gateway.log for gateway in opened] == [["close"]] * 100


def test_an_interrupt_waits_for_no_cluster_and_closes_what_is_open() -> None:
    class Waiting(ScriptedGateway):
        """Waits for a broker until it is closed."""

        closed = Event()

        def close(self) -> None:
            self.closed.set()

    begun = Event()

    def work(cluster: Cluster, gateway: Gateway) -> None:
        begun.set()
        assert Waiting.closed.wait(60)
        raise ClusterError("closed")

    def interrupted() -> None:
        with ClusterWork(clusters(1), work, lambda _: Waiting({})):
            assert begun.wait(60)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert Waiting.closed.is_set()


def test_what_was_finished_before_an_interrupt_is_yielded_although_an_earlier_cluster_still_hangs() -> None:
    """Sections of clusters that were read long ago were lost with the one that hung."""
    over = Event()

    def work(cluster: Cluster, gateway: Gateway) -> str:
        if cluster.name in ("c1", "c3"):
            assert over.wait(60)
        return cluster.name

    def interrupt(what: str, done: int, total: int) -> None:
        if what == "Waiting for c1, c3":
            assert (done, total) == (4, 6)
            raise KeyboardInterrupt

    found = []

    def collect() -> None:
        with ClusterWork(clusters(6), work, connect) as working:
            for outcome in working.outcomes({"c4": ClusterError("invalid")}, Steps(interrupt)):
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

    def work(cluster: Cluster, gateway: Gateway) -> None:
        begun.set()
        assert over.wait(60)

    with ClusterWork(clusters(1), work, connect) as working:
        list(working.outcomes({}, Steps(listen)))
    assert told[:3] == ["Reading quotas of c0"] * 3
    told.clear()
    with ClusterWork(clusters(5), lambda cluster, gateway: None, connect) as working:
        list(working.outcomes({}, Steps(listen)))
    assert told[0] == "Reading quotas of c0, c1, c2 and 2 more"
