"""Explaining where the declared values of an entity come from, offline."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date
from typing import TYPE_CHECKING, Final

from quotaform.core.provenance import Explained, Explanation, explain
from quotaform.errors import InvalidFilesError, UndeclaredError
from quotaform.model.entity import Entity
from quotaform.model.finding import Finding, Severity, by_place
from quotaform.model.text import nearest

if TYPE_CHECKING:
    from quotaform.app.repository import Repository

_MOST_COMPARISONS: Final = 50_000
"""Guessing compares with every declared address; a few seconds of it are enough for anybody."""


def explain_entity(repository: Repository, entity: Entity, patterns: Sequence[str], today: date) -> Explained:
    """Explain an entity for the clusters that are meant.

    Args:
        repository: Where the files are.
        entity: The entity.
        patterns: Names of clusters, or globs over them; every cluster of quotaform.yaml if there are none.
        today: The day (UTC) on which entries may have expired.

    Raises:
        UsageError: A cluster is not in quotaform.yaml.
        InvalidFilesError: The files of one of the clusters are invalid.
        UndeclaredError: None of them declares the entity.
    """
    from quotaform.desired.config import choose_clusters

    config = repository.config()
    names: list[str | None] = list(config.clusters) or [None]
    if patterns:
        names = [cluster.name for cluster in choose_clusters(config, patterns)]
    loaded = repository.load(config, today)
    sections: list[Explanation] = []
    problems: dict[Finding, None] = {}
    declared: dict[str, None] = {}
    for name in names:
        desired, findings = loaded.check(name)
        problems.update((finding, None) for finding in findings if finding.severity is Severity.ERROR)
        layers = loaded.layers_of(name, entity)
        sections.append(explain(name, entity, layers, desired.get(entity), config.profiles, today))
        if entity not in desired:
            declared.update((other.address, None) for other in desired)
    if problems:
        raise InvalidFilesError(by_place(problems))
    if not any(section.location for section in sections):
        candidates = sorted(declared)[:_MOST_COMPARISONS]
        raise UndeclaredError(entity, nearest(entity.address, candidates, is_exact=True))
    return Explained(directory=repository.directory.as_posix(), entity=entity, clusters=tuple(sections))
