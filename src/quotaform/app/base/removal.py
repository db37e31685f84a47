"""What the files declared before and do not declare any more, by the commits that git holds.

What a file says that is not there any more in the next step of its history was removed by that step. The steps are gone
back in time, and the last thing that the files said about an entity counts: when that was `state: absent`, or an entry
that has expired, nothing was left behind.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from datetime import date
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any

from quotaform.app.base.history import History, Step
from quotaform.app.base.removal_search import EarlierFiles, EntitySearch
from quotaform.app.git.object import Commit
from quotaform.app.git.object_store import GitObjects, open_objects
from quotaform.app.git.process import GitError, TimeLeft
from quotaform.core.check.facts import RemovalSearch
from quotaform.model.entity import Entity

if TYPE_CHECKING:
    from quotaform.desired.declaration import Profiles
    from quotaform.desired.tree import Tree


class Removals:
    """The history of a quotas directory. Threads may share this."""

    def __init__(
        self, top: Path, folder: str, head: Commit, tree: Tree, profiles: Profiles, today: date, left: TimeLeft
    ) -> None:
        """Describe the history.

        Args:
            top: The top of the git work tree.
            folder: The quotas directory, relative to it.
            head: The commit that is checked out.
            tree: The quotas directory as it is now.
            profiles: The profiles of quotaform.yaml.
            left: How long the repository may still be read.
        """
        self._top = top
        self._today = today
        self._left = left
        self._lock = Lock()
        self._history = History(folder, head, tree)
        self._steps: list[Step] = []
        self._files = EarlierFiles(tree, profiles)

    def __getstate__(self) -> dict[str, Any]:
        """What another process on this machine needs to go through the history itself."""
        return {**self.__dict__, "_lock": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._lock = Lock()

    def find(self, cluster: str, entities: Collection[Entity], applied: str | None = None) -> RemovalSearch:
        """Look for entities that the files of a cluster declared before.

        `entities` are entities that the files do not declare now. `applied` is the commit of the last apply, if it is
        known.
        """
        search = EntitySearch(self._files, cluster, entities, self._today, applied)
        with self._lock:
            try:
                with open_objects(self._top, self._left) as objects:
                    for step in self._each_step(objects):
                        search.add(objects, step)
                        if search.is_done:
                            break
            except GitError as error:
                return search.result(error.reason)
        return search.result()

    def _each_step(self, objects: GitObjects) -> Iterator[Step]:
        """Yield the steps, newest first; those that were read for another cluster are not read again."""
        yield from self._steps
        while (step := self._history.next(objects)) is not None:
            self._steps.append(step)
            yield step
