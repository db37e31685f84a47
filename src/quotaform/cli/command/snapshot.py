"""`quotaform snapshot`: write everything that clusters hold, one file for each."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from quotaform.cli.console import require_writable, write_file
from quotaform.cli.exit_code import decide
from quotaform.cli.option.cluster import ManyClusters
from quotaform.cli.option.group import with_option_groups
from quotaform.cli.option.output import Output
from quotaform.errors import UsageError

_PLACEHOLDER = "{cluster}"


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
            help="Where to write it; {cluster} in it is the cluster's name. [default: stdout]",
        ),
    ] = None,
    output: Output,
) -> int:
    """Write everything that a cluster holds to one JSON file, which can be planned against later.

    \b
    Examples:
      quotaform snapshot --output snapshots/lab.json
      quotaform snapshot --all --output 'snapshots/{cluster}.json'
      quotaform plan --snapshot snapshots/lab.json
    """
    from quotaform.app.snapshot import take_snapshots
    from quotaform.document.snapshot import dump_snapshot

    console = output.console()
    clusters = target.choose()
    paths = _paths(path, [cluster.name for cluster in clusters])
    failures = []
    for outcome in take_snapshots(clusters, console.progress):
        if outcome.error is not None and len(clusters) > 1:
            console.say(f"quotaform: {outcome.cluster}: {outcome.error}\n")
            failures.append(outcome.error)
            continue
        taken = outcome.require()
        if path is None:
            console.echo(dump_snapshot(taken))
        else:
            file = paths[outcome.cluster]
            require_writable(file)
            write_file(file, dump_snapshot(taken))
            console.echo(f"Wrote {len(taken.quotas)} entities of {taken.cluster_name} to {file}.\n")
    return decide(is_unknown=bool(failures))


def _paths(path: Path | None, names: list[str]) -> dict[str, Path]:
    """Return where the snapshot of each cluster goes.

    Raises:
        UsageError: Several clusters would share one file.
    """
    if len(names) > 1 and (path is None or _PLACEHOLDER not in str(path)):
        raise UsageError(
            f"several clusters ({', '.join(names)}) need a file each; "
            "write {cluster} in --output, as in --output 'snapshots/{cluster}.json'"
        )
    return {name: Path(str(path).replace(_PLACEHOLDER, name)) for name in names if path is not None}
