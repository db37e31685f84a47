"""Checking the files, offline."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

from quotaform.app.clock import SYSTEM_CLOCK, Clock, today
from quotaform.app.policy import load_policies
from quotaform.app.repository import Repository
from quotaform.app.root import read_claims
from quotaform.core.check.finding_list import MAX_PROBLEMS, FindingList, first_findings
from quotaform.core.check.policy import check_policies
from quotaform.core.claim import Claim, check_claims
from quotaform.core.result import Validation
from quotaform.desired.config import Config
from quotaform.desired.loader import LoadedFiles
from quotaform.errors import InvalidFilesError
from quotaform.model.finding import Finding


@dataclass(frozen=True, slots=True, kw_only=True)
class ValidatedFiles:
    """Files that were checked.

    Attributes:
        report: What came of it.
        config: The content of quotaform.yaml; empty when it is invalid.
        files: What the files of the quotas directory say; `None` when quotaform.yaml is invalid.
    """

    report: Validation
    config: Config
    files: LoadedFiles | None


def validate_files(
    repository: Repository, patterns: Sequence[str] = (), *, clock: Clock = SYSTEM_CLOCK
) -> ValidatedFiles:
    """Check quotaform.yaml and the quotas of its clusters.

    Args:
        repository: Where the files are.
        patterns: Names of clusters, or globs over them; every cluster without any.
        clock: Says which entries have expired.

    Raises:
        UsageError: A name or a glob fits no cluster.
    """
    problems: set[Finding] = set()
    files: set[str] = set()
    entities: dict[str | None, int] = {}
    try:
        config = repository.config()
    except InvalidFilesError as error:
        report = Validation(
            directory=repository.directory.as_posix(), files=0, entities={}, problems=tuple(error.problems)
        )
        return ValidatedFiles(report=report, config=Config(), files=None)
    names = repository.cluster_names(config, patterns)
    loaded = repository.load(config, today(clock))
    policies = load_policies(repository, config)
    problems.update(policies.problems)
    if config.roots:
        try:
            others = read_claims(repository, config, today(clock))
        except InvalidFilesError as error:
            problems.update(error.problems)
            others = ()
        problems.update(check_claims(_claims(config, loaded), others))
    for name in names:
        files.update(file.name for file in loaded.files(name))
        desired, found = loaded.check(name)
        entities[name] = len(desired)
        problems.update(found)
        # A list in a match is one place and several entities: the message says which one.
        for refusal in check_policies(desired, policies.policies, name):
            where = f"{refusal.address}: " if refusal.address else ""
            problems.add(replace(refusal, message=f"{where}{refusal.message}"))
        if len(problems) > MAX_PROBLEMS and FindingList(problems).is_full:
            break
    report = Validation(
        directory=repository.directory.as_posix(),
        files=len(files),
        entities=entities,
        problems=tuple(first_findings(problems)),
    )
    return ValidatedFiles(report=report, config=config, files=loaded)


def validate_together(
    repositories: Sequence[Repository], patterns: Sequence[str] = (), *, clock: Clock = SYSTEM_CLOCK
) -> Validation:
    """Check several quota repositories, and that no two of them declare an entity for the same cluster.

    Args:
        repositories: Where the files are.
        patterns: Names of clusters, or globs over them; every cluster without any.
        clock: Says which entries have expired.

    Raises:
        UsageError: A name or a glob fits no cluster of one of them.
    """
    problems: set[Finding] = set()
    entities: Counter[str | None] = Counter()
    claims: list[Claim] = []
    count = 0
    for repository in repositories:
        checked = validate_files(repository, patterns, clock=clock)
        problems.update(checked.report.problems)
        entities.update(checked.report.entities)
        count += checked.report.files
        if checked.files is not None:
            own = _claims(checked.config, checked.files)
            problems.update(check_claims(own, claims))
            claims += own
    return Validation(
        directory=", ".join(repository.directory.as_posix() for repository in repositories),
        files=count,
        entities=dict(entities),
        problems=tuple(first_findings(problems)),
    )


def _claims(config: Config, files: LoadedFiles) -> list[Claim]:
    """Return what files declare for each cluster, as far as they can be read."""
    clusters = config.clusters.values()
    return [Claim(cluster.name, cluster.cluster_id, files.check(cluster.name)[0]) for cluster in clusters]
