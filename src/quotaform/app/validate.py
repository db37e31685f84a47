"""Checking the files, offline."""

from __future__ import annotations

from dataclasses import dataclass

from quotaform.app.clock import today
from quotaform.app.repository import Repository
from quotaform.errors import InvalidFilesError
from quotaform.model.finding import Finding, Severity


@dataclass(frozen=True, slots=True, kw_only=True)
class Validation:
    """What came of checking the files.

    Attributes:
        directory: The quotas directory.
        files: How many files were read.
        entities: How many entities they declare, per cluster; the key is `None` without clusters.
        problems: All problems and warnings of all files, by place.
    """

    directory: str
    files: int
    entities: dict[str | None, int]
    problems: tuple[Finding, ...]

    @property
    def is_valid(self) -> bool:
        """Whether nothing is wrong; warnings are not."""
        return not any(problem.severity is Severity.ERROR for problem in self.problems)


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
