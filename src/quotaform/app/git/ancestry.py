"""How two commits are related: whether one contains the other, or where their histories part."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from quotaform.app.git.object import Commit
from quotaform.app.git.object_store import GitObjects

MAX_COMMITS: Final = 4000
"""How many commits are read to find out."""


def merge_base(objects: GitObjects, head: Commit, base: Commit) -> Commit | None:
    """Return the newest commit that two histories have in common, as far as that is known.

    Both histories are searched together, one generation after the other. With several common commits of one generation
    it is one of them.

    Args:
        head: The commit whose history is asked about.

    Returns:
        The base itself if the head contains it; `None` if they have nothing in common, the clone lacks commits, or
        too many would have to be read.
    """
    reader = _Reader(objects)
    of_head: dict[str, Commit] = {head.id: head}
    of_base: dict[str, Commit] = {base.id: base}
    heads, bases = [head], [base]
    while heads or bases:
        if base.id in of_head:
            return base
        if reader.count > MAX_COMMITS:
            return None
        if not heads and of_head.keys() & of_base.keys():
            break
        # An ancestor of the base has no way to the base.
        heads = list(reader.parents((commit for commit in heads if commit.id not in of_base), of_head))
        bases = list(reader.parents(bases, of_base))
    if base.id in of_head:
        return base
    return None if reader.is_incomplete else next((each for each in of_head.values() if each.id in of_base), None)


class _Reader:
    """Reads commits.

    Attributes:
        count: How many were read.
        is_incomplete: Whether the clone lacked any.
    """

    def __init__(self, objects: GitObjects) -> None:
        self._objects = objects
        self.count = 0
        self.is_incomplete = False

    def parents(self, commits: Iterable[Commit], seen: dict[str, Commit]) -> Iterator[Commit]:
        """Yield the parents of commits that were not seen before, and add them to those that were."""
        for commit in commits:
            for parent in commit.parents:
                if parent in seen or self.count > MAX_COMMITS:
                    continue
                self.count += 1
                found = self._objects.commit(parent)
                if found is None:
                    self.is_incomplete = True
                else:
                    seen[parent] = found
                    yield found
