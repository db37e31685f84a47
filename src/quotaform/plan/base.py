"""The base: what the files declared before, at another git revision or when a receipt was written.

A revision is any name of a commit that git knows: a branch, a tag, `HEAD~1`, an id. The files, quotaform.yaml and its
profiles and clusters are those of that commit; the day on which entries expire is today. A base that --base
names must be readable; one that a CI system names need not be, see `quotaform.review.ci`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import date
from functools import partial
from typing import TYPE_CHECKING, Final

from msgspec import Struct
from msgspec.structs import replace

from quotaform.desired.loader import LoadedFiles
from quotaform.desired.tree import shown_path
from quotaform.git import Commit, GitError, GitObjects, TimeLeft, find_work_tree, merge_base, open_objects
from quotaform.model import rule
from quotaform.model.errors import ArgumentError, BaseError, InvalidFilesError, UsageError
from quotaform.model.finding import Approval, Finding, Severity
from quotaform.model.quotas import Base, Cause, DeclaredBase
from quotaform.model.text import inert, option_of, quote
from quotaform.plan.check.guard import ClusterBase, Safeguards
from quotaform.plan.receipt_file import is_receipt, read_receipt_base
from quotaform.report.text import counted
from quotaform.repository.policy import policy_digests
from quotaform.repository.revision import MOST_BYTES, DiskFolder, Folder, GitRevision

if TYPE_CHECKING:
    from quotaform.desired.config import Config
    from quotaform.plan.run import PlanRequest
    from quotaform.repository.repository import Repository


class Bases(Struct, frozen=True):
    """What the base is for each cluster; threads may share it, and tasks get it."""

    of: Callable[[str], ClusterBase]  # Returns it for the name of a cluster
    files: tuple[LoadedFiles, ...] = ()  # What it is made of

    def release(self, name: str) -> None:
        """Drop what is known of one cluster alone, which is read again when it is needed."""
        for each in self.files:
            each.release(name)


def _same_base(found: ClusterBase, name: str) -> ClusterBase:
    return found


def _declared_bases(
    repository: Repository, config: Config, base: Base, today: date, similar: LoadedFiles, folder: Folder
) -> Bases:
    """Return what the files of a base declare for each cluster: those of a cluster are parsed when it is asked about.

    `repository` and `folder` are those at the base, `config` and `similar` are of this moment.
    """
    try:
        earlier = repository.config()
    except (InvalidFilesError, UsageError) as error:
        why = _first_problem(error) if isinstance(error, InvalidFilesError) else str(error)
        finding = rule.BASE_INVALID.finding(f"the files at {base.ref} are invalid, so no change has an origin: {why}")
        return Bases(partial(_same_base, ClusterBase(findings=(finding,), safeguards_problem=f"at {base.ref}: {why}")))
    files = LoadedFiles(repository.layout(earlier), earlier.profiles, today, earlier.scope, similar=similar)
    removed = []
    for name in earlier.clusters:
        if name in config.clusters:
            continue
        try:
            number = sum(entry.cause is Cause.ENTRY for entry in files.desired(name).values())
            declared = counted(number, "entity")
        except InvalidFilesError:
            declared = "invalid entries"
        text = (
            f"cluster {inert(name)} is not in quotaform.yaml any more; the base {base.ref} declares {declared} for it, "
            "and its quotas stay as they are"
        )
        removed.append(rule.CLUSTER_REMOVED.finding(text))
    approvals: frozenset[Approval] = frozenset()
    with suppress(InvalidFilesError):  # A file that is invalid approves nothing.
        approvals = frozenset(repository.approvals(today))
    of = _Declared(
        base=base,
        files=files,
        directory=shown_path(repository.directory),
        config_path=shown_path(repository.config_path),
        clusters=frozenset(config.clusters),
        earlier=earlier,
        digests=dict(policy_digests(folder, earlier.policies)),
        approvals=approvals,
        removed=tuple(removed),
    )
    return Bases(of, (files,))


class _Declared(Struct, frozen=True, kw_only=True):
    """Makes of what was read of a base what it declares for a cluster, and what protects it there."""

    base: Base
    files: LoadedFiles
    directory: str
    config_path: str
    clusters: frozenset[str]  # The names in the quotaform.yaml of this moment
    earlier: Config  # The quotaform.yaml of the base
    digests: Mapping[str, str]  # Those of the policies of the base
    approvals: frozenset[Approval]
    removed: tuple[Finding, ...]  # About clusters that were removed since

    def __call__(self, name: str) -> ClusterBase:
        ref, declared = self.base.ref, None
        why = None if self.files.layout.tree.has_files else f"{self.directory} has no quotas there"
        if why is None and name in self.clusters and name not in self.earlier.clusters:
            why = f"cluster {name} is not in {self.config_path} there"
        findings = self.removed
        try:
            declared = DeclaredBase(self.base, self.files.desired(name) if why is None else {})
        except InvalidFilesError as error:
            text = f"the files at {ref} are invalid, so no change has an origin: {_first_problem(error)}"
            findings = (rule.BASE_INVALID.finding(text), *findings)
        if why is not None:
            text = f"the base {ref} declares nothing for this cluster: {why}; everything counts as new"
            findings = (rule.BASE_EMPTY.finding(text), *findings)
        return ClusterBase(
            declared=declared,
            findings=findings,
            safeguards=Safeguards(self.earlier, self.earlier.clusters.get(name), self.digests),
            approvals=self.approvals,
        )


def _first_problem(error: InvalidFilesError) -> str:
    problems = [problem for problem in error.problems if problem.severity is Severity.ERROR]
    first = problems[0]
    where = f"{first.location}: " if first.location else ""
    more = f" (and {len(problems) - 1:,} more)" if len(problems) > 1 else ""
    return f"{where}{first.message}{more}"


_MOST_SECONDS: Final = 30.0
REMOTE_REFS: Final = "refs/remotes/"
"""Where git keeps the branches of remotes; a name without it may be that of a tag."""


class BaseChoice(Struct, frozen=True, kw_only=True):
    """Which base is meant."""

    refs: tuple[str, ...]  # Git revisions or the path of a receipt; the first one that exists
    found_in: str | None = None  # The variable of the CI system that names it; `None` for --base
    # Whether the commit itself is meant, although the commit that is checked out may not contain it.
    is_exact: bool = False
    # Whether the run is for a pull request or a merge queue: its plan is shown, and not applied.
    is_proposed: bool = False

    @property
    def name(self) -> str:
        """What messages call it: a branch at a remote has its usual name."""
        return self.refs[0].removeprefix(REMOTE_REFS)


def choose_base(ref: str | os.PathLike[str], argument: str = "base") -> BaseChoice:
    """Return the git revision or the receipt that an argument names, `base` or `baseline`.

    Raises `UsageError` if it is neither: empty, with control characters, or like an option.
    """
    ref = os.fspath(ref)
    if not ref.strip() or ref.startswith("-") or not ref.isprintable() or len(ref) > 1000:
        problem = "{} is not the name of a git revision, as in origin/main, v1.2, HEAD~1 or a1b2c3d"
        raise ArgumentError(f"{{{argument}}}: {problem}", quote(ref, 80))
    return BaseChoice(refs=(ref,), is_exact=argument == "baseline")


def read_chosen_base(request: PlanRequest, choice: BaseChoice, today: date, files: LoadedFiles) -> Bases:
    """Return what the base declares; that a base of a CI system cannot be read is a finding.

    If the commit that is checked out does not contain the base, it is compared with the commit where both parted, as a
    pull request is: what was merged into the base since then is not undone in the name of this change. `files` are
    those of this moment: what is the same at both is read and parsed once.

    Raises `BaseError` if a base that was named explicitly does not exist, or cannot be read.
    """
    try:
        return _read_base(request, choice, today, files)
    except BaseError as error:
        if choice.found_in is None:
            raise
        remedy = f"{option_of('base')} gives another one, {option_of('no_base')} uses none"
        text = f"{error} (from {choice.found_in}; {remedy})"
        found = ClusterBase(findings=(rule.BASE_UNREADABLE.finding(text),), safeguards_problem=str(error))
        return Bases(partial(_same_base, found))


def _read_base(request: PlanRequest, choice: BaseChoice, today: date, files: LoadedFiles) -> Bases:
    repository = request.repository
    if is_receipt(choice.refs[0]):
        return _receipt_base(request, choice.refs[0], today, files)
    top = find_work_tree(repository.directory)
    if top is None:
        raise BaseError(inert(choice.name), f"{shown_path(repository.directory)} is not in a git work tree")
    limits = TimeLeft(_MOST_SECONDS, most_seconds=_MOST_SECONDS, most_bytes=MOST_BYTES)
    try:
        with open_objects(top, limits) as objects:
            ref, commit = _require_commit(objects, choice)
            name = ref.removeprefix(REMOTE_REFS)

            def declared_at(at: Commit) -> Bases:
                revision = GitRevision(
                    objects=objects, root=at.tree, top=top, elsewhere=repository.revision, similar=files.layout.tree
                )
                at_base = replace(repository, revision=revision, needs_config=False)
                there = revision.folder(folder) or DiskFolder(folder)
                return _declared_bases(at_base, request.config, Base(ref=name, commit=at.id), today, files, there)

            folder = repository.config_path.parent
            found = declared_at(commit)
            head = None if choice.is_exact else objects.commit("HEAD")
            fork = None if head is None else merge_base(objects, head, commit)
            if fork is None or fork.id == commit.id:  # HEAD contains the base, or it is not known where both parted.
                return found
            behind = rule.BASE_NOT_CONTAINED.finding(
                f"the commit that is checked out does not contain {inert(name)} ({commit.id[:7]}), so the files are "
                f"compared with {fork.id[:7]}, where both parted; merge or rebase before this is applied, since what "
                f"was merged into {inert(name)} meanwhile is missing here"
            )
            at_fork = declared_at(fork)
            return Bases(partial(_forked, behind, at_fork, found), at_fork.files + found.files)
    except GitError as error:
        raise BaseError(inert(choice.name), error.reason) from None


def _receipt_base(request: PlanRequest, path: str, today: date, files: LoadedFiles) -> Bases:
    """Return what a receipt declares; values that it does not hold are those of its commit, if git knows that."""
    declared, source = read_receipt_base(path)
    if source.commit is None:
        # Without git, nothing says what the guards were.
        is_known = find_work_tree(request.repository.directory) is None
        problem = None if is_known else f"the receipt {inert(path)} does not say from which commit it is"
        return Bases(partial(_same_base, replace(declared, safeguards_problem=problem)))
    try:
        at_commit = _read_base(request, BaseChoice(refs=(source.commit,), is_exact=True), today, files)
    except BaseError as error:
        return Bases(partial(_same_base, replace(declared, safeguards_problem=str(error))))
    is_commit = source.dirty is False  # Whether the files that were applied were those of the commit, as far as known
    return Bases(partial(_completed, declared, at_commit, is_commit), at_commit.files)


def _forked(behind: Finding, at_fork: Bases, at_base: Bases, name: str) -> ClusterBase:
    """Return the base where it and the commit that is checked out parted, protected as at the base."""
    found, base = at_fork.of(name), at_base.of(name)
    return replace(
        found,
        findings=(behind, *found.findings),
        safeguards=base.safeguards,
        safeguards_problem=base.safeguards_problem,
    )


def _completed(receipt: ClusterBase, at_commit: Bases, is_commit: bool, name: str) -> ClusterBase:
    """Return what a receipt declares, with the guards of its commit, and the values that the receipt does not hold."""
    found = at_commit.of(name)
    base = replace(
        receipt, safeguards=found.safeguards, safeguards_problem=found.safeguards_problem, approvals=found.approvals
    )
    declared, files = base.declared, found.declared
    if declared is None or files is None or not is_commit:
        return base
    values = {entity: files.desired[entity] for entity in declared.unvalued if files.declares(entity)}
    valued = replace(declared, desired={**declared.desired, **values}, unvalued=declared.unvalued - values.keys())
    return replace(base, declared=valued)


def _require_commit(objects: GitObjects, choice: BaseChoice) -> tuple[str, Commit]:
    """Return the first revision that exists, and its commit.

    Raises `BaseError` if none does, and `GitError` if git does not answer, or a limit is reached.
    """
    for ref in choice.refs:
        commit = objects.commit(f"{ref}^{{commit}}")
        if commit is not None:
            return ref, commit
    problem = objects.error_message()
    if problem is not None and not problem.startswith("git failed: "):  # It says in its own words what is no commit.
        raise GitError(problem)
    raise BaseError(
        inert(choice.name),
        "git knows no commit of this name; fetch it (all history of a shallow clone: git fetch --unshallow, or "
        "fetch-depth: 0 of actions/checkout), or give another one",
    )
