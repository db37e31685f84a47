"""A quota repository: its files, its configuration and the cluster that is meant."""

from __future__ import annotations

import os
from collections.abc import Callable, MutableMapping, Sequence
from dataclasses import dataclass, replace
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING

from quotaform.app.repository.revision import CONFIG_NAME, QUOTAS_NAME, WORK_TREE, Revision, WorkTree, find_above
from quotaform.core.check import rule
from quotaform.errors import (
    ClusterChoiceError,
    FileReadError,
    InvalidFilesError,
    LayerDirectoryError,
    NoClusterError,
    UsageError,
)
from quotaform.files import is_folder
from quotaform.model.approval import APPROVALS_NAME, Approval
from quotaform.model.location import Location
from quotaform.model.server import parse_servers
from quotaform.model.text import inert

if TYPE_CHECKING:
    from quotaform.core.prune import PruneMode
    from quotaform.desired.config import Cluster, Config
    from quotaform.desired.loader import LoadedFiles
    from quotaform.desired.tree import Layout


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """The clusters that are meant, as the command line says it.

    Attributes:
        clusters: Names in quotaform.yaml, or globs over them; may be left out when there is one cluster.
        takes_all: Whether every cluster of quotaform.yaml is meant.
        bootstrap_servers: Brokers to ask instead of those in quotaform.yaml.
        command_config: A Java-style client properties file, with `bootstrap_servers`.
        snapshot: A snapshot file to plan against instead of a cluster.
        needs_name: Whether brokers to ask stand for a cluster of quotaform.yaml, so that its files are the ones meant.
    """

    clusters: tuple[str, ...] = ()
    takes_all: bool = False
    bootstrap_servers: str | None = None
    command_config: Path | None = None
    snapshot: Path | None = None
    needs_name: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Repository:
    """Where the files are.

    Attributes:
        needs_config: Whether it must exist, because somebody named it.
        revision: Reads the files; `replace(repository, revision=...)` is the same repository at another state.
        keep: Makes what keeps the content of the files of a quotas directory by their paths.
    """

    directory: Path
    config_path: Path
    needs_config: bool = False
    revision: Revision = WORK_TREE
    keep: Callable[[], MutableMapping[str, bytes]] = dict

    @classmethod
    def at(cls, directory: Path | None, config_path: Path | None) -> Repository:
        """Find a repository from what the command line says.

        `directory` is a quotas directory, or the folder that holds `quotas.d`; `quotas.d` here if left out.
        `config_path` is quotaform.yaml; if left out the one beside the quotas directory, else the one here.
        """
        quotas = Path(QUOTAS_NAME) if directory is None else directory
        if directory is not None and is_folder(directory / QUOTAS_NAME):
            quotas = directory / QUOTAS_NAME
        revision = WorkTree(named=frozenset(path for path in (directory, config_path) if path is not None))
        if config_path is not None:
            return cls(directory=quotas, config_path=config_path, needs_config=True, revision=revision)
        beside = quotas.parent / CONFIG_NAME
        found = beside if os.path.lexists(beside) else Path(CONFIG_NAME)
        above = Path(os.path.normpath(Path.cwd() / quotas)).parent
        if above.name == QUOTAS_NAME and os.path.lexists(above.parent / CONFIG_NAME):
            found = above.parent / CONFIG_NAME
        return cls(directory=quotas, config_path=found, revision=revision)

    def config(self) -> Config:
        """Read quotaform.yaml; an empty configuration when there is none and nobody named one.

        Raises `InvalidFilesError` if it is invalid, or missing although somebody named it; all problems at once, and
        `LayerDirectoryError` if the quotas directory is the folder of one cluster.
        """
        from quotaform.desired.config import Config
        from quotaform.desired.config_reader import read_config
        from quotaform.desired.tree import shown_path

        try:
            source = self.revision.read_config(self.config_path)
        except FileReadError as error:
            found = rule.UNREADABLE.finding(
                f"cannot be read: {error.reason}", location=Location(shown_path(self.config_path))
            )
            raise InvalidFilesError([found]) from None
        if source is None and self.needs_config:
            text = "does not exist; write at least clusters: {local: {bootstrap_servers: [127.0.0.1:9092]}}"
            raise InvalidFilesError(
                [rule.MISSING_CONFIG.finding(text, location=Location(shown_path(self.config_path)))]
            )
        if source is None:
            return Config()
        config, problems = read_config(source, self.config_path.parent)
        if problems:
            raise InvalidFilesError(problems)
        self._require_whole(config)
        return config

    def require_prunable(self, config: Config, mode: PruneMode) -> None:
        """Make sure that undeclared entities can be pruned in a mode.

        Raises `InvalidFilesError` if quotaform.yaml does not say what is in scope.
        """
        from quotaform.desired.config import prune_problem
        from quotaform.desired.tree import shown_path

        problem = prune_problem(mode, config.scope)
        if problem is not None:
            place = Location(shown_path(self.config_path))
            raise InvalidFilesError([rule.PRUNE_SCOPE.finding(problem, location=place)])

    def approvals(self, today: date) -> tuple[Approval, ...]:
        """Read approvals.yaml, the file beside quotaform.yaml; nothing is approved when there is none.

        Raises `InvalidFilesError` if it cannot be read or is invalid; all problems at once.
        """
        from quotaform.desired.approval import read_approvals
        from quotaform.desired.cluster_choice import choose_clusters
        from quotaform.desired.config import Config
        from quotaform.desired.tree import shown_path

        path = self.config_path.with_name(APPROVALS_NAME)
        try:
            source = self.revision.read_config(path)
        except FileReadError as error:
            found = rule.UNREADABLE.finding(f"cannot be read: {error.reason}", location=Location(shown_path(path)))
            raise InvalidFilesError([found]) from None
        if source is None:
            return ()
        approvals, problems = read_approvals(source, today)
        of_cluster = [(each.cluster, each.location) for each in approvals if each.cluster is not None]
        config = self.config() if of_cluster else Config()
        for cluster, location in of_cluster:
            try:
                choose_clusters(config, [cluster])
            except UsageError as error:
                problems.append(rule.BAD_APPROVAL.finding(f"cluster: {error}", location=location))
        if problems:
            raise InvalidFilesError(problems)
        return approvals

    def _require_whole(self, config: Config) -> None:
        """Make sure that the directory is not the folder of one cluster.

        Raises `LayerDirectoryError` if it is named after a cluster, in `quotas.d` or beside folders of other clusters.
        """
        path = Path(os.path.normpath(Path.cwd() / self.directory))
        if path.name not in config.clusters:
            return
        others = [path.parent / name for name in config.clusters if name != path.name]
        if path.parent.name == QUOTAS_NAME or any(is_folder(other) for other in others):
            is_named = self.directory.name == path.name
            whole = self.directory.parent if is_named else self.directory / os.pardir
            raise LayerDirectoryError(inert(self.directory.as_posix()), path.name, inert(whole.as_posix()))

    def has_config(self) -> bool:
        """Whether there is a quotaform.yaml."""
        try:
            return self.revision.read_config(self.config_path) is not None
        except FileReadError:
            return True

    def _has_config_here(self) -> bool:
        """Whether quotaform.yaml was named, or is beside the quotas directory or in the current one."""
        folders = (Path(os.path.normpath(Path.cwd() / path)).parent for path in (self.directory, CONFIG_NAME))
        at = Path(os.path.normpath(Path.cwd() / self.config_path)).parent
        return self.needs_config or (at in folders and self.has_config())

    def layout(self, config: Config, *, may_be_empty: bool = False) -> Layout:
        """Read the files of the quotas directory; what is wrong with them is found when they are checked.

        `may_be_empty` says whether it is no problem that there is no file; the guard `empty` takes care of it then. It
        is one where a directory above is the quota repository that is meant.
        """
        from quotaform.desired.tree import Layout

        tree = self.revision.read_tree(self.directory, self.keep())
        if may_be_empty and tree.looked_at is not None and not self._has_config_here():
            may_be_empty = tree.above is None
            tree = replace(tree, name=tree.looked_at if may_be_empty else tree.name)
        return Layout(tree, config.clusters, may_be_empty=may_be_empty)

    def load(self, config: Config, today: date, *, may_be_empty: bool = False) -> LoadedFiles:
        """Read the files of the quotas directory, to be asked what they say about each cluster.

        Args:
            may_be_empty: See `layout`.
        """
        from quotaform.desired.loader import load_files

        return load_files(self.layout(config, may_be_empty=may_be_empty), config.profiles, today, config.scope)

    def cluster(self, config: Config, target: Target) -> Cluster:
        """Choose the one cluster that is meant; see `clusters`.

        Raises:
            UsageError: It is not in quotaform.yaml, or several are named.
            ClusterChoiceError: None is named and there are several.
            NoClusterError: There is none, and no address.
            InvalidFilesError: The snapshot is invalid.
        """
        chosen = self.clusters(config, target)
        if len(chosen) > 1:
            raise ClusterChoiceError([cluster.name for cluster in chosen])
        return chosen[0]

    def clusters(self, config: Config, target: Target) -> tuple[Cluster, ...]:
        """Choose the clusters that are meant, and where to reach them.

        An address or a snapshot in the target stands for the named cluster, or for the only one; its own
        quotas, its pinned id and its credentials stay the same.

        Raises:
            UsageError: A name or a glob fits no cluster of quotaform.yaml.
            ClusterChoiceError: None is named and there are several, or several have one address.
            NoClusterError: There is none, and no address.
            InvalidFilesError: The snapshot is invalid.
        """
        from quotaform.desired.cluster_choice import choose_clusters

        if target.snapshot or target.bootstrap_servers:
            return (self._redirected(config, target),)
        if not config.clusters:
            if self.has_config():
                raise NoClusterError(str(self.config_path), exists=True)
            looked_at, above = find_above(self.config_path)
            directory = None if os.path.lexists(self.directory) else find_above(self.directory)[0]
            raise NoClusterError(looked_at, exists=False, directory=directory, above=above)
        return choose_clusters(config, target.clusters, takes_all=target.takes_all)

    def cluster_names(self, config: Config, patterns: Sequence[str]) -> tuple[str | None, ...]:
        """Choose the clusters whose files are meant, offline: all of them unless some are named.

        Args:
            patterns: Names of clusters, or globs over them.

        Returns:
            Their names, in the order of quotaform.yaml; `None` alone, for the common files, when it names no cluster.

        Raises:
            UsageError: A name or a glob fits no cluster.
        """
        from quotaform.desired.cluster_choice import choose_clusters

        if not patterns and not config.clusters:
            return (None,)
        return tuple(cluster.name for cluster in choose_clusters(config, patterns, takes_all=not patterns))

    def _redirected(self, config: Config, target: Target) -> Cluster:
        """Return the one cluster that is meant, to be read where the target says.

        Raises `UsageError` if a server is not HOST:PORT.
        """
        from quotaform.desired.cluster_choice import choose_cluster
        from quotaform.desired.config import Cluster

        if len(target.clusters) > 1 or target.takes_all:
            raise ClusterChoiceError(target.clusters or list(config.clusters))
        name = next(iter(target.clusters), None)
        if target.snapshot:
            return self._snapshot_cluster(config, name, target.snapshot)
        try:
            # First of all: what is no address may hold a password, and must not become a name.
            parse_servers(target.bootstrap_servers or "")
        except ValueError as error:
            raise UsageError(str(error)) from None
        servers = tuple(server.strip() for server in (target.bootstrap_servers or "").split(",") if server.strip())
        if name is None and (not config.clusters or (len(config.clusters) > 1 and not target.needs_name)):
            return Cluster(name=",".join(servers), bootstrap_servers=servers, command_config=target.command_config)
        named = choose_cluster(config, name)
        given = ",".join(servers) if name is None else None
        named = replace(
            named,
            bootstrap_servers=servers,
            server_references={},
            servers_location=None,
            snapshot=None,
            given_servers=given,
        )
        if target.command_config is None:
            return named
        return replace(
            named, command_config=target.command_config, config_reference=None, config_location=None, folder=None
        )

    def _snapshot_cluster(self, config: Config, name: str | None, path: Path) -> Cluster:
        from quotaform.desired.cluster_choice import choose_cluster
        from quotaform.desired.config import Cluster
        from quotaform.document.snapshot import read_snapshot

        taken = None
        if name is None:
            taken = read_snapshot(path)
            name = taken.cluster_name
        known = choose_cluster(config, name) if name in config.clusters else Cluster(name=name)
        return replace(known, bootstrap_servers=(), command_config=None, snapshot=path, folder=None, taken=taken)
