"""`quotaform history`: what clusters held and when, by their snapshots; on Spark."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from quotaform.cli.option.cluster import Clusters
from quotaform.cli.option.common import REQUIRED, argument, option, read_moment
from quotaform.cli.option.entity import ENTITIES
from quotaform.cli.option.run import DRAWN_OUT, ON_SPARK, Engine, Output, printed, spark_job
from quotaform.cli.present import TableOutput
from quotaform.model.entity import Entity
from quotaform.model.errors import ExitCode, UsageError
from quotaform.model.text import inert

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

HISTORY: Final = option(
    "--history DIR|delta:PATH|table:NAME",
    "The history: a directory (Parquet), or a Delta Lake table by path or name.",
    REQUIRED,
)
CLUSTER: Final = option("--cluster NAME|GLOB", "Only clusters of this name. Repeatable. [default: all]")


def append(
    *,
    snapshots: list[str] | None = argument(
        "[SNAPSHOT]...", "Snapshot files, directories of them, or globs. [default: read clusters]"
    ),
    history: str = HISTORY,
    receipts: Path | None = option(
        "--receipts DIR", "Receipts that say who changed what. [default: .quotaform/receipts next to quotaform.yaml]"
    ),
    target: Clusters,
    engine: Engine = ON_SPARK,
    output: Output = printed("history-append"),
) -> int:
    """Append snapshots to a history: of the clusters of quotaform.yaml, read now, or of files.

    A snapshot that is older than others of its cluster is inserted where it belongs, one that is known already changes
    nothing, and a cluster that cannot be read keeps its history as it is (exit 1).

    \b
    Examples:
      quotaform history append --all --history /srv/quota-history
      quotaform history append 'snapshots/*.json' --history /srv/quota-history
    """
    console = output.console
    console.keep_code()
    session = engine.installed()
    from quotaform.history.table import Receipts, open_history, require_history
    from quotaform.history.table import append as append_snapshots
    from quotaform.plan.receipt_file import receipt_folder

    if snapshots:
        from quotaform.fleet.data_source import find_snapshots, read_snapshots

        read: Callable[[SparkSession], DataFrame] = partial(read_snapshots, paths=find_snapshots(snapshots))
    else:
        from quotaform.fleet.data_source import read_clusters

        read = partial(read_clusters, clusters=target.choose())
    if receipts is None:
        repository = target.repository()
        chosen = Receipts(receipt_folder(repository), repository.config_path.parent)
    elif receipts.is_dir():
        chosen = Receipts(receipts)
    else:
        raise UsageError(f"--receipts {receipts} is not a directory; quotaform apply writes receipts")
    require_history(history, is_read=False)
    with spark_job(console, "Appending snapshots", session) as (spark, _):
        result, failed = append_snapshots(lambda: open_history(spark, history), read(spark), chosen)
    for problem in result.receipt_problems:
        console.warn_of_failure(f"{problem}; nothing is attributed to it")
    output.print(result)
    for name, error in failed:
        start = f"{inert(name)}: " if name is not None else ""
        console.write_stderr("".join(f"Error: {start}{line}\n" for line in str(error).split("\n")))
    return ExitCode.most_severe(error.exit_code for _, error in failed)


def show(
    *,
    entities: list[Entity] | None = ENTITIES,
    history: str = HISTORY,
    cluster: list[str] | None = CLUSTER,
    out: list[str] | None = DRAWN_OUT,
    usage: str | None = option(
        "--usage PATH|TABLE",
        "What entities used, drawn with their limits: a table that quotaform usage record or ingest wrote.",
    ),
    engine: Engine = ON_SPARK,
    output: Output = printed("history"),
) -> int:
    """Show what entities had and when: a value counts from the first snapshot with it to the first one without it.

    \b
    Examples:
      quotaform history show user=alice --history /srv/quota-history
      quotaform history show --cluster 'prod-*' --out parquet=rows --history /srv/quota-history
      quotaform history show user=alice --usage usage --out html=limits.html --history /srv/quota-history
    """
    files = TableOutput(output, out)
    if usage is not None and not files.has_page:
        raise UsageError("--usage is drawn on the HTML page only; give --out html=PATH, too")
    session = engine.installed()
    from quotaform.fleet.table import require_table
    from quotaform.history.spark import entity_history, of_clusters
    from quotaform.history.table import open_history, require_history
    from quotaform.usage.table.table import read_usage

    require_history(history, is_read=True)
    if usage is not None:
        require_table(usage, session)
    with spark_job(output.console, "Reading the history", session) as (spark, _):
        table = open_history(spark, history)
        rows = of_clusters(table, cluster or ())
        found, in_order = entity_history(table, rows, entities or ())
        shown: dict[str, Any] = {}
        if usage is not None:
            from quotaform.history.history import drawn_limits
            from quotaform.usage.bucket.spark import entity_curves

            shown = {"usage": usage, "curves": entity_curves(read_usage(spark, usage), drawn_limits(found))}
        files.present(found, in_order, **shown)
    return ExitCode.DONE


def diff(
    *,
    history: str = HISTORY,
    at: list[datetime] = option(
        "--at TIME",
        "One of the two times: ISO 8601 (UTC), a day, or an age such as 7d. Give it twice.",
        REQUIRED,
        read=read_moment,
    ),
    cluster: list[str] | None = CLUSTER,
    out: list[str] | None = option(
        "--out json=PATH|parquet=DIR",
        "Also write the result to a file, or all of its rows as Parquet to a new directory. Repeatable.",
    ),
    engine: Engine = ON_SPARK,
    output: Output = printed("history-diff"),
) -> int:
    """Show what differs between the last snapshots at or before two times, and who made the last change.

    \b
    Examples:
      quotaform history diff --at 7d --at now --history /srv/quota-history
      quotaform history diff --at 2026-11-01 --at 2026-11-20T09:00:00Z --out json=diff.json --history quota-history
    """
    if len(at) != 2 or at[0] == at[1]:
        raise UsageError("--at: give two times, as in --at 7d --at now")
    since, until = sorted(at)
    files = TableOutput(output, out)
    session = engine.installed()
    from quotaform.history.spark import difference, of_clusters
    from quotaform.history.table import open_history, require_history

    require_history(history, is_read=True)
    with spark_job(output.console, "Comparing the history at two times", session) as (spark, _):
        table = open_history(spark, history)
        rows = of_clusters(table, cluster or ())
        found, changes = difference(table, rows, since, until)
        files.present(found, changes)
    return ExitCode.DONE
