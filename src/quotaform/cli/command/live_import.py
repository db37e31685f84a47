"""`quotaform import`: bring the quotas of a cluster under management."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from quotaform.cli.console import Color, Console, require_choice, write_file
from quotaform.cli.option.common import (
    BootstrapOption,
    ClusterOption,
    ColorOption,
    CommandConfigOption,
    ConfigOption,
    QuietOption,
    SnapshotOption,
    VerboseOption,
)
from quotaform.errors import UsageError


def import_quotas(
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="DIR", help="The quotas directory. [default: quotas.d]")
    ] = None,
    split: Annotated[
        str, typer.Option("--split", metavar="none|prefix", help="One file, or one per first word of the names.")
    ] = "none",
    config: ConfigOption = None,
    cluster: ClusterOption = None,
    bootstrap_server: BootstrapOption = None,
    command_config: CommandConfigOption = None,
    snapshot: SnapshotOption = None,
    color: ColorOption = Color.AUTO,
    quiet: QuietOption = False,
    verbose: VerboseOption = False,
) -> int:
    """Write the live quotas that no file declares yet as YAML, so that a plan made right after is empty.

    What files cannot express (a NaN, a host name as ip, an empty name) is left alone and listed. Nothing is
    overwritten.

    \b
    Examples:
      quotaform import --bootstrap-server localhost:9092
      quotaform import --cluster prod-eu --split prefix
    """
    from quotaform.app.live_import import import_live
    from quotaform.app.repository import Repository, Target, open_gateway
    from quotaform.views.import_text import render_import

    console = Console(color, is_quiet=quiet, is_verbose=verbose)
    require_choice("--split", split, ("none", "prefix"))
    if output is not None and output.exists() and not output.is_dir():
        raise UsageError(f"--output is a folder, and {output} is a file")
    repository = Repository.at(output, config)
    content = repository.config()
    target = Target(
        clusters=(cluster,) if cluster else (),
        bootstrap_servers=bootstrap_server,
        command_config=command_config,
        snapshot=snapshot,
    )
    chosen = repository.cluster(content, target)
    with open_gateway(chosen) as gateway:
        done = import_live(
            repository, content, chosen.name, gateway, is_split=split == "prefix", progress=console.progress
        )
    for path, text in done.files.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        write_file(path, text)
    console.echo(render_import(done, console.style()))
    if done.files and not repository.config_path.exists():
        servers = ", ".join(chosen.bootstrap_servers)
        console.warn(
            f"Next: name the cluster in {repository.config_path}, for example with\n"
            f"  clusters: {{my-cluster: {{bootstrap_servers: [{servers}]}}}}\n"
            "and let editors check the files: quotaform schema --output schemas"
        )
    return 0
