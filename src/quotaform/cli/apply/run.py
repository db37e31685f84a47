"""Applying plans: receipts are kept and what was done is printed, whatever happens."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from quotaform.cli.cluster_path import cluster_paths
from quotaform.cli.console import Console, require_writable
from quotaform.cli.exit_code import decide_apply
from quotaform.cli.format import render
from quotaform.cli.outcomes import echo_outcomes, gather
from quotaform.core.outcome import ClusterOutcome
from quotaform.errors import NotReadError, QuotaformError, UsageError
from quotaform.interrupt import held_signals

if TYPE_CHECKING:
    from quotaform.app.apply.apply import ClusterPlan
    from quotaform.app.repository.repository import Repository
    from quotaform.cli.apply.settings import ApplySettings
    from quotaform.core.plan import Plan
    from quotaform.core.receipt import Receipt
    from quotaform.desired.config import Cluster


def apply_and_report(
    settings: ApplySettings,
    plans: Sequence[ClusterPlan],
    failed: Sequence[ClusterOutcome[Receipt]],
    repository: Repository,
) -> int:
    """Apply plans, keep the receipts, print what was done, and return how the process ends.

    Args:
        settings: What was asked for.
        plans: What to apply.
        failed: The clusters for which there is no plan.
        repository: Where receipts are kept.
    """
    from quotaform.app.apply.apply import apply_plans
    from quotaform.app.apply.lock import apply_lock
    from quotaform.app.apply.receipt_file import write_receipt
    from quotaform.model.text import inert
    from quotaform.views.plan.outcome_text import render_receipt_total
    from quotaform.views.reading_text import cluster_line

    console = settings.console
    is_one = len(plans) + len(failed) == 1
    paths = _receipt_paths(settings.receipt_path, plans, repository)

    problems: dict[str, QuotaformError] = {}

    @contextmanager
    def around(cluster: Cluster, plan: Plan) -> Iterator[None]:
        is_written = bool(plan.changes) and plan.is_applyable
        lock = apply_lock(repository, cluster.name, plan.header.cluster_id) if is_written else nullcontext()
        with settings.audit.refusals([plan]), lock:
            settings.audit.start(plan)
            yield

    def keep(cluster: Cluster, done: Receipt) -> None:
        path = paths[cluster.name]
        try:
            if done.results:
                paths[cluster.name] = write_receipt(path, done)
        except OSError as error:
            problems[cluster.name] = QuotaformError(f"{path} cannot be written: {error.strerror or error}")
        except QuotaformError as error:
            problems[cluster.name] = error
        unaudited = settings.audit.finish(done)
        if unaudited is not None:
            report_late(cluster, unaudited)

    def show(cluster: Cluster, done: Receipt) -> None:
        if settings.is_text and not is_one:
            console.echo(f"{cluster_line(cluster.name, console.style())}\n")
        if done.results:
            _show_receipt(console, paths[cluster.name], done, problems.get(cluster.name))
        if settings.is_text:
            console.echo(render("receipt", "text", done, style=console.style()))
        if settings.is_text and not is_one:
            console.echo("\n")

    def report_late(cluster: Cluster, error: QuotaformError) -> None:
        console.write_stderr(f"Error: {inert(cluster.name)}, when everything was done: {error}\n")

    names = [cluster.name for cluster, _ in plans]
    applied = apply_plans(plans, keep, show, around=around, report_late=report_late, progress=console.progress)
    gathered = gather(applied, names, missing="not applied")
    outcomes = [*gathered.outcomes, *failed]
    with held_signals():
        ci = replace(settings.ci, root=repository.directory)
        ci.report(console, "receipt", outcomes)
        if not settings.is_text:
            echo_outcomes(console, "receipt", settings.format_name, outcomes, render_receipt_total, **ci.options)
        elif is_one:
            outcomes[0].require()
        else:
            _sum_up(console, outcomes)
    gathered.raise_interrupt()
    return decide_apply(outcomes)


def _receipt_paths(named: Path | None, plans: Sequence[ClusterPlan], repository: Repository) -> dict[str, Path]:
    """Return where the receipt of each cluster goes, after making sure that it can be written.

    Raises:
        UsageError: `--receipt` names a file that exists: a receipt overwrites nothing.
        QuotaformError: A folder cannot be written to.
    """
    from quotaform.app.apply.receipt_name import receipt_path

    if named is None:
        paths = {cluster.name: receipt_path(plan, repository) for cluster, plan in plans}
    else:
        names = [cluster.name for cluster, _ in plans]
        paths = dict(cluster_paths("--receipt", named, names, example="receipts/{cluster}.json"))
    for cluster, plan in plans:
        path = paths[cluster.name]
        if plan.changes and plan.is_applyable:
            require_writable(path)
            if named is not None and path.is_file():
                raise UsageError(
                    f"--receipt {path} already exists and is never overwritten; nothing was written: give another name"
                )
    return paths


def _sum_up(console: Console, outcomes: Sequence[ClusterOutcome[Receipt]]) -> None:
    from quotaform.views.plan.outcome_text import render_failure, render_receipt_total

    style = console.style()
    for outcome in outcomes:
        if outcome.error is not None and not isinstance(outcome.error, NotReadError):
            console.echo(f"{render_failure(outcome.cluster, outcome.error, style)}\n")
    console.echo(render_receipt_total(outcomes, style))


def _show_receipt(console: Console, path: Path, done: Receipt, problem: QuotaformError | None) -> None:
    """Say where the receipt is; what was done stays done when it could not be written, so then it is shown."""
    if problem is None:
        console.warn(f"Receipt: {path}")
        return
    text = "".join(render("receipt", "json", done))
    console.write_stderr(f"Error: {problem}; this is the receipt:\n{text}")
