"""A connection whose answers are a script, for what becomes of requests when brokers misbehave."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from quotaform.cluster.wire.cluster_connection import ClusterConnection

Step = Callable[[Sequence[Any]], Any]


class ScriptedConnection(ClusterConnection):
    """Answers each request with the next step of a script: a function of its alterations, or an error to raise."""

    def __init__(self, script: Iterable[Step | BaseException]) -> None:
        self.cluster_id = "scripted"
        self.brokers = {}
        self.versions = {}
        self._script = list(script)
        self.requests: list[Any] = []
        self.timeouts: list[float] = []

    def send(self, request: Any, *, timeout: float, silence: float | None = None) -> Any:
        self.requests.append(request)
        self.timeouts.append(timeout)
        step = self._script.pop(0)
        if isinstance(step, BaseException):
            raise step
        return step(getattr(request, "alterations", ()))

    def close(self) -> None:
        pass
