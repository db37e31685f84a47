"""The options that say which clusters a command is about: one, or any number of them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from quotaform.cli.option.common import (
    AllClustersOption,
    BootstrapOption,
    ClusterOption,
    ClustersOption,
    CommandConfigOption,
    ConfigOption,
)
from quotaform.model.errors import ClusterChoiceError, NoClusterError, UsageError
from quotaform.model.text import listed, quote

if TYPE_CHECKING:
    from quotaform.desired.config import Cluster, Config
    from quotaform.repository.repository import Repository, Target

_GLOB_SIGNS: Final = frozenset("*?[")


@dataclass(frozen=True, slots=True, kw_only=True)
class OneCluster:
    """The options of a command that is about one cluster."""

    config: ConfigOption = None
    cluster: ClusterOption = None
    bootstrap_server: BootstrapOption = None
    command_config: CommandConfigOption = None

    def repository(self, directory: Path | None = None) -> Repository:
        """Return the repository that the options and a quotas directory mean."""
        from quotaform.repository.repository import Repository

        return Repository.at(directory, self.config)

    def choose(
        self,
        repository: Repository | None = None,
        config: Config | None = None,
        *,
        snapshot: Path | None = None,
        planned: str | None = None,
        needs_name: bool = False,
    ) -> Cluster:
        """Return the cluster that is meant.

        `repository`: where quotaform.yaml is, if not where the options alone say. `config`: its content, if it was read
        already. `planned`: the cluster of a saved plan, which is meant when no option says anything else. `needs_name`:
        whether an address alone is not enough, because files of a cluster are read or written.
        """
        names = (self.cluster,) if self.cluster else ()
        target = _target(names, self.bootstrap_server, self.command_config, snapshot)
        repository = repository or self.repository()
        config = repository.config() if config is None else config
        if planned is not None and planned in config.clusters and not (names or snapshot or self.bootstrap_server):
            target = replace(target, clusters=(planned,))
        remedy = "choose one with --cluster"
        if self.cluster:
            remedy = f"{quote(self.cluster)} matches more than one, and this command takes one: give its whole name"
        with _options_named(repository, target, remedy):
            return repository.cluster(config, replace(target, needs_name=needs_name))


@dataclass(frozen=True, slots=True, kw_only=True)
class ManyClusters:
    """The options of a command that is about any number of clusters."""

    config: ConfigOption = None
    cluster: ClustersOption = None
    all_clusters: AllClustersOption = False
    bootstrap_server: BootstrapOption = None
    command_config: CommandConfigOption = None

    def repository(self, directory: Path | None = None) -> Repository:
        """Return the repository that the options and a quotas directory mean."""
        from quotaform.repository.repository import Repository

        return Repository.at(directory, self.config)

    @property
    def is_narrow(self) -> bool:
        """Whether an option says something else than every cluster."""
        return bool(self.cluster or self.bootstrap_server or self.command_config)

    @property
    def literal_names(self) -> tuple[str, ...]:
        """The values of `--cluster` that are names and no globs; quotaform.yaml may not have them."""
        return tuple(name for name in self.cluster or () if not _GLOB_SIGNS & set(name))

    def patterns(self) -> tuple[str, ...]:
        """Return the names and globs of `--cluster`. Raises `UsageError` if there is `--all` as well."""
        if self.cluster and self.all_clusters:
            raise UsageError("--all chooses every cluster; leave --cluster out")
        return tuple(self.cluster or ())

    def choose(
        self,
        repository: Repository | None = None,
        config: Config | None = None,
        *,
        snapshot: Path | None = None,
        planned: str | None = None,
        needs_name: bool = True,
    ) -> tuple[Cluster, ...]:
        """Return the clusters that are meant, in the order of quotaform.yaml; at least one.

        `planned` is the cluster of a saved plan, which is meant when no option says anything else. Without
        `needs_name`, an address alone is enough, because no files of a cluster are read or written. Raises `UsageError`
        if options exclude each other, or it is not clear which clusters are meant.
        """
        names = self.patterns()
        target = _target(names, self.bootstrap_server, self.command_config, snapshot)
        if (target.snapshot or target.bootstrap_servers) and (len(names) > 1 or self.all_clusters):
            option = "--snapshot" if target.snapshot else "--bootstrap-server"
            raise UsageError(f"{option} can be used for one cluster only; choose one with --cluster")
        repository = repository or self.repository()
        with _options_named(repository, target, "choose with --cluster, or use --all"):
            config = repository.config() if config is None else config
            if planned is not None and planned in config.clusters and not (self.is_narrow or snapshot):
                target = replace(target, clusters=(planned,))
            return repository.clusters(config, replace(target, takes_all=self.all_clusters, needs_name=needs_name))

    def choose_for_plan(self, repository: Repository, file: Path, name: str, *, noun: str = "plan") -> Cluster:
        """Return the cluster that a saved plan is for, or a receipt; the options may say where it is.

        `name`: what the plan calls the cluster. `noun`: what the file is.
        """
        if self.all_clusters:
            raise UsageError(f"{file} is a {noun} for cluster {name}; leave --all out")
        config = repository.config()
        known = config.clusters.get(name)
        if self.is_narrow:
            named = self.cluster or ([name] if known else None)
            chosen = replace(self, cluster=named).choose(repository, config)
            others = [cluster.name for cluster in chosen if cluster.name != name]
            if self.cluster and others:
                raise UsageError(f"{file} is a {noun} for cluster {name}, not {listed(others)}; leave --cluster out")
            if self.bootstrap_server and not self.cluster:
                return replace(chosen[0], given_servers=",".join(chosen[0].bootstrap_servers))
            return chosen[0]
        if known is not None and known.snapshot is None:
            return known
        why = "is a snapshot" if known else f"is not in {repository.config_path}"
        if not repository.has_config():
            why = f"is unknown, because {repository.config_path} does not exist (--config gives another path)"
        raise UsageError(
            f"{file} is a {noun} for cluster {name}, which {why}; give its address: --bootstrap-server HOST:PORT"
        )


def _target(names: tuple[str, ...], servers: str | None, command_config: Path | None, snapshot: Path | None) -> Target:
    from quotaform.repository.repository import Target

    if snapshot and servers:
        raise UsageError("--snapshot and --bootstrap-server cannot be combined; give one of them")
    if command_config and not servers:
        raise UsageError("--command-config requires --bootstrap-server; in quotaform.yaml, use command_config")
    return Target(clusters=names, bootstrap_servers=servers, command_config=command_config, snapshot=snapshot)


@contextmanager
def _options_named(repository: Repository, target: Target, remedy: str) -> Iterator[None]:
    """Add the options that help to what is wrong with a choice of clusters."""
    try:
        yield
    except ClusterChoiceError as error:
        if target.bootstrap_servers:
            raise UsageError(
                f"--bootstrap-server gives an address only, and {repository.config_path} names several clusters "
                f"({listed(error.clusters)}); choose one with --cluster"
            ) from None
        raise UsageError(f"{error}; {remedy}") from None
    except NoClusterError as error:
        raise UsageError(f"{error}, or give --bootstrap-server HOST:PORT") from None
