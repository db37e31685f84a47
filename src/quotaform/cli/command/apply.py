"""`quotaform apply`: apply plans to clusters."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, closing
from dataclasses import replace
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import Struct, structs

from quotaform.cli.console import Console
from quotaform.cli.option.cluster import Clusters, Comparison, make_request
from quotaform.cli.option.common import ALLOW, argument, flag, option
from quotaform.cli.option.run import REPORT_OUT, Engine, Output, job_progress, printed
from quotaform.cli.present import Results, cluster_paths
from quotaform.model.errors import (
    ApplyLostError,
    NotApprovedError,
    NotReadError,
    PlanIdError,
    QuotaformError,
    UsageError,
)
from quotaform.model.moment import parse_duration
from quotaform.model.outcome import ClusterOutcome, digest_of
from quotaform.model.text import inert, listed
from quotaform.report.format import render
from quotaform.system.files import is_folder
from quotaform.system.process import held_signals

if TYPE_CHECKING:
    from quotaform.apply.audit import AuditFile
    from quotaform.apply.ledger import Applied, ClusterPlan
    from quotaform.desired.config import Cluster
    from quotaform.fleet.options import SessionOptions
    from quotaform.plan.run import PlanRequest
    from quotaform.repository.repository import Repository


def apply(
    *,
    sources: list[Path] | None = argument(
        "PLAN.json...|DIR", "Saved plans, at most one per cluster, or a quotas directory. [default: quotas.d]"
    ),
    target: Clusters,
    comparison: Comparison,
    allow: list[str] | None = ALLOW,
    auto_approve: bool = flag("--auto-approve", "Apply without asking for approval."),
    dry_run: bool = flag("--dry-run", "Check everything, also on the broker, and stop before anything is written."),
    expect_plan_id: str | None = option(
        "--expect-plan-id ID", "Exit 5 unless the plan has this id, or a directory has nothing to apply."
    ),
    max_age: timedelta | None = option(
        "--max-age DURATION", "Exit 5 if a saved plan is older, e.g. 30m, 24h or 7d.", read=parse_duration
    ),
    receipt: Path | None = option(
        "--receipt FILE", "Path of the receipt; {cluster} stands for the cluster name. [default: .quotaform/receipts/]"
    ),
    audit: Path | None = option("--audit FILE", "Append a JSON line per changed key to a file (schema: audit)."),
    report: list[str] | None = REPORT_OUT,
    engine: Engine,
    output: Output = printed("receipt"),
) -> int:
    """Apply plans to clusters, one after the other, or many at a time on Spark: check, dry-run, write and read back.

    A saved plan is applied unchanged, or rejected if the cluster has changed since. A directory is planned, and the
    plan is shown and applied after approval.

    \b
    Examples:
      quotaform apply plan.json
      quotaform apply plans/*.json --max-age 24h
      quotaform apply
      quotaform apply quotas.d --auto-approve
      quotaform apply plan.json --dry-run
      quotaform apply plans/*.json --engine spark --report json=fleet.json --format report
    """
    console = output.console
    console.keep_code()
    from quotaform.apply.audit import AuditFile
    from quotaform.apply.run import read_plan_id

    given = sources or []
    is_saved = bool(given) and not any(map(is_folder, given))
    if is_saved and (comparison != Comparison() or allow):
        raise UsageError(
            "a saved plan is applied as it is; plan again with --select, --exclude, --base, --no-base, --prune and "
            "--allow, and apply that plan"
        )
    if not is_saved and len(given) > 1:
        raise UsageError("give one quotas directory, or saved plans")
    expected_id = None if expect_plan_id is None else read_plan_id(expect_plan_id)
    repository = target.repository(None if is_saved or not given else given[0])
    missing = "not checked" if dry_run else "not applied"
    run = ApplyRun(
        results=Results(output, repository=repository, report=report, missing=missing),
        repository=repository,
        engine=engine,
        audit=AuditFile(audit),
        is_saved=is_saved,
        auto_approve=auto_approve or dry_run,
        is_dry_run=dry_run,
        expected_id=expected_id,
        receipt_path=receipt,
    )
    covered = run.results.covering(target.literal_names)
    try:
        with closing(run.audit), covered:
            if is_saved:
                return run.apply_saved(given, target, max_age)
            base = comparison.choose_base(console)
            request = make_request(target, repository, comparison, base=base, prune=comparison.prune, allow=allow)
            return run.apply_directory(request, takes_all=target.all_clusters)
    except KeyboardInterrupt as interrupt:
        if not run.has_written:
            interrupt.add_note("nothing was written")
        raise


class ApplyRun(Struct, kw_only=True):
    """One apply, as a person sees it: when stdout is for JSON, what people read goes to stderr."""

    results: Results
    repository: Repository
    engine: Engine
    audit: AuditFile
    is_saved: bool  # Whether saved plans are applied, which are approved
    auto_approve: bool  # Whether nobody is asked
    is_dry_run: bool  # Whether to stop before the first change is sent, without a receipt
    expected_id: str | None  # The id of the plan that was approved elsewhere
    receipt_path: Path | None  # Where the receipts go; `None` for the folder of receipts
    has_written: bool = False  # Whether anything was or may have been written to a cluster

    @property
    def console(self) -> Console:
        return self.results.console

    @property
    def is_text(self) -> bool:
        """Whether stdout is for people."""
        return self.results.format_name == "text"

    def apply_saved(self, files: Sequence[Path], target: Clusters, max_age: timedelta | None) -> int:
        """Apply plan files, and return how the process ends."""
        from quotaform.apply.run import read_plans

        def choose(path: Path, name: str) -> Cluster | None:
            known = self.repository.config().clusters.get(name)
            if len(files) > 1 and known is not None and known.snapshot is not None:
                self.console.warn(f"Not applied: {path} is a plan for cluster {name}, a snapshot")
                return None
            return target.choose_for_plan(self.repository, path, name)

        session, _ = self.engine.start(
            self.console, "Applying", len(files), lambda: sum(file.stat().st_size for file in files if file.is_file())
        )
        for path in files:
            if path.suffix in {".yaml", ".yml"}:
                raise UsageError(f"{path} is a YAML file; apply takes saved plans or a quotas directory")
        keep = None
        if session is not None:
            from quotaform.fleet.job import Spool

            keep = Spool().keep  # On disk, as they may be thousands.
        plans, problems = read_plans(self.repository, files, choose, max_age=max_age, keep=keep)
        if not plans:
            raise UsageError("each of these plans is for a snapshot, which cannot be applied to")
        if len(plans) > 1 and target.is_narrow:
            raise UsageError("each saved plan names its cluster; leave out the options that choose one")
        return self._apply(plans, session, problems=problems)

    def apply_directory(self, request: PlanRequest, *, takes_all: bool) -> int:
        """Plan clusters, show what would be done, ask, apply it, and return how the process ends.

        `takes_all` says that every cluster of quotaform.yaml is meant.
        """
        from quotaform.api import plan_clusters
        from quotaform.apply.ledger import ClusterPlan

        console = self.console
        snapshots = [cluster.name for cluster in request.clusters if cluster.snapshot is not None]
        clusters = {cluster.name: cluster for cluster in request.clusters if cluster.snapshot is None}
        if snapshots and not (takes_all and clusters):
            raise UsageError(f"cluster {snapshots[0]} is a snapshot file, which can be planned but not applied")
        if snapshots:
            console.warn(f"Not applied: {listed(snapshots)}, as a snapshot can only be planned")
        request = structs.replace(request, clusters=tuple(clusters.values()))
        with self.results.covering(list(clusters)):
            session, progress = self.engine.start(console, "Planning", len(clusters), self.repository.quota_bytes)
            with ExitStack() as stack:
                if session is not None:
                    from quotaform.fleet.session import spark_session

                    # One session plans and applies.
                    stack.enter_context(spark_session(session, progress))
                    session = structs.replace(session, master=None, remote=None, conf={})
                outcomes = tuple(plan_clusters(request, engine=session, progress=progress))
                self.results.require_selected(request.selection, outcomes)
                if len(outcomes) == 1:
                    self._show_plan(outcomes[0].require())
                elif self.is_text:
                    Results(replace(self.results.output, subject="plan")).present(outcomes)
                    console.echo("\n")
                made = [outcome for outcome in outcomes if outcome.error is None]
                plans = [ClusterPlan(clusters[outcome.cluster], outcome.require()) for outcome in made]
                failed = [outcome for outcome in outcomes if outcome.error is not None]
                try:
                    return self._apply(plans, session, failed=failed)
                except PlanIdError:
                    if not self.is_text:
                        console.write_stderr("".join(render("plan", "text", plans[0].plan)))
                    raise

    def _expected_id(self, plans: Sequence[ClusterPlan[Any]]) -> str | None:
        """Return which plan was approved elsewhere; `None` if it was just made and has nothing to do."""
        from quotaform.plan.digest import FleetStatus

        expected = self.expected_id
        if expected is None or self.is_saved or len(plans) != 1:
            return expected
        if plans[0].digest.row.status is not FleetStatus.UNCHANGED:
            return expected
        self.console.warn(
            f"Nothing to do: the cluster matches the files. The plan {expected} is already applied, or the "
            "cluster was changed to match."
        )
        return None

    def _approve(self, plans: Sequence[ClusterPlan[Any]]) -> None:
        """Ask a person to approve what is going to change; saved plans are approved, but for `confirm: name`."""
        if not plans or self.auto_approve or (self.is_saved and not sys.stdin.isatty()):
            return
        if not sys.stdin.isatty():
            raise NotApprovedError(
                "there is no terminal to ask for approval", remedy="give --auto-approve, or apply a saved plan"
            )
        for cluster, plan in plans:
            if not self.is_saved:
                self._ask(cluster)
            elif cluster.confirm == "name":
                self._show_plan(plan)
                self._ask(cluster)

    def _show_plan(self, plan: Any) -> None:
        if self.is_text:
            self.console.echo(render("plan", "text", plan, style=self.console.style()))
        elif sys.stdin.isatty():
            self.console.write_stderr("".join(render("plan", "text", plan)))

    def _ask(self, cluster: Cluster) -> None:
        console = self.console
        if console.is_lost:
            raise NotApprovedError("the plan cannot be shown, so it was not approved")
        wanted = cluster.name if cluster.confirm == "name" else "yes"
        question = (
            f"\nApply this plan to cluster {cluster.label}? Nothing is rolled back afterwards.\n"
            f"Only {wanted!r} will be accepted to approve.\n\nEnter a value: "
        )
        write = console.echo if self.is_text else console.write_stderr
        answer = ""
        try:
            write(question)
            answer = sys.stdin.readline()
        finally:
            if not answer.endswith("\n"):  # After Ctrl-C or Ctrl-D the cursor is still behind the question.
                write("\n")
        if answer.strip() != wanted:
            raise NotApprovedError

    def _apply(
        self,
        plans: Sequence[ClusterPlan[Any]],
        session: SessionOptions | None,
        *,
        problems: Sequence[QuotaformError] = (),
        failed: Sequence[ClusterOutcome[Any]] = (),
    ) -> int:
        """Apply plans, print what was done, and return how the process ends; `failed` are clusters without a plan."""
        from quotaform.api import apply_clusters
        from quotaform.apply.ledger import started_warnings

        names = [cluster.name for cluster, _ in plans]
        engine = None if self.is_dry_run else session  # A dry run is made by this process.
        receipts = None if self.receipt_path is None else cluster_paths("--receipt", self.receipt_path, names)

        def approve(written: Sequence[ClusterPlan[Any]]) -> None:
            self._approve(written)
            started = [ClusterOutcome(each.cluster.name, each.digest) for each in plans]
            for text in started_warnings(self.repository, started):
                self.console.warn_of(text)

        with self.results.covering([*names, *(each.cluster for each in failed)]):
            applied = apply_clusters(
                self.repository,
                plans,
                self.audit,
                problems,
                approve=approve,
                expect_plan_id=self._expected_id(plans),
                receipts=receipts,
                dry_run=self.is_dry_run,
                engine=engine,
                show=partial(self._show, has_others=len(plans) + len(failed) > 1),
                progress=job_progress(self.console, "Applying", len(plans), engine, "plan"),
            )
            if self.is_dry_run:
                return self._present_checked((*self.results.gather(applied, names), *failed))
            outcomes = (*self.results.gather(self._receipts(applied), names), *failed)
            with held_signals():
                try:
                    self.results.present(outcomes, is_shown=self.is_text)
                except QuotaformError as error:
                    if self.results.interrupt is None:
                        raise
                    self.console.write_stderr(f"Error: {error}\n")
            return self.results.exit_code(outcomes)

    def _present_checked(self, outcomes: Sequence[ClusterOutcome[Any]]) -> int:
        """Print what an apply would do, and return how the process ends."""
        from quotaform.apply.report import render_dry_run
        from quotaform.report.text import render_failure

        for outcome in outcomes if len(outcomes) > 1 else ():
            if outcome.error is not None and not isinstance(outcome.error, NotReadError):
                self.console.echo(f"{render_failure(outcome.cluster, outcome.error, self.console.style())}\n")
        self.console.echo(render_dry_run(outcomes, self.console.style()))
        code = self.results.exit_code(outcomes)
        if len(outcomes) == 1:
            outcomes[0].require()
        return code

    def _receipts(self, outcomes: Iterable[ClusterOutcome[Applied[Any]]]) -> Iterator[ClusterOutcome[Any]]:
        """Yield the receipts, and print what failed when a cluster was done."""
        for outcome in outcomes:
            if isinstance(outcome.error, ApplyLostError):
                self.has_written = True
            for error in () if outcome.value is None else outcome.value.late:
                self.console.write_stderr(f"Error: {inert(outcome.cluster)}, when everything was done: {error}\n")
            yield outcome.map(lambda applied: applied.receipt)

    def _show(self, cluster: Cluster, applied: Applied[Any], *, has_others: bool) -> None:
        """Print what was done, and where the receipt is; one that could not be written is shown in its place."""
        from quotaform.report.text import cluster_line

        console = self.console
        if digest_of(applied.receipt).wrote_anything:
            self.has_written = True
        if self.is_text and has_others:
            console.echo(f"{cluster_line(cluster.name, console.style())}\n")
        if applied.unsaved is not None:
            text = "".join(render("receipt", "json", applied.receipt))
            console.write_stderr(f"Error: {applied.unsaved}; this is the receipt:\n{text}")
        elif applied.path is not None:
            console.warn(f"Receipt: {applied.path}")
        if self.is_text:
            console.echo(render("receipt", "text", applied.receipt, style=console.style()))
            console.echo("\n" if has_others else "")
