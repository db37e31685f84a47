"""`quotaform resolve` on Spark: what is asked for there, and the table that it writes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from quotaform.cli.option.engine import AUTO, LOCAL, SPARK, Engine
from quotaform.cli.usage import shorten
from quotaform.errors import UsageError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from quotaform.cli.console import Console
    from quotaform.cluster.gateway import Progress
    from quotaform.core.plan import Plan
    from quotaform.core.resolve.resolution import Detail
    from quotaform.desired.config import Cluster
    from quotaform.model.entity import Entity

OUT_FORMATS: Final = ("parquet", "csv", "table")
_STDIN: Final = "-"


def choose_engine(engine: Engine, principals: str | None, out: str | None) -> str:
    """Return where requests are resolved, `local` or `spark`.

    Args:
        principals: The value of `--from`.

    Raises:
        UsageError: Options exclude each other, or something is asked for that only Spark does.
    """
    from quotaform.app.plan.principals import is_table

    engine.require_valid()
    needs_spark = out is not None or (principals is not None and principals != _STDIN and is_table(principals))
    if not engine.is_given:
        if needs_spark:
            what = (
                f"--out {shorten(out)} writes a table"
                if out is not None
                else f"--from {shorten(principals or '')} is a table"
            )
            raise UsageError(f"{what}, which Spark does; add --engine spark")
        return LOCAL
    if engine.engine == AUTO and not needs_spark:
        return LOCAL
    if principals is None:
        raise UsageError("--engine spark resolves many requests; give them by --from, or leave --engine out")
    if principals == _STDIN:
        raise UsageError("--from - is read in one process; give --engine spark a file or a table")
    return SPARK


def write_table(
    console: Console,
    engine: Engine,
    cluster: Cluster,
    *,
    principals: str,
    out: str,
    plan: Plan | None,
    detail: Detail,
) -> None:
    """Resolve principals on Spark into a table, and print what it amounts to.

    Raises `UsageError` if the value of `--out` is wrong, or there is something at that place.
    """
    target_kind, target = read_out(out)
    if not detail.overridden:
        raise UsageError("--out writes no overridden entries; leave --omit-overridden out")
    with _session(console, engine, principals) as (spark, progress):
        from quotaform.spark.resolve.run import TableRequest, write_resolved
        from quotaform.spark.resolve.target import Target
        from quotaform.views.quotas.resolve_text import render_resolve_table

        report = write_resolved(
            spark,
            TableRequest(
                cluster=cluster, principals=principals, target=Target(target_kind, target), plan=plan, detail=detail
            ),
            progress=progress,
            warn=lambda text: console.warn(f"Warning: {text}"),
        )
    console.echo(render_resolve_table(report, console.style()))


def read_few(console: Console, engine: Engine, cluster: Cluster, principals: str) -> Sequence[Entity]:
    """Read principals of a cluster on Spark that are few enough to be printed."""
    with _session(console, engine, principals) as (spark, _):
        from quotaform.spark.resolve.run import few_principals

        return few_principals(spark, principals, cluster.name, lambda text: console.warn(f"Warning: {text}"))


def read_out(text: str) -> tuple[str, str]:
    """Read the value of `--out`."""
    kind, separator, name = text.partition("=")
    if not separator:
        kind, name = OUT_FORMATS[0], text
    if kind not in OUT_FORMATS:
        raise UsageError(f"--out {shorten(text)}: choose from {', '.join(f'{each}=' for each in OUT_FORMATS)}")
    if name in ("", "-"):
        raise UsageError(f"--out {shorten(text)}: a folder is missing; write for example --out parquet=resolved")
    return kind, name


@contextmanager
def _session(console: Console, engine: Engine, principals: str) -> Iterator[tuple[SparkSession, Progress]]:
    """Yield a session, if the principals can be there."""
    from quotaform.cli.job_progress import JobProgress
    from quotaform.spark.session.session import require_installed, spark_session

    session = replace(engine.session(), has_joins=True)
    require_installed(session)
    from quotaform.spark.table.principal_file import require_files

    require_files(principals, session)
    progress = JobProgress(console, "Resolving principals", session)
    with spark_session(session, progress) as spark:
        progress("Resolving principals", 0, 0)
        yield spark, progress
