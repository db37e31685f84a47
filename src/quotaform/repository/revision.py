"""The files of a repository: read from the work tree or another revision, and how much of them is read.

Every use case starts with two values: the `SourceFile` of quotaform.yaml and the `Tree` of the quotas directory. A
reader of a git ref is another `Revision`; no other module needs to know where files come from. It must

* take paths as the user gives them, relative to the current folder, and keep them as the names in messages;
* leave out hidden files and folders, and list folders also when no file in them counts;
* return bytes as they are committed, of the files that `quotaform.desired.tree.is_read` asks for;
* put what cannot be read (a submodule, a link that leads out of the commit) among what is unreadable, with a reason;
* return an absent quotas directory as `Root.MISSING` and an absent quotaform.yaml as `None`.

At a commit, the files are as its objects hold them; the work tree is not touched.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, MutableMapping
from itertools import islice
from pathlib import Path
from stat import S_ISDIR
from typing import Final, TypeAlias

from msgspec import Struct, field

from quotaform.desired.tree import Root, SourceFile, Tree, is_hidden, is_read, shown_path
from quotaform.git import GitError, GitObjects, ObjectTooLargeError, TreeEntry, blob_id
from quotaform.model.errors import FileReadError
from quotaform.model.text import MIB, inert, nearest, size_text
from quotaform.system.files import (
    CONFIG_LIMIT,
    LEADS_OUT,
    QUOTAS_LIMIT,
    is_folder,
    is_link,
    is_within,
    read_bytes,
    reason_of,
)

MOST_ENTRIES: Final = 50_000
"""How many files and folders a quotas directory may have."""
MOST_BYTES: Final = 1024 * MIB
"""How many bytes the files of a quotas directory may have together."""


class DiskFolder(Struct, frozen=True):
    """A folder on disk. Paths are relative to it, and `""` is the folder itself; links are not followed out of it."""

    folder: Path

    def has(self, path: str) -> bool:
        """Whether there is anything at a path."""
        return os.path.lexists(self.folder / path)

    def is_folder(self, path: str) -> bool:
        """Whether a path leads to a folder. Raises `FileReadError` if it is a link that leads nowhere, or out."""
        place = self.folder / path
        if is_link(place):
            try:
                place.stat()
            except FileNotFoundError:
                raise FileReadError(path, "it is a link to a file that does not exist") from None
            except OSError as error:
                raise FileReadError(path, reason_of(error)) from None
            if not is_within(place, self.folder):
                raise FileReadError(path, LEADS_OUT)
        return is_folder(place)

    def names(self, path: str) -> Iterator[str]:
        """Yield the names in a folder; nothing if it is not one. Raises `FileReadError` if it cannot be listed."""
        here = self.folder / path
        if not is_folder(here) or not is_within(here, self.folder):
            return
        try:
            with os.scandir(here) as entries:
                yield from (entry.name for entry in entries)
        except OSError as error:
            raise FileReadError(path, reason_of(error)) from None

    def read(self, path: str, limit: int) -> bytes:
        """Return the content of a file. Raises `FileReadError` if it cannot be read, or has more bytes than a limit."""
        place = self.folder / path
        steps = [place, *place.parents[: path.count("/")]]
        # What no link leads to lies in its folder, and need not be asked where it is.
        return read_bytes(place, limit, within=self.folder if any(map(is_link, steps)) else place.parent)


def read_folder(folder: Folder, name: str, files: MutableMapping[str, bytes] | None = None) -> Tree:
    """Read the files of a quotas directory and of the folders in it; what cannot be read is part of the answer.

    `name`: what messages call it. `files`: what keeps the content of files; in memory by default.
    """
    contents: MutableMapping[str, bytes] = {} if files is None else files
    others: list[str] = []
    folders: list[str] = []
    unreadable: dict[str, str] = {}
    entries = size = 0
    todo = [""]
    for parent in todo:
        try:
            names = list(islice(folder.names(parent), MOST_ENTRIES - entries + 1))
        except FileReadError as error:
            unreadable[parent] = error.reason
            continue
        entries += len(names)
        if entries > MOST_ENTRIES:
            reason = f"it contains more than {MOST_ENTRIES:,} files and directories"
            return Tree(name=name, unreadable={"": reason})
        for path in sorted(f"{parent}/{each}" if parent else each for each in names if not is_hidden(each)):
            try:
                if folder.is_folder(path):
                    folders.append(path)
                    todo += [] if parent else [path]
                elif is_read(path):
                    content = contents[path] = folder.read(path, QUOTAS_LIMIT)
                    size += len(content)
                else:
                    others.append(path)
            except FileReadError as error:
                unreadable[path] = error.reason
            if size > MOST_BYTES:
                reason = f"its files are larger than {MOST_BYTES // MIB} MiB together"
                return Tree(name=name, unreadable={"": reason})
    return Tree(name=name, files=contents, others=others, folders=folders, unreadable=unreadable)


CONFIG_NAME: Final = "quotaform.yaml"
QUOTAS_NAME: Final = "quotas.d"


class WorkTree(Struct, frozen=True):
    """The files as they are on disk. Links are followed within the folder that a file is in, and not out of it.

    `named`: the paths of the command line, which may be and lead anywhere.
    """

    named: frozenset[Path] = frozenset()

    def read_config(self, path: Path) -> SourceFile | None:
        """Read quotaform.yaml; `None` when there is none. Raises `FileReadError` if it is there and cannot be read."""
        within = None if path in self.named else path.parent
        try:
            return SourceFile(shown_path(path), read_bytes(path, CONFIG_LIMIT, within=within))
        except FileReadError as error:
            if error.is_missing:
                return None
            raise

    def read_tree(self, directory: Path, files: MutableMapping[str, bytes] | None = None) -> Tree:
        """Read a quotas directory; what cannot be read is part of the answer. `files`: see `read_folder`."""
        name = directory.as_posix()
        if directory not in self.named and is_link(directory) and not is_within(directory, directory.parent):
            return Tree(name=name, unreadable={"": LEADS_OUT})
        try:
            is_directory = S_ISDIR(directory.stat().st_mode)
        except (FileNotFoundError, NotADirectoryError):
            looked_at, above = find_above(directory)
            return Tree(name=name, root=Root.MISSING, looked_at=looked_at, above=above, near=_near(directory))
        except (OSError, ValueError) as error:
            return Tree(name=name, unreadable={"": reason_of(error)})
        if not is_directory:
            return Tree(name=name, root=Root.FILE)
        return read_folder(DiskFolder(directory), name, files)


WORK_TREE: Final = WorkTree()


def find_above(path: Path) -> tuple[str, str | None]:
    """Return the absolute path of what does not exist, and a clause that names the next repository above it."""
    looked_at = Path(os.path.normpath(Path.cwd() / path))
    for name in (CONFIG_NAME, QUOTAS_NAME):
        if above := next((each for each in looked_at.parent.parents if os.path.lexists(each / name)), None):
            return inert(str(looked_at)), f"{inert(str(above))}, where {name} is"
    return inert(str(looked_at)), None


def _near(directory: Path) -> str | None:
    """Return the path of the directory that a mistyped name may mean; the usual name is not mistyped."""
    if directory.name == QUOTAS_NAME:
        return None
    try:
        with os.scandir(directory.parent) as entries:
            siblings = [each.name for each in islice(entries, 1_000) if each.is_dir()]
    except OSError:
        return None
    name = nearest(directory.name, siblings)
    return None if name is None else inert(directory.with_name(name).as_posix())


class GitRevision(Struct, frozen=True):
    """The files of a repository at a commit; links are followed within it. Whatever reads may raise `GitError`."""

    objects: GitObjects
    root: str  # the id of the commit's tree
    top: Path  # the top of the work tree
    elsewhere: Revision  # reads a quotaform.yaml outside of the work tree, which is in no commit
    similar: Tree | None = None  # the quotas directory in another state: a file with the same content is not read again

    def read_config(self, path: Path) -> SourceFile | None:
        place = self._place(path)
        if place is None:
            return self.elsewhere.read_config(path)
        folder = GitFolder(self.objects, self.root)
        if not folder.has(place):
            return None
        try:
            return SourceFile(shown_path(path), folder.read(place, CONFIG_LIMIT))
        except FileReadError as error:
            raise FileReadError(str(path), error.reason) from None

    def read_tree(self, directory: Path, files: MutableMapping[str, bytes] | None = None) -> Tree:
        name = directory.as_posix()
        place = self._place(directory)
        if place is None:
            raise GitError("the quotas directory is a link that leads out of the git work tree")
        folder = GitFolder(self.objects, self.root, place, {} if self.similar is None else self.similar.files)
        try:
            if folder.is_folder(""):
                return read_folder(folder, name, files)
        except FileReadError as error:
            return Tree(name=name, unreadable={"": error.reason})
        return Tree(name=name, root=Root.FILE if folder.has("") else Root.MISSING)

    def folder(self, path: Path) -> GitFolder | None:
        """Return a folder of the work tree as the commit has it; `None` when it is outside of it."""
        place = self._place(path / "_")  # That of a file in it: links to the folder itself are followed.
        return None if place is None else GitFolder(self.objects, self.root, place.rpartition("/")[0])

    def _place(self, path: Path) -> str | None:
        """Return a path relative to the top of the work tree; `None` outside of it.

        Only the folder that a file is in is looked for on disk: the file itself may be a link at one commit alone.
        """
        real = Path(os.path.normpath(Path(os.path.realpath(path.parent)) / path.name))
        top = os.path.realpath(self.top)
        return real.relative_to(top).as_posix() if real.is_relative_to(top) else None


class GitFolder(Struct, frozen=True):
    """A folder at a commit, see `DiskFolder`; every method may raise `GitError`."""

    objects: GitObjects
    root: str  # the id of the commit's tree
    place: str = ""  # its path, relative to the top of the work tree
    known: Mapping[str, bytes] = field(default_factory=dict)  # contents in another state, by path
    # What is in the folders that were looked into, by place: each is looked for from the top once
    trees: dict[str, Mapping[str, TreeEntry]] = field(default_factory=dict)

    def has(self, path: str) -> bool:
        return self._find(path) is not None

    def is_folder(self, path: str) -> bool:
        found = self._find(path)
        if isinstance(found, str):
            raise FileReadError(path, found)
        return found is not None and found.is_folder

    def names(self, path: str) -> Iterator[str]:
        return iter(self._tree(self._join(path)))

    def read(self, path: str, limit: int) -> bytes:
        found = self._find(path)
        if not isinstance(found, TreeEntry) or not found.is_file:
            raise FileReadError(path, found if isinstance(found, str) else "it is a directory")
        known = self.known.get(path)
        if known is not None and blob_id(known, found.id) == found.id:
            return known
        try:
            content = self.objects.blob(found.id, limit)
        except ObjectTooLargeError:
            raise FileReadError(path, f"it is larger than {size_text(limit)}") from None
        if content is None:
            raise GitError(self.objects.error_message() or "this clone does not hold all files of it; fetch them")
        return content

    def entry(self, path: str) -> TreeEntry:
        """Return the entry of a path, links followed; that of what does not exist is neither a file nor a folder."""
        return self.objects.entry(self.root, self._join(path)) or TreeEntry(0, "")

    def _find(self, path: str) -> TreeEntry | str | None:
        """Return what the commit has at a path, why that cannot be read, or `None` for nothing."""
        place = self._join(path)
        above, _, name = place.rpartition("/")
        listed = self._tree(above).get(name) if place else self.entry("")
        if listed is None:
            return None
        entry = self.entry(path) if listed.is_link else listed
        if 0o160000 in (listed.mode, entry.mode):
            return "it is a submodule, whose files are not read"
        return entry if entry.mode else "it is a link that leads out of the commit, or to a file that does not exist"

    def _tree(self, place: str) -> Mapping[str, TreeEntry]:
        """Return what is in a folder, given from the top, by name; nothing if it is not one."""
        if place not in self.trees:
            entry = self.objects.entry(self.root, place)
            found = self.objects.tree(entry.id) if entry is not None and entry.is_folder else {}
            if any("/" in name for name in found):
                raise GitError("a folder of the repository is damaged")
            self.trees[place] = found
        return self.trees[place]

    def _join(self, path: str) -> str:
        return "/".join(part for part in (self.place, path) if part)


Folder: TypeAlias = DiskFolder | GitFolder
"""A folder in one state of the files."""
Revision: TypeAlias = WorkTree | GitRevision
"""A state of the files of a repository."""
