"""How far the tasks of a job are, reported while the driver waits for them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from threading import Event, Thread
from typing import TYPE_CHECKING, Any, Final

from quotaform.cluster.gateway import Progress
from quotaform.spark.session.connect import is_connect

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_INTERVAL: Final = 0.5

Tasks = Callable[[], tuple[int, int]]
"""Returns how many tasks are done, and how many there are."""


@contextmanager
def reported(what: str, progress: Progress) -> Iterator[None]:
    """Report again and again what the block does: how long a step takes before it is shown is for the reader to say.

    Args:
        progress: Called about twice a second, from another thread.
    """
    progress(what, 0, 0)
    with _repeated(lambda _: progress(what, 0, 0)):
        yield


@contextmanager
def reported_tasks(spark: SparkSession, what: str, items: int, progress: Progress) -> Iterator[None]:
    """Report how far the tasks of the block are, as so many items.

    Args:
        items: How many items all tasks have together, such as clusters.
        progress: Called about twice a second, from another thread.
    """
    progress(what, 0, items)
    shown = 0
    with _tasks(spark) as tasks:

        def report(over: Event) -> None:
            nonlocal shown
            done, total = tasks()
            if total and not over.is_set():
                # A later stage of the job begins again, after all of the work.
                shown = max(shown, items * done // total)
                progress(what, shown, items)

        with _repeated(report):
            yield


@contextmanager
def _repeated(report: Callable[[Event], None]) -> Iterator[None]:
    """Call a function again and again from another thread, with an event that is set when the block is over."""
    over = Event()

    def repeat() -> None:
        while not over.wait(_INTERVAL):
            report(over)

    thread = Thread(target=repeat, name="quotaform-progress", daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


@contextmanager
def _tasks(spark: SparkSession) -> Iterator[Tasks]:
    if is_connect(spark):
        with _tasks_of_connect(spark) as tasks:
            yield tasks
        return
    context = spark.sparkContext
    tracker = context.statusTracker()

    def tasks_of_context() -> tuple[int, int]:
        infos = [tracker.getStageInfo(stage) for stage in tracker.getActiveStageIds()]
        return _sum((info.numCompletedTasks, info.numTasks) for info in infos if info is not None)

    yield tasks_of_context


@contextmanager
def _tasks_of_connect(spark: Any) -> Iterator[Tasks]:
    last = (0, 0)

    def note(stages: Iterable[Any], inflight_tasks: int, operation_id: str | None, done: bool) -> None:
        nonlocal last
        last = _sum((stage.num_completed_tasks, stage.num_tasks) for stage in stages)

    spark.registerProgressHandler(note)
    try:
        yield lambda: last
    finally:
        spark.removeProgressHandler(note)


def _sum(counts: Iterable[tuple[int, int]]) -> tuple[int, int]:
    done, total = 0, 0
    for completed, tasks in counts:
        done, total = done + completed, total + tasks
    return done, total
