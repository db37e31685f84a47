"""Checking the files, offline."""

from __future__ import annotations

from collections.abc import Sequence

from quotaform.app.clock import SYSTEM_CLOCK, Clock, today
from quotaform.app.repository import Repository
from quotaform.core.result import Validation
from quotaform.desired.config import choose_clusters
from quotaform.errors import InvalidFilesError
from quotaform.model.finding import Finding


def validate_files(repository: Repository, patterns: Sequence[str] = (), *, clock: Clock = SYSTEM_CLOCK) -> Validation:
    """Check quotaform.yaml and the quotas of its clusters.

    Args:
        repository: Where the files are.
        patterns: Names of clusters, or globs over them; every cluster without any.
        clock: Says which entries have expired.

    Raises:
        UsageError: A name or a glob fits no cluster.
    """
    problems: dict[Finding, None] = {}
    files: set[str] = set()
    entities: dict[str | None, int] = {}
    try:
        config = repository.config()
    except InvalidFilesError as error:
        return Validation(
            directory=repository.directory.as_posix(), files=0, entities={}, problems=tuple(error.problems)
        )
    names: list[str | None] = list(config.clusters) or [None]
    if patterns:
        names = [cluster.name for cluster in choose_clusters(config, patterns)]
    loaded = repository.load(config, today(clock))
    for name in names:
        files.update(file.name for file in loaded.files(name))
        desired, found = loaded.check(name)
        entities[name] = len(desired)
        problems.update(dict.fromkeys(found))
    return Validation(
        directory=repository.directory.as_posix(), files=len(files), entities=entities, problems=tuple(problems)
    )
