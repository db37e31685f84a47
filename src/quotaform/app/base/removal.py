"""What the files declared before and do not declare any more, by the commits that git holds.

What a file says that is not there any more in the next step of its history was removed by that step. The steps are gone
back in time, and the last thing that the files said about an entity counts: when that was `state: absent`, or an entry
that has expired, nothing was left behind.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator
from dataclasses import replace
from datetime import date
from pathlib import Path, PurePosixPath
from re import compile as regex
from threading import Lock
from typing import TYPE_CHECKING, Any, Final

from quotaform.app.base.history import History, Replaced, Step
from quotaform.app.git.object import Commit
from quotaform.app.git.object_store import GitObjects, open_objects
from quotaform.app.git.process import GitError, ObjectTooLargeError, TimeLeft
from quotaform.core.check.facts import NotSearched, Removal, RemovalSearch
from quotaform.files import MIB
from quotaform.model.entity import DEFAULT_WORD, Entity
from quotaform.model.entry import Cause, Entry

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


MAX_FILE_BYTES: Final = 2 * MIB
"""The largest earlier file that is searched; the time that a file takes to be parsed has no other limit."""

MAX_PARSED_BYTES: Final = 4 * MIB
"""How much is parsed for a cluster: files of which a line was removed that has the name of an entity in question."""

_WORDS: Final = regex(r"[^\s{}\[\],:\"'#]+").findall


class EarlierFiles:
    """Reads earlier files, each one once for all clusters."""

    def __init__(self, tree: Tree, profiles: Profiles) -> None:
        """Start with nothing read.

        `tree` is the quotas directory as it is now. `profiles` are the profiles of quotaform.yaml.
        """
        self._tree = tree
        self._name = PurePosixPath(tree.name)
        self._profiles = profiles
        self._parsed: dict[tuple[str, str], tuple[Entry, ...]] = {}
        self._names: frozenset[str] | None = None

    def shown(self, path: str) -> str:
        """Return a path relative to the quotas directory as messages name it."""
        from quotaform.desired.tree import shown_path

        return shown_path(self._name / path)

    def exists(self, name: str) -> bool:
        """Whether there is a file of this name, as messages have it, at this moment."""
        if self._names is None:
            self._names = frozenset(map(self.shown, self._tree.files))
        return name in self._names

    def entries(self, replaced: Replaced, content: bytes) -> tuple[Entry, ...]:
        """Return what a replaced file declared."""
        from quotaform.desired.loaded_file import load_file
        from quotaform.desired.tree import SourceFile, layer_of

        key = (replaced.path, replaced.before)
        if key not in self._parsed:
            source = SourceFile(self.shown(replaced.path), content, layer_of(replaced.path))
            self._parsed[key] = tuple(load_file(source, self._profiles).entries)
        return self._parsed[key]


class EntitySearch:
    """One search through the steps, and what it may still parse."""

    def __init__(
        self,
        files: EarlierFiles,
        cluster: str,
        entities: Collection[Entity],
        today: date,
        applied: str | None = None,
    ) -> None:
        """Start with nothing found. `applied` is the commit of the last apply, if it is known."""
        self._files = files
        self._cluster = cluster
        self._applied = applied
        self._is_applied = False
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
        """Search the files that a step replaced. Raises `GitError` if git does not answer, or a limit is reached."""
        from quotaform.desired.tree import layer_of

        # The steps go back in time: what the commit of the last apply or an earlier one removed was removed there.
        self._is_applied = self._is_applied or (step.commit is not None and step.commit == self._applied)
        declared: dict[Entity, Entry] = {}
        for layer in (None, self._cluster):
            for replaced in step.replaced:
                if layer_of(replaced.path) == layer:
                    declared.update(self._entries(objects, step, replaced))
        for entity, entry in declared.items():
            self._wanted.discard(entity)
            if entry.cause is Cause.ENTRY and entry.file and not self._is_expired(entry):
                name = entry.file.name
                self._found[entity] = Removal(
                    name, step.commit, file_exists=self._files.exists(name), is_applied=self._is_applied
                )
        self._searched = step.before

    def result(self, problem: str | None = None) -> RemovalSearch:
        """Return what was found; what was not searched counts only when an entity was not found.

        `problem` is why the search ended early, if it did.
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
            self._skipped.append(NotSearched(reason, step.before, self._files.shown(replaced.path)))
            return {}
        if not _may_name(before, _after(objects, replaced), self._words):
            return {}
        self._parsable -= len(before)
        if self._parsable < 0:
            raise GitError(f"at most {MAX_PARSED_BYTES // MIB} MiB of earlier files are parsed")
        return {entry.entity: entry for entry in self._files.entries(replaced, before) if entry.entity in self._wanted}


def _after(objects: GitObjects, replaced: Replaced) -> bytes:
    """Return the content in the next step; empty when it is gone or too large, so that all lines were removed."""
    after = replaced.after
    if isinstance(after, str):
        try:
            after = objects.blob(after, MAX_FILE_BYTES)
        except ObjectTooLargeError:
            after = None
    return after if after is not None and len(after) <= MAX_FILE_BYTES else b""


def _may_name(before: bytes, after: bytes, words: Collection[str]) -> bool:
    """Whether a line was removed that may name one of the entities: parsing takes a hundred times as long."""
    removed = Counter(before.splitlines()) - Counter(after.splitlines())
    text = b"\n".join(removed).decode(errors="replace")
    # An alias or an escape stands for a name that is written elsewhere, or in another way.
    return "*" in text or "\\" in text or not set(words).isdisjoint(_WORDS(text))


def _first_words(entity: Entity) -> Iterator[str]:
    for _, name in entity.parts:
        yield from _WORDS(DEFAULT_WORD if name is None else name)[:1]
