"""The base: what the files declared before, at another git revision or when a receipt was written.

A revision is any name of a commit that git knows: a branch, a tag, `HEAD~1`, an id. The files, quotaform.yaml and its
profiles and clusters are those of that commit; the day on which entries expire is today. A base that somebody names
must be readable; one that a CI system names need not be, see `quotaform.app.base.ci`.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Final

from quotaform.app.base.cluster_bases import ClusterBases, SameBase
from quotaform.app.base.declared import declared_bases
from quotaform.app.base.receipt import ReceiptBase, is_receipt, read_receipt_base, with_commit
from quotaform.app.git.object import Commit
from quotaform.app.git.object_store import GitObjects, find_work_tree, merge_base, open_objects
from quotaform.app.git.process import GitError, TimeLeft
from quotaform.app.git.revision import GitRevision
from quotaform.app.repository.policy_files import DiskFolder
from quotaform.app.repository.tree_reading import MOST_BYTES
from quotaform.core.base import Base
from quotaform.core.check import rule
from quotaform.core.cluster_base import ClusterBase
from quotaform.errors import BaseError, UsageError
from quotaform.model.finding import Finding
from quotaform.model.text import inert, nearest, quote

if TYPE_CHECKING:
    from quotaform.app.repository.repository import Repository
    from quotaform.desired.config import Cluster, Config
    from quotaform.desired.loader import LoadedFiles

_MOST_SECONDS: Final = 30.0
_LONGEST_REF: Final = 1000
REMOTE_REFS: Final = "refs/remotes/"
"""Where git keeps the branches of remotes; a name without it may be that of a tag."""
_USUAL_REFS: Final = ("origin/main", "origin/master", "main", "master")
_FETCH: Final = "fetch it (actions/checkout: fetch-depth: 0; git fetch --unshallow), or give another one"


@dataclass(frozen=True, slots=True, kw_only=True)
class BaseChoice:
    """Which base is meant.

    Attributes:
        refs: Git revisions or the path of a receipt; the first one that exists.
        found_in: The variable of the CI system that names it; `None` when somebody gave it.
        is_exact: Whether the commit itself is meant, although the commit that is checked out may not contain it.
        is_proposed: Whether the run is for a pull request or a merge queue: its plan is shown, and not applied.
    """

    refs: tuple[str, ...]
    found_in: str | None = None
    is_exact: bool = False
    is_proposed: bool = False

    @property
    def name(self) -> str:
        """What messages call it."""
        return _ref_name(self.refs[0])


def require_ref(ref: str, option: str = "--base") -> str:
    """Return the name of a git revision, or the path of a receipt, as an option gives it.

    Raises `UsageError` if it is neither: empty, with control characters, or like an option.
    """
    if not ref.strip() or ref.startswith("-") or not ref.isprintable() or len(ref) > _LONGEST_REF:
        raise UsageError(
            f"{option}: {quote(ref, 80)} is not the name of a git revision, as in origin/main, v1.2, HEAD~1 or a1b2c3d"
        )
    return ref


def read_chosen_base(
    repository: Repository,
    config: Config,
    choice: BaseChoice,
    clusters: Sequence[Cluster],
    today: date,
    *,
    similar: LoadedFiles | None = None,
) -> ClusterBases:
    """Return what the base declares, as `read_base`; that a base of a CI system cannot be read is a finding.

    Raises `BaseError` if the base that somebody named does not exist, or cannot be read.
    """
    try:
        return read_base(repository, config, choice, clusters, today, similar=similar)
    except BaseError as error:
        if choice.found_in is None:
            raise
        text = f"{error} (from {choice.found_in}; --base gives another one, --no-base uses none)"
        found = ClusterBase(findings=(rule.BASE_UNREADABLE.finding(text),), safeguards_problem=str(error))
        return SameBase([cluster.name for cluster in clusters], found)


def read_base(
    repository: Repository,
    config: Config,
    choice: BaseChoice,
    clusters: Sequence[Cluster],
    today: date,
    *,
    similar: LoadedFiles | None = None,
) -> ClusterBases:
    """Return what the base declares, by the name of each cluster.

    If the commit that is checked out does not contain the base, it is compared with the commit where both parted, as a
    pull request is: what was merged into the base since then is not undone in the name of this change. `similar` holds
    the files of this moment: what is the same at both is read and parsed once. Raises `BaseError` if the base does not
    exist, or cannot be read.
    """
    names = [cluster.name for cluster in clusters]
    if is_receipt(choice.refs[0]):
        return _receipt_base(repository, config, choice.refs[0], clusters, today, similar)
    top = find_work_tree(repository.directory)
    if top is None:
        raise BaseError(inert(choice.name), f"{_shown(repository.directory)} is not in a git work tree")
    limits = TimeLeft(_MOST_SECONDS, most_seconds=_MOST_SECONDS, most_bytes=MOST_BYTES)
    try:
        with open_objects(top, limits) as objects:
            ref, commit = _require_commit(objects, choice.refs, top)

            def declared_at(at: Commit) -> ClusterBases:
                revision = GitRevision(
                    objects=objects,
                    root=at.tree,
                    top=top,
                    elsewhere=repository.revision,
                    similar=None if similar is None else similar.layout.tree,
                )
                at_base = replace(repository, revision=revision, needs_config=False)
                files = revision.folder(folder) or DiskFolder(folder)
                return declared_bases(at_base, config, Base(_ref_name(ref), at.id), names, today, similar, files)

            folder = repository.config_path.parent
            found = declared_at(commit)
            fork = None if choice.is_exact else _fork(objects, commit)
            if fork is None:
                return found
            behind = _not_contained(inert(_ref_name(ref)), commit, fork)
            return ForkedBases(names, behind, at_fork=declared_at(fork), at_base=found)
    except GitError as error:
        raise BaseError(inert(choice.name), error.reason) from None


def _receipt_base(
    repository: Repository,
    config: Config,
    path: str,
    clusters: Sequence[Cluster],
    today: date,
    similar: LoadedFiles | None,
) -> ClusterBases:
    """Return what a receipt declares; values that it does not hold are those of its commit, if git knows that.

    Raises `BaseError` if the receipt cannot be read.
    """
    receipt = read_receipt_base(path)
    names = [cluster.name for cluster in clusters]
    if receipt.commit is None:
        is_known = find_work_tree(repository.directory) is None  # Without git, nothing says what the guards were.
        problem = None if is_known else f"the receipt {inert(path)} does not say from which commit it is"
        return SameBase(names, replace(receipt.base, safeguards_problem=problem))
    try:
        at_commit = read_base(
            repository, config, BaseChoice(refs=(receipt.commit,), is_exact=True), clusters, today, similar=similar
        )
    except BaseError as error:
        return SameBase(names, replace(receipt.base, safeguards_problem=str(error)))
    return ReceiptBases(names, receipt, at_commit)


class ForkedBases(ClusterBases):
    """The bases where the base and the commit that is checked out parted, protected as at the base."""

    def __init__(self, names: Sequence[str], behind: Finding, *, at_fork: ClusterBases, at_base: ClusterBases) -> None:
        """Note what was read.

        Args:
            names: The names of the clusters.
            behind: The finding that says that both parted.
            at_fork: What was declared where they did.
            at_base: What is declared at the base.
        """
        super().__init__(names)
        self._behind = behind
        self._at_fork = at_fork
        self._at_base = at_base

    def make(self, name: str) -> ClusterBase:
        """Return the base of a cluster."""
        found, base = self._at_fork[name], self._at_base[name]
        return replace(
            found,
            findings=(self._behind, *found.findings),
            safeguards=base.safeguards,
            safeguards_problem=base.safeguards_problem,
        )

    def release(self, name: str) -> None:
        """Let go of what is known of one cluster alone."""
        super().release(name)
        self._at_fork.release(name)
        self._at_base.release(name)


class ReceiptBases(ClusterBases):
    """What a receipt declares, completed by the files of its commit."""

    def __init__(self, names: Sequence[str], receipt: ReceiptBase, at_commit: ClusterBases) -> None:
        """Note what was read.

        Args:
            names: The names of the clusters.
            receipt: What the receipt declares.
            at_commit: What the files of its commit declare.
        """
        super().__init__(names)
        self._receipt = receipt
        self._at_commit = at_commit

    def make(self, name: str) -> ClusterBase:
        """Return the base of a cluster."""
        return with_commit(self._receipt, self._at_commit[name])

    def release(self, name: str) -> None:
        """Let go of what is known of one cluster alone."""
        super().release(name)
        self._at_commit.release(name)


def _require_commit(objects: GitObjects, refs: Sequence[str], top: Path) -> tuple[str, Commit]:
    """Return the first revision that exists, and its commit.

    Raises `BaseError` if none does, and `GitError` if git does not answer, or a limit is reached.
    """
    for ref in refs:
        commit = _commit(objects, ref)
        if commit is not None:
            return ref, commit
    name = inert(_ref_name(refs[0]))
    guesses = [f"origin/{refs[0]}", *_USUAL_REFS]
    guess = next((each for each in guesses if each not in refs and _commit(objects, each) is not None), None)
    problem = objects.error_message()
    if problem is not None and not problem.startswith("git failed: "):  # It says in its own words what is no commit.
        raise GitError(problem)
    if _is_shallow(top):
        raise BaseError(name, f"git knows no commit of this name, and this is a shallow clone; {_FETCH}")
    hint = "fetch it, or give another one"
    if guess:
        is_near = guess == guesses[0] or nearest(refs[0], [guess]) is not None
        hint = f"did you mean {guess}?" if is_near else f"{hint}, such as {guess}"
    raise BaseError(name, f"git knows no commit of this name; {hint}")


def _fork(objects: GitObjects, base: Commit) -> Commit | None:
    """Return where HEAD and a base parted; `None` if HEAD contains the base, or it is not known."""
    head = objects.commit("HEAD")
    common = None if head is None else merge_base(objects, head, base)
    return None if common is None or common.id == base.id else common


def _not_contained(ref: str, base: Commit, fork: Commit) -> Finding:
    return rule.BASE_NOT_CONTAINED.finding(
        f"the commit that is checked out does not contain {ref} ({base.id[:7]}), so the files are compared with "
        f"{fork.id[:7]}, where both parted; merge or rebase before this is applied, since what was merged into {ref} "
        "meanwhile is missing here"
    )


def _ref_name(ref: str) -> str:
    """Return what messages call a revision: a branch at a remote has its usual name."""
    return ref.removeprefix(REMOTE_REFS)


def _commit(objects: GitObjects, ref: str) -> Commit | None:
    return objects.commit(f"{ref}^{{commit}}")


def _is_shallow(top: Path) -> bool:
    """Whether the clone was made without its history; of a linked work tree that is not known."""
    return os.path.lexists(top / ".git" / "shallow")


def _shown(path: Path) -> str:
    from quotaform.desired.tree import shown_path

    return shown_path(path)
