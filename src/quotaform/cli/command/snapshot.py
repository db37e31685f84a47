"""`quotaform snapshot`: write everything that clusters hold, one file for each."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from quotaform.cli.console import Console, write_file
from quotaform.cli.exit_code import decide
from quotaform.cli.option.cluster import ManyClusters
from quotaform.cli.option.engine import SPARK, Engine
from quotaform.cli.option.output import Output, with_option_groups
from quotaform.cli.present import cluster_paths, report_failures
from quotaform.model.errors import ExitCode
from quotaform.model.outcome import ClusterOutcome
from quotaform.system.files import require_writable

if TYPE_CHECKING:
    from quotaform.desired.config import Cluster


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
    from quotaform.model.text import inert

    console = output.console()
    engine.require_valid()
    if str(path) == "-":
        path = None
    clusters = target.choose()
    names = [cluster.name for cluster in clusters]
    paths = cluster_paths("--output", path or "", names, example="snapshots/{cluster}.json")
    outcomes = []
    for outcome in _taken(clusters, engine, console):
        outcomes.append(outcome)
        if outcome.error is not None and len(clusters) > 1:
            report_failures(console, [outcome])
            continue
        number, text = outcome.require()
        if path is None:
            console.echo(text)
        else:
            file = paths[outcome.cluster]
            require_writable(file)
            write_file(file, text)
            console.keep_code()
            console.echo(f"Wrote {number} entities of {inert(outcome.cluster)} to {inert(str(file))}.\n")
    return decide(outcomes, lambda _: ExitCode.DONE)


def _taken(
    clusters: Sequence[Cluster], engine: Engine, console: Console
) -> Iterator[ClusterOutcome[tuple[int, Iterable[str]]]]:
    """Yield how many entities each cluster holds, and its snapshot."""
    if engine.choose(console, len(clusters), lambda: 0) == SPARK:
        from quotaform.cli.option.engine import JobProgress
        from quotaform.fleet.snapshot import SNAPSHOT
        from quotaform.fleet.snapshot import take_snapshots as take_on_spark
        from quotaform.report.text import counted

        session = engine.session()
        progress = JobProgress(console, f"Reading {counted(len(clusters), 'cluster')}", session)
        for stored in take_on_spark(clusters, session=session, progress=progress):
            yield stored.map(lambda made: (made.digest.entities, made.documents[SNAPSHOT]()))
        return
    from quotaform.cluster.snapshot import dump_snapshot
    from quotaform.repository.run import take_snapshots

    for outcome in take_snapshots(clusters, progress=console.progress):
        yield outcome.map(lambda taken: (len(taken.quotas), [dump_snapshot(taken)]))
