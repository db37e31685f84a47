"""Options that several commands share."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeAlias

import typer

from quotaform.cli.console import Color
from quotaform.cli.option.value import complete_from, require_choice
from quotaform.model.errors import UsageError

if TYPE_CHECKING:
    from quotaform.model.settings import MetricsSource


def complete_cluster(context: typer.Context, incomplete: str) -> list[str]:
    """Return the clusters of quotaform.yaml that a shell may complete to; none when it cannot be read."""
    from quotaform.model.errors import QuotaformError
    from quotaform.repository.repository import Repository

    directories = [context.params.get("directory"), *(context.params.get("directories") or ())]
    given = next(filter(None, directories), None), context.params.get("config")
    folder, config = (Path(value) if value else None for value in given)
    try:
        names = Repository.at(folder, config).config().clusters
    except (QuotaformError, OSError):
        return []
    return [name for name in names if name.startswith(incomplete)]


def _rules() -> Iterable[str]:
    from quotaform.model.rule import allowed_rules

    return allowed_rules()


DirectoryArgument: TypeAlias = Annotated[
    Path | None,
    typer.Argument(metavar="DIR", help="Quotas directory, or its parent directory. [default: quotas.d]"),
]
ConfigOption: TypeAlias = Annotated[
    Path | None,
    typer.Option("--config", metavar="FILE", help="Path of quotaform.yaml. [default: next to the quotas directory]"),
]
ClusterOption: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--cluster",
        metavar="NAME",
        help="Cluster in quotaform.yaml; optional if there is only one.",
        autocompletion=complete_cluster,
    ),
]
ClustersOption: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        "--cluster",
        metavar="NAME|GLOB",
        help="Cluster in quotaform.yaml, or a glob. Repeatable; optional if there is only one.",
        autocompletion=complete_cluster,
    ),
]
AllClustersOption: TypeAlias = Annotated[bool, typer.Option("--all", help="All clusters in quotaform.yaml.")]
BootstrapOption: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--bootstrap-server", metavar="HOST:PORT,...", help="Bootstrap servers, instead of a cluster in quotaform.yaml."
    ),
]
CommandConfigOption: TypeAlias = Annotated[
    Path | None,
    typer.Option("--command-config", metavar="FILE", help="Java client properties file, with --bootstrap-server."),
]
SnapshotOption: TypeAlias = Annotated[
    Path | None,
    typer.Option("--snapshot", metavar="FILE", help="Snapshot file to read instead of a live cluster."),
]
SelectOption: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        "--select", metavar="GLOB", help="Only entities whose address matches, e.g. 'user=svc-*'. Repeatable."
    ),
]
ExcludeOption: TypeAlias = Annotated[
    list[str] | None,
    typer.Option("--exclude", metavar="GLOB", help="Skip entities whose address matches. Repeatable."),
]
AllowOption: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        "--allow",
        metavar="RULE[=N]",
        help="Apply although this rule blocks, e.g. to-unlimited or delete=8. Repeatable.",
        autocompletion=complete_from(_rules),
    ),
]


def _read_color(text: str) -> Color:
    return Color(require_choice("color", text, tuple(Color)))


ColorOption: TypeAlias = Annotated[
    Color,
    typer.Option(
        "--color",
        metavar="|".join(Color),
        parser=_read_color,
        help="When to use colours; NO_COLOR is respected. [default: auto]",
        show_default=False,
        autocompletion=complete_from(Color),
    ),
]
QuietOption: TypeAlias = Annotated[
    bool, typer.Option("--quiet", "-q", help="Suppress progress and warnings, not failures.")
]
VerboseOption: TypeAlias = Annotated[
    bool, typer.Option("--verbose", "-v", help="Log steps to stderr; show tracebacks of internal errors.")
]


ApproveOption: TypeAlias = Annotated[
    bool, typer.Option("--auto-approve", help="Do not ask for approval, even with confirm: name in quotaform.yaml.")
]

UsageOption: TypeAlias = Annotated[
    str,
    typer.Option(
        "--usage", metavar="DIR|TABLE", help="The usage table, as quotaform usage record or ingest writes it."
    ),
]


SourceOption: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        "--source",
        metavar="[BROKER=]URL",
        help="Source of a broker's metrics: http://HOST:PORT/metrics of an exporter, or jmx:HOST:PORT. "
        "Repeatable. [default: metrics.brokers of the cluster in quotaform.yaml]",
    ),
]


def read_sources(texts: Sequence[str]) -> tuple[MetricsSource, ...]:
    """Read the values of `--source`. Raises `UsageError` if one is none, or two are of one broker."""
    from quotaform.model.settings import parse_source, require_distinct

    try:
        sources = tuple(parse_source(text) for text in texts)
        require_distinct(sources)
    except ValueError as error:
        raise UsageError(f"--source: {error}") from None
    return sources
