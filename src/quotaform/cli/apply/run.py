"""Applying plans: receipts are kept and what was done is printed, whatever happens."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from quotaform.app.apply.apply import apply_plans
from quotaform.app.apply.lock import apply_lock
from quotaform.app.apply.receipt_file import write_receipt
from quotaform.app.apply.receipt_name import receipt_path
from quotaform.app.rendering import render
from quotaform.cli.apply.interruption import noting_nothing_written
from quotaform.cli.cluster_path import cluster_paths
from quotaform.cli.console import Console, require_writable
from quotaform.cli.exit_code import decide_apply
from quotaform.cli.outcomes import echo_outcomes, gather
from quotaform.core.outcome import ClusterOutcome
from quotaform.errors import NotReadError, QuotaformError, UsageError
from quotaform.interrupt import held_signals
from quotaform.model.text import inert
from quotaform.views.plan.outcome_text import render_failure, render_receipt_total
from quotaform.views.reading_text import cluster_line

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
    is_one = len(plans) + len(failed) == 1
    paths = _receipt_paths(settings.receipt_path, plans, repository)
    steps = _Steps(settings, repository, paths, is_one)
    applied = apply_plans(
        plans,
        steps.keep,
        steps.show,
        around=steps.around,
        report_late=steps.report_late,
        progress=settings.console.progress,
    )
    with noting_nothing_written(lambda: steps.has_written):
        gathered = gather(applied, [cluster.name for cluster, _ in plans], missing="not applied")
        outcomes = [*gathered.outcomes, *failed]
        with held_signals():
            _report(settings, outcomes, repository, is_one)
        gathered.raise_interrupt()
    return decide_apply(outcomes)


class _Steps:
    """What is done beside applying a plan: the lock, the audit file, the receipt, and what is printed."""

    def __init__(
        self, settings: ApplySettings, repository: Repository, paths: Mapping[str, Path], is_one: bool
    ) -> None:
        """Note what was asked for.

        Args:
            settings: What was asked for.
            repository: Where the locks are.
            paths: Where the receipt of each cluster goes.
            is_one: Whether there is one cluster, whose name need not be printed.
        """
        self._settings, self._repository = settings, repository
        self._paths = dict(paths)
        self._is_one = is_one
        self._problems: dict[str, QuotaformError] = {}
        self.has_written = False
        """Whether anything was or may have been written to a cluster."""

    @contextmanager
    def around(self, cluster: Cluster, plan: Plan) -> Iterator[None]:
        """Hold the lock of a cluster, and write to the audit file that its apply begins or is refused."""
        is_written = bool(plan.changes) and plan.is_applyable
        lock = apply_lock(self._repository, cluster.name, plan.header.cluster_id) if is_written else nullcontext()
        with self._settings.audit.refusals([plan]), lock:
            self._settings.audit.start(plan)
            yield

    def keep(self, cluster: Cluster, done: Receipt) -> None:
        """Write a receipt, and to the audit file that the apply has ended; a failure is shown later."""
        self.has_written = self.has_written or done.wrote_anything
        path = self._paths[cluster.name]
        try:
            if done.results:
                self._paths[cluster.name] = write_receipt(path, done)
        except OSError as error:
            self._problems[cluster.name] = QuotaformError(f"{path} cannot be written: {error.strerror or error}")
        except QuotaformError as error:
            self._problems[cluster.name] = error
        unaudited = self._settings.audit.finish(done)
        if unaudited is not None:
            self.report_late(cluster, unaudited)

    def show(self, cluster: Cluster, done: Receipt) -> None:
        """Print what was done, and where the receipt is."""
        console, is_text = self._settings.console, self._settings.is_text
        if is_text and not self._is_one:
            console.echo(f"{cluster_line(cluster.name, console.style())}\n")
        if done.results:
            _show_receipt(console, self._paths[cluster.name], done, self._problems.get(cluster.name))
        if is_text:
            console.echo(render("receipt", "text", done, style=console.style()))
        if is_text and not self._is_one:
            console.echo("\n")

    def report_late(self, cluster: Cluster, error: QuotaformError) -> None:
        """Print an error that came when everything was done."""
        self._settings.console.write_stderr(f"Error: {inert(cluster.name)}, when everything was done: {error}\n")


def _report(
    settings: ApplySettings, outcomes: Sequence[ClusterOutcome[Receipt]], repository: Repository, is_one: bool
) -> None:
    """Print what became of all clusters.

    Raises:
        QuotaformError: Nothing was applied to the only cluster.
    """
    console = settings.console
    ci = replace(settings.ci, root=repository.directory)
    ci.report(console, "receipt", outcomes)
    if not settings.is_text:
        echo_outcomes(console, "receipt", settings.format_name, outcomes, render_receipt_total, **ci.options)
    elif is_one:
        outcomes[0].require()
    else:
        _sum_up(console, outcomes)


def _receipt_paths(named: Path | None, plans: Sequence[ClusterPlan], repository: Repository) -> dict[str, Path]:
    """Return where the receipt of each cluster goes, after making sure that it can be written.

    Raises:
        UsageError: `--receipt` names a file that exists: a receipt overwrites nothing.
        QuotaformError: A folder cannot be written to.
    """
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
