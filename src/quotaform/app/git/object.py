"""The objects of git: commits, folders and the ids of files, from the bytes in which git keeps them.

Whoever pushes may make objects that git itself would not write; what is not of the form is damaged.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import new as new_hash
from re import compile as regex
from stat import S_ISDIR, S_ISLNK, S_ISREG
from typing import Final, NamedTuple

_is_id: Final = regex(rb"[0-9a-f]{40}|[0-9a-f]{64}").fullmatch
_is_mode: Final = regex(rb"[0-7]{1,6}").fullmatch


class DamagedObjectError(Exception):
    """The content of an object is not of the form of its kind."""


class TreeEntry(NamedTuple):
    """What a tree says of a name: the mode, as of a file, and the id of the object."""

    mode: int
    id: str

    @property
    def is_folder(self) -> bool:
        """Whether it is a tree."""
        return S_ISDIR(self.mode)

    @property
    def is_file(self) -> bool:
        """Whether it is the content of a file."""
        return S_ISREG(self.mode)

    @property
    def is_link(self) -> bool:
        """Whether it is a symbolic link."""
        return S_ISLNK(self.mode)


@dataclass(frozen=True, slots=True)
class Commit:
    """A commit: its id, the id of its tree, and its parents, of which the first is the branch that it was made on."""

    id: str
    tree: str
    parents: tuple[str, ...]


def parse_commit(commit_id: str, content: bytes) -> Commit:
    """Read the content of a commit: a header of `KEY VALUE` lines, an empty line, the message.

    Raises `DamagedObjectError` if there is no tree, or an id is none.
    """
    header = [line.partition(b" ") for line in content.partition(b"\n\n")[0].split(b"\n")]
    trees = [value for key, _, value in header if key == b"tree"]
    parents = [value for key, _, value in header if key == b"parent"]
    if not trees or not all(map(_is_id, (*trees, *parents))):
        raise DamagedObjectError
    return Commit(commit_id, trees[0].decode(), tuple(parent.decode() for parent in parents))


def parse_tree(content: bytes, width: int) -> Mapping[str, TreeEntry]:
    """Read the content of a tree: `MODE NAME NUL ID` again and again, with ids of `width` bytes.

    Raises `DamagedObjectError` if a mode is none, or the content ends early.
    """
    entries: dict[str, TreeEntry] = {}
    start = 0
    while start < len(content):
        end = content.find(b"\0", start)
        mode, _, name = content[start:end].partition(b" ")
        start = end + 1 + width
        if end < 0 or start > len(content) or not _is_mode(mode):
            raise DamagedObjectError
        entries[name.decode(errors="surrogateescape")] = TreeEntry(int(mode, 8), content[end + 1 : start].hex())
    return entries


def blob_id(content: bytes, like: str) -> str:
    """Return the id that git gives to the content of a file.

    `like` is another id of the same repository, which tells the kind of hash.
    """
    digest = new_hash("sha1" if len(like) == 40 else "sha256", b"blob %d\0" % len(content), usedforsecurity=False)
    digest.update(content)
    return digest.hexdigest()
