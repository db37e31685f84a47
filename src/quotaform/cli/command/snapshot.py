"""`quotaform snapshot`: write everything that a cluster holds to one file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from quotaform.cli.console import Console, require_writable, write_file
from quotaform.cli.option.common import (
    BootstrapOption,
    ClusterOption,
    CommandConfigOption,
    ConfigOption,
    QuietOption,
    VerboseOption,
)


def snapshot(
    config: ConfigOption = None,
    cluster: ClusterOption = None,
    bootstrap_server: BootstrapOption = None,
    command_config: CommandConfigOption = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="FILE", help="Where to write it. [default: stdout]")
    ] = None,
    quiet: QuietOption = False,
    verbose: VerboseOption = False,
) -> int:
    """Write everything that a cluster holds to one JSON file, which can be planned against later.

    \b
    Examples:
      quotaform snapshot --output snapshots/lab.json
      quotaform plan --snapshot snapshots/lab.json
    """
    from quotaform.app.live_import import take_snapshot
    from quotaform.app.repository import Repository, Target, open_gateway
    from quotaform.document.snapshot import dump_snapshot

    console = Console(is_quiet=quiet, is_verbose=verbose)
    repository = Repository.at(None, config)
    target = Target(
        clusters=(cluster,) if cluster else (), bootstrap_servers=bootstrap_server, command_config=command_config
    )
    with open_gateway(repository.cluster(repository.config(), target)) as gateway:
        taken = take_snapshot(gateway, console.progress)
    text = dump_snapshot(taken)
    if output is None:
        console.echo(text)
    else:
        require_writable(output)
        write_file(output, text)
        console.echo(f"Wrote {len(taken.quotas)} entities of {taken.cluster_name} to {output}.\n")
    return 0
