"""A connection whose answers are a script, for what becomes of requests when brokers misbehave."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

Step = Callable[[Sequence[Any]], Any]


class ScriptedConnection:
    """Answers each request with the next step of a script: a function of its alterations, or an error to raise."""

    cluster_id: str | None = "scripted"

    def __init__(self, script: Iterable[Step | BaseException]) -> None:
        self._script = list(script)
        self.brokers: Mapping[int, Any] = {}
        self.versions: Mapping[int, tuple[int, int]] = {}
        self.requests: list[Any] = []
        self.timeouts: list[float] = []

    def send(self, request: Any, *, timeout: float, silence: float | None = None) -> Any:
        self.requests.append(request)
        self.timeouts.append(timeout)
        step = self._script.pop(0)
        if isinstance(step, BaseException):
            raise step
        return step(getattr(request, "alterations", ()))

    def send_to(self, node_id: int, request: Any, *, timeout: float) -> Any:
        raise NotImplementedError

    def close(self) -> None:
        pass
