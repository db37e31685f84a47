"""What quotaform.yaml says: clusters, profiles, scope and guards."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from quotaform.core.check.lint.setting import Capacity, LintSettings
from quotaform.core.drift.ignore import DriftIgnore
from quotaform.core.guard_limits import DEFAULT_GUARD_LIMITS, GuardLimits
from quotaform.core.prune import PruneMode
from quotaform.core.scope import FULL_SCOPE, Scope
from quotaform.core.usage.record.source import NO_METRICS, ClusterMetrics
from quotaform.core.usage.sizing.recommendation import SizingSettings
from quotaform.model.location import Location
from quotaform.model.quotas import Values
from quotaform.model.snapshot import Snapshot

if TYPE_CHECKING:
    from quotaform.desired.variable import Referring


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    """A cluster by name: a running one, or a snapshot file.

    Attributes:
        name: Its name in quotaform.yaml.
        bootstrap_servers: Brokers to ask first, as HOST:PORT.
        command_config: A file of Java client properties.
        cluster_id: The id that the cluster must have.
        confirm: `name` when the cluster's name must be typed to apply by hand.
        snapshot: The snapshot file that stands for the cluster.
        server_references: Those of `bootstrap_servers` that refer to environment variables, by their text. The
            variables are looked up when the cluster is connected to; messages show the text.
        config_reference: The same for `command_config`.
        config_location: Where quotaform.yaml has `command_config`.
        servers_location: Where quotaform.yaml has `bootstrap_servers`; `None` when the operator names them.
        folder: The folder of the quotaform.yaml that names the files; `None` when the operator does.
        taken: What the snapshot file holds, when it was read already.
        given_servers: The bootstrap servers of the command line, when they stand for the cluster and nobody named it.
        capacity: What its brokers can do, as far as that is declared.
        metrics: Where the measurements of its brokers are.
    """

    name: str
    bootstrap_servers: tuple[str, ...] = ()
    command_config: Path | None = None
    cluster_id: str | None = None
    confirm: str | None = None
    snapshot: Path | None = None
    server_references: Mapping[str, Referring] = field(default_factory=dict, compare=False)
    config_reference: Referring | None = field(default=None, compare=False)
    config_location: Location | None = field(default=None, compare=False)
    servers_location: Location | None = field(default=None, compare=False)
    folder: Path | None = field(default=None, compare=False)
    taken: Snapshot | None = field(default=None, compare=False, repr=False)
    given_servers: str | None = None
    capacity: Capacity = Capacity()  # noqa: RUF009
    metrics: ClusterMetrics = NO_METRICS

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
    """A path that quotaform.yaml lists: of a policy, which may be a glob, or of another quota repository.

    Attributes:
        text: As it is written: relative to the folder of quotaform.yaml.
    """

    text: str
    location: Location = field(compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """The content of quotaform.yaml.

    Attributes:
        clusters: By name.
        profiles: Values by the name of the profile.
        scope: The entities that the files manage.
        prune: What happens to entities in scope that no file declares.
        drift_ignore: Drift to ignore; it affects only `drift`.
        policies: Where the policies are.
        roots: Where other quota repositories are, whose entities these files do not declare.
        lints: What is to be known about lints, and ignored.
        guard_limits: What guards go by: `guards` and `protect`.
        sizing: How quotas are sized by usage.
        pins: The names of the live clusters that are pinned to an id, by the id.
    """

    clusters: Mapping[str, Cluster] = field(default_factory=dict)
    profiles: Mapping[str, Values] = field(default_factory=dict)
    scope: Scope = FULL_SCOPE
    prune: PruneMode = PruneMode.REPORT
    drift_ignore: tuple[DriftIgnore, ...] = ()
    policies: tuple[ListedPath, ...] = ()
    roots: tuple[ListedPath, ...] = ()
    lints: LintSettings = LintSettings()  # noqa: RUF009
    guard_limits: GuardLimits = DEFAULT_GUARD_LIMITS
    sizing: SizingSettings = SizingSettings()  # noqa: RUF009
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
