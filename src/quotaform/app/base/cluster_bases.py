"""The base of each of many clusters, made when somebody asks for it: on Spark, where the cluster is planned."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from threading import Lock
from typing import Any

from quotaform.core.cluster_base import ClusterBase


class ClusterBases(Mapping[str, ClusterBase]):
    """What the base is for each cluster, by its name. Threads may share this; it can be pickled."""

    def __init__(self, names: Sequence[str]) -> None:
        """Start with nothing made. `names` are the names of the clusters."""
        self._names = dict.fromkeys(names)
        self._made: dict[str, ClusterBase] = {}
        self._lock = Lock()

    @abstractmethod
    def make(self, name: str) -> ClusterBase:
        """Return the base of a cluster."""

    def release(self, name: str) -> None:
        """Let go of what is known of one cluster alone, which is made again if somebody asks for it again."""
        self._made.pop(name, None)

    def __getitem__(self, name: str) -> ClusterBase:
        if name not in self._names:
            raise KeyError(name)
        with self._lock:
            if name not in self._made:
                self._made[name] = self.make(name)
            return self._made[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_made": {}, "_lock": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._lock = Lock()


class SameBase(ClusterBases):
    """One base for all clusters."""

    def __init__(self, names: Sequence[str], base: ClusterBase) -> None:
        """Note the base. `names` are the names of the clusters."""
        super().__init__(names)
        self._base = base

    def make(self, name: str) -> ClusterBase:
        """Return the base."""
        return self._base
