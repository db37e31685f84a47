"""`quotaform import`: bring the quotas of a cluster under management."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from quotaform.cli.option.cluster import OneCluster
from quotaform.cli.option.common import SnapshotOption
from quotaform.cli.option.engine import Engine, job_progress
from quotaform.cli.option.output import Output, with_option_groups
from quotaform.cli.option.value import complete_from, require_choice
from quotaform.model.errors import UsageError
from quotaform.system.files import write_new_files

if TYPE_CHECKING:
    from quotaform.cli.console import Console
    from quotaform.cluster.gateway import Gateway
    from quotaform.desired.config import Cluster

SPLITS: Final = ("none", "prefix")


@with_option_groups
def import_quotas(
    *,
    directory: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="DIR", help="The quotas directory. [default: quotas.d]")
    ] = None,
    split: Annotated[
        str,
        typer.Option(
            "--split",
            metavar="|".join(SPLITS),
            help="Write one file, or one per first word of the names.",
            autocompletion=complete_from(SPLITS),
        ),
    ] = "none",
    target: OneCluster,
    snapshot: SnapshotOption = None,
    engine: Engine,
    output: Output,
) -> int:
    """Write the live quotas that no file declares yet as YAML; a plan made right after it is empty.

    Entities that files cannot represent (a NaN, a host name as ip, an empty name) are omitted and listed. No file is
    overwritten.

    \b
    Examples:
      quotaform import --bootstrap-server localhost:9092
      quotaform import --cluster prod-eu --split prefix
    """
    from quotaform.review.import_text import render_import
    from quotaform.review.init import import_cluster

    console = output.console()
    console.keep_code()
    engine.require_valid()
    require_choice("split", split, SPLITS)
    if str(directory) == "-":
        raise UsageError("--output must be a directory, not -; quotaform snapshot can write to stdout")
    if directory is not None and directory.exists() and not directory.is_dir():
        raise UsageError(f"--output must be a directory, but {directory} is a file")
    repository = target.repository(directory)
    config = repository.config()
    chosen = target.choose(repository, config, snapshot=snapshot, needs_name=True)
    with _opened(chosen, engine, console) as gateway:
        done = import_cluster(
            repository, config, chosen.name, gateway, is_split=split == "prefix", progress=console.progress
        )
    write_new_files(done.files)
    console.echo(render_import(done, console.style()))
    if done.files and not repository.has_config():
        servers = ", ".join(chosen.bootstrap_servers)
        console.warn(
            f"Next: name the cluster in {repository.config_path}, for example with",
            f"  clusters: {{my-cluster: {{bootstrap_servers: [{servers}]}}}}",
            "and let editors check the files: quotaform schema --output schemas",
        )
    return 0


def _opened(cluster: Cluster, engine: Engine, console: Console) -> Gateway:
    """Return the gateway of a cluster; one that is read on Spark holds what was read."""
    session = engine.place(console, 1)
    if session is None:
        from quotaform.repository.gateway import open_pinned_gateway

        return open_pinned_gateway(cluster)
    from quotaform.api import snapshot_clusters
    from quotaform.cluster.snapshot import SnapshotGateway
    from quotaform.model.outcome import loaded

    progress = job_progress(console, "Reading 1 cluster", session)
    (taken,) = snapshot_clusters([cluster], engine=session, progress=progress)
    return SnapshotGateway(loaded(taken.require()), name=cluster.name, path=cluster.name)
