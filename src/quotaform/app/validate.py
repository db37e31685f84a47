"""Checking the files, offline."""

from __future__ import annotations

from quotaform.app.clock import today
from quotaform.app.repository import Repository
from quotaform.core.result import Validation
from quotaform.errors import InvalidFilesError
from quotaform.model.finding import Finding


def validate_files(repository: Repository, cluster: str | None = None) -> Validation:
    """Check quotaform.yaml and the quotas of one cluster, or of every cluster that it names.

    Raises:
        UsageError: The cluster is not in quotaform.yaml.
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
    if cluster is not None:
        from quotaform.desired.config import choose_cluster

        names: list[str | None] = [choose_cluster(config, cluster).name]
    else:
        names = list(config.clusters) or [None]
    loaded = repository.load(config, today())
    for name in names:
        files.update(file.name for file in loaded.files(name))
        desired, found = loaded.check(name)
        entities[name] = len(desired)
        problems.update(dict.fromkeys(found))
    return Validation(
        directory=repository.directory.as_posix(), files=len(files), entities=entities, problems=tuple(problems)
    )
