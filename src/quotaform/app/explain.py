"""Explaining where the declared values of an entity come from, offline."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date
from typing import TYPE_CHECKING, Final

from quotaform.core.outcome import ClusterOutcome
from quotaform.core.provenance import Explained, Explanation, explain
from quotaform.errors import InvalidFilesError, UndeclaredError
from quotaform.model.entity import DEFAULT_WORD, Entity, spell_name
from quotaform.model.finding import Finding, by_place
from quotaform.model.text import nearest

if TYPE_CHECKING:
    from quotaform.app.repository.repository import Repository

_MOST_COMPARISONS: Final = 50_000
"""Guessing compares with every declared address; a few seconds of it are enough for anybody."""

_NEARNESS: Final = 0.8
"""How alike names must be; the types in addresses would make all of them alike."""


def explain_entity(repository: Repository, entity: Entity, patterns: Sequence[str], today: date) -> Explained:
    """Explain an entity for the clusters that are meant.

    Args:
        patterns: Names of clusters, or globs over them; every cluster of quotaform.yaml if there are none.

    Raises:
        UsageError: A cluster is not in quotaform.yaml.
        InvalidFilesError: quotaform.yaml is invalid, or the files of some clusters are and no other one declares the
            entity.
        UndeclaredError: The files of all clusters are valid, and none of them declares the entity.
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
        sections.append(explain(name, entity, layers, desired.get(entity), config.profiles, today))
        if entity not in desired:
            declared.update((_names(other), other.address) for other in desired if other.types == entity.types)
    if not any(section.location for section in sections):
        if problems:
            raise InvalidFilesError(by_place(problems))
        candidates = sorted(declared)[:_MOST_COMPARISONS]
        near = nearest(_names(entity), candidates, cutoff=_NEARNESS, is_exact=True)
        raise UndeclaredError(entity, None if near is None else declared[near])
    return Explained(
        directory=repository.directory.as_posix(), entity=entity, clusters=tuple(sections), failed=tuple(failed)
    )


def _names(entity: Entity) -> str:
    return ",".join(DEFAULT_WORD if name is None else spell_name(name) for _, name in entity.parts)
