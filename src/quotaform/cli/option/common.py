"""Options that several commands share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, TypeAlias

import typer

from quotaform.cli.console import Color


def complete_cluster(context: typer.Context, incomplete: str) -> list[str]:
    """Return the clusters of quotaform.yaml that a shell may complete to; none when it cannot be read."""
    from quotaform.app.repository import Repository
    from quotaform.errors import QuotaformError

    given = {name: context.params.get(name) for name in ("directory", "config")}
    folder, config = (Path(value) if value else None for value in given.values())
    try:
        names = Repository.at(folder, config).config().clusters
    except (QuotaformError, OSError):
        return []
    return [name for name in names if name.startswith(incomplete)]


DirectoryArgument: TypeAlias = Annotated[
    Path | None,
    typer.Argument(metavar="DIR", help="The quotas directory, or the folder that holds quotas.d. [default: quotas.d]"),
]
ConfigOption: TypeAlias = Annotated[
    Path | None,
    typer.Option("--config", metavar="FILE", help="quotaform.yaml. [default: the one beside the quotas directory]"),
]
ClusterOption: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--cluster",
        metavar="NAME",
        help="A cluster of quotaform.yaml; with one cluster it may be left out.",
        autocompletion=complete_cluster,
    ),
]
ClustersOption: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        "--cluster",
        metavar="NAME|GLOB",
        help="A cluster of quotaform.yaml, or those that a glob matches. Repeatable; may be left out with one cluster.",
        autocompletion=complete_cluster,
    ),
]
AllClustersOption: TypeAlias = Annotated[bool, typer.Option("--all", help="Every cluster of quotaform.yaml.")]
BootstrapOption: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--bootstrap-server", metavar="HOST:PORT,...", help="Brokers to ask instead of a cluster of quotaform.yaml."
    ),
]
CommandConfigOption: TypeAlias = Annotated[
    Path | None,
    typer.Option("--command-config", metavar="FILE", help="Java-style client properties, with --bootstrap-server."),
]
SnapshotOption: TypeAlias = Annotated[
    Path | None,
    typer.Option("--snapshot", metavar="FILE", help="A file of quotaform snapshot to read instead of a cluster."),
]
SelectOption: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        "--select", metavar="GLOB", help="Only entities whose address matches, e.g. 'user=svc-*'. Repeatable."
    ),
]
ExcludeOption: TypeAlias = Annotated[
    list[str] | None,
    typer.Option("--exclude", metavar="GLOB", help="Leave out entities whose address matches. Repeatable."),
]
ColorOption: TypeAlias = Annotated[
    Color, typer.Option("--color", help="When to colour; NO_COLOR is respected.", show_default=True)
]
QuietOption: TypeAlias = Annotated[bool, typer.Option("--quiet", "-q", help="No progress and no warnings.")]
VerboseOption: TypeAlias = Annotated[
    bool, typer.Option("--verbose", "-v", help="Say on stderr what is being done; show tracebacks of internal errors.")
]
