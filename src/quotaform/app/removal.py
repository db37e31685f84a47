"""What the files declared before and do not declare any more, by the commits that git holds.

The files of this moment are compared with HEAD, HEAD with its first parent, and so on: along the branch, so that a
merge is one step. What a file says that is not there any more in the next step was removed by that step. The steps
are gone back in time, and the last thing that the files said about an entity counts: when that was `state: absent`,
or an entry that has expired, nothing was left behind.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from datetime import date
from itertools import islice
from pathlib import Path, PurePosixPath
from re import compile as regex
from threading import Lock
from typing import TYPE_CHECKING, Final, NamedTuple

from quotaform.app.git import Commit, GitError, GitObjects, open_objects
from quotaform.app.source import is_content, list_files
from quotaform.core.check.facts import Removal
from quotaform.model.entity import DEFAULT_WORD, Entity
from quotaform.model.entry import Cause, Entry

if TYPE_CHECKING:
    from quotaform.desired.declaration import Profiles
    from quotaform.desired.tree import Tree

MAX_COMMITS: Final = 500
"""How many commits are gone back."""

MAX_READ_BYTES: Final = 32 * 1024 * 1024
"""How much is read of commits and folders, and again of earlier files."""

MAX_PARSED_BYTES: Final = 4 * 1024 * 1024
"""How much of it is parsed: files of which a line was removed that has the name of an entity in question."""

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
    """What one commit replaced; `None` is what is not committed."""

    commit: str | None
    replaced: tuple[Replaced, ...]


class Removals:
    """The history of a quotas directory. Threads may share this."""

    def __init__(self, top: Path, folder: str, head: Commit, tree: Tree, profiles: Profiles, today: date) -> None:
        """Describe the history.

        Args:
            top: The top of the git work tree.
            folder: The quotas directory, relative to it.
            head: The commit that is checked out.
            tree: The quotas directory as it is now.
            profiles: The profiles of quotaform.yaml.
            today: The day (UTC) on which entries may have expired.
        """
        self._top = top
        self._folder = folder
        self._head = head
        self._tree = tree
        self._profiles = profiles
        self._today = today
        self._lock = Lock()
        self._steps: list[Step] | None = None

    def find(self, cluster: str, entities: Collection[Entity]) -> Mapping[Entity, Removal]:
        """Return which entities the files of a cluster declared before, with where they were removed.

        Args:
            cluster: Its name.
            entities: Entities that the files do not declare now.

        Raises:
            GitError: Git does not answer.
        """
        with self._lock, open_objects(self._top) as objects:
            if self._steps is None:
                self._steps = []
                # What is too large or damaged ends the search; what was found before it counts.
                with suppress(GitError):
                    self._steps.extend(self._read_steps(objects))
            return _Search(objects, self._tree.name, self._profiles, self._today).find(self._steps, cluster, entities)

    def _read_steps(self, objects: GitObjects) -> Iterator[Step]:
        """Yield the steps, newest first; what a shallow or partial clone does not hold ends them."""
        now: Mapping[str, str | bytes] = self._tree.files
        later: str | None = None
        listed: str | None = None
        for commit in islice(_first_parents(objects, self._head), MAX_COMMITS):
            if objects.bytes_read > MAX_READ_BYTES:
                return
            folder = objects.entry(commit.tree, self._folder)
            if folder is not None and folder.id == listed:
                later = commit.id
                continue
            listed = None if folder is None else folder.id
            before = list_files(objects, commit.tree, self._folder)
            replaced = tuple(
                Replaced(path, identity, now.get(path))
                for path, identity in before.items()
                if not _is_same(now.get(path), identity)
            )
            if replaced:
                yield Step(later, replaced)
            now, later = before, commit.id


class _Search:
    """One search through the steps, and what it may still read."""

    def __init__(self, objects: GitObjects, name: str, profiles: Profiles, today: date) -> None:
        self._objects = objects
        self._name = PurePosixPath(name)
        self._profiles = profiles
        self._today = today
        self._readable = MAX_READ_BYTES
        self._parsable = MAX_PARSED_BYTES

    def find(self, steps: Collection[Step], cluster: str, entities: Collection[Entity]) -> dict[Entity, Removal]:
        wanted = set(entities)
        words = {word for entity in wanted for word in _first_words(entity)}
        found: dict[Entity, Removal] = {}
        for step in steps:
            said: dict[Entity, Entry] = {}
            for layer in (None, cluster):
                for replaced in step.replaced:
                    if _layer(replaced.path) == layer:
                        said.update(self._entries(replaced, layer, wanted, words))
            for entity, entry in said.items():
                wanted.discard(entity)
                if entry.cause is Cause.ENTRY and entry.file and not self._is_expired(entry):
                    found[entity] = Removal(file=entry.file.name, commit=step.commit)
            if not wanted or self._readable < 0 or self._parsable < 0:
                break
        return found

    def _is_expired(self, entry: Entry) -> bool:
        return entry.expires is not None and entry.expires <= self._today

    def _entries(
        self, replaced: Replaced, layer: str | None, wanted: Collection[Entity], words: Collection[str]
    ) -> dict[Entity, Entry]:
        """Return what a replaced file said about the entities in question."""
        from quotaform.desired.loader import load_file
        from quotaform.desired.tree import SourceFile, shown_path

        before = self._content(replaced.before)
        after = self._content(replaced.after)
        if (
            before is None
            or self._readable < 0
            or len(before) > MAX_PARSED_BYTES
            or not _may_name(before, after or b"", words)
        ):
            return {}
        self._parsable -= len(before)
        if self._parsable < 0:
            return {}
        loaded = load_file(SourceFile(shown_path(self._name / replaced.path), before, layer), self._profiles)
        return {entry.entity: entry for entry in loaded.entries if entry.entity in wanted}

    def _content(self, identity: str | bytes | None) -> bytes | None:
        if identity is None or isinstance(identity, bytes):
            return identity
        content: bytes | None = None
        with suppress(GitError):
            content = self._objects.blob(identity)
        self._readable -= len(content or b"")
        return content


def _first_parents(objects: GitObjects, head: Commit) -> Iterator[Commit]:
    commit: Commit | None = head
    while commit is not None:
        yield commit
        commit = objects.commit(commit.parents[0]) if commit.parents else None


def _is_same(now: str | bytes | None, identity: str) -> bool:
    return is_content(now, identity) if isinstance(now, bytes) else now == identity


def _layer(path: str) -> str | None:
    folder, slash, _ = path.partition("/")
    return folder if slash else None


def _may_name(before: bytes, after: bytes, words: Collection[str]) -> bool:
    """Whether a line was removed that may name one of the entities: parsing takes a hundred times as long."""
    removed = Counter(before.splitlines()) - Counter(after.splitlines())
    text = b"\n".join(removed).decode(errors="replace")
    # An alias or an escape stands for a name that is written elsewhere, or in another way.
    return "*" in text or "\\" in text or not set(words).isdisjoint(_WORDS(text))


def _first_words(entity: Entity) -> Iterator[str]:
    for _, name in entity.parts:
        yield from _WORDS(DEFAULT_WORD if name is None else name)[:1]
