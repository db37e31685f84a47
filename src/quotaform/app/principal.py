"""Whether the users that files declare exist: a quota for a misspelt name limits nobody and nobody notices."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from re import compile as regex
from typing import TYPE_CHECKING, Final

from quotaform.app.each_cluster import ClusterWork
from quotaform.app.scram import open_scram
from quotaform.app.validate import ValidatedFiles
from quotaform.cluster.scram import ScramGateway
from quotaform.core.check import rule
from quotaform.core.outcome import ClusterOutcome
from quotaform.core.result import Validation
from quotaform.model.entity import USER, Entity, spell_name
from quotaform.model.entry import Desired, Entry
from quotaform.model.finding import Finding
from quotaform.model.location import Location
from quotaform.model.text import inert, nearest

if TYPE_CHECKING:
    from quotaform.desired.config import Cluster

_ELSEWHERE: Final = regex(r"ANONYMOUS|[A-Za-z][A-Za-z0-9.-]*=.*").fullmatch
"""Names that come from no SCRAM login: of connections without any, and of certificates (`CN=app,O=Example`)."""
_NEARNESS: Final = 0.75
_MOST_COMPARISONS: Final = 50_000
"""Guessing compares with every user of the cluster; a few seconds of it are enough for anybody."""


Connect = Callable[["Cluster"], ScramGateway]
"""Connects to a cluster."""


def ask_for_principals(
    checked: ValidatedFiles, clusters: Sequence[Cluster], *, connect: Connect = open_scram
) -> tuple[ClusterOutcome[tuple[Finding, ...]], ...]:
    """Ask clusters, all at a time, whether the users in the files exist.

    Args:
        checked: The files; of files with problems nothing is asked, and there is no outcome.

    Returns:
        What was found, one outcome per cluster in the order given; a snapshot has a `UsageError`.
    """
    files = checked.files
    if files is None or not checked.report.is_valid:
        return ()

    def work(cluster: Cluster, gateway: ScramGateway) -> tuple[Finding, ...]:
        known = {found.user for found in gateway.describe() if found.credentials}
        return tuple(check_principals(cluster.name, files.desired(cluster.name), known))

    with ClusterWork(clusters, work, connect) as working:
        return tuple(working.outcome(cluster) for cluster in clusters)


def with_findings(report: Validation, outcomes: Iterable[ClusterOutcome[tuple[Finding, ...]]]) -> Validation:
    """Return a report together with what was found on each cluster that could be asked."""
    found = [finding for outcome in outcomes if outcome.error is None for finding in outcome.require()]
    return replace(report, problems=(*report.problems, *found))


def check_principals(cluster: str, desired: Desired, known: Collection[str]) -> Iterator[Finding]:
    """Yield a warning for each declared user without SCRAM credentials, where it is declared first.

    Defaults, tombstones and names that come from certificates are passed over. A cluster that keeps no SCRAM
    credentials at all authenticates in some other way, so there is a note and nothing else. `cluster` is what messages
    call the cluster. `known` holds the users that have credentials there.
    """
    name = inert(cluster)
    if not known:
        yield rule.NO_SCRAM.finding(
            f"{name} has no SCRAM credentials, so the users in the files were not checked against it",
        )
        return
    unknown = {user: entry for user, entry in _declared_users(desired).items() if user not in known}
    candidates = sorted(known)
    guesses = max(1, _MOST_COMPARISONS // len(candidates))
    for number, (user, entry) in enumerate(unknown.items()):
        near = nearest(user, candidates, cutoff=_NEARNESS, is_exact=True) if number < guesses else None
        guess = f"; did you mean {spell_name(near)}?" if near is not None else ""
        yield rule.UNKNOWN_PRINCIPAL.finding(
            f"user {spell_name(user)} has no SCRAM credentials on {name}{guess}",
            address=entry.entity.address,
            location=entry.location,
        )


def _declared_users(desired: Desired) -> Mapping[str, Entry]:
    """Return the entry that mentions each user first, by place."""
    users: dict[str, Entry] = {}
    for entry in sorted(desired.values(), key=_place):
        user = _user(entry.entity)
        if user is not None and entry.absent is None and not _ELSEWHERE(user):
            users.setdefault(user, entry)
    return users


def _place(entry: Entry) -> tuple[str, int, int, str]:
    location = entry.location or Location("")
    return location.file, location.line, location.column, entry.entity.address


def _user(entity: Entity) -> str | None:
    return next((name for kind, name in entity.parts if kind == USER), None)
