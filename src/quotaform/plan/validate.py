"""Checking the files, offline, and whether the users that they declare exist: as JSON, as text and as Markdown."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from re import compile as regex
from typing import TYPE_CHECKING, Annotated, Final

from msgspec import Struct, structs

from quotaform.cluster.scram import ScramGateway
from quotaform.desired.config import Config
from quotaform.desired.loader import Claim, LoadedFiles, check_claims
from quotaform.desired.policy.policy import check_policies
from quotaform.model import rule
from quotaform.model.entity import USER, spell_name
from quotaform.model.errors import ExitCode, InvalidFilesError
from quotaform.model.finding import Finding, Location, Severity
from quotaform.model.outcome import ClusterOutcome, Progress
from quotaform.model.quotas import Desired, Entry
from quotaform.model.records.record import Count, Record, about, derived
from quotaform.model.rule import MAX_PROBLEMS, FindingList, first_findings
from quotaform.model.settings import Capacity, Ignore
from quotaform.model.text import inert, listed, nearest
from quotaform.plan.check.check import expired_approval
from quotaform.plan.check.lint import LintFacts, check_lints, unused_ignores
from quotaform.report.comment import Marker
from quotaform.report.finding import first_of_each_rule
from quotaform.report.report import Column, ColumnKind, Report, Table, sections_of
from quotaform.report.text import PLAIN, Style, counted
from quotaform.repository.gateway import work_on
from quotaform.repository.policy import load_policies
from quotaform.repository.repository import Repository, read_claims
from quotaform.repository.run import open_scram
from quotaform.system.clock import SYSTEM_CLOCK, Clock, today

if TYPE_CHECKING:
    from quotaform.desired.config import Cluster


class DeclaredEntities(Record):
    """The entities of one cluster."""

    cluster: Annotated[str | None, about("The cluster name, or null if quotaform.yaml has no clusters.")]
    count: Annotated[Count, about("The number of entities.")]


class Validation(Record, document="validation"):
    """The result of validating the files, as quotaform validate writes it."""

    is_valid: Annotated[bool, about("Whether there are no errors.")] = derived(
        lambda validation: not validation.counts["problems"], name="valid"
    )
    directory: Annotated[str, about("The quotas directory, as given.")]
    files: Annotated[Count, about("The number of files.")]
    entities: Annotated[tuple[DeclaredEntities, ...], about("The number of declared entities per cluster.")]
    problems: Annotated[tuple[Finding, ...], about("All problems and warnings of all files.")]

    @property
    def exit_code(self) -> ExitCode:
        """The exit code of a run that checked the files."""
        return ExitCode.DONE if self.is_valid else ExitCode.INVALID

    @property
    def counts(self) -> Mapping[str, int]:
        """Its numbers, by name."""
        return {"problems": sum(problem.severity is Severity.ERROR for problem in self.problems)}


_FEW: Final = 20
"""How many clusters a report names."""


def render_validation(validation: Validation, style: Style = PLAIN, *, shows_warnings: bool = True) -> str:
    """Return all problems, one per line, or one line that says what was checked."""
    lines, directory = [], inert(validation.directory)
    for problem in first_of_each_rule(validation.problems):
        is_error = problem.severity is Severity.ERROR
        if is_error or shows_warnings:
            severity = style.paint(problem.severity, "red" if is_error else "yellow")
            lines.append(f"{problem.location or directory}: {severity}: {problem.message} [{problem.rule}]")
    if validation.is_valid:
        checked = f"{counted(validation.files, 'file')} in {directory}, {_declared(validation.entities)}"
        lines.append(style.paint(f"Valid: {checked}.", "green"))
    else:
        lines.append(style.paint(f"{counted(validation.counts['problems'], 'problem')} found.", "bold"))
    return "\n".join(lines) + "\n"


def _declared(entities: Sequence[DeclaredEntities]) -> str:
    return ", ".join(
        counted(each.count, "entity") + (f" for {spell_name(each.cluster)}" if each.cluster else "")
        for each in entities
    )


def validation_problems(validation: Validation) -> Report:
    """Return the problems and warnings of files."""
    return Report(title="validate", findings=validation.problems)


_COLUMNS: Final = ("severity", Column("place", ColumnKind.NAME), "problem", Column("rule", ColumnKind.NAME))


def validation_report(validation: Validation, *, shows_warnings: bool = True) -> Report:
    """Return all problems. `shows_warnings` says whether warnings and notes are among them."""
    rows = tuple(
        (each.severity.value, str(each.location or "-"), each.message, each.rule)
        for each in first_of_each_rule(validation.problems)
        if shows_warnings or each.severity is Severity.ERROR
    )
    declared = _declared(validation.entities[:_FEW])
    table = Table("Problems", _COLUMNS, rows, hint="See the output of quotaform validate.")
    return Report(
        title=f"Kafka quota files in {inert(validation.directory)}",
        state="valid" if validation.is_valid else counted(validation.counts["problems"], "problem"),
        sections=sections_of(table),
        nothing="No problem was found.",
        total=f"{counted(validation.files, 'file')}, {declared}." if declared else "",
        marker=Marker("validate", "", validation.directory),
    )


class ValidatedFiles(Struct, frozen=True, kw_only=True):
    """Files that were checked."""

    report: Validation
    config: Config  # The content of quotaform.yaml; empty when it is invalid
    files: LoadedFiles | None  # What the files of the quotas directory say; `None` when quotaform.yaml is invalid


def validate_files(
    repository: Repository, patterns: Sequence[str] = (), *, clock: Clock = SYSTEM_CLOCK
) -> ValidatedFiles:
    """Check quotaform.yaml, approvals.yaml and the quotas of the clusters.

    `patterns` are names of clusters, or globs over them; every cluster without any. Raises `UsageError` if a name or a
    glob fits no cluster.
    """
    problems: set[Finding] = set()
    day = today(clock)
    try:
        approvals = repository.approvals(day)
        problems.update(expired_approval(each, at) for each, at in approvals.items() if each.expires <= day)
    except InvalidFilesError as error:
        problems.update(error.problems)
    files: set[str] = set()
    entities: dict[str | None, int] = {}
    try:
        config = repository.config()
    except InvalidFilesError as error:
        problems.update(error.problems)
        return ValidatedFiles(report=_validation([repository], 0, {}, problems), config=Config(), files=None)
    names = repository.cluster_names(config, patterns)
    loaded = repository.load(config, day)
    policies = load_policies(repository, config)
    used: set[Ignore] = set()
    problems.update(policies.problems)
    if config.roots:
        try:
            others = read_claims(repository, config, day)
        except InvalidFilesError as error:
            problems.update(error.problems)
            others = ()
        problems.update(check_claims(_claims(config, loaded), others))
    found_for: dict[Finding, list[str]] = {}
    for name in names:
        files.update(file.source.name for file in loaded.files(name))
        desired, found = loaded.check(name)
        entities[name] = len(desired)
        problems.update(found)
        found_here = list(check_policies(desired, policies.policies, name))
        if not any(problem.severity is Severity.ERROR for problem in found):
            if not desired:
                where = f" for cluster {spell_name(name)}" if name is not None else ""
                text = (
                    f"the files declare no entity{where}; if that is meant, plan and apply need {rule.EMPTY.override}"
                )
                problems.add(rule.NOTHING_DECLARED.finding(text))
            cluster = config.clusters.get(name) if name is not None else None
            linted = check_lints(
                LintFacts(
                    desired=desired,
                    settings=config.lints,
                    capacity=cluster.capacity if cluster is not None else Capacity(),
                    today=day,
                )
            )
            used |= linted.used
            found_here += linted.findings
        own = {file.source.name for file in loaded.files(name) if file.source.layer is not None}
        # A list in a match is one place and several entities.
        of_cluster = [
            structs.replace(each, message=f"{each.address}: {each.message}") if each.address else each
            for each in found_here
        ]
        problems.update(of_cluster)
        for finding in of_cluster:
            if finding.location is None or finding.location.file not in own:
                found_for.setdefault(finding, []).append(inert(name or ""))
        if len(problems) > MAX_PROBLEMS and FindingList(problems).is_full:
            break
    for finding, clusters in found_for.items():
        if len(clusters) < len(entities):  # What a common file says may hold for some clusters only.
            problems.remove(finding)
            problems.add(structs.replace(finding, message=f"{listed(clusters, _FEW)}: {finding.message}"))
    if not patterns and not any(problem.severity is Severity.ERROR for problem in problems):
        problems.update(unused_ignores(config.lints.ignores, used, day))
    report = _validation([repository], len(files), entities, problems)
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
        entities.update({each.cluster: each.count for each in checked.report.entities})
        count += checked.report.files
        if checked.files is not None:
            own = _claims(checked.config, checked.files)
            problems.update(check_claims(own, claims))
            claims += own
    return _validation(repositories, count, entities, problems)


def _validation(
    repositories: Sequence[Repository], files: int, entities: Mapping[str | None, int], problems: Iterable[Finding]
) -> Validation:
    return Validation(
        directory=", ".join(repository.directory.as_posix() for repository in repositories),
        files=files,
        entities=tuple(DeclaredEntities(cluster=name, count=count) for name, count in entities.items()),
        problems=tuple(first_findings(problems)),
    )


def _claims(config: Config, files: LoadedFiles) -> list[Claim]:
    clusters = config.clusters.values()
    return [Claim(cluster.name, cluster.cluster_id, files.check(cluster.name)[0]) for cluster in clusters]


_ELSEWHERE: Final = regex(r"ANONYMOUS|[A-Za-z][A-Za-z0-9.-]*=.*").fullmatch
"""Names that come from no SCRAM login: of connections without any, and of certificates (`CN=app,O=Example`)."""
_MOST_COMPARISONS: Final = 50_000
"""Guessing compares with every user of the cluster; it is given up after a few seconds."""


def check_clusters_users(
    checked: ValidatedFiles, clusters: Sequence[Cluster], *, connect: Callable[[Cluster], ScramGateway] = open_scram
) -> tuple[ClusterOutcome[tuple[Finding, ...]], ...]:
    """Ask clusters, all at a time, whether the users in the files exist.

    `checked`: the files; of files with problems nothing is asked, and there is no outcome.
    """
    files = checked.files
    if files is None or not checked.report.is_valid:
        return ()

    def work(cluster: Cluster, gateway: ScramGateway, _: Progress) -> tuple[Finding, ...]:
        known = {found.user for found in gateway.describe() if found.credentials}
        return tuple(check_users(cluster.name, files.desired(cluster.name), known))

    return tuple(work_on(clusters, work, connect))


def add_user_findings(report: Validation, outcomes: Iterable[ClusterOutcome[tuple[Finding, ...]]]) -> Validation:
    """Return a report together with what was found on each cluster that could be asked."""
    found = [finding for outcome in outcomes if outcome.error is None for finding in outcome.require()]
    return structs.replace(report, problems=(*report.problems, *found))


def check_users(cluster: str, desired: Desired, known: Collection[str]) -> Iterator[Finding]:
    """Yield a warning for each declared user without SCRAM credentials, where it is declared first.

    Defaults, tombstones and names that come from certificates are passed over. A cluster that keeps no SCRAM
    credentials at all authenticates in some other way, so there is a note and nothing else. `cluster` is what messages
    call the cluster. `known` holds the users that have credentials there.
    """
    name = inert(cluster)
    if not known:
        yield rule.NO_SCRAM.finding(
            f"{name} has no SCRAM credentials, so the users in the files were not checked against it"
        )
        return

    def by_place(entry: Entry) -> tuple[object, ...]:
        return *structs.astuple(entry.location or Location("")), entry.entity.address

    unknown: dict[str, Entry] = {}
    for entry in sorted(desired.values(), key=by_place):
        user = entry.entity.names.get(USER)
        if user is not None and user not in known and entry.absent is None and not _ELSEWHERE(user):
            unknown.setdefault(user, entry)
    candidates = sorted(known)
    guesses = max(1, _MOST_COMPARISONS // len(candidates))
    for number, (user, entry) in enumerate(unknown.items()):
        near = nearest(user, candidates, cutoff=0.75, is_exact=True) if number < guesses else None
        guess = f"; did you mean {spell_name(near)}?" if near is not None else ""
        yield rule.UNKNOWN_PRINCIPAL.finding(
            f"user {spell_name(user)} has no SCRAM credentials on {name}{guess}",
            address=entry.entity.address,
            location=entry.location,
        )
