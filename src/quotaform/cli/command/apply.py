"""`quotaform apply`: make the cluster hold what the files say."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from quotaform.cli.console import Console, require_format, require_writable, write_file
from quotaform.cli.exit_code import judge_receipt
from quotaform.cli.option.cluster import OneCluster
from quotaform.cli.option.common import FORMATS, ExcludeOption, FormatOption, SelectOption
from quotaform.cli.option.group import with_option_groups
from quotaform.cli.option.output import Output
from quotaform.cli.plan_request import make_request
from quotaform.errors import NotApprovedError, QuotaformError, UsageError

if TYPE_CHECKING:
    from quotaform.app.repository import Repository
    from quotaform.cluster.gateway import Gateway
    from quotaform.core.plan import Plan
    from quotaform.desired.config import Cluster


@with_option_groups
def apply(
    *,
    source: Annotated[
        Path | None,
        typer.Argument(metavar="PLAN.json|DIR", help="A saved plan, or a quotas directory. [default: quotas.d]"),
    ] = None,
    target: OneCluster,
    select: SelectOption = None,
    exclude: ExcludeOption = None,
    auto_approve: Annotated[bool, typer.Option("--auto-approve", help="Do not ask.")] = False,
    expect_plan_id: Annotated[
        str | None, typer.Option("--expect-plan-id", metavar="ID", help="Exit 5 unless the plan has this id.")
    ] = None,
    receipt: Annotated[
        Path | None,
        typer.Option("--receipt", metavar="FILE", help="Where the receipt goes. [default: .quotaform/receipts/]"),
    ] = None,
    format_name: FormatOption = "text",
    output: Output,
) -> int:
    """Make the cluster hold what a plan says: check it, dry-run it, write it, read it back.

    A saved plan is applied as it is, or refused when the cluster changed since. A directory is planned,
    shown and applied once you say yes.

    \b
    Examples:
      quotaform apply plan.json
      quotaform apply
      quotaform apply quotas.d --auto-approve
    """
    from quotaform.app.apply import load_plan_file, require_plan_id
    from quotaform.app.plan import plan
    from quotaform.app.repository import open_gateway

    console = output.console()
    require_format(format_name, FORMATS)
    run = _Apply(console, format_name, receipt)
    if source is not None and (source.is_file() or (source.suffix == ".json" and not source.is_dir())):
        if select or exclude:
            raise UsageError("--select and --exclude choose what to plan; a saved plan is applied whole")
        saved = load_plan_file(source)
        require_plan_id(saved, expect_plan_id)
        repository = target.repository()
        chosen = target.choose_for_plan(repository, saved.header.cluster_name)
        if chosen.confirm == "name" and not auto_approve and sys.stdin.isatty():
            run.show(saved)
            run.ask(chosen)
        with open_gateway(chosen) as gateway:
            return run.apply(saved, gateway, repository, chosen)
    request = make_request(target, source, select, exclude)
    chosen = request.clusters[0]
    if chosen.snapshot is not None:
        raise UsageError(f"cluster {chosen.name} is a snapshot file, which can be planned and not applied")
    if not auto_approve and not sys.stdin.isatty():
        request.repository.desired(request.config, chosen.name)
        raise NotApprovedError(
            "there is no terminal to ask on, so nothing was done; give --auto-approve, or apply a saved plan"
        )
    made = plan(request, progress=console.progress)[0].require()
    run.show(made)
    require_plan_id(made, expect_plan_id)
    if made.changes and made.is_applyable and not auto_approve:
        run.ask(chosen)
    with open_gateway(chosen) as gateway:
        return run.apply(made, gateway, request.repository, chosen)


@dataclass(frozen=True, slots=True)
class _Apply:
    """One apply and what it prints: when stdout is for JSON, what people read goes to stderr."""

    console: Console
    format_name: str
    receipt_path: Path | None

    def show(self, made: Plan) -> None:
        """Print what is going to be applied."""
        from quotaform.views.plan_text import render_plan

        if self.format_name == "text":
            self.console.echo(render_plan(made, self.console.style()))
        elif sys.stdin.isatty():
            self.console.say(render_plan(made))

    def ask(self, chosen: Cluster) -> None:
        """Ask a person for approval.

        Raises:
            NotApprovedError: It was not given.
        """
        wanted = chosen.name if chosen.confirm == "name" else "yes"
        question = (
            f"\nApply this plan to cluster {chosen.name}? Nothing is rolled back afterwards.\n"
            f"Only {wanted!r} will be accepted to approve.\n\nEnter a value: "
        )
        (self.console.echo if self.format_name == "text" else self.console.say)(question)
        if sys.stdin.readline().strip() != wanted:
            raise NotApprovedError("not approved; nothing was written")

    def apply(self, made: Plan, gateway: Gateway, repository: Repository, chosen: Cluster) -> int:
        """Apply a plan, keep the receipt and print what was done."""
        from quotaform.app.apply import apply_plan, receipt_path, require_applyable
        from quotaform.document.receipt import dump_receipt
        from quotaform.interrupt import held_signals
        from quotaform.views.receipt_text import render_receipt

        require_applyable(made)
        path = self.receipt_path or receipt_path(made, repository)
        if made.changes:
            require_writable(path)
        done = apply_plan(made, gateway, self.console.progress, pinned_id=chosen.cluster_id)
        with held_signals():
            text = dump_receipt(done)
            if done.results:
                self._keep(path, text)
            self.console.echo(text if self.format_name == "json" else render_receipt(done, self.console.style()))
        return judge_receipt(done)

    def _keep(self, path: Path, text: str) -> None:
        """Write the receipt; what was done stays done when that fails, so then it is shown instead."""
        try:
            write_file(path, text)
        except QuotaformError as error:
            self.console.say(f"quotaform: {error}; this is the receipt:\n{text}")
        else:
            self.console.warn(f"Receipt: {path}")
