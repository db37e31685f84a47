"""Signals at every step of an apply: what is reported is true, and there is a receipt once anything may be written.

After Ctrl-C a receipt could call entities `not-attempted` that had been accepted: the signal came between the answer
and its being noted.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random
from signal import SIGINT, raise_signal
from types import FrameType
from typing import Any

import pytest

from quotaform.apply import ledger
from quotaform.apply import run as apply
from quotaform.apply import write as apply_run
from quotaform.apply.audit import AuditFile
from quotaform.apply.ledger import Applied, ClusterPlan, ReceiptKeeper, cluster_lock
from quotaform.apply.run import apply_cluster, apply_plans
from quotaform.desired.config import Cluster
from quotaform.model.entity import Entity
from quotaform.model.errors import NotReadError
from quotaform.plan.receipt import Receipt, Result
from quotaform.plan.receipt_file import load_receipt_file
from quotaform.repository.repository import Repository
from quotaform.system.process import held_signals
from tests import scripted_gateway
from tests.builder import PRODUCER, plan_of
from tests.scripted_gateway import ANSWER_LOST, FINE, REQUEST_LOST, Answer, Clock, ScriptedGateway

pytestmark = pytest.mark.exhaustive

ENTITIES = [Entity(user=name) for name in ("alice", "bob", "carol", "dave")]
PLAN = plan_of({entity: {PRODUCER: 2.0} for entity in ENTITIES}, {})
WHERE = frozenset(str(Path(str(module.__file__))) for module in (apply, apply_run, scripted_gateway)) | {
    str(Path(apply.__file__).parents[1] / "system/process.py")
}
SCRIPTS: dict[str, Sequence[Answer]] = {
    "all well": (),
    "an answer is lost": (FINE, ANSWER_LOST),
    "a request is lost": (FINE, REQUEST_LOST),
}


class Signals:
    """Raises a signal when so many lines of the modules above have been run."""

    def __init__(self, *lines: int, where: frozenset[str] = WHERE) -> None:
        self.seen = 0
        self._where = where
        self._lines = frozenset(lines)

    def _trace(self, frame: FrameType, event: str, argument: Any) -> Any:
        # The operating system takes a lock from a process that ends while it takes or releases one.
        is_lock = frame.f_code.co_name in ("cluster_lock", "_open")
        if frame.f_code.co_filename not in self._where or is_lock:
            return None
        if event == "line":
            self.seen += 1
            if self.seen in self._lines:
                raise_signal(SIGINT)
        return self._trace

    def run(self, do: Callable[[], object]) -> bool:
        """Return whether an interrupt came out."""
        before = sys.gettrace()
        try:
            sys.settrace(self._trace)
            do()
        except KeyboardInterrupt:
            return True
        finally:
            sys.settrace(before)
        return False


class Run(ReceiptKeeper):
    """One apply, with what was kept and shown."""

    def __init__(self, writes: Sequence[Answer], *lines: int) -> None:
        super().__init__(None)
        self.gateway = ScriptedGateway({}, writes=writes, chunk_size=1)
        self.kept: list[Receipt] = []
        self.shown: list[Receipt] = []
        self.signals = Signals(*lines)
        cluster = Cluster(name="lab", bootstrap_servers=())
        self.is_interrupted = self.signals.run(
            lambda: apply_cluster(ClusterPlan(cluster, PLAN), self, clock=Clock(), connect=lambda _: self.gateway)
        )

    def keep(self, receipt: Receipt, saved: Path | None = None) -> Applied[Receipt]:
        self.kept.append(receipt)
        return super().keep(receipt, saved)

    def show(self) -> None:
        self.shown += self.kept

    def require_truth(self) -> None:
        sent = {address for request in self.gateway.sent for address in request}
        if not self.kept:
            assert self.is_interrupted
            assert not sent
            return
        [receipt] = self.kept
        for item in receipt.results:
            holds = self.gateway.quotas.get(item.entity) == {PRODUCER: 2.0}
            if item.result is Result.NOT_ATTEMPTED:
                assert item.entity.address not in sent
            elif item.result is Result.APPLIED:
                assert holds
            else:
                assert item.result in (Result.UNCONFIRMED, Result.UNKNOWN)


@pytest.mark.parametrize("script", SCRIPTS)
def test_a_signal_at_any_line_leaves_a_true_receipt(script: str) -> None:
    whole = Run(SCRIPTS[script])
    assert whole.kept[0].is_complete
    assert whole.signals.seen > 300
    # A script with a loss runs the lines of the others too, again and again: every third of them will do.
    for line in range(1, whole.signals.seen + 1, 3 if SCRIPTS[script] else 1):
        cut = Run(SCRIPTS[script], line)
        cut.require_truth()
        if cut.kept:
            assert cut.shown == cut.kept, "one signal does not keep the receipt from being shown"
            for item in cut.kept[0].results:
                # What was sent was read back.
                assert (item.result is Result.APPLIED) == (item.entity in cut.gateway.quotas), (line, item)


@pytest.mark.parametrize("script", SCRIPTS)
def test_two_signals_at_any_lines_leave_a_true_receipt(script: str) -> None:
    random = Random(7)
    lines = Run(SCRIPTS[script]).signals.seen
    for _ in range(100):
        first = random.randint(1, lines)
        Run(SCRIPTS[script], first, first + random.choice([1, 2, 5, 20, random.randint(1, 200)])).require_truth()


def test_a_signal_at_any_line_leaves_a_receipt_of_what_was_sent_and_no_lock(tmp_path: Path) -> None:
    """With what keeps the lock and the receipts, as whoever calls the use case has it."""
    plans = [ClusterPlan(Cluster(name="lab", bootstrap_servers=()), PLAN)]

    def applied(folder: Path, *lines: int) -> Signals:
        signals = Signals(*lines, where=WHERE | {str(ledger.__file__)})
        gateway = ScriptedGateway({}, chunk_size=1)
        repository = Repository.at(folder / "quotas.d", folder / "quotaform.yaml")
        signals.run(lambda: list(apply_plans(repository, plans, clock=Clock(), connect=lambda _: gateway)))
        found = list((folder / ".quotaform/receipts").glob("*.json"))
        if gateway.sent:
            receipt = load_receipt_file(*found)
            assert receipt.is_started or {item.entity for item in receipt.results if item.result.holds} == set(
                gateway.quotas
            )
        with cluster_lock(folder, "lab", PLAN.header.cluster.id):
            pass
        return signals

    last = applied(tmp_path / "whole").seen
    for line in range(1, last + 1):
        applied(tmp_path / str(line), line)


def test_a_signal_that_comes_when_all_is_done_is_told_by_the_outcome(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    finish = AuditFile.finish

    def interrupted(*arguments: Any) -> Any:
        raise_signal(SIGINT)
        return finish(*arguments)

    monkeypatch.setattr(AuditFile, "finish", interrupted)
    cluster = Cluster(name="lab", bootstrap_servers=())
    plans = [ClusterPlan(cluster, PLAN), ClusterPlan(Cluster(name="next", bootstrap_servers=()), PLAN)]
    repository = Repository.at(tmp_path / "quotas.d", tmp_path / "quotaform.yaml")
    outcome, left = apply_plans(repository, plans, clock=Clock(), connect=lambda _: ScriptedGateway({}))
    assert isinstance(left.error, NotReadError)
    applied = outcome.require()
    assert applied.path is not None
    assert load_receipt_file(applied.path).interrupted_by is None
    assert applied.receipt.interrupted_by == "SIGINT"
    assert applied.receipt.is_complete


def test_an_internal_error_of_one_cluster_hides_no_other(tmp_path: Path) -> None:
    """The clusters behind it were neither applied nor named."""
    broken = ScriptedGateway({}, writes=[Answer(raises=TypeError("a mistake"))])
    gateways = {"lab": broken, "next": ScriptedGateway({})}
    plans = [ClusterPlan(Cluster(name=name, bootstrap_servers=()), PLAN) for name in gateways]
    repository = Repository.at(tmp_path / "quotas.d", tmp_path / "quotaform.yaml")
    outcomes = apply_plans(repository, plans, clock=Clock(), connect=lambda cluster: gateways[cluster.name])
    first, second = (outcome.require().receipt for outcome in outcomes)
    assert first.internal_error == "TypeError: a mistake"
    assert second.is_complete


def test_while_a_receipt_is_shown_a_second_signal_ends_it(tmp_path: Path) -> None:
    """A reader that does not read could not be got rid of."""
    steps = []

    def show(cluster: Cluster, applied: Applied[Receipt]) -> None:
        for step in range(3):
            steps.append(step)
            raise_signal(SIGINT)

    cluster = Cluster(name="lab", bootstrap_servers=())
    gateway = ScriptedGateway({})
    repository = Repository.at(tmp_path / "quotas.d", tmp_path / "quotaform.yaml")
    plans = [ClusterPlan(cluster, PLAN)]
    [outcome] = apply_plans(repository, plans, show=show, clock=Clock(), connect=lambda _: gateway)
    assert steps == [0, 1]
    assert outcome.require().receipt.interrupted_by == "SIGINT"


def test_a_signal_that_was_held_interrupts_where_it_may() -> None:
    log = []
    with pytest.raises(KeyboardInterrupt), held_signals(holds_all=True) as signals:  # noqa: PT012
        raise_signal(SIGINT)
        raise_signal(SIGINT)
        log.append("held")
        with pytest.raises(KeyboardInterrupt), signals.let_through():
            log.append("not reached")
        log.append("handled")
    assert log == ["held", "handled"]
