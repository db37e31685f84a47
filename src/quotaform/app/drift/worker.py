"""Threads that check clusters, kept from one round to the next."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from queue import SimpleQueue
from threading import Lock, Thread

from quotaform.app.each_cluster import AT_ONCE


class Workers:
    """Threads that end with the process; there are at most as many as clusters are worked on at a time."""

    def __init__(self) -> None:
        self._todo: SimpleQueue[tuple[Callable[[], None], Future[None]]] = SimpleQueue()
        self._count = 0
        self._free = 0
        """How many threads have nothing to do; below zero, how much waits for a thread."""
        self._lock = Lock()

    def submit(self, work: Callable[[], None]) -> Future[None]:
        """Have something done."""
        done: Future[None] = Future()
        with self._lock:
            # Counted here and not by the thread that takes it: until then it would seem free, and what comes next would
            # wait for it to end.
            is_needed = self._free <= 0 and self._count < AT_ONCE
            self._count += is_needed
            self._free += is_needed - 1
        self._todo.put((work, done))
        if is_needed:
            Thread(target=self._run, name="quotaform-watch", daemon=True).start()
        return done

    def _run(self) -> None:
        while True:
            work, done = self._todo.get()
            problem: BaseException | None = None
            try:
                work()
            except BaseException as error:
                problem = error
            with self._lock:
                self._free += 1
            if problem is None:
                done.set_result(None)
            else:
                done.set_exception(problem)
            del work, done, problem
