"""What quotaform.yaml says; which clusters names and globs choose; variables of the environment in it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from msgspec import Struct

from quotaform.model import rule
from quotaform.model.errors import ArgumentError, ClusterChoiceError, InvalidFilesError, UsageError
from quotaform.model.finding import Location
from quotaform.model.quotas import Snapshot, Values
from quotaform.model.scope import FULL_SCOPE, Scope, count_problem, is_glob, matches_glob, pattern_problem
from quotaform.model.settings import (
    DEFAULT_GUARD_LIMITS,
    NO_METRICS,
    Capacity,
    ClusterMetrics,
    GuardLimits,
    Ignore,
    LintSettings,
    PruneMode,
    SizingSettings,
)
from quotaform.model.text import did_you_mean, listed, quote
from quotaform.model.variable import ReferenceProblem, expand, problem_text


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    """A cluster by name: a running one, or a snapshot file."""

    name: str  # its name in quotaform.yaml
    bootstrap_servers: tuple[str, ...] = ()  # brokers to ask first, as HOST:PORT
    command_config: Path | None = None  # a file of Java client properties
    cluster_id: str | None = None  # the id that the cluster must have
    confirm: str | None = None  # `name` when the cluster's name must be typed to apply by hand
    snapshot: Path | None = None  # the snapshot file that stands for the cluster
    # Those of `bootstrap_servers` that refer to environment variables, by their text. The variables are looked up when
    # the cluster is connected to; messages show the text.
    server_references: Mapping[str, Referring] = field(default_factory=dict, compare=False)
    config_reference: Referring | None = field(default=None, compare=False)  # the same for `command_config`
    config_location: Location | None = field(default=None, compare=False)  # where quotaform.yaml has `command_config`
    # Where quotaform.yaml has `bootstrap_servers`; `None` when the operator names them
    servers_location: Location | None = field(default=None, compare=False)
    # The folder of the quotaform.yaml that names the files; `None` when the operator does
    folder: Path | None = field(default=None, compare=False)
    # What the snapshot file holds, when it was read already
    taken: Snapshot | None = field(default=None, compare=False, repr=False)
    # The bootstrap servers of the command line, when they stand for the cluster and it was not named
    given_servers: str | None = None
    # What its brokers can do, as far as that is declared
    capacity: Capacity = Capacity()  # noqa: RUF009
    metrics: ClusterMetrics = NO_METRICS  # where the measurements of its brokers are

    @property
    def has_name(self) -> bool:
        """Whether it has a name of its own; one that only an address was given for is called by that."""
        return self.name != ",".join(self.bootstrap_servers)

    @property
    def label(self) -> str:
        """What headings and errors call it: its name, or the servers that the command line gave instead."""
        return self.given_servers or self.name


@dataclass(frozen=True, slots=True)
class ListedPath:
    """A path that quotaform.yaml lists: of a policy, which may be a glob, or of another quota repository."""

    text: str  # as it is written: relative to the folder of quotaform.yaml
    location: Location = field(compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """The content of quotaform.yaml."""

    clusters: Mapping[str, Cluster] = field(default_factory=dict)  # by name
    profiles: Mapping[str, Values] = field(default_factory=dict)  # values by the name of the profile
    scope: Scope = FULL_SCOPE  # the entities that the files manage
    prune: PruneMode = PruneMode.REPORT  # what happens to entities in scope that no file declares
    drift_ignore: tuple[Ignore, ...] = ()  # drift to ignore; it affects only `drift`
    policies: tuple[ListedPath, ...] = ()  # where the policies are
    roots: tuple[ListedPath, ...] = ()  # where other quota repositories are, whose entities these files do not declare
    # What is to be known about lints, and ignored
    lints: LintSettings = LintSettings()  # noqa: RUF009
    guard_limits: GuardLimits = DEFAULT_GUARD_LIMITS  # what guards go by: `guards` and `protect`
    # How quotas are sized by usage
    sizing: SizingSettings = SizingSettings()  # noqa: RUF009
    # The names of the live clusters that are pinned to an id, by the id
    pins: Mapping[str, Sequence[str]] = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        """Index the pins: each of very many clusters is compared with all others."""
        pins: dict[str, list[str]] = {}
        for name, cluster in self.clusters.items():
            if cluster.cluster_id and not cluster.snapshot:
                pins.setdefault(cluster.cluster_id, []).append(name)
        object.__setattr__(self, "pins", pins)


def prune_problem(mode: PruneMode, scope: Scope) -> str | None:
    """Return why undeclared entities cannot be pruned in a mode; `None` if they can."""
    if mode is not PruneMode.SCOPE or scope.include:
        return None
    return (
        "prune: scope deletes every entity in scope that no file declares, so quotaform.yaml must list what is in "
        "scope: write scope: {include: [...]}, or prune: removed"
    )


def choose_cluster(config: Config, name: str | None) -> Cluster:
    """Return the cluster of a name; with one cluster the name may be left out.

    Raises `UsageError` if there is no such cluster, or no name and no cluster, and `ClusterChoiceError` if there is no
    name and there are several clusters.
    """
    if name is not None:
        return _named(config, name)
    if not config.clusters:
        raise UsageError("quotaform.yaml defines no cluster; add one")
    if len(config.clusters) > 1:
        raise ClusterChoiceError(list(config.clusters))
    return next(iter(config.clusters.values()))


def choose_clusters(config: Config, patterns: Sequence[str], *, takes_all: bool = False) -> tuple[Cluster, ...]:
    """Return the clusters that names and globs choose, each once, in the order of quotaform.yaml.

    With one cluster nothing need be chosen.

    `patterns`: names, or case-sensitive globs over names.

    Raises `UsageError`: there is no such cluster, a glob matches none, or nothing is chosen and there is no cluster;
    `ClusterChoiceError`: nothing is chosen and there are several.
    """
    if takes_all and config.clusters:
        return tuple(config.clusters.values())
    if not patterns:
        return (choose_cluster(config, None),)
    chosen: set[str] = set()
    if problem := count_problem(patterns):
        raise ArgumentError("{cluster}: {}", problem)
    for pattern in patterns:
        if problem := pattern_problem(pattern):
            raise UsageError(f"{problem}; shorten it")
        matching = {name for name in config.clusters if matches_glob(name, pattern)}
        if not matching and not is_glob(pattern):
            matching = {_named(config, pattern).name}
        if not matching:
            raise UsageError(f"no cluster matches {quote(pattern)}.{_listed(config)}")
        chosen |= matching
    return tuple(cluster for name, cluster in config.clusters.items() if name in chosen)


def _named(config: Config, name: str) -> Cluster:
    if name not in config.clusters:
        guess = did_you_mean(name, config.clusters) or "; quotaform.yaml does not name it."
        raise UsageError(f"unknown cluster {quote(name)}{guess}{_listed(config)}")
    return config.clusters[name]


def _listed(config: Config) -> str:
    return f" The clusters are {listed(config.clusters)}" if config.clusters else ""


_RULES: Final = {
    ReferenceProblem.NOT_ALLOWED: rule.FORBIDDEN_VARIABLE,
    ReferenceProblem.UNSET: rule.UNSET_VARIABLE,
}


class Referring(Struct, frozen=True):
    """A text of quotaform.yaml with `${env:NAME}` in it."""

    text: str  # as it is written, which is also what messages show
    location: Location

    def expand(self, environment: Mapping[str, str]) -> str:
        """Return the text with its variables replaced, which is a secret.

        Raises `InvalidFilesError` if a variable is not set or may not be read.
        """
        expansion = expand(self.text, environment)
        if expansion.problems:
            raise InvalidFilesError(
                [
                    _RULES.get(problem, rule.BAD_VARIABLE).finding(problem_text(problem, name), location=self.location)
                    for problem, name in expansion.problems
                ]
            )
        return expansion.text
