"""What reads a source of measurements, by its kind."""

from __future__ import annotations

from collections.abc import Sequence

from quotaform.core.usage.record.source import MetricsSource, SourceKind
from quotaform.errors import UsageError
from quotaform.http.message import Url
from quotaform.metrics.jmx import JmxReader
from quotaform.metrics.reading import Reader, origin_of
from quotaform.metrics.web import exporter_reader
from quotaform.model.text import quote


def open_reader(source: MetricsSource, cluster: str, jmx_command: Sequence[str] = ()) -> Reader:
    """Return what reads a source; nothing is sent yet.

    Args:
        source: The source.
        cluster: The name of its cluster.
        jmx_command: The command line of JmxTool, for JMX.

    Raises:
        UsageError: It is an invalid URL.
    """
    origin = origin_of(cluster, source.broker)
    if source.kind is SourceKind.JMX:
        return JmxReader(source.address, jmx_command, origin)
    try:
        url = Url.parse(source.address)
    except ValueError as error:
        raise UsageError(f"the source of broker {quote(source.broker)} is an invalid URL: {error}") from None
    return exporter_reader(url, origin)
