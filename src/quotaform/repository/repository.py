"""A quota repository: its files and their style, its configuration, the clusters that are meant, other repositories.

Paths of other repositories (`roots`) are relative to quotaform.yaml and lead, once all links are followed, to somewhere
in the same git work tree, or in the folder above that of quotaform.yaml. What is there is read like any repository:
nothing in it is trusted.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, MutableMapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import date
from os import PathLike
from pathlib import Path, PurePosixPath
from types import NoneType
from typing import TYPE_CHECKING, Final

from msgspec import Struct, structs

from quotaform.desired.approval import read_approvals
from quotaform.desired.config import (
    Cluster,
    Config,
    WrittenText,
    choose_cluster,
    choose_clusters,
    prune_problem,
    read_config,
    several_clusters,
)
from quotaform.desired.loader import Claim, LoadedFiles
from quotaform.desired.tree import Layout, Root, SourceFile, Tree, is_read, shown_path
from quotaform.git import find_work_tree
from quotaform.model import rule
from quotaform.model.errors import ArgumentError, FileReadError, InvalidFilesError, UsageError, as_usage_error
from quotaform.model.finding import APPROVALS_NAME, Approval, Finding, Location
from quotaform.model.rule import FindingRule
from quotaform.model.server import parse_servers
from quotaform.model.settings import PruneMode
from quotaform.model.text import inert, require_items, require_type
from quotaform.repository.revision import CONFIG_NAME, QUOTAS_NAME, WORK_TREE, Revision, WorkTree, find_above
from quotaform.system.files import QUOTAS_LIMIT, is_folder, is_within, read_bytes

if TYPE_CHECKING:
    from quotaform.desired.format import FormattedFile


class Target(Struct, frozen=True, kw_only=True):
    """The clusters that are meant, as the command line says it."""

    # Names in quotaform.yaml, or globs over them; may be left out when there is one cluster
    clusters: tuple[str, ...] = ()
    takes_all: bool = False  # whether every cluster of quotaform.yaml is meant
    bootstrap_servers: str | None = None  # brokers to ask instead of those in quotaform.yaml
    command_config: Path | None = None  # a Java-style client properties file, with `bootstrap_servers`
    snapshot: Path | None = None  # a snapshot file to plan against instead of a cluster
    # Whether brokers to ask stand for a cluster of quotaform.yaml, so that its files are the ones meant
    needs_name: bool = True

    def __post_init__(self) -> None:
        require_items(self.clusters, str, "clusters", "names")
        require_type(self.bootstrap_servers, (str, NoneType), "bootstrap_servers", "a string")


class Repository(Struct, frozen=True, kw_only=True):
    """Where the files are."""

    directory: Path
    config_path: Path
    needs_config: bool = False  # whether it must exist, because somebody named it
    # Reads the files; `structs.replace(repository, revision=...)` is the same repository at another state
    revision: Revision = WORK_TREE
    # Makes what keeps the content of the files of a quotas directory by their paths
    keep: Callable[[], MutableMapping[str, bytes]] = dict

    @classmethod
    def at(cls, directory: str | PathLike[str] | None = None, config: str | PathLike[str] | None = None) -> Repository:
        """Find a repository.

        `directory`: a quotas directory, or the folder that holds `quotas.d`; by default the one here. `config`: by
        default the quotaform.yaml next to it, else the one here.
        """
        quotas = Path(QUOTAS_NAME if directory is None else directory)
        revision = WorkTree(named=frozenset(Path(path) for path in (directory, config) if path is not None))
        if directory is not None and is_folder(quotas / QUOTAS_NAME):
            quotas /= QUOTAS_NAME
        if config is not None:
            return cls(directory=quotas, config_path=Path(config), needs_config=True, revision=revision)
        sibling = quotas.parent / CONFIG_NAME
        found = sibling if os.path.lexists(sibling) else Path(CONFIG_NAME)
        above = Path(os.path.normpath(Path.cwd() / quotas)).parent
        if above.name == QUOTAS_NAME and os.path.lexists(above.parent / CONFIG_NAME):
            found = above.parent / CONFIG_NAME
        return cls(directory=quotas, config_path=found, revision=revision)

    def quota_bytes(self) -> int:
        """Return how many bytes the quota files have, about: files that are not read count, too."""
        sizes = 0
        for folder, _, names in os.walk(self.directory):
            for name in names:
                with suppress(OSError):
                    sizes += Path(folder, name).stat().st_size
        return sizes

    def config(self) -> Config:
        """Read quotaform.yaml; an empty configuration if there is none and none was named.

        Raises `InvalidFilesError` with all problems, and `UsageError` if the quotas directory is the folder of one
        cluster: it is named after one, in `quotas.d` or next to folders of others.
        """
        source = self._read(self.config_path)
        if source is None and self.needs_config:
            text = "does not exist; write at least clusters: {local: {bootstrap_servers: [127.0.0.1:9092]}}"
            raise _invalid(rule.MISSING_CONFIG, text, self.config_path)
        if source is None:
            other = self.config_path.with_suffix(".yml")
            # One that a commit had is no reason to refuse what has been mended since.
            if isinstance(self.revision, WorkTree) and self._read(other) is not None:
                raise _invalid(rule.MISSING_CONFIG, f"is not read; rename it to {self.config_path.name}", other)
            return Config()
        config, problems = read_config(source, self.config_path.parent)
        if problems:
            raise InvalidFilesError(problems)
        path = Path(os.path.normpath(Path.cwd() / self.directory))
        others = [path.parent / name for name in config.clusters if name != path.name]
        if path.name in config.clusters and (path.parent.name == QUOTAS_NAME or any(map(is_folder, others))):
            whole = self.directory.parent if self.directory.name == path.name else self.directory / os.pardir
            here = inert(self.directory.as_posix())
            raise UsageError(f"{here} is the layer of cluster {path.name}; give {inert(whole.as_posix())}")
        return config

    def require_prunable(self, config: Config, mode: PruneMode) -> None:
        """Raise `InvalidFilesError` if a prune mode needs quotaform.yaml to say what is in scope, and it does not."""
        if problem := prune_problem(mode, config.scope):
            raise _invalid(rule.PRUNE_SCOPE, problem, self.config_path)

    def approvals(self, today: date) -> dict[Approval, Location]:
        """Return what approvals.yaml approves, if it exists, and where. Raises `InvalidFilesError` if it is invalid."""
        source = self._read(self.config_path.with_name(APPROVALS_NAME))
        if source is None:
            return {}
        approvals, problems = read_approvals(source, today)
        of_cluster = [(each.cluster, at) for each, at in approvals.items() if each.cluster is not None]
        config = self.config() if of_cluster else Config()
        for cluster, location in of_cluster:
            try:
                choose_clusters(config, [cluster])
            except UsageError as error:
                problems.append(rule.BAD_APPROVAL.finding(f"cluster: {error}", location=location))
        if problems:
            raise InvalidFilesError(problems)
        return approvals

    def _read(self, path: Path) -> SourceFile | None:
        """Read quotaform.yaml or a file next to it; `None` if there is none."""
        try:
            return self.revision.read_config(path)
        except FileReadError as error:
            raise _invalid(rule.UNREADABLE, f"cannot be read: {error.reason}", path) from None

    def has_config(self) -> bool:
        """Whether there is a quotaform.yaml."""
        try:
            return self.revision.read_config(self.config_path) is not None
        except FileReadError:
            return True

    def layout(self, config: Config, *, may_be_empty: bool = False) -> Layout:
        """Read the files of the quotas directory; what is wrong with them is found when they are checked.

        `may_be_empty` says whether it is no problem that there is no file; the guard `empty` takes care of it then. It
        is one where a sibling directory, or one above, is the quota repository that is meant.
        """
        tree = self.revision.read_tree(self.directory, self.keep())
        may_be_empty = may_be_empty and tree.near is None
        if may_be_empty and tree.looked_at is not None and not self.needs_config:
            # Is quotaform.yaml next to the quotas directory, or in the current one?
            paths = (self.config_path, self.directory, CONFIG_NAME)
            at, *near = (os.path.normpath(Path.cwd() / path / os.pardir) for path in paths)
            if at not in near or not self.has_config():
                may_be_empty = tree.above is None
                tree = structs.replace(tree, name=tree.looked_at if may_be_empty else tree.name)
        return Layout(tree, config.clusters, may_be_empty=may_be_empty)

    def load(self, config: Config, today: date, *, may_be_empty: bool = False) -> LoadedFiles:
        """Read the files of the quotas directory, to be asked what they say about each cluster; see `layout`."""
        return LoadedFiles(self.layout(config, may_be_empty=may_be_empty), config.profiles, today, config.scope)

    def clusters(self, config: Config, target: Target) -> tuple[Cluster, ...]:
        """Choose the clusters that are meant, and where to reach them.

        An address or a snapshot in the target stands for the named cluster, or for the only one; its own quotas, its
        pinned id and its credentials stay the same. Raises `UsageError` if there is no such cluster, or
        several may be meant, and `InvalidFilesError` if the snapshot is invalid.
        """
        if target.snapshot or target.bootstrap_servers:
            return (self._redirected(config, target),)
        if not config.clusters:
            looked_at, above = find_above(self.config_path)
            problem, remedy = f"{looked_at} does not exist", "write clusters: there"
            if self.has_config():
                problem, above = f"{self.config_path} names none", None
            elif not os.path.lexists(self.directory):
                problem = f"neither {find_above(self.directory)[0]} nor {looked_at} exists"
                remedy = "correct the path, begin with quotaform init"
            if above is not None:
                remedy = f"run this in {above}"
            message = "no cluster is given: {}; {}, or give {bootstrap_server} HOST:PORT"
            raise ArgumentError(message, problem, remedy)
        return choose_clusters(config, target.clusters, takes_all=target.takes_all)

    def cluster_names(self, config: Config, patterns: Sequence[str]) -> tuple[str | None, ...]:
        """Return the names of the clusters that names and globs choose, all by default, in the order of quotaform.yaml.

        It is `None` alone, for the common files, if there are no clusters. Raises `UsageError` if a pattern fits none.
        """
        if not patterns and not config.clusters:
            return (None,)
        return tuple(cluster.name for cluster in choose_clusters(config, patterns, takes_all=not patterns))

    def _redirected(self, config: Config, target: Target) -> Cluster:
        if len(target.clusters) > 1 or target.takes_all:
            raise several_clusters(target.clusters or config.clusters)
        name = next(iter(target.clusters), None)
        if target.snapshot:
            from quotaform.cluster.gateway import read_snapshot

            taken = read_snapshot(target.snapshot) if name is None else None
            name = name or (taken.cluster_name if taken else "")
            known = choose_cluster(config, name) if name in config.clusters else Cluster(name=name)
            return replace(
                known, bootstrap_servers=(), command_config=None, snapshot=target.snapshot, folder=None, taken=taken
            )
        with as_usage_error():
            # First of all: what is no address may hold a password, and must not become a name.
            parse_servers(target.bootstrap_servers or "")
        servers = tuple(server.strip() for server in (target.bootstrap_servers or "").split(",") if server.strip())
        if name is None and (not config.clusters or (len(config.clusters) > 1 and not target.needs_name)):
            return Cluster(name=",".join(servers), bootstrap_servers=servers, command_config=target.command_config)
        named = replace(
            choose_cluster(config, name),
            bootstrap_servers=servers,
            server_references={},
            servers_location=None,
            snapshot=None,
            given_servers=",".join(servers) if name is None else None,
        )
        if target.command_config is None:
            return named
        return replace(named, command_config=target.command_config, written_config=None, folder=None)


def _invalid(broken: FindingRule, text: str, path: Path) -> InvalidFilesError:
    return InvalidFilesError([broken.finding(text, location=Location(shown_path(path)))])


def read_claims(repository: Repository, config: Config, today: date) -> tuple[Claim, ...]:
    """Return what the other repositories declare for their clusters. Raises `InvalidFilesError` with all problems."""
    claims: list[Claim] = []
    problems: list[Finding] = []
    for path in config.roots:
        try:
            root = _root(repository, path)
            other = root.config()
            files = root.load(other, today)
            claims += (Claim(each.name, each.cluster_id, files.desired(each.name)) for each in other.clusters.values())
        except InvalidFilesError as error:
            problems += error.problems
        except UsageError as error:
            problems.append(_problem(path, str(error)))
    if problems:
        raise InvalidFilesError(problems)
    return tuple(claims)


def root_trees(repository: Repository, config: Config) -> tuple[Tree, ...]:
    """Return the files of the other repositories, to see whether they change; none of one that is not there."""
    trees: list[Tree] = []
    for path in config.roots:
        try:
            root = _root(repository, path)
            source = root.revision.read_config(root.config_path)
        except (InvalidFilesError, FileReadError):
            continue
        tree = root.revision.read_tree(root.directory)
        text = b"" if source is None or isinstance(source.text, str) else source.text
        trees.append(structs.replace(tree, files={**tree.files, CONFIG_NAME: text}))
    return tuple(trees)


def _root(repository: Repository, path: WrittenText) -> Repository:
    folder = repository.config_path.parent
    place, top = folder / path.text, find_work_tree(repository.config_path)
    allowed = [Path(os.path.realpath(folder)).parent, *([] if top is None else [top])]
    if PurePosixPath(path.text).is_absolute() or not any(is_within(place, each) for each in allowed):
        where = "within the git work tree, or the directory above that of quotaform.yaml"
        raise InvalidFilesError([_problem(path, f"{inert(path.text)} is not {where}; give a path that is")])
    quotas = place / QUOTAS_NAME if is_folder(place / QUOTAS_NAME) else place
    if os.path.realpath(quotas) == os.path.realpath(repository.directory):
        raise InvalidFilesError([_problem(path, f"{inert(path.text)} is this quota repository; remove it")])
    root = Repository(directory=quotas, config_path=quotas.parent / CONFIG_NAME, revision=WorkTree())
    if not is_folder(quotas) or not root.has_config():
        text = "is not a quota repository: it needs a quotas directory, and quotaform.yaml beside it"
        raise InvalidFilesError([_problem(path, f"{inert(path.text)} {text}")])
    return root


def _problem(path: WrittenText, text: str) -> Finding:
    return rule.BAD_ROOT.finding(text, location=path.location)


_HERE: Final = Path()


def format_files(paths: Sequence[Path]) -> Iterator[tuple[FormattedFile, Path]]:
    """Read files, and yield each once, in the style or with why it stays as it is.

    `paths`: YAML files and folders, named by the operator; the current folder without any. A folder with a folder
    `quotas.d` stands for that and the quotaform.yaml next to it, another one for the YAML files in it. Raises
    `FileReadError` if one that is named cannot be read, and `UsageError` if it is not a YAML file.
    """
    from quotaform.desired.format import FormattedFile, format_source

    found: dict[Path, SourceFile | str] = {}
    for path in paths or (_HERE,):
        if is_folder(path):
            found |= {file: source for file, source in _read_folder(path) if file not in found}
        elif not is_read(path.name.lstrip(".")) and os.path.lexists(path):
            raise UsageError(f"{inert(str(path))} is not a YAML file; give .yaml and .yml files, or a directory")
        else:
            found.setdefault(path, SourceFile(shown_path(path), read_bytes(path, QUOTAS_LIMIT)))
    for path, source in found.items():
        if isinstance(source, SourceFile):
            yield format_source(source), path
        else:
            problem = rule.UNREADABLE.finding(f"cannot be read: {source}", location=Location(shown_path(path)))
            yield FormattedFile(name=shown_path(path), before="", after="", problems=(problem,)), path


def _read_folder(folder: Path) -> Iterator[tuple[Path, SourceFile | str]]:
    """Yield the files of a folder, or why one cannot be read."""
    quotas = folder / QUOTAS_NAME
    has_quotas = is_folder(quotas)
    if not has_quotas and folder == _HERE:
        looked_at, above = find_above(quotas)
        remedy = f"run this in {above}" if above else "give the files, or the directory that holds them"
        raise FileReadError(QUOTAS_NAME, f"there is no {looked_at}; {remedy}")
    if has_quotas:
        config = folder / CONFIG_NAME
        try:
            if (source := WorkTree().read_config(config)) is not None:
                yield config, source
        except FileReadError as error:
            yield config, error.reason
    top = quotas if has_quotas else folder
    tree = WorkTree(named=frozenset((folder,))).read_tree(top)
    if tree.root is not Root.DIRECTORY:
        raise FileReadError(str(top), "No such directory", is_missing=True)
    yield from ((top / name, SourceFile(shown_path(top / name), content)) for name, content in tree.files.items())
    yield from ((top / name, reason) for name, reason in tree.unreadable.items())
