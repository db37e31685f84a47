"""Chooses clusters of quotaform.yaml, by their names and by globs."""

from __future__ import annotations

from collections.abc import Sequence

from quotaform.core.scope import count_problem, is_glob, matches_glob, pattern_problem
from quotaform.desired.config import Cluster, Config
from quotaform.errors import ClusterChoiceError, UsageError
from quotaform.model.text import did_you_mean, listed, quote


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

    Args:
        patterns: Names, or case-sensitive globs over names.

    Raises:
        UsageError: There is no such cluster, a glob matches none, or nothing is chosen and there is no cluster.
        ClusterChoiceError: Nothing is chosen and there are several.
    """
    if takes_all and config.clusters:
        return tuple(config.clusters.values())
    if not patterns:
        return (choose_cluster(config, None),)
    chosen: set[str] = set()
    if problem := count_problem(patterns):
        raise UsageError(f"--cluster: {problem}")
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
