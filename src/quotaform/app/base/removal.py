"""What the files declared before and do not declare any more, by the commits that git holds.

The files of this moment are compared with HEAD, HEAD with its first parent, and so on: along the branch, so that a
merge is one step. What a file says that is not there any more in the next step was removed by that step. The steps
are gone back in time, and the last thing that the files said about an entity counts: when that was `state: absent`,
or an entry that has expired, nothing was left behind.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from datetime import date
from pathlib import Path, PurePosixPath
from re import compile as regex
from threading import Lock
from typing import TYPE_CHECKING, Final, NamedTuple

from quotaform.app.git.object import Commit
from quotaform.app.git.object_store import GitObjects, open_objects
from quotaform.app.git.process import GitError, ObjectTooLargeError, TimeLeft
from quotaform.app.repository.source import is_blob, list_files
from quotaform.core.check.facts import NotSearched, Removal, RemovalSearch
from quotaform.files import MIB
from quotaform.model.entity import DEFAULT_WORD, Entity
from quotaform.model.entry import Cause, Entry

if TYPE_CHECKING:
    from quotaform.desired.declaration import Profiles
    from quotaform.desired.tree import Tree

MAX_COMMITS: Final = 500
"""How many commits are gone back."""

MAX_FILE_BYTES: Final = 2 * MIB
"""The largest earlier file that is searched; the time that a file takes to be parsed has no other limit."""

MAX_PARSED_BYTES: Final = 4 * MIB
"""How much is parsed for a cluster: files of which a line was removed that has the name of an entity in question."""

_WORDS: Final = regex(r"[^\s{}\[\],:\"'#]+").findall


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
            today: The day (UTC) on which entries may have expired.
            left: How long the repository may still be read.
        """
        self._top = top
        self._today = today
        self._left = left
        self._lock = Lock()
        self._walk = _Walk(folder, head, tree)
        self._steps: list[Step] = []
        self._parser = _Parser(tree, profiles)

    def find(self, cluster: str, entities: Collection[Entity]) -> RemovalSearch:
        """Look for entities that the files of a cluster declared before.

        Args:
            cluster: Its name.
            entities: Entities that the files do not declare now.
        """
        search = _Search(self._parser, cluster, entities, self._today)
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
        while (step := self._walk.next(objects)) is not None:
            self._steps.append(step)
            yield step


class _Walk:
    """The way back along the first parents. When reading fails, the next try goes on at the same commit."""

    def __init__(self, folder: str, head: Commit, tree: Tree) -> None:
        self._folder = folder
        self._head = head
        self._last: Commit | None = None
        self._count = 0
        self._listed: str | None = None
        self._now: Mapping[str, str | bytes] = tree.files

    def next(self, objects: GitObjects) -> Step | None:
        """Return the step to the next commit, `None` after the first commit of the repository.

        Raises:
            GitError: Git does not answer, a limit is reached, or the clone does not hold the commit.
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


class _Parser:
    """Reads earlier files, each one once for all clusters."""

    def __init__(self, tree: Tree, profiles: Profiles) -> None:
        self._tree = tree
        self._name = PurePosixPath(tree.name)
        self._profiles = profiles
        self._parsed: dict[tuple[str, str], tuple[Entry, ...]] = {}
        self._names: frozenset[str] | None = None

    def shown(self, path: str) -> str:
        from quotaform.desired.tree import shown_path

        return shown_path(self._name / path)

    def exists(self, name: str) -> bool:
        """Whether there is a file of this name, as messages have it, at this moment."""
        if self._names is None:
            self._names = frozenset(map(self.shown, self._tree.files))
        return name in self._names

    def entries(self, replaced: Replaced, content: bytes) -> tuple[Entry, ...]:
        from quotaform.desired.loader import load_file
        from quotaform.desired.tree import SourceFile, layer_of

        key = (replaced.path, replaced.before)
        if key not in self._parsed:
            source = SourceFile(self.shown(replaced.path), content, layer_of(replaced.path))
            self._parsed[key] = tuple(load_file(source, self._profiles).entries)
        return self._parsed[key]


class _Search:
    """One search through the steps, and what it may still parse."""

    def __init__(self, parser: _Parser, cluster: str, entities: Collection[Entity], today: date) -> None:
        self._parser = parser
        self._cluster = cluster
        self._today = today
        self._wanted = set(entities)
        self._words = frozenset(word for entity in entities for word in _first_words(entity))
        self._parsable = MAX_PARSED_BYTES
        self._searched: str | None = None
        self._skipped: list[NotSearched] = []
        self._found: dict[Entity, Removal] = {}

    @property
    def is_done(self) -> bool:
        """Whether all entities were found."""
        return not self._wanted

    def add(self, objects: GitObjects, step: Step) -> None:
        """Search the files that a step replaced.

        Raises:
            GitError: Git does not answer, or a limit is reached.
        """
        from quotaform.desired.tree import layer_of

        declared: dict[Entity, Entry] = {}
        for layer in (None, self._cluster):
            for replaced in step.replaced:
                if layer_of(replaced.path) == layer:
                    declared.update(self._entries(objects, step, replaced))
        for entity, entry in declared.items():
            self._wanted.discard(entity)
            if entry.cause is Cause.ENTRY and entry.file and not self._is_expired(entry):
                name = entry.file.name
                self._found[entity] = Removal(name, step.commit, file_exists=self._parser.exists(name))
        self._searched = step.before

    def result(self, problem: str | None = None) -> RemovalSearch:
        """Return what was found; what was not searched counts only when an entity was not found.

        Args:
            problem: Why the search ended early, if it did.
        """
        not_searched: list[NotSearched] = []
        if self._skipped and not self.is_done:
            not_searched.append(replace(self._skipped[0], count=len(self._skipped)))
        if problem is not None:
            not_searched.append(NotSearched(problem, self._searched))
        return RemovalSearch(self._found, tuple(not_searched))

    def _is_expired(self, entry: Entry) -> bool:
        return entry.expires is not None and entry.expires <= self._today

    def _entries(self, objects: GitObjects, step: Step, replaced: Replaced) -> dict[Entity, Entry]:
        """Return what a replaced file declared of the entities in question."""
        try:
            before = objects.blob(replaced.before, MAX_FILE_BYTES)
            reason = "it is not in this clone"
        except ObjectTooLargeError as error:
            before, reason = None, f"it has {error.size:,} bytes, at most {error.limit:,} are searched"
        if before is None:
            self._skipped.append(NotSearched(reason, step.before, self._parser.shown(replaced.path)))
            return {}
        if not _may_name(before, _after(objects, replaced), self._words):
            return {}
        self._parsable -= len(before)
        if self._parsable < 0:
            raise GitError(f"at most {MAX_PARSED_BYTES // MIB} MiB of earlier files are parsed")
        return {entry.entity: entry for entry in self._parser.entries(replaced, before) if entry.entity in self._wanted}


def _after(objects: GitObjects, replaced: Replaced) -> bytes:
    """Return the content in the next step; empty when it is gone or too large, so that all lines were removed."""
    after = replaced.after
    if isinstance(after, str):
        try:
            after = objects.blob(after, MAX_FILE_BYTES)
        except ObjectTooLargeError:
            after = None
    return after if after is not None and len(after) <= MAX_FILE_BYTES else b""


def _is_same(now: str | bytes | None, identity: str) -> bool:
    return is_blob(now, identity) if isinstance(now, bytes) else now == identity


def _may_name(before: bytes, after: bytes, words: Collection[str]) -> bool:
    """Whether a line was removed that may name one of the entities: parsing takes a hundred times as long."""
    removed = Counter(before.splitlines()) - Counter(after.splitlines())
    text = b"\n".join(removed).decode(errors="replace")
    # An alias or an escape stands for a name that is written elsewhere, or in another way.
    return "*" in text or "\\" in text or not set(words).isdisjoint(_WORDS(text))


def _first_words(entity: Entity) -> Iterator[str]:
    for _, name in entity.parts:
        yield from _WORDS(DEFAULT_WORD if name is None else name)[:1]
