"""`quotaform plan`: show what apply would change."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Any, Final

from msgspec import structs

from quotaform.cli.console import Console
from quotaform.cli.option.cluster import OR_SNAPSHOT, Clusters, Comparison, make_request
from quotaform.cli.option.common import ALLOW, DIRECTORY, REQUIRED, argument, flag, option
from quotaform.cli.option.run import (
    COLOR,
    PARQUET,
    REPORT_OUT,
    Engine,
    Output,
    format_option,
    out_option,
    printed,
    read_output,
    spark_job,
)
from quotaform.cli.present import OutFile, Results, cluster_paths, report_saved_files, run_options
from quotaform.model.errors import ExitCode, UsageError
from quotaform.model.outcome import ClusterOutcome, digest_of
from quotaform.model.text import inert
from quotaform.report.format import FORMATS, render
from quotaform.system.files import is_folder, require_writable

if TYPE_CHECKING:
    from quotaform.plan.run import PlanRequest


SHOW_UNCHANGED: Final = flag("--show-unchanged", "Also show unchanged keys.")
SHOW_UNMANAGED: Final = flag("--show-unmanaged", "List live entities that no file declares.")


_SUBJECT: Final = "limit-changes"
_MOST_FILES: Final = 10


def _changes_out(text: str | None, clusters: Sequence[str]) -> tuple[OutFile | None, str | None]:
    """Read the value of `--principals-out`: the files of each cluster, or the folder of all changes as Parquet."""
    if text is None:
        return None, None
    option = "--principals-out"
    name, path = read_output(text, (*FORMATS[_SUBJECT], PARQUET), option, default="")
    if name == PARQUET:
        if os.path.lexists(path):
            raise UsageError(f"{option} {inert(text)}: there is such a file or folder already; name a new one")
        return None, path
    paths = cluster_paths(option, path, clusters)
    for each in paths.values():
        require_writable(each)
    return OutFile(_SUBJECT, name, paths), None


def plan(
    *,
    directory: Path | None = DIRECTORY,
    target: Clusters = OR_SNAPSHOT,
    comparison: Comparison,
    principals: str | None = option(
        "--principals FILE|TABLE|scram",
        "Show whose effective limits change: of a CSV or JSON lines file with user, client_id, ip (- is stdin), of all "
        "users with SCRAM credentials, or with --engine spark of a table (Parquet, or a name in the catalog).",
    ),
    principals_out: str | None = option(
        "--principals-out [FORMAT=]PATH",
        "With --principals: write all changes of limits to a file, .csv or .jsonl; for a table, parquet=DIR.",
    ),
    backtest: str | None = option(
        "--backtest USAGE",
        "Show what the plan would have throttled, by a usage table (DIR or TABLE; needs the spark extra).",
    ),
    allow: list[str] | None = ALLOW,
    out: list[str] | None = out_option("plan"),
    report: list[str] | None = REPORT_OUT,
    revert: Path | None = option("--revert RECEIPT", "Plan to put back what the apply of this receipt changed."),
    detailed_exitcode: bool = flag("--detailed-exitcode", "Exit 2 if there are differences."),
    summary: bool = flag("--summary", "Print counts, the largest changes and everything deleted; --format summary."),
    show_unchanged: bool = SHOW_UNCHANGED,
    show_unmanaged: bool = SHOW_UNMANAGED,
    engine: Engine,
    output: Output = printed("plan"),
) -> int:
    """Show what apply would change, entity by entity, with the effective limits before and after.

    With --base, each change has an origin: config (the files changed since the base), drift (the cluster did) or both.

    With --principals, the plan also shows its blast radius: which of those who connect get another effective limit.

    \b
    Examples:
      quotaform plan
      quotaform plan --base origin/main
      quotaform plan --out plan.json --detailed-exitcode
      quotaform plan --snapshot snapshots/lab.json --select 'user=svc-*'
      quotaform plan --all --out 'plans/{cluster}.json'
      quotaform plan --all --engine spark --report markdown=fleet.md --format report
      quotaform plan --principals clients.csv --principals-out changed.csv
      quotaform plan --backtest /srv/usage
      quotaform plan --revert .quotaform/receipts/RECEIPT.json --out revert.json
    """
    from quotaform.api import choose_principals, plan_clusters

    if revert is not None and directory is not None and not is_folder(directory):
        # The files of a revert may be invalid, so that nothing else refuses it: a shell expands *.json to several.
        given = inert(str(directory))
        raise UsageError(f"{given} is not a directory; --revert takes one receipt, and DIR is the quotas directory")
    output = replace(output, format_name="summary") if summary else output
    console = output.console
    replays = None
    if backtest is not None:
        # Spark replays the usage of plans that this process makes.
        replays = engine.installed(backtest)
        engine = Engine()
    base = comparison.choose_base(console) if revert is None else None
    repository = target.repository(directory)
    results = Results(
        output,
        repository=repository,
        out=out,
        report=report,
        shows_unchanged=show_unchanged,
        shows_unmanaged=show_unmanaged,
    )
    with results.covering(target.literal_names, has_files=True):
        request = make_request(
            target, repository, comparison, base=base, prune=comparison.prune, allow=allow, revert=revert
        )
    names = [cluster.name for cluster in request.clusters]
    files, folder = _changes_out(principals_out, names)
    results.open(names, *filter(None, [files]))
    with results.covering(names, has_files=True):
        session, progress = engine.start(console, "Planning", len(names), repository.quota_bytes)
        if principals is not None:
            paths = {} if files is None else {cluster: path.as_posix() for cluster, path in files.paths.items()}
            listed = choose_principals(principals, session, paths, folder)
            if listed.nameless:
                from quotaform.resolve.request_file import nameless_note

                console.warn_of(nameless_note(principals, listed.nameless))
            request = structs.replace(request, principals=listed)
        plans = plan_clusters(
            request if backtest is None else structs.replace(request, keeps_actual=True),
            engine=session,
            progress=progress,
            warn=console.warn_of,
        )
        outcomes = results.gather(plans, names)
        if replays is not None and results.interrupt is None and any(each.error is None for each in outcomes):
            from quotaform.usage.replay.run import with_backtests

            with spark_job(console, "Replaying usage", replays) as (spark, _):
                outcomes = with_backtests(spark, str(backtest), outcomes, console.warn_of)
    results.present(outcomes, request)
    report_saved(console, request, [each for each in results.files if each.subject == "plan"], outcomes)
    return results.exit_code(outcomes, counts_differences=detailed_exitcode)


def report_saved(
    console: Console, request: PlanRequest, files: Sequence[OutFile], outcomes: Sequence[ClusterOutcome[Any]]
) -> None:
    """Print to stderr where plans were saved, and the command that applies those that can be applied.

    The plan of a pull request is not applied but made again after the merge, so there is no command for it.
    """
    from quotaform.repository.revision import CONFIG_NAME

    plans = {outcome.cluster: digest_of(outcome.value) for outcome in outcomes if outcome.error is None}
    report_saved_files(
        console, "plan" if len(plans) == 1 else "plans", (each.paths[name] for each in files for name in plans)
    )
    saved = [each.paths for each in files if each.format_name == "json"]
    if not saved or (request.base is not None and request.base.is_proposed):
        return
    clusters = [each for each in request.clusters if each.name in plans and request.can_apply(each, plans[each.name])]
    if not clusters:
        return
    paths = [str(saved[0][each.name]) for each in clusters]
    words = ["quotaform", "apply", *paths[:_MOST_FILES]]
    # The options without which `apply` would not find the cluster.
    cluster = clusters[0]
    known = request.config.clusters.get(cluster.name)
    if known is not None and request.repository.config_path != Path(CONFIG_NAME):
        words += ["--config", str(request.repository.config_path)]
    if cluster.bootstrap_servers and (known is None or known.bootstrap_servers != cluster.bootstrap_servers):
        words += ["--bootstrap-server", ",".join(cluster.bootstrap_servers)]
        if cluster.command_config is not None:
            words += ["--command-config", str(cluster.command_config)]
    more = f" (and {len(paths) - _MOST_FILES:,} more plans with changes)" if len(paths) > _MOST_FILES else ""
    console.warn(f"To apply: {inert(' '.join(map(quote, words)))}{more}")


def show(
    plan_file: Path = argument("PLAN.json", "A plan file written by quotaform plan --out.", REQUIRED),
    format_name: str = format_option("plan"),
    show_unchanged: bool = SHOW_UNCHANGED,
    show_unmanaged: bool = SHOW_UNMANAGED,
    color: str = COLOR,
) -> int:
    """Print a saved plan after verifying that it was not modified.

    \b
    Example:
      quotaform show plan.json
    """
    from quotaform.plan.receipt_file import load_plan_file

    console = Console(color)
    options = {"style": console.style(), "shows_unchanged": show_unchanged, "shows_unmanaged": show_unmanaged}
    options |= run_options()
    console.echo(render("plan", format_name, load_plan_file(plan_file), **options), format_name)
    return ExitCode.DONE
