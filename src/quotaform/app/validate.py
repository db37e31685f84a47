"""Checking the files, offline."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date

from quotaform.app.clock import SYSTEM_CLOCK, Clock, today
from quotaform.app.repository.policy import load_policies
from quotaform.app.repository.repository import Repository
from quotaform.app.repository.root import read_claims
from quotaform.core.check import rule
from quotaform.core.check.finding_list import MAX_PROBLEMS, FindingList, first_findings
from quotaform.core.check.guard.approval import expired_approval
from quotaform.core.check.lint.fact import LintFacts
from quotaform.core.check.lint.lint import Linted, check_lints, declared_quotas, unused_ignores, with_address
from quotaform.core.check.lint.setting import Capacity, LintIgnore
from quotaform.core.check.policy import check_policies
from quotaform.core.claim import Claim, check_claims
from quotaform.core.result import Validation
from quotaform.desired.config import Config
from quotaform.desired.loader import LoadedFiles
from quotaform.errors import InvalidFilesError
from quotaform.model.entity import spell_name
from quotaform.model.entry import Desired
from quotaform.model.finding import Finding, Severity


@dataclass(frozen=True, slots=True, kw_only=True)
class ValidatedFiles:
    """Files that were checked.

    Attributes:
        config: The content of quotaform.yaml; empty when it is invalid.
        files: What the files of the quotas directory say; `None` when quotaform.yaml is invalid.
    """

    report: Validation
    config: Config
    files: LoadedFiles | None


def validate_files(
    repository: Repository, patterns: Sequence[str] = (), *, clock: Clock = SYSTEM_CLOCK
) -> ValidatedFiles:
    """Check quotaform.yaml, approvals.yaml and the quotas of the clusters.

    `patterns` are names of clusters, or globs over them; every cluster without any. Raises `UsageError` if a name or a
    glob fits no cluster.
    """
    problems: set[Finding] = set(_approval_problems(repository, clock))
    files: set[str] = set()
    entities: dict[str | None, int] = {}
    try:
        config = repository.config()
    except InvalidFilesError as error:
        problems.update(error.problems)
        report = Validation(
            directory=repository.directory.as_posix(),
            files=0,
            entities={},
            problems=tuple(first_findings(problems)),
        )
        return ValidatedFiles(report=report, config=Config(), files=None)
    names = repository.cluster_names(config, patterns)
    loaded = repository.load(config, today(clock))
    policies = load_policies(repository, config)
    used: set[LintIgnore] = set()
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
        problems.update(map(with_address, check_policies(desired, policies.policies, name)))
        if not any(problem.severity is Severity.ERROR for problem in found):
            if not desired:
                problems.add(_nothing_declared(name))
            linted = _lint(config, name, desired, today(clock))
            used |= linted.used
            problems.update(map(with_address, linted.findings))
        if len(problems) > MAX_PROBLEMS and FindingList(problems).is_full:
            break
    if not patterns and not any(problem.severity is Severity.ERROR for problem in problems):
        problems.update(unused_ignores(config.lints.ignores, used, today(clock)))
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

    `patterns` are names of clusters, or globs over them; every cluster without any. Raises `UsageError` if a name or a
    glob fits no cluster of one of them.
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


def _lint(config: Config, name: str | None, desired: Desired, day: date) -> Linted:
    cluster = config.clusters.get(name) if name is not None else None
    return check_lints(
        LintFacts(
            desired=desired,
            quotas=declared_quotas(desired),
            settings=config.lints,
            capacity=cluster.capacity if cluster is not None else Capacity(),
            today=day,
        )
    )


def _nothing_declared(name: str | None) -> Finding:
    where = f" for cluster {spell_name(name)}" if name is not None else ""
    return rule.NOTHING_DECLARED.finding(
        f"the files declare no entity{where}; if that is meant, plan and apply need {rule.EMPTY.override}"
    )


def _approval_problems(repository: Repository, clock: Clock) -> Sequence[Finding]:
    """Return what is wrong with approvals.yaml, and which approvals have expired."""
    day = today(clock)
    try:
        approvals = repository.approvals(day)
    except InvalidFilesError as error:
        return error.problems
    return [expired_approval(approval) for approval in approvals if approval.expires <= day]
