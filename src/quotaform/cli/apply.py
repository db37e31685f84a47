"""`quotaform apply`: make the cluster hold what the files say."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from quotaform.cli.console import Color, Console, require_format, require_writable, write_file
from quotaform.cli.exit_code import ExitCode
from quotaform.cli.option import (
    FORMATS,
    BootstrapOption,
    ClusterOption,
    ColorOption,
    CommandConfigOption,
    ConfigOption,
    ExcludeOption,
    FormatOption,
    QuietOption,
    SelectOption,
    VerboseOption,
)
from quotaform.errors import NotApprovedError, QuotaformError, UsageError

if TYPE_CHECKING:
    from quotaform.app.repository import Repository
    from quotaform.cluster.gateway import Gateway
    from quotaform.core.plan import Plan
    from quotaform.core.receipt import Receipt
    from quotaform.desired.config import Cluster


def apply(
    source: Annotated[
        Path | None,
        typer.Argument(metavar="PLAN.json|DIR", help="A saved plan, or a quotas directory. [default: quotas.d]"),
    ] = None,
    config: ConfigOption = None,
    cluster: ClusterOption = None,
    bootstrap_server: BootstrapOption = None,
    command_config: CommandConfigOption = None,
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
    color: ColorOption = Color.AUTO,
    quiet: QuietOption = False,
    verbose: VerboseOption = False,
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
    from quotaform.app.plan import PlanRequest, plan_cluster
    from quotaform.app.repository import Repository, Target, open_gateway
    from quotaform.core.scope import Selection

    console = Console(color, is_quiet=quiet, is_verbose=verbose)
    require_format(format_name, FORMATS)
    target = Target(cluster=cluster, bootstrap_servers=bootstrap_server, command_config=command_config)
    if source is not None and (source.is_file() or (source.suffix == ".json" and not source.is_dir())):
        if select or exclude:
            raise UsageError("--select and --exclude choose what to plan; a saved plan is applied whole")
        saved = load_plan_file(source)
        require_plan_id(saved, expect_plan_id)
        repository = Repository.at(None, config)
        chosen = repository.cluster_of_plan(saved.header.cluster_name, target)
        if chosen.confirm == "name" and not auto_approve and sys.stdin.isatty():
            _ask(console, chosen)
        with open_gateway(chosen) as gateway:
            return _apply(saved, gateway, receipt, repository, console, format_name)
    if not auto_approve and not sys.stdin.isatty():
        raise NotApprovedError(
            "there is no terminal to ask on, so nothing was done; give --auto-approve, or apply a saved plan"
        )
    repository = Repository.at(source, config)
    content = repository.config()
    chosen = repository.cluster(content, target)
    if chosen.snapshot is not None:
        raise UsageError(f"cluster {chosen.name} is a snapshot file, which can be planned and not applied")
    request = PlanRequest(
        repository=repository,
        config=content,
        cluster=chosen,
        selection=Selection(tuple(select or ()), tuple(exclude or ())),
    )
    desired = repository.desired(content, chosen.name)
    with open_gateway(chosen) as gateway:
        made = plan_cluster(request, desired, gateway, console.progress)
        if format_name == "text":
            from quotaform.views.plan_text import render_plan

            console.echo(render_plan(made, console.style()))
        require_plan_id(made, expect_plan_id)
        if made.changes and made.is_applyable and not auto_approve:
            _ask(console, chosen)
        return _apply(made, gateway, receipt, repository, console, format_name)


def _ask(console: Console, chosen: Cluster) -> None:
    wanted = chosen.name if chosen.confirm == "name" else "yes"
    console.echo(
        f"\nApply this plan to cluster {chosen.name}? Nothing is rolled back afterwards.\n"
        f"Only {wanted!r} will be accepted to approve.\n\nEnter a value: "
    )
    if sys.stdin.readline().strip() != wanted:
        raise NotApprovedError("not approved; nothing was written")


def _apply(
    made: Plan, gateway: Gateway, path: Path | None, repository: Repository, console: Console, format_name: str
) -> int:
    from quotaform.app.apply import apply_plan, receipt_path
    from quotaform.views.receipt_json import render_receipt_json
    from quotaform.views.receipt_text import render_receipt

    path = path or receipt_path(made, repository)
    require_writable(path)
    done = apply_plan(made, gateway, console.progress)
    if done.results:
        _keep(path, render_receipt_json(done), console)
    console.echo(render_receipt_json(done) if format_name == "json" else render_receipt(done, console.style()))
    return _code(done)


def _keep(path: Path, text: str, console: Console) -> None:
    """Write the receipt; what was done stays done when that fails, so then it is shown instead."""
    try:
        write_file(path, text)
    except QuotaformError as error:
        sys.stderr.write(f"quotaform: {error}; this is the receipt:\n{text}")
    else:
        console.warn(f"Receipt: {path}")


def _code(done: Receipt) -> ExitCode:
    if done.interrupted_by:
        return ExitCode.TERMINATED if done.interrupted_by == "SIGTERM" else ExitCode.INTERRUPTED
    if done.is_complete:
        return ExitCode.DONE
    return ExitCode.PARTIAL if done.wrote_anything else ExitCode.ERROR
