"""`quotaform snapshot`: write everything that clusters hold, one file for each."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from quotaform.cli.cluster_path import cluster_paths
from quotaform.cli.console import require_writable, write_file
from quotaform.cli.exit_code import decide
from quotaform.cli.option.cluster import ManyClusters
from quotaform.cli.option.group import with_option_groups
from quotaform.cli.option.output import Output
from quotaform.cli.outcomes import report_failures
from quotaform.exit_code import ExitCode


@with_option_groups
def snapshot(
    *,
    target: ManyClusters,
    path: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            metavar="FILE",
            help="Path of the file; {cluster} stands for the cluster name. [default: stdout]",
        ),
    ] = None,
    output: Output,
) -> int:
    """Write all live quotas of a cluster to one JSON file, to plan against offline.

    \b
    Examples:
      quotaform snapshot --output snapshots/lab.json
      quotaform snapshot --all --output 'snapshots/{cluster}.json'
      quotaform plan --snapshot snapshots/lab.json
    """
    from quotaform.app.snapshot import take_snapshots
    from quotaform.document.snapshot import dump_snapshot
    from quotaform.model.text import inert

    console = output.console()
    if str(path) == "-":
        path = None
    clusters = target.choose()
    names = [cluster.name for cluster in clusters]
    paths = cluster_paths("--output", path or "", names, example="snapshots/{cluster}.json")
    outcomes = []
    for outcome in take_snapshots(clusters, progress=console.progress):
        outcomes.append(outcome)
        if outcome.error is not None and len(clusters) > 1:
            report_failures(console, [outcome])
            continue
        taken = outcome.require()
        if path is None:
            console.echo(dump_snapshot(taken))
        else:
            file = paths[outcome.cluster]
            require_writable(file)
            write_file(file, dump_snapshot(taken))
            console.keep_code()
            console.echo(f"Wrote {len(taken.quotas)} entities of {inert(taken.cluster_name)} to {inert(str(file))}.\n")
    return decide(outcomes, lambda _: ExitCode.DONE)
