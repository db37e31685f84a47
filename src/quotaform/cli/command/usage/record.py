"""`quotaform usage record`: keep what brokers offer about usage, where nothing else stores it."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from quotaform.cli.option.cluster import AllClustersOption, ClustersOption, ConfigOption, ManyClusters
from quotaform.cli.option.common import REQUIRED, SourceOption, option, read_sources, with_options
from quotaform.cli.option.output import Output, printed
from quotaform.cli.option.value import read_seconds
from quotaform.cli.present import Results
from quotaform.model.errors import UsageError
from quotaform.model.moment import duration_text
from quotaform.model.outcome import ClusterOutcome, exit_code
from quotaform.model.text import inert, listed

if TYPE_CHECKING:
    from quotaform.cli.console import Console
    from quotaform.model.settings import MetricsSource
    from quotaform.usage.record.reader import Reader

_LONGEST: Final = 366 * 86_400.0


@with_options
def record(
    *,
    usage: Path = option("--usage DIR", "Usage table: a directory to which files are added.", REQUIRED),
    source: SourceOption = None,
    interval: float = option(
        "--interval DURATION", "Time between two measurements of a broker.", "10s", read=read_seconds
    ),
    duration: float | None = option(
        "--for DURATION",
        "How long to record. [default: until Ctrl-C or SIGTERM]",
        read=partial(read_seconds, longest=_LONGEST),
    ),
    config: ConfigOption = None,
    cluster: ClustersOption = None,
    all_clusters: AllClustersOption = False,
    output: Output = printed("usage-record"),
) -> int:
    """Record the usage metrics of brokers into a usage table, without Spark and without stored monitoring.

    All brokers of all clusters are measured in parallel, each with one request at a time. A file is written every
    minute, and when the recording ends, also by Ctrl-C or SIGTERM (exit 0). A broker that does not respond is a gap in
    the table and in the summary. Needs the extra usage, for Parquet.

    \b
    Examples:
      quotaform usage record --cluster prod-eu --usage usage --for 24h
      quotaform usage record --all --usage usage
      quotaform usage record --cluster lab --source 1=http://localhost:7071/metrics --usage usage --for 10m
      quotaform usage record --cluster lab --source 1=jmx:localhost:9999 --usage usage --interval 30s
    """
    console = output.console
    target = ManyClusters(config=config, cluster=cluster, all_clusters=all_clusters)
    readers, failed = _readers(target, read_sources(source or ()), console)
    from quotaform.usage.record.run import RecordRequest, UsageDirectory
    from quotaform.usage.record.run import record as record_usage

    table = UsageDirectory(usage)
    limit = "" if duration is None else f" of {duration_text(timedelta(seconds=duration))}"
    names, sources = listed([inert(name) for name in readers]), sum(map(len, readers.values()))

    def progress(passed: float, rows: int) -> None:
        console.progress(f"Recording {names}: {duration_text(timedelta(seconds=passed))}{limit}, {rows:,} rows", 0, 0)

    console.warn(
        f"Recording {names} from {sources:,} source{'s' * (sources != 1)} every {interval:g} s; "
        "Ctrl-C ends it and keeps what was recorded"
    )
    request = RecordRequest(
        usage=str(usage),
        readers=readers,
        interval=interval,
        seconds=duration,
        write=table.write,
        warn=lambda text: console.warn_of_failure(inert(text)),
        progress=progress,
    )
    outcomes = [*record_usage(request), *failed]
    Results(output).present(outcomes)
    if len(outcomes) == 1:
        outcomes[0].require().require_written()
    return exit_code(outcomes)


def _readers(
    target: ManyClusters, given: tuple[MetricsSource, ...], console: Console
) -> tuple[dict[str, Mapping[str, Reader]], list[ClusterOutcome[Any]]]:
    """Return what reads the brokers of each cluster, and the clusters that cannot be read; one can be read at least."""
    from quotaform.usage.record.reader import broker_readers, open_readers

    if given and len(target.literal_names) == 1:
        # Of a cluster whose sources are given, quotaform.yaml need not know.
        return {target.literal_names[0]: open_readers(given, target.literal_names[0], console.progress)}, []
    chosen = target.choose()
    if given and len(chosen) > 1:
        raise UsageError("--source is of one cluster; choose it with --cluster")
    opened = [ClusterOutcome.of(each.name, partial(broker_readers, each, given, console.progress)) for each in chosen]
    readers = {each.cluster: each.require() for each in opened if each.error is None}
    if not readers:
        opened[0].require()
    return readers, [each for each in opened if each.error is not None]
