"""`quotaform apply`: apply plans to clusters."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from quotaform.cli.cluster_path import cluster_paths
from quotaform.cli.console import Console, require_writable
from quotaform.cli.exit_code import decide_apply
from quotaform.cli.format import format_option, render, require_format
from quotaform.cli.option.cluster import ManyClusters
from quotaform.cli.option.common import ExcludeOption, SelectOption
from quotaform.cli.option.group import with_option_groups
from quotaform.cli.option.output import Output
from quotaform.cli.outcomes import echo_outcomes, gather
from quotaform.cli.plan_request import make_request, planner
from quotaform.cli.selection import require_selected
from quotaform.core.outcome import ClusterOutcome
from quotaform.errors import NotApprovedError, NotReadError, QuotaformError, UsageError
from quotaform.files import is_folder
from quotaform.interrupt import held_signals

if TYPE_CHECKING:
    from quotaform.app.apply import ClusterPlan
    from quotaform.app.repository import Repository
    from quotaform.core.plan import Plan
    from quotaform.core.receipt import Receipt
    from quotaform.desired.config import Cluster


@with_option_groups
def apply(
    *,
    sources: Annotated[
        list[Path] | None,
        typer.Argument(
            metavar="PLAN.json...|DIR",
            help="Saved plans, at most one per cluster, or a quotas directory. [default: quotas.d]",
        ),
    ] = None,
    target: ManyClusters,
    select: SelectOption = None,
    exclude: ExcludeOption = None,
    auto_approve: Annotated[bool, typer.Option("--auto-approve", help="Apply without asking for approval.")] = False,
    expect_plan_id: Annotated[
        str | None, typer.Option("--expect-plan-id", metavar="ID", help="Exit 5 unless the plan has this id.")
    ] = None,
    receipt: Annotated[
        Path | None,
        typer.Option(
            "--receipt",
            metavar="FILE",
            help="Path of the receipt; {cluster} stands for the cluster name. [default: .quotaform/receipts/]",
        ),
    ] = None,
    format_name: Annotated[str, format_option("receipt")] = "text",
    output: Output,
) -> int:
    """Apply plans to clusters, one after the other: check, dry-run, write and read back.

    A saved plan is applied unchanged, or rejected if the cluster has changed since. A directory is planned, and the
    plan is shown and applied after approval.

    \b
    Examples:
      quotaform apply plan.json
      quotaform apply plans/*.json
      quotaform apply
      quotaform apply quotas.d --auto-approve
    """
    require_format("receipt", format_name)
    console = output.console()
    console.keep_code()
    run = _Apply(console, format_name, expect_plan_id, receipt)
    given = sources or []
    if given and not any(map(is_folder, given)):
        if select or exclude:
            raise UsageError(
                "--select and --exclude limit what is planned; a saved plan is applied completely, so leave them out"
            )
        return run.apply_saved(given, target, auto_approve=auto_approve)
    if len(given) > 1:
        raise UsageError("give one quotas directory, or saved plans")
    return run.apply_directory(given[0] if given else None, target, select, exclude, auto_approve=auto_approve)


def _is_snapshot(plan: Plan, repository: Repository) -> bool:
    """Whether quotaform.yaml says that the cluster of a saved plan is a snapshot."""
    cluster = repository.config().clusters.get(plan.header.cluster_name)
    return cluster is not None and cluster.snapshot is not None


@dataclass(frozen=True, slots=True)
class _Apply:
    """One run, and what it prints: when stdout is for JSON, what people read goes to stderr."""

    console: Console
    format_name: str
    expected_id: str | None
    receipt_path: Path | None

    def apply_saved(self, files: Sequence[Path], target: ManyClusters, *, auto_approve: bool) -> int:
        """Apply plan files, all of which are read and checked before the first one is applied."""
        from quotaform.app.apply import ClusterPlan
        from quotaform.app.plan_file import load_plan_file

        repository = target.repository()
        plans: dict[str, ClusterPlan] = {}
        for path in files:
            if path.suffix in {".yaml", ".yml"}:
                raise UsageError(f"{path} contains quotas; apply takes saved plans or a quotas directory")
            saved = load_plan_file(path)
            if len(files) > 1 and _is_snapshot(saved, repository):
                self.console.warn(f"Not applied: {path} is a plan for cluster {saved.header.cluster_name}, a snapshot")
                continue
            cluster = target.choose_for_plan(repository, path, saved.header.cluster_name)
            if cluster.name in plans:
                raise UsageError(f"{path}: another plan is also for cluster {cluster.name}; give one of them")
            plans[cluster.name] = ClusterPlan(cluster, saved)
        if not plans:
            raise UsageError("each of these plans is for a snapshot, which cannot be applied to")
        if len(plans) > 1 and target.is_narrow:
            raise UsageError("each saved plan names its cluster; leave out the options that choose one")
        self._require_expected(list(plans.values()))
        for cluster, plan in plans.values():
            if cluster.confirm == "name" and not auto_approve and sys.stdin.isatty():
                self._show(plan)
                self._ask(cluster)
        return self._apply(list(plans.values()), [], repository)

    def apply_directory(
        self,
        directory: Path | None,
        target: ManyClusters,
        select: list[str] | None,
        exclude: list[str] | None,
        *,
        auto_approve: bool,
    ) -> int:
        """Plan the clusters that are meant, show what would be done, ask, and apply it."""
        from quotaform.app.apply import ClusterPlan
        from quotaform.views.outcome_text import render_plan_total

        request = make_request(target, directory, select, exclude)
        snapshots = [cluster.name for cluster in request.clusters if cluster.snapshot is not None]
        if snapshots:
            if not target.all_clusters or len(snapshots) == len(request.clusters):
                raise UsageError(f"cluster {snapshots[0]} is a snapshot file, which can be planned but not applied")
            self.console.warn(f"Not applied: {', '.join(snapshots)}, as a snapshot can only be planned")
            live = tuple(cluster for cluster in request.clusters if cluster.snapshot is None)
            request = replace(request, clusters=live)
        outcomes = tuple(planner("local")(request, progress=self.console.progress))
        require_selected(request.selection, outcomes)
        if len(outcomes) == 1:
            self._show(outcomes[0].require())
        elif self.format_name == "text":
            echo_outcomes(self.console, "plan", "text", outcomes, render_plan_total, style=self.console.style())
            self.console.echo("\n")
        plans: list[ClusterPlan] = []
        failed: list[ClusterOutcome[Receipt]] = []
        for cluster, outcome in zip(request.clusters, outcomes, strict=True):
            if outcome.error is None:
                plans.append(ClusterPlan(cluster, outcome.require()))
            else:
                failed.append(ClusterOutcome(cluster.name, error=outcome.error))
        self._require_expected(plans)
        changed = [cluster for cluster, plan in plans if plan.changes and plan.is_applyable]
        if changed and not auto_approve:
            if not sys.stdin.isatty():
                raise NotApprovedError(
                    "there is no terminal to ask for approval, so nothing was written; give --auto-approve, or apply a "
                    "saved plan"
                )
            for cluster in changed:
                self._ask(cluster)
        return self._apply(plans, failed, request.repository)

    def _require_expected(self, plans: Sequence[ClusterPlan]) -> None:
        from quotaform.app.plan_file import require_plan_id

        if self.expected_id is not None and len(plans) != 1:
            raise UsageError("--expect-plan-id is the id of one plan; apply the clusters one by one")
        for _, plan in plans:
            require_plan_id(plan, self.expected_id)

    def _show(self, plan: Plan) -> None:
        """Print what is going to be applied."""
        if self.format_name == "text":
            self.console.echo(render("plan", "text", plan, style=self.console.style()))
        elif sys.stdin.isatty():
            self.console.write_stderr("".join(render("plan", "text", plan)))

    def _ask(self, cluster: Cluster) -> None:
        """Ask a person for approval.

        Raises:
            NotApprovedError: It was not given.
        """
        if self.console.is_lost:
            raise NotApprovedError("the plan cannot be shown, so it was not approved; nothing was written")
        wanted = cluster.name if cluster.confirm == "name" else "yes"
        question = (
            f"\nApply this plan to cluster {cluster.label}? Nothing is rolled back afterwards.\n"
            f"Only {wanted!r} will be accepted to approve.\n\nEnter a value: "
        )
        (self.console.echo if self.format_name == "text" else self.console.write_stderr)(question)
        if sys.stdin.readline().strip() != wanted:
            raise NotApprovedError("not approved; nothing was written")

    def _apply(
        self, plans: Sequence[ClusterPlan], failed: Sequence[ClusterOutcome[Receipt]], repository: Repository
    ) -> int:
        """Apply plans, keep the receipts and print what was done.

        Args:
            plans: What to apply.
            failed: The clusters for which there is no plan.
            repository: Where receipts are kept.
        """
        from quotaform.app.apply import apply_plans, require_applyable
        from quotaform.app.receipt_file import write_receipt
        from quotaform.model.text import inert
        from quotaform.views.outcome_text import render_receipt_total
        from quotaform.views.reading_text import cluster_line

        is_one = len(plans) + len(failed) == 1
        if is_one:
            require_applyable(plans[0].plan)
        paths = self._receipt_paths(plans, repository)

        problems: dict[str, QuotaformError] = {}

        def keep(cluster: Cluster, done: Receipt) -> None:
            if not done.results:
                return
            path = paths[cluster.name]
            try:
                paths[cluster.name] = write_receipt(path, done)
            except OSError as error:
                problems[cluster.name] = QuotaformError(f"{path} cannot be written: {error.strerror or error}")
            except QuotaformError as error:
                problems[cluster.name] = error

        def show(cluster: Cluster, done: Receipt) -> None:
            is_text = self.format_name == "text"
            if is_text and not is_one:
                self.console.echo(f"{cluster_line(cluster.name, self.console.style())}\n")
            if done.results:
                self._show_receipt(paths[cluster.name], done, problems.get(cluster.name))
            if is_text:
                self.console.echo(render("receipt", "text", done, style=self.console.style()))
            if is_text and not is_one:
                self.console.echo("\n")

        def report_late(cluster: Cluster, error: QuotaformError) -> None:
            self.console.write_stderr(f"Error: {inert(cluster.name)}, when everything was done: {error}\n")

        names = [cluster.name for cluster, _ in plans]
        applied = apply_plans(plans, keep, show, report_late=report_late, progress=self.console.progress)
        gathered = gather(applied, names, missing="not applied")
        outcomes = [*gathered.outcomes, *failed]
        with held_signals():
            if self.format_name == "json":
                echo_outcomes(self.console, "receipt", "json", outcomes, render_receipt_total)
            elif is_one:
                outcomes[0].require()
            else:
                self._sum_up(outcomes)
        gathered.raise_interrupt()
        return decide_apply(outcomes)

    def _receipt_paths(self, plans: Sequence[ClusterPlan], repository: Repository) -> dict[str, Path]:
        """Return where the receipt of each cluster goes, after making sure that it can be written.

        Raises:
            UsageError: `--receipt` names a file that exists: a receipt overwrites nothing.
            QuotaformError: A folder cannot be written to.
        """
        from quotaform.app.receipt_file import receipt_path

        if self.receipt_path is None:
            paths = {cluster.name: receipt_path(plan, repository) for cluster, plan in plans}
        else:
            names = [cluster.name for cluster, _ in plans]
            paths = dict(cluster_paths("--receipt", self.receipt_path, names, example="receipts/{cluster}.json"))
        for cluster, plan in plans:
            path = paths[cluster.name]
            if plan.changes and plan.is_applyable:
                require_writable(path)
                if self.receipt_path is not None and path.is_file():
                    raise UsageError(
                        f"--receipt {path} already exists and is never overwritten; nothing was "
                        "written: give another name"
                    )
        return paths

    def _sum_up(self, outcomes: Sequence[ClusterOutcome[Receipt]]) -> None:
        from quotaform.views.outcome_text import render_failure, render_receipt_total

        style = self.console.style()
        for outcome in outcomes:
            if outcome.error is not None and not isinstance(outcome.error, NotReadError):
                self.console.echo(f"{render_failure(outcome.cluster, outcome.error, style)}\n")
        self.console.echo(render_receipt_total(outcomes, style))

    def _show_receipt(self, path: Path, done: Receipt, problem: QuotaformError | None) -> None:
        """Say where the receipt is; what was done stays done when it could not be written, so then it is shown."""
        if problem is None:
            self.console.warn(f"Receipt: {path}")
            return
        text = "".join(render("receipt", "json", done))
        self.console.write_stderr(f"Error: {problem}; this is the receipt:\n{text}")
