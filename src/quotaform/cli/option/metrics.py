"""The options that say where measurements are read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Final, TypeAlias

import typer

from quotaform.cli.usage import shorten
from quotaform.errors import UsageError

if TYPE_CHECKING:
    from quotaform.cli.console import Console
    from quotaform.core.usage.record.source import MetricsSource
    from quotaform.metrics.reading import Reader

_LONGEST_INTERVAL: Final = 24 * 3600.0

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
    from quotaform.core.usage.record.source import parse_source, require_distinct

    try:
        sources = tuple(parse_source(text) for text in texts)
        require_distinct(sources)
    except ValueError as error:
        raise UsageError(f"--source: {error}") from None
    return sources


def open_readers(sources: Sequence[MetricsSource], cluster: str, console: Console) -> Mapping[str, Reader]:
    """Return what reads the sources, by broker.

    Raises `UsageError` if one has no URL that can be used, and `SandboxError` if one needs Kafka's reader of JMX, which
    cannot be had.
    """
    from quotaform.core.usage.record.source import SourceKind
    from quotaform.metrics.open import open_reader

    command: list[str] = []
    if any(source.kind is SourceKind.JMX for source in sources):
        from quotaform.sandbox.jmx_tool import jmx_tool_command

        command = jmx_tool_command(console.progress)
    return {source.broker: open_reader(source, cluster, command) for source in sources}


def read_seconds(option: str, text: str, *, longest: float = _LONGEST_INTERVAL) -> float:
    """Read a duration."""
    from quotaform.model.duration import parse_duration

    try:
        seconds = parse_duration(text).total_seconds()
    except ValueError:
        raise UsageError(f"{option} {shorten(text)}: write a duration, as in 10s, 5m or 1h") from None
    if seconds > longest:
        raise UsageError(f"{option} {shorten(text)}: it is {longest / 86400:g} days at most")
    return seconds
