"""`quotaform validate`: check the files, offline."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from quotaform.cli.option.cluster import ManyClusters
from quotaform.cli.option.common import argument, flag, with_options
from quotaform.cli.option.output import ReportOutput, out_option, printed
from quotaform.cli.present import Results, report_failures
from quotaform.model.errors import UsageError
from quotaform.model.outcome import ClusterOutcome, exit_code

if TYPE_CHECKING:
    from quotaform.desired.config import Cluster, Config
    from quotaform.repository.repository import Repository

_ALL: Final = "all"
"""Stands for the clusters, which are checked together."""


@with_options
def validate(
    *,
    directories: list[Path] | None = argument(
        "DIR...", "Quotas directories, or their parent directories; no two may declare the same. [default: quotas.d]"
    ),
    target: ManyClusters,
    check_principals: bool = flag(
        "--check-principals", "Also check on the clusters that users have SCRAM credentials."
    ),
    out: list[str] | None = out_option("validation"),
    output: ReportOutput = printed("validation"),
) -> int:
    """Check the files offline: syntax, schema, semantics and policies. Exit 3 if there are errors.

    With several directories, each with its own quotaform.yaml, it is an error if two of them declare an entity for the
    same cluster.

    With --check-principals, each user in the files without SCRAM credentials on the cluster is a warning, unless the
    cluster has no SCRAM credentials at all. Warnings do not change the exit code.

    \b
    Examples:
      quotaform validate
      quotaform validate quotas.d --cluster prod-eu
      quotaform validate --out sarif=quotaform.sarif
      quotaform validate team-a team-b
      quotaform validate --check-principals
    """
    from quotaform.plan.validate import add_user_findings, check_clusters_users, validate_files, validate_together

    repository = target.repository(directories[0] if directories else None)
    ci, shows_warnings = output.ci(repository), not output.quiet
    results = Results(output, ci=ci, out=out, shows_warnings=shows_warnings)
    results.open([_ALL])
    if directories and len(directories) > 1:
        if target.config is not None or check_principals:
            option = "--check-principals" if check_principals else "--config"
            raise UsageError(f"{option} is about one quota repository; give one directory")
        report = validate_together([target.repository(each) for each in directories], target.cluster or ())
        results.present([ClusterOutcome(_ALL, report)])
        return report.exit_code
    checked = validate_files(repository, target.cluster or ())
    outcomes: Sequence[ClusterOutcome[Any]] = ()
    if check_principals and checked.report.is_valid:
        outcomes = check_clusters_users(checked, _running_clusters(target, repository, checked.config))
        if len(outcomes) == 1:
            outcomes[0].require()
    report = add_user_findings(checked.report, outcomes)
    results.present([ClusterOutcome(_ALL, report)])
    report_failures(output.console, outcomes)
    return exit_code([ClusterOutcome(_ALL, report), *outcomes])


def _running_clusters(target: ManyClusters, repository: Repository, config: Config) -> tuple[Cluster, ...]:
    """Return the clusters to ask: those that the options choose, else all that are no snapshots."""
    if target.is_narrow or not config.clusters:
        return target.choose(repository, config)
    clusters = tuple(cluster for cluster in config.clusters.values() if cluster.snapshot is None)
    if not clusters:
        raise UsageError("--check-principals requires a running cluster, but quotaform.yaml has only snapshots")
    return clusters
