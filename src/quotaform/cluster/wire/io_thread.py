"""kafka-python's event loop on a thread of its own, and work on it that can be given up for good."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import suppress
from threading import Event, Lock, Thread
from time import monotonic
from typing import Any, Final

from quotaform.cluster.wire.hush import hushed

_SLICE: Final = 0.2
"""Seconds after which a thread that waits for an answer looks up for signals."""
_END: Final = 1.0
"""Seconds that the thread is given to end."""


class GivenUpError(Exception):
    """Nobody waits for a call any more: nothing may be sent for it."""


class OverdueError(Exception):
    """A call took too long and was given up.

    Attributes:
        is_sent: Whether its request was handed to a socket; if not, it never will be.
    """

    def __init__(self, *, is_sent: bool) -> None:
        self.is_sent = is_sent
        super().__init__()


class CrashError(Exception):
    """The thread itself failed; what is not sent never will be.

    Attributes:
        is_sent: Whether the request of the call was handed to a socket.
    """

    def __init__(self, *, is_sent: bool) -> None:
        self.is_sent = is_sent
        super().__init__()


class Call:
    """One piece of work on the IO thread, and whether somebody still waits for it."""

    def __init__(self, work: Callable[[Call], Awaitable[Any]]) -> None:
        self.done = Event()
        self.value: Any = None
        self.error: BaseException | None = None
        self._work = work
        self._lock = Lock()
        self._is_given_up = False
        self._is_sent = False

    async def run(self) -> None:
        """Do the work and keep what came of it."""
        try:
            self.value = await self._work(self)
        except Exception as error:
            self.error = error
        finally:
            self.done.set()

    def begin_sending(self) -> None:
        """Say that the request goes out now.

        Raises:
            GivenUpError: It must not.
        """
        with self._lock:
            if self._is_given_up:
                raise GivenUpError
            self._is_sent = True

    def give_up(self) -> bool:
        """Let no request go out from now on; return whether one did."""
        with self._lock:
            self._is_given_up = True
            return self._is_sent


class _End:
    """What the loop looks at to know whether it is over, as a future of kafka-python says it."""

    is_done = False


class IoThread:
    """A thread that drives an event loop until it is closed."""

    def __init__(self, net: Any, name: str) -> None:
        """Start the thread.

        Args:
            net: kafka-python's `NetworkSelector`.
            name: The name of the thread.
        """
        self._net = net
        self._end = _End()
        self._crash: BaseException | None = None
        self._thread = Thread(target=self._drive, name=name, daemon=True)
        self._thread.start()

    def _drive(self) -> None:
        with hushed():
            try:
                self._net.poll(future=self._end)
            except BaseException as error:
                self._crash = error

    def run(self, work: Callable[[Call], Awaitable[Any]], timeout: float) -> Any:
        """Do some work on the thread and wait for what comes of it.

        However the waiting ends, no request goes out afterwards: work that is not done is cancelled.

        Raises:
            OverdueError: It took too long.
            CrashError: The thread failed.
        """
        call = Call(work)
        tasks: list[Any] = []
        deadline = monotonic() + timeout
        try:
            tasks.append(self._net.call_soon_threadsafe(call.run))
            # In slices: a signal that another thread received is acted upon when this one wakes up.
            while not call.done.wait(_SLICE):
                if self._crash is not None:
                    raise CrashError(is_sent=call.give_up()) from self._crash
                if monotonic() > deadline:
                    raise OverdueError(is_sent=call.give_up())
        except BaseException:
            call.give_up()
            if tasks:
                self._cancel(tasks[0])
            raise
        if call.error is not None:
            raise call.error
        return call.value

    def _cancel(self, task: Any) -> None:
        with suppress(Exception):
            self._net.call_soon_threadsafe(lambda: self._net.cancel(task))

    def close(self, last: Callable[[], None]) -> None:
        """Do one last thing on the thread, end it, and let go of everything."""

        def end() -> None:
            try:
                last()
            finally:
                self._end.is_done = True

        with suppress(Exception):
            self._net.call_soon_threadsafe(end)
        self._thread.join(_END)
        if self._thread.is_alive():
            # It hangs in a DNS lookup; nobody waits for that.
            Thread(target=self._finish, name=f"{self._thread.name}-end", daemon=True).start()
        else:
            self._finish()

    def _finish(self) -> None:
        self._thread.join()
        with hushed():
            self._net.close()
