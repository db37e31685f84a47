"""`quotaform snapshot`: write everything that clusters hold, one file for each."""

from __future__ import annotations

from pathlib import Path

from quotaform.cli.console import write_file
from quotaform.cli.option.cluster import ManyClusters
from quotaform.cli.option.common import option, with_options
from quotaform.cli.option.engine import Engine, job_progress
from quotaform.cli.option.output import Output
from quotaform.cli.present import cluster_paths, report_failures
from quotaform.model.outcome import ClusterOutcome, exit_code
from quotaform.model.text import inert
from quotaform.report.text import counted
from quotaform.system.files import require_writable


@with_options
def snapshot(
    *,
    target: ManyClusters,
    path: Path | None = option(
        "--output -o FILE", "Path of the file; {cluster} stands for the cluster name. [default: stdout]"
    ),
    engine: Engine,
    output: Output,
) -> int:
    """Write all live quotas of a cluster to one JSON file, to plan against offline.

    \b
    Examples:
      quotaform snapshot --output snapshots/lab.json
      quotaform snapshot --all --output 'snapshots/{cluster}.json'
      quotaform plan --snapshot snapshots/lab.json
    """
    from quotaform.api import snapshot as take_snapshots
    from quotaform.cluster.snapshot import dump_snapshot

    console = output.console
    if str(path) == "-":
        path = None
    repository = target.repository()
    clusters = target.choose(repository)
    names = [cluster.name for cluster in clusters]
    paths = cluster_paths("--output", path or "", names, example="snapshots/{cluster}.json")
    session = engine.place(console, len(clusters))
    progress = job_progress(console, "Reading", len(clusters), session)
    outcomes = []
    for outcome in take_snapshots(repository, clusters, engine=session, progress=progress):
        outcomes.append(ClusterOutcome[None](outcome.cluster, error=outcome.error))
        if outcome.error is not None and len(clusters) > 1:
            report_failures(console, [outcome])
            continue
        taken = outcome.require()
        text = dump_snapshot(taken)
        if path is None:
            console.echo(text)
        else:
            file = paths[outcome.cluster]
            require_writable(file)
            write_file(file, text)
            console.keep_code()
            entities = counted(len(taken.quotas), "entity", "entities")
            console.echo(f"Wrote {entities} of {inert(outcome.cluster)} to {inert(str(file))}.\n")
    return exit_code(outcomes)
