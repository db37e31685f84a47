"""A quotas directory as paths and bytes, and the rules of its layout.

Nothing is read here: a `Tree` can be created from a work tree, a git commit or rows on a Spark executor.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from enum import Enum
from itertools import islice
from pathlib import PurePath, PurePosixPath
from typing import Final

from msgspec import Struct, field

from quotaform.model import rule
from quotaform.model.entity import spell_name
from quotaform.model.finding import Finding, Location
from quotaform.model.rule import FindingRule
from quotaform.model.text import did_you_mean, inert, listed, quote

_TEXTS: Final = frozenset({"changelog", "contributing", "license", "notes", "notice", "readme"})
"""Names, without their endings, of files that are never quotas."""
_DISABLED: Final = (".bak", ".disabled", ".old", ".orig", ".txt", ".yaml~", ".yml~")
_MOST_PROBLEMS: Final = 1000
"""The limit on problems collected in a tree; fewer are shown."""


class Root(Enum):
    """The kind of file at the path of a quotas directory."""

    DIRECTORY = "directory"
    FILE = "file"
    MISSING = "missing"


class Tree(Struct, frozen=True, kw_only=True):
    """A quotas directory. Paths are relative to it and have slashes; hidden files and folders are left out."""

    name: str  # the directory in messages, as it was given
    files: Mapping[str, bytes] = field(default_factory=dict)  # path to content, of the files that `is_read` asks for
    others: Collection[str] = ()  # the paths of all other files
    folders: Collection[str] = ()  # the paths of the folders; what is in a folder of a folder need not be listed
    # Path to reason, of files and folders that could not be read; `""` is the directory itself
    unreadable: Mapping[str, str] = field(default_factory=dict)
    root: Root = Root.DIRECTORY  # what there is at the path of the directory
    looked_at: str | None = None  # if there is nothing: its absolute path, as far as it is known
    near: str | None = None  # a sibling that may be meant
    above: str | None = None  # the directory above it to run this in, and what is there, in words

    @property
    def has_files(self) -> bool:
        """Whether there is a file to read, or one that could not be read."""
        return bool(self.files or self.unreadable)

    @property
    def missing(self) -> str | None:
        """Why there are no files; `None` if there are."""
        if self.root is Root.MISSING:
            return f"the quotas directory {inert(self.name)} does not exist; give the path of another one, or create it"
        return None if self.files else f"the quotas directory {inert(self.name)} contains no YAML file"


class SourceFile(Struct, frozen=True):
    """The text of one file."""

    name: str  # the file in messages
    text: bytes | str  # its content; bytes are UTF-8
    layer: str | None = None  # the cluster that it is for; `None` for all


class Layout:
    """The files of a tree by layer, and what is wrong with where they are."""

    def __init__(self, tree: Tree, clusters: Collection[str] = (), *, may_be_empty: bool = False) -> None:
        self.tree = tree
        self.may_be_empty = may_be_empty  # whether it is no problem that there is no file, see `Tree.missing`
        self.clusters = frozenset(clusters)  # the names of all clusters: what folders may be called
        self._known = dict.fromkeys(sorted(self.clusters))
        self._folders = dict.fromkeys(sorted(path for path in tree.folders if "/" not in path))
        self._paths: dict[str | None, list[str]] = {}
        self._nested = [path for path in tree.folders if path.count("/") == 1]
        self._unread: dict[str | None, list[Finding]] = {}
        for path in (path for path in tree.others if path.count("/") <= 1):
            name = path.rpartition("/")[2].lower()
            if name.endswith((".json", ".yaml.txt", ".yml.txt")):
                broken = rule.UNREAD_FILE
            elif name.partition(".")[0] not in _TEXTS and (
                name.endswith(_DISABLED) or ".yaml." in name or ".yml." in name
            ):
                broken = rule.DISABLED_FILE
            else:
                continue
            text = "only .yaml and .yml files are read, so this file declares nothing; rename it, or move it elsewhere"
            self._unread.setdefault(layer_of(path), []).append(self._problem(broken, text, path))
        for path in sorted(tree.files, key=lambda path: path.split("/")):
            if path.count("/") <= 1:
                self._paths.setdefault(layer_of(path), []).append(path)
        # What is the same for every cluster is found once: there may be very many clusters, each with a folder.
        self._astray = list(islice(self._misplaced(self._known), _MOST_PROBLEMS))
        self._has_files = any(layer in self._paths for layer in (None, *self._known))

    def layer(self, name: str | None) -> Iterable[SourceFile]:
        """Yield the files of one layer: a cluster's own, or the common ones for `None`."""
        for path in self._paths.get(name, ()):
            yield SourceFile(self._shown(path), self.tree.files[path], name)

    def problems(self, cluster: str | None) -> list[Finding]:
        """Return the first problems of a cluster: files that would be ignored, cannot be read or are missing."""
        if self.tree.root is Root.MISSING and self.may_be_empty:
            return []
        if self.tree.root is not Root.DIRECTORY:
            return [self._problem(rule.EMPTY_DIRECTORY, self._root_text(), "")]
        known, astray, has_files = self._known, self._astray, self._has_files
        if cluster is not None and cluster not in known:
            known = dict.fromkeys(sorted({*known, cluster}))
            astray, has_files = list(self._misplaced(known)), has_files or cluster in self._paths
        unread = [finding for layer in dict.fromkeys((None, cluster)) for finding in self._unread.get(layer, ())]
        errors = [*astray, *(finding for finding in unread if finding.rule == rule.UNREAD_FILE.id)]
        for path, reason in self.tree.unreadable.items():
            if path in known if path in self._folders else layer_of(path) in (None, cluster):
                errors.append(self._problem(rule.UNREADABLE, f"cannot be read: {reason}", path))
        unreadable = any(is_read(path) and layer_of(path) in known for path in self.tree.unreadable)
        if not (errors or self.may_be_empty or has_files or unreadable):
            text = "the quotas directory contains no YAML file; to declare no quotas, add a file such as "
            example = PurePosixPath(self.tree.name) / "defaults.yaml"
            errors = [self._problem(rule.EMPTY_DIRECTORY, f"{text}{example} that contains quotas: []", "")]
        warnings = [finding for finding in unread if finding.rule == rule.DISABLED_FILE.id]
        return [*errors[:_MOST_PROBLEMS], *warnings[:_MOST_PROBLEMS]]

    def _misplaced(self, known: Collection[str]) -> Iterator[Finding]:
        for path in self._folders:
            if path not in known:
                clusters = f"the clusters are {listed(known)}" if known else "quotaform.yaml defines no cluster"
                text = f"the directory {quote(path)} is not the name of a cluster and would be ignored"
                text += f"{did_you_mean(path, known) or ';'} {clusters}"
                yield self._problem(rule.UNKNOWN_CLUSTER, text, path)
        for path in self._nested:
            if layer_of(path) in known:
                text = "a directory within the directory of a cluster is not read; move its files up"
                yield self._problem(rule.NESTED_DIRECTORY, text, path)

    def _root_text(self) -> str:
        path = PurePosixPath(self.tree.name)
        if self.tree.root is Root.FILE:
            return f"this is a file; give the quotas directory that contains it: {path.parent}"
        example = path / "defaults.yaml"
        problem = "the quotas directory does not exist"
        if self.tree.looked_at not in (None, inert(self.tree.name)):
            problem += f": there is no {self.tree.looked_at}"
        if self.tree.near is not None:
            return f"{problem}; did you mean {self.tree.near}?"
        if self.tree.above is not None:
            return f"{problem}; run this in {self.tree.above}"
        return f"{problem}; create it, with a file such as {example} (to declare no quotas: quotas: [])"

    def _shown(self, path: str) -> str:
        return shown_path(PurePosixPath(self.tree.name) / path)

    def _problem(self, broken: FindingRule, message: str, path: str) -> Finding:
        return broken.finding(message, location=Location(self._shown(path)))


def layer_of(path: str) -> str | None:
    """Return the cluster that a file of a tree is for, by its path; `None` for all.

    >>> layer_of("prod/orders.yaml"), layer_of("orders.yaml")
    ('prod', None)
    """
    folder, slash, _ = path.partition("/")
    return folder if slash else None


def is_read(path: str) -> bool:
    """Whether a file of a tree is read, by its path.

    >>> is_read("prod/orders.yaml"), is_read("README.md"), is_read(".hidden.yaml")
    (True, False, False)
    """
    return not is_hidden(path) and PurePosixPath(path).suffix.lower() in {".yaml", ".yml"}


def is_hidden(path: str) -> bool:
    """Whether a file or folder is not part of a tree, by its path."""
    return any(part.startswith(".") for part in path.split("/"))


def decode(source: SourceFile) -> str | Finding:
    """Return the text of a source, or why it is not text."""
    try:
        if isinstance(source.text, bytes):
            return source.text.decode("utf-8-sig")
        source.text.encode()
        return source.text.removeprefix("\ufeff")
    except UnicodeEncodeError as error:
        text = f"character {error.start + 1} is half of a surrogate pair, which files cannot contain"
        line = error.object.count("\n", 0, error.start) + 1
    except UnicodeDecodeError as error:
        text = f"byte {error.start + 1} is not UTF-8; save the file as UTF-8"
        line = error.object.count(b"\n", 0, error.start) + 1
        if error.object[:2] in {b"\xff\xfe", b"\xfe\xff"}:
            text, line = "this is UTF-16; save the file as UTF-8", 0
    return rule.NOT_UTF8.finding(text, location=Location(source.name, line))


def shown_path(path: PurePath) -> str:
    """Return a path as messages print it: as it is, unless it could forge a line of output."""
    text = path.as_posix()
    return text if text.isprintable() else spell_name(text)
