"""The use cases: resolve requests on one cluster, and explain where the declared values of an entity come from."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import date
from typing import TYPE_CHECKING, Final

from quotaform.cluster.gateway import Gateway
from quotaform.model import rule
from quotaform.model.entity import DEFAULT_WORD, IP, Entity, spell_name
from quotaform.model.errors import InvalidFilesError, QuotaformError, UsageError
from quotaform.model.finding import Finding, by_place, by_severity
from quotaform.model.outcome import ClusterOutcome, Progress, no_progress
from quotaform.model.precedence import CALLBACK, level_of
from quotaform.model.quota_key import QUOTA_KEYS
from quotaform.model.quotas import Quotas
from quotaform.model.records.record import ClusterRecord
from quotaform.model.text import did_you_mean, listed, nearest, quote
from quotaform.resolve.explain import Explained, Explanation, explain
from quotaform.resolve.index import QuotaIndex
from quotaform.resolve.request_file import RequestFile
from quotaform.resolve.resolve import (
    FULL_DETAIL,
    SHOWN,
    AssumedPlan,
    Resolution,
    ResolutionChecks,
    ResolveHeader,
    ResolveOptions,
    check_callbacks,
    make_resolution,
)
from quotaform.system.clock import SYSTEM_CLOCK, Clock, timestamp

if TYPE_CHECKING:
    from quotaform.repository.repository import Repository


class ResolveRun:
    """Resolves requests one by one, so that any number of them takes no memory.

    `header` is what is resolved against what.
    """

    def __init__(
        self,
        entities: Sequence[Entity] | RequestFile,
        gateway: Gateway,
        plan: AssumedPlan | None = None,
        detail: ResolveOptions = FULL_DETAIL,
        progress: Progress = no_progress,
        *,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        """Read a cluster. `entities`: the concrete entities that make requests. `plan`: a plan to assume as applied."""
        cluster_id = gateway.cluster_id()
        if plan is not None:
            plan.require_cluster(cluster_id)
        progress(f"Reading quotas of {spell_name(gateway.name)}", 0, 0)
        actual = gateway.describe()
        ips = entities.ips if isinstance(entities, RequestFile) else sum(IP in each.types for each in entities)
        has_clients = ips < len(entities)
        require_keys(detail.keys, actual, has_clients=has_clients, has_ips=ips > 0)
        self.header = ResolveHeader(
            cluster=ClusterRecord(name=gateway.name, id=cluster_id),
            read_at=timestamp(clock),
            plan_id=plan.plan_id if plan else None,
            options=detail,
            snapshot=gateway.snapshot,
        )
        self._entities = entities
        self._actual = QuotaIndex(actual)
        self._planned = None if plan is None else self._actual.altered(plan.after(actual))
        self._checks = ResolutionChecks(self._planned or self._actual)
        self._general = []
        if unknown := sorted(entity.address for entity in actual if level_of(entity) is None):
            some = listed(unknown, SHOWN)
            text = f"this version cannot resolve entries such as {some}; brokers may still apply them"
            self._general.append(rule.UNKNOWN_SHAPE.finding(text))
        if plan is not None:
            self._general += plan.findings(actual)
        if has_clients and gateway.snapshot is None:
            progress("Reading the configuration of the brokers", 0, 0)
            found = gateway.broker_config(CALLBACK)
            self._general += check_callbacks(found.values, found.errors)

    def __iter__(self) -> Iterator[Resolution]:
        for entity in self._entities:
            resolution = make_resolution(entity, self._actual, self._planned, self.header.options)
            self._checks.add(resolution)
            yield resolution

    def findings(self) -> list[Finding]:
        """Return the findings about what was resolved so far."""
        return by_severity([*self._general, *self._checks.findings()])


def require_keys(keys: Iterable[str], actual: Quotas, *, has_clients: bool, has_ips: bool) -> None:
    """Make sure that requests can have quota keys.

    Raises `UsageError`: None of them can, or a key is unknown.
    """
    for key in keys:
        require_known_key(key, [actual])
        known = QUOTA_KEYS.get(key)
        is_for_ips = known is not None and IP in known.entity_types
        if known is not None and not (has_ips if is_for_ips else has_clients):
            limited = "ip entities" if is_for_ips else "users and client-ids"
            raise UsageError(f"{key} is only valid for {limited}, but no request names one")


def require_known_key(key: str, held: Iterable[Quotas]) -> None:
    """Make sure that a quota key is known, or is held on a cluster. Raises `UsageError`: most likely a typo."""
    if key not in QUOTA_KEYS and not any(key in values for quotas in held for values in quotas.values()):
        hint = did_you_mean(key, QUOTA_KEYS) or "."
        raise UsageError(
            f"{quote(key)} is not a quota key, and no entity on the cluster has it{hint} The keys are "
            f"{', '.join(QUOTA_KEYS)}"
        )


_MOST_COMPARISONS: Final = 50_000
"""Guessing compares with every declared address; so many take a few seconds."""

_NEARNESS: Final = 0.8
"""How alike names must be; the types in addresses would make all of them alike."""


def explain_entity(repository: Repository, entity: Entity, patterns: Sequence[str], today: date) -> Explained:
    """Explain an entity for the clusters that are meant.

    Raises `UsageError`, `InvalidFilesError`, or `QuotaformError` if no file declares it.
    """
    config = repository.config()
    loaded = repository.load(config, today)
    sections: list[Explanation] = []
    failed: list[ClusterOutcome[Explanation]] = []
    problems: dict[Finding, None] = {}
    declared: dict[str, str] = {}
    for name in repository.cluster_names(config, patterns):
        try:
            desired = loaded.desired(name)
        except InvalidFilesError as error:
            problems.update(dict.fromkeys(error.problems))
            failed.append(ClusterOutcome(name or "", error=error))
            continue
        layers = loaded.layers_of(name, entity)
        sections.append(explain(name, layers, desired.get(entity), config.profiles, today))
        if entity not in desired:
            declared.update((_names(other), other.address) for other in desired if other.types == entity.types)
    if not any(section.location for section in sections):
        if problems:
            raise InvalidFilesError(by_place(problems))
        candidates = sorted(declared)[:_MOST_COMPARISONS]
        near = nearest(_names(entity), candidates, cutoff=_NEARNESS, is_exact=True)
        guess = "" if near is None else f"; did you mean {declared[near]}?"
        raise QuotaformError(f"no file declares {entity.address}{guess}")
    return Explained(
        directory=repository.directory.as_posix(), entity=entity, clusters=tuple(sections), failed=tuple(failed)
    )


def _names(entity: Entity) -> str:
    return ",".join(DEFAULT_WORD if name is None else spell_name(name) for _, name in entity.parts)
