"""Applying plans: receipts are kept and what was done is printed, whatever happens."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from quotaform.app.apply.lock import apply_lock
from quotaform.app.apply.receipt_name import receipt_path
from quotaform.cli.apply.steps import ApplySteps
from quotaform.cli.cluster_path import cluster_paths
from quotaform.cli.console import Console, require_writable
from quotaform.cli.documents import STDOUT
from quotaform.cli.exit_code import decide, decide_apply
from quotaform.cli.format import REPORT
from quotaform.cli.outcomes import digests, echo_outcomes, gather, warn_of_started
from quotaform.core.outcome import ClusterOutcome
from quotaform.errors import NotReadError, QuotaformError, UsageError
from quotaform.exit_code import ExitCode
from quotaform.interrupt import held_signals
from quotaform.views.plan.outcome_text import render_dry_run, render_failure, render_receipt_total

if TYPE_CHECKING:
    from quotaform.app.apply.apply import ClusterPlan
    from quotaform.app.repository.repository import Repository
    from quotaform.cli.apply.engine import ApplyEngine
    from quotaform.cli.apply.settings import ApplySettings
    from quotaform.core.digest import PlanDigest
    from quotaform.desired.config import Cluster


def apply_and_report(
    settings: ApplySettings,
    engine: ApplyEngine,
    plans: Sequence[ClusterPlan[Any]],
    failed: Sequence[ClusterOutcome[Any]],
    repository: Repository,
) -> int:
    """Apply plans, keep the receipts, print what was done, and return how the process ends.

    Args:
        failed: The clusters for which there is no plan.
    """
    paths = _receipt_paths(settings, plans, repository)
    if settings.is_dry_run:
        return _check_and_report(settings, plans, failed, repository)
    clusters = len(plans) + len(failed)
    settings = replace(settings, ci=replace(settings.ci, root=repository.directory))
    steps = ApplySteps(settings, repository, paths, clusters)
    names = [cluster.name for cluster, _ in plans]
    with settings.reports.covering([*names, *(each.cluster for each in failed)]):
        gathered = gather(engine.apply(settings, plans, steps), names, missing="not applied")
        outcomes = [*gathered.outcomes, *failed]
        with held_signals():
            try:
                _report(settings, outcomes)
            except QuotaformError as error:
                if gathered.interrupt is None:
                    raise
                settings.console.write_stderr(f"Error: {error}\n")
        gathered.raise_interrupt()
    return decide_apply(digests(outcomes))


def _check_and_report(
    settings: ApplySettings,
    plans: Sequence[ClusterPlan[Any]],
    failed: Sequence[ClusterOutcome[Any]],
    repository: Repository,
) -> int:
    """Do what comes before the first change of an apply, print what would follow, and return how the process ends."""
    from quotaform.app.apply.apply import check_plans

    console = settings.console
    for each in plans:
        warn_of_started(console, repository, each.cluster.name, each.digest.cluster_id)

    @contextmanager
    def while_none_runs(cluster: Cluster, plan: PlanDigest) -> Iterator[None]:
        if plan.changes and plan.is_applyable:
            with apply_lock(repository, cluster.name, plan.cluster_id, is_made=False):
                pass  # It is not held, so that a dry run keeps no apply from running.
        yield

    names = [cluster.name for cluster, _ in plans]
    checked = check_plans(plans, around=while_none_runs, progress=console.progress)
    gathered = gather(checked, names, missing="not checked")
    outcomes = [*gathered.outcomes, *failed]
    if len(outcomes) > 1:
        _echo_failures(console, outcomes)
    console.echo(render_dry_run(outcomes, console.style()))
    gathered.raise_interrupt()
    if len(outcomes) == 1:
        outcomes[0].require()
    return decide(outcomes, lambda _: ExitCode.DONE)


def _report(settings: ApplySettings, outcomes: Sequence[ClusterOutcome[Any]]) -> None:
    """Print what became of all clusters."""
    console, ci = settings.console, settings.ci
    found = digests(outcomes)
    settings.reports.write(found)
    ci.report(console, "receipt", outcomes)
    if settings.format_name == REPORT:
        settings.reports.echo(found)
    elif not settings.is_text:
        options = {**ci.options, "document": STDOUT}
        echo_outcomes(console, "receipt", settings.format_name, outcomes, render_receipt_total, **options)
    elif len(outcomes) == 1:
        outcomes[0].require()
    else:
        _sum_up(console, outcomes)


def _receipt_paths(
    settings: ApplySettings, plans: Sequence[ClusterPlan[Any]], repository: Repository
) -> dict[str, Path]:
    """Return where the receipt of each cluster goes, after making sure that it can be written; a dry run makes nothing.

    Raises:
        UsageError: `--receipt` names a file that exists: a receipt overwrites nothing.
        QuotaformError: A folder cannot be written to.
    """
    digests_of = {each.cluster.name: each.digest for each in plans}
    named = settings.receipt_path
    if named is None:
        paths = {name: receipt_path(plan, repository) for name, plan in digests_of.items()}
    else:
        paths = dict(cluster_paths("--receipt", named, list(digests_of), example="receipts/{cluster}.json"))
    for name, plan in digests_of.items():
        path = paths[name]
        if plan.changes and plan.is_applyable:
            require_writable(path, makes_folder=not settings.is_dry_run)
            if named is not None and path.is_file():
                raise UsageError(
                    f"--receipt {path} already exists and is never overwritten; nothing was written: give another name"
                )
    return paths


def _sum_up(console: Console, outcomes: Sequence[ClusterOutcome[Any]]) -> None:
    _echo_failures(console, outcomes)
    console.echo(render_receipt_total(digests(outcomes), console.style()))


def _echo_failures(console: Console, outcomes: Sequence[ClusterOutcome[Any]]) -> None:
    for outcome in outcomes:
        if outcome.error is not None and not isinstance(outcome.error, NotReadError):
            console.echo(f"{render_failure(outcome.cluster, outcome.error, console.style())}\n")
