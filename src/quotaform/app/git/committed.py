"""Which files of a folder are those of the commit that is checked out: whoever may change the files wrote them."""

from __future__ import annotations

import os
from pathlib import Path

from quotaform.app.git.object_store import find_work_tree, open_objects
from quotaform.app.git.process import GitError, TimeLeft


def committed_names(folder: Path) -> frozenset[str]:
    """Return the names that a folder has in the commit that is checked out; none outside of a git work tree."""
    top = find_work_tree(folder)
    if top is None:
        return frozenset()
    with open_objects(top, TimeLeft()) as objects:
        commit = objects.commit("HEAD^{commit}")
        if commit is None:
            problem = objects.error_message()
            if problem is not None and not problem.startswith(
                "git failed: "
            ):  # It says in its own words that HEAD is none.
                raise GitError(problem)
            return frozenset()
        place = Path(os.path.realpath(folder)).relative_to(os.path.realpath(top)).as_posix()
        entry = objects.entry(commit.tree, place)
        return frozenset(objects.tree(entry.id)) if entry is not None and entry.is_folder else frozenset()
