"""Where the files of a plan come from: which commit they are at, and what earlier commits declared."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path, PurePosixPath
from re import compile as regex
from threading import Lock
from typing import TYPE_CHECKING, Final, NamedTuple

from msgspec import Struct

from quotaform.desired.loader import Claim, load_file
from quotaform.desired.tree import SourceFile, is_hidden, is_read, layer_of, shown_path
from quotaform.git import (
    Commit,
    GitError,
    GitObjects,
    ObjectTooLargeError,
    TimeLeft,
    TreeEntry,
    blob_id,
    find_work_tree,
    open_objects,
)
from quotaform.model.entity import DEFAULT_WORD, Entity
from quotaform.model.errors import FileReadError
from quotaform.model.finding import APPROVALS_NAME
from quotaform.model.quotas import Cause, Entry
from quotaform.model.text import MIB, inert
from quotaform.plan.check.guard import Removal, RemovalSearch
from quotaform.plan.plan import PlanSource
from quotaform.repository.policy import list_policies
from quotaform.repository.revision import WORK_TREE, DiskFolder, GitRevision
from quotaform.system.files import POLICY_LIMIT

if TYPE_CHECKING:
    from quotaform.desired.config import Config
    from quotaform.desired.loader import Profiles
    from quotaform.desired.tree import Tree
    from quotaform.plan.base import Bases
    from quotaform.repository.repository import Repository


class Source(Struct, frozen=True):
    """Where the files of a plan come from."""

    plan_source: PlanSource  # The directory, its commit and whether the files differ from it, as a plan says it
    problem: str | None = None  # Why the commit is not known although the files are in a git work tree
    history: Removals | None = None  # What earlier commits declared, if they can be asked
    bases: Bases | None = None  # What the base declares, if there is one
    claims: tuple[Claim, ...] = ()
    missing: str | None = None  # Why there are no files, if there are none


def read_source(repository: Repository, config: Config, tree: Tree, today: date) -> Source:
    """Return where the files of a plan come from.

    There is no commit outside of a git work tree. The files (also quotaform.yaml, approvals.yaml and the policies)
    differ from it when any that was read is not, byte for byte, what the commit holds, or is missing on either side;
    line ends may be CRLF for LF. No filter is run: a file that git keeps in another form than the work tree (LFS,
    git-crypt) counts as different. `tree` is the quotas directory as it was read.
    """
    name = repository.directory.as_posix()
    top = find_work_tree(repository.directory)
    if top is None:
        return Source(PlanSource(directory=name))
    folder = repository.directory.resolve().relative_to(top.resolve()).as_posix()
    left = TimeLeft()
    try:
        with open_objects(top, left) as objects:
            commit = objects.commit("HEAD")
            if commit is None:
                # Before the first commit there is none, and git reports no error.
                return Source(PlanSource(directory=name), problem=objects.error_message())
            committed = list_files(objects, commit.tree, folder)
            here = repository.config_path.parent
            dirty = (
                tree.files.keys() != committed.keys()
                or not all(is_blob(content, committed[path]) for path, content in tree.files.items())
                or any(
                    _file_differs(repository, file, objects, commit.tree, top)
                    for file in (repository.config_path, here / APPROVALS_NAME)
                )
                or (bool(config.policies) and _policies_differ(here, config, objects, commit.tree, top))
            )
    except GitError as error:
        return Source(PlanSource(directory=name), problem=error.reason)
    history = Removals(top, folder, commit, tree, config.profiles, today, left)
    return Source(PlanSource(directory=name, commit=commit.id, dirty=dirty), history=history)


def list_files(objects: GitObjects, root: str, folder: str) -> dict[str, str]:
    """Return the files of a quotas directory that count, as a commit holds them: path to id.

    Raises `GitError` if git does not answer, or a limit is reached.
    """

    def inside(path: str) -> Iterator[tuple[str, TreeEntry]]:
        here = objects.entry(root, f"{folder}/{path}" if path else folder)
        for name, listed in objects.tree(here.id).items() if here is not None and here.is_folder else ():
            inner = f"{path}/{name}" if path else name
            if not is_hidden(name):
                entry = objects.entry(root, f"{folder}/{inner}") if listed.is_link else listed
                if entry is not None:
                    yield inner, entry

    files: dict[str, str] = {}
    for path, entry in inside(""):
        for inner, found in inside(path) if entry.is_folder else [(path, entry)]:
            if found.is_file and is_read(inner):
                files[inner] = found.id
    return files


def is_blob(content: bytes, committed: str) -> bool:
    """Whether the content of a file is that of a blob, whatever its line ends are."""
    return blob_id(content, committed) == committed or (
        b"\r\n" in content and blob_id(content.replace(b"\r\n", b"\n"), committed) == committed
    )


def _file_differs(repository: Repository, file: Path, objects: GitObjects, root: str, top: Path) -> bool:
    """Whether a file next to quotaform.yaml differs from that of the commit; one outside of the work tree does not."""
    path = file.resolve()
    if not path.is_relative_to(top.resolve()):
        return False
    try:
        source = repository.revision.read_config(file)
    except FileReadError:
        return True
    entry = objects.entry(root, path.relative_to(top.resolve()).as_posix())
    if source is None or entry is None:
        return source is not None or entry is not None
    content = source.text if isinstance(source.text, bytes) else source.text.encode()
    return not is_blob(content, entry.id)


def _policies_differ(folder: Path, config: Config, objects: GitObjects, root: str, top: Path) -> bool:
    """Whether the policies that quotaform.yaml names are not those of the commit; see `_file_differs`."""

    committed = GitRevision(objects, root, top, elsewhere=WORK_TREE).folder(folder)
    if committed is None:
        return False
    here = DiskFolder(folder)
    paths = list(list_policies(here, config.policies, []))
    if set(paths) != set(list_policies(committed, config.policies, [])):
        return True
    try:
        return not all(
            (entry := committed.entry(path)).is_file and is_blob(here.read(path, POLICY_LIMIT), entry.id)
            for path in paths
        )
    except FileReadError:
        return True


# What the files declared before and do not declare any more, by the commits that git holds.
#
# The files of this moment are compared with HEAD, HEAD with its first parent, and so on: along the branch, so that a
# merge is one step. What a file says that is not there any more in the next step of its history was removed by that
# step. The steps go back in time, and the last thing that the files said about an entity counts: when that was
# `state: absent`, or an entry that has expired, nothing was left behind.

MAX_COMMITS: Final = 500
"""How many commits are gone back."""
MAX_FILE_BYTES: Final = 2 * MIB
"""The largest earlier file that is searched; the time that a file takes to be parsed has no other limit."""
MAX_PARSED_BYTES: Final = 4 * MIB
"""How much is parsed for a cluster: files of which a line was removed that has the name of an entity in question."""

_LOCK: Final = Lock()  # One search at a time, whichever the history: what is pickled cannot have a lock
_WORDS: Final = regex(r"[^\s{}\[\],:\"'#]+").findall


class CommitStep(NamedTuple):
    """What one commit replaced."""

    before: str  # The commit that has the files of before
    commit: str | None  # The commit that replaced them; `None` when that is not committed
    # The files that are different in the next step, by their paths relative to the quotas directory: the id of the
    # content, and that of the next step, or that content; `None` when it is gone.
    replaced: Mapping[str, tuple[str, str | bytes | None]]


class Removals:
    """The history of a quotas directory. Threads may share this.

    What was read for one cluster is not read again for another; when reading fails, the next search goes on at the same
    commit.
    """

    def __init__(
        self, top: Path, folder: str, head: Commit, tree: Tree, profiles: Profiles, today: date, left: TimeLeft
    ) -> None:
        """Start at the files of this moment."""
        self._top, self._folder, self._left = top, folder, left
        self._name, self._profiles, self._today = PurePosixPath(tree.name), profiles, today
        self._files = frozenset(map(self._shown, tree.files))
        self._steps: list[CommitStep] = []
        self._next: str | None = head.id  # The commit of the step after these
        self._folder_id: str | None = ""  # The quotas directory in the last of them
        self._now: Mapping[str, str | bytes] = tree.files
        self._parsed: dict[tuple[str, str], tuple[Entry, ...]] = {}

    def find(self, cluster: str, entities: Collection[Entity], applied: str | None = None) -> RemovalSearch:
        """Look for entities that the files of a cluster declared before.

        `entities` are entities that the files do not declare now. `applied` is the commit of the last apply, if it is
        known.
        """
        names = (DEFAULT_WORD if name is None else name for entity in entities for _, name in entity.parts)
        words = frozenset(word for name in names for word in _WORDS(name)[:1])
        search = _Search(cluster, applied, set(entities), words)
        not_searched: list[str] = []
        try:
            with _LOCK, open_objects(self._top, self._left) as objects:
                for step in self._each_step(objects):
                    self._search(search, objects, step)
                    if not search.wanted:
                        break
        except GitError as error:
            older = f" than those of {search.searched[:7]}" if search.searched else ""
            not_searched.append(f"earlier files{older} were not searched for removed entities: {error.reason}")
        if search.skipped and search.wanted:  # What was not searched counts only when an entity was not found.
            (file, reason), *others = search.skipped
            more = f" and {len(others):,} more" if others else ""
            not_searched.insert(0, f"{file}{more}: not searched for removed entities: {reason}")
        return RemovalSearch(search.found, tuple(not_searched))

    def _each_step(self, objects: GitObjects) -> Iterator[CommitStep]:
        """Yield the steps, newest first, to the first commit of the repository.

        Raises `GitError` if git does not answer, a limit is reached, or the clone does not hold a commit.
        """
        yield from self._steps
        while self._next is not None:
            if len(self._steps) >= MAX_COMMITS:
                raise GitError(f"at most {MAX_COMMITS} commits are searched")
            commit = objects.commit(self._next)
            if commit is None:
                raise GitError("the commit before it is not in this clone; fetch the history")
            folder = objects.entry(commit.tree, self._folder)
            folder_id = None if folder is None else folder.id
            replaced: dict[str, tuple[str, str | bytes | None]] = {}
            if folder_id != self._folder_id:
                before = list_files(objects, commit.tree, self._folder)
                replaced = {
                    path: (blob, now)
                    for path, blob in before.items()
                    if not (is_blob(now, blob) if isinstance(now := self._now.get(path), bytes) else now == blob)
                }
                self._now = before
            step = CommitStep(commit.id, self._steps[-1].before if self._steps else None, replaced)
            self._next, self._folder_id = next(iter(commit.parents), None), folder_id
            self._steps.append(step)
            yield step

    def _search(self, search: _Search, objects: GitObjects, step: CommitStep) -> None:
        """Search the files that a step replaced. Raises `GitError` if git does not answer, or a limit is reached."""
        # The steps go back in time: what the commit of the last apply or an earlier one removed was removed there.
        search.is_applied = search.is_applied or (step.commit is not None and step.commit == search.applied)
        declared: dict[Entity, Entry] = {}
        for layer in (None, search.cluster):
            for path in step.replaced:
                if layer_of(path) == layer:
                    entries = self._entries(search, objects, step, path)
                    declared.update((entry.entity, entry) for entry in entries if entry.entity in search.wanted)
        for entity, entry in declared.items():
            search.wanted.discard(entity)
            is_expired = entry.expires is not None and entry.expires <= self._today
            if entry.cause is Cause.ENTRY and entry.location and not is_expired:
                name = entry.location.file
                search.found[entity] = Removal(
                    name, step.commit, file_exists=name in self._files, is_applied=search.is_applied
                )
        search.searched = step.before

    def _entries(self, search: _Search, objects: GitObjects, step: CommitStep, path: str) -> tuple[Entry, ...]:
        """Return what a replaced file declared, if it may be about an entity in question."""
        identity, after = step.replaced[path]
        try:
            before = objects.blob(identity, MAX_FILE_BYTES)
            reason = "it is not in this clone"
        except ObjectTooLargeError as error:
            before, reason = None, f"it has {error.size:,} bytes, at most {error.limit:,} are searched"
        name = self._shown(path)
        if before is None:
            search.skipped.append((f"{inert(name)} at {step.before[:7]}", reason))
            return ()
        if not _may_name(objects, before, after, search.words):
            return ()
        search.parsable -= len(before)
        if search.parsable < 0:
            raise GitError(f"at most {MAX_PARSED_BYTES // MIB} MiB of earlier files are parsed")
        key = path, identity
        if key not in self._parsed:
            source = SourceFile(name, before, layer_of(path))
            self._parsed[key] = tuple(load_file(source, self._profiles).entries)
        return self._parsed[key]

    def _shown(self, path: str) -> str:
        """Return a path relative to the quotas directory as messages name it."""
        return shown_path(self._name / path)


@dataclass(slots=True)
class _Search:
    """One search through the steps, and what it may still parse."""

    cluster: str
    applied: str | None  # The commit of the last apply, if it is known
    wanted: set[Entity]  # Those that were not found yet
    words: frozenset[str]  # By which a line may name one of them
    parsable: int = field(default_factory=lambda: MAX_PARSED_BYTES)
    is_applied: bool = False
    searched: str | None = None  # The oldest commit whose files were searched
    skipped: list[tuple[str, str]] = field(default_factory=list)  # Files, and why they were not searched
    found: dict[Entity, Removal] = field(default_factory=dict)


def _may_name(objects: GitObjects, before: bytes, after: str | bytes | None, words: Collection[str]) -> bool:
    """Whether a line was removed that may name one of the entities: parsing takes a hundred times as long.

    `after` is as in a `CommitStep`; of a file that is gone or too large in the next step, all lines were removed.
    """
    if isinstance(after, str):
        try:
            after = objects.blob(after, MAX_FILE_BYTES)
        except ObjectTooLargeError:
            after = None
    kept = after if after is not None and len(after) <= MAX_FILE_BYTES else b""
    removed = Counter(before.splitlines()) - Counter(kept.splitlines())
    text = b"\n".join(removed).decode(errors="replace")
    # An alias or an escape stands for a name that is written elsewhere, or in another way.
    return "*" in text or "\\" in text or not set(words).isdisjoint(_WORDS(text))
