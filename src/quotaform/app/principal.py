"""Whether the users that files declare exist: a quota for a misspelt name limits nobody and nobody notices."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from re import compile as regex
from typing import TYPE_CHECKING, Final

from quotaform.app.clock import SYSTEM_CLOCK, Clock, today
from quotaform.app.repository import Repository
from quotaform.app.scram import open_scram
from quotaform.core.check import rule
from quotaform.core.result import Validation
from quotaform.model.entity import USER, Entity, spell_name
from quotaform.model.entry import Desired, Entry
from quotaform.model.finding import Finding
from quotaform.model.location import Location
from quotaform.model.text import inert, nearest

if TYPE_CHECKING:
    from quotaform.desired.config import Cluster, Config

_ELSEWHERE: Final = regex(r"ANONYMOUS|[A-Za-z][A-Za-z0-9.-]*=.*").fullmatch
"""Names that come from no SCRAM login: of connections without any, and of certificates (`CN=app,O=Example`)."""
_NEARNESS: Final = 0.75
_MOST_COMPARISONS: Final = 50_000
"""Guessing compares with every user of the cluster; a few seconds of it are enough for anybody."""


def with_principals(
    report: Validation,
    repository: Repository,
    config: Config,
    clusters: Iterable[Cluster],
    *,
    clock: Clock = SYSTEM_CLOCK,
) -> Validation:
    """Return a report together with what its clusters say of the users in the files.

    Args:
        report: What came of checking the files; one with problems is returned as it is.
        repository: Where the files are.
        config: The content of quotaform.yaml.
        clusters: Running clusters, which are asked.
        clock: Says which entries have expired.

    Raises:
        UsageError: One is a snapshot.
        ClusterError: One could not be asked.
    """
    if not report.is_valid:
        return report
    loaded = repository.load(config, today(clock))
    findings = [
        finding
        for cluster in clusters
        for finding in check_principals(cluster.name, loaded.desired(cluster.name), _known_users(cluster))
    ]
    return replace(report, problems=(*report.problems, *findings))


def _known_users(cluster: Cluster) -> set[str]:
    with open_scram(cluster) as gateway:
        return {found.user for found in gateway.describe() if found.credentials}


def check_principals(cluster: str, desired: Desired, known: Collection[str]) -> Iterator[Finding]:
    """Yield a warning for each declared user without SCRAM credentials, where it is declared first.

    Defaults, tombstones and names that come from certificates are passed over. A cluster that keeps no SCRAM
    credentials at all authenticates in some other way, so there is a note and nothing else.

    Args:
        cluster: What messages call the cluster.
        desired: What the files say for it.
        known: The users that have credentials there.
    """
    name = inert(cluster)
    if not known:
        yield rule.NO_SCRAM.finding(
            f"{name} keeps no SCRAM credentials, so the users in the files were not checked against it",
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
