"""What each commit replaced in a quotas directory.

The files of this moment are compared with HEAD, HEAD with its first parent, and so on: along the branch, so that a
merge is one step.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final, NamedTuple

from quotaform.app.git.object import Commit
from quotaform.app.git.object_store import GitObjects
from quotaform.app.git.process import GitError
from quotaform.app.repository.source import is_blob, list_files

if TYPE_CHECKING:
    from quotaform.desired.tree import Tree

MAX_COMMITS: Final = 500
"""How many commits are gone back."""


class Replaced(NamedTuple):
    """A file of one step that is different in the next one.

    Attributes:
        path: Where it is, relative to the quotas directory.
        before: The id of its content.
        after: The id of its content in the next step, or that content; `None` when it is gone.
    """

    path: str
    before: str
    after: str | bytes | None


class Step(NamedTuple):
    """What one commit replaced.

    Attributes:
        before: The commit that has the files of before.
        commit: The commit that replaced them; `None` when that is not committed.
        replaced: The files that are different.
    """

    before: str
    commit: str | None
    replaced: tuple[Replaced, ...]


class History:
    """The way back along the first parents. When reading fails, the next try goes on at the same commit."""

    def __init__(self, folder: str, head: Commit, tree: Tree) -> None:
        """Start at the files of this moment.

        Args:
            folder: The quotas directory, relative to the top of the git work tree.
            head: The commit that is checked out.
            tree: The quotas directory as it is now.
        """
        self._folder = folder
        self._head = head
        self._last: Commit | None = None
        self._count = 0
        self._listed: str | None = None
        self._now: Mapping[str, str | bytes] = tree.files

    def next(self, objects: GitObjects) -> Step | None:
        """Return the step to the next commit, `None` after the first commit of the repository.

        Raises `GitError` if git does not answer, a limit is reached, or the clone does not hold the commit.
        """
        commit = self._next_commit(objects)
        if commit is None:
            return None
        folder = objects.entry(commit.tree, self._folder)
        listed = None if folder is None else folder.id
        replaced: tuple[Replaced, ...] = ()
        if self._last is None or listed != self._listed:
            before = list_files(objects, commit.tree, self._folder)
            replaced = tuple(
                Replaced(path, identity, self._now.get(path))
                for path, identity in before.items()
                if not _is_same(self._now.get(path), identity)
            )
            self._now = before
        later, self._last = self._last, commit
        self._listed = listed
        self._count += 1
        return Step(commit.id, None if later is None else later.id, replaced)

    def _next_commit(self, objects: GitObjects) -> Commit | None:
        if self._last is None:
            return self._head
        if not self._last.parents:
            return None
        if self._count >= MAX_COMMITS:
            raise GitError(f"at most {MAX_COMMITS} commits are searched")
        commit = objects.commit(self._last.parents[0])
        if commit is None:
            raise GitError("the commit before it is not in this clone; fetch the history")
        return commit


def _is_same(now: str | bytes | None, identity: str) -> bool:
    return is_blob(now, identity) if isinstance(now, bytes) else now == identity
