"""`quotaform resolve` and `explain`: which quota applies to a request, and where declared values come from."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from quotaform.cli.console import Console
from quotaform.cli.option.cluster import CLUSTER, CONFIG, OR_SNAPSHOT, Clusters
from quotaform.cli.option.common import DIRECTORY, complete_from, option
from quotaform.cli.option.entity import ANY_ENTITY, FORMER_NAME, ONE_ENTITY, read_entity, require_address
from quotaform.cli.option.run import AUTO, PARQUET, Engine, Output, printed, read_output, spark_job
from quotaform.cli.present import Results, report_failures
from quotaform.model.entity import Entity
from quotaform.model.errors import ExitCode, UsageError, as_usage_error
from quotaform.model.quota_key import QUOTA_KEYS, key_order
from quotaform.model.text import inert
from quotaform.resolve.index import request_of
from quotaform.resolve.request_file import RequestFile, nameless_note
from quotaform.resolve.resolve import ResolveOptions

OUT_FORMATS: Final = (PARQUET, "csv", "table")
_STDIN: Final = "-"


def is_on_spark(engine: Engine, principals: str | None, out: str | None) -> bool:
    """Whether requests are resolved on Spark; `principals` is the value of `--from`."""
    from quotaform.plan.principals import is_table

    needs_spark = out is not None or (principals not in (None, _STDIN) and is_table(principals))
    if not engine.is_given and needs_spark:
        what = f"--from {inert(principals or '')} is" if out is None else f"--out {inert(out)} writes"
        raise UsageError(f"{what} a table, which Spark does; add --engine spark")
    if not engine.is_given or (engine.engine == AUTO and not needs_spark):
        return False
    if principals is None:
        raise UsageError("--engine spark resolves many requests; give them by --from, or leave --engine out")
    if principals == _STDIN:
        raise UsageError("--from - is read in one process; give --engine spark a file or a table")
    return True


def resolve(
    *,
    entity: Entity | None = ANY_ENTITY,
    name: list[str] | None = FORMER_NAME,
    from_file: str | None = option(
        "--from FILE|TABLE",
        "Requests: CSV with user, client_id, ip, or JSON lines; - is stdin. On Spark also Parquet, or a table "
        "of the catalog.",
    ),
    key: list[str] | None = option("--key KEY", "Only this quota key. Repeatable.", complete=complete_from(QUOTA_KEYS)),
    overridden: bool = option("--overridden/--omit-overridden", "Whether to show overridden entries.", True),
    inherited: bool = option(
        "--inherited/--omit-inherited", "Whether to show keys whose value comes from another entity.", True
    ),
    plan: Path | None = option("--plan PLAN.json", "Resolve as if this saved plan were applied."),
    target: Clusters = OR_SNAPSHOT,
    engine: Engine,
    out: str | None = option(
        f"--out {'=NAME|'.join(OUT_FORMATS)}=NAME",
        "On Spark: write a row per request and key to a new folder or table, and print counts alone.",
    ),
    output: Output = printed("resolve"),
) -> int:
    """Show which quotas limit a request: per key, the value, the entry it comes from and the overridden entries.

    An omitted client-id or user stands for one that no quota mentions, as in plans; the result gives the number of
    names that have another limit. client-id= is an empty client-id, which no entry with a client-id matches.
    A file of requests works alike: a field without a name is omitted, and an empty client-id is "" (in CSV, within
    quotes: \"\"\"\"\"\").

    The JSON format is one document with one line per request, the CSV format one row per request and key.
    A CSV cell that begins with a double quote is a JSON string (names with line breaks or formulas); any other is
    literal.

    With --engine spark, any number of requests are resolved into a table (--out); 10,000 of them may be printed.

    \b
    Examples:
      quotaform resolve user=svc-orders,client-id=etl
      quotaform resolve user=svc-orders
      quotaform resolve ip=10.0.0.7 --format json
      quotaform resolve user=svc-orders --all
      quotaform resolve user=svc-orders,client-id=etl --plan plan.json
      quotaform resolve --from clients.csv --format csv --key producer_byte_rate
      quotaform resolve --from principals.parquet --engine spark --out parquet=resolved
    """
    from quotaform.api import resolve_clusters
    from quotaform.apply.freshness import as_if_applied
    from quotaform.plan.receipt_file import load_plan_file
    from quotaform.report.render import render_text
    from quotaform.resolve.report import resolve_table_report

    console = output.console
    keys = tuple(sorted(set(key or ()), key=key_order))
    detail = ResolveOptions(keys=keys, inherited=inherited, overridden=overridden)
    on_spark = is_on_spark(engine, from_file, out)
    table = None if out is None else read_output(out, OUT_FORMATS, default=PARQUET)
    saved = None if plan is None else load_plan_file(plan)
    assumed = None if saved is None else as_if_applied(saved)
    if not on_spark:
        entities = _read_entities(console, entity, name or (), from_file)
    planned = None if saved is None else saved.header.cluster.name
    clusters = target.choose(planned=planned, needs_name=False)
    if on_spark:
        if len(clusters) > 1:
            raise UsageError("--engine spark resolves requests on one cluster; choose one with --cluster")
        principals, session = str(from_file), engine.installed()
        from quotaform.fleet.principals import OutputTarget, few_principals, require_files, write_resolved

        require_files(principals, session)
        warn = console.warn_of
        with spark_job(console, "Resolving principals", session) as (spark, progress):
            if table is None:
                entities = few_principals(spark, principals, clusters[0].name, warn)
            else:
                place = OutputTarget(*table)
                written = write_resolved(
                    spark, clusters[0], principals, place, plan=assumed, detail=detail, progress=progress, warn=warn
                )
        if table is not None:
            style = console.style()
            console.echo(render_text(resolve_table_report(written, style), style))
            return ExitCode.DONE
    results = Results(output)
    names = [cluster.name for cluster in clusters]
    results.open(names)
    resolving = resolve_clusters(clusters, entities, assumed, detail, progress=console.progress)
    outcomes = results.gather(resolving, names)
    results.present(outcomes)
    if output.format_name == "csv":
        for finding in outcomes[0].require().findings():
            console.warn(f"quotaform: {f'{finding.address}: ' if finding.address else ''}{finding}")
    return results.exit_code(outcomes)


def _read_entities(
    console: Console, entity: Entity | None, names: Sequence[str], file: str | None
) -> Sequence[Entity] | RequestFile:
    """Read who makes the requests, so that problems in files are reported without waiting for a broker."""
    if file is not None:
        rows = RequestFile.read(None if file == _STDIN else Path(file))
        if rows.nameless:
            console.warn_of(nameless_note(rows.name, rows.nameless))
        return rows
    if entity is None and not names:
        raise UsageError(
            "no request is given; write who makes it, as in user=U,client-id=C or ip=A, or give --from FILE"
        )
    entity = read_entity(names, entity=entity)
    with as_usage_error():
        request_of(entity)
    require_address(entity)
    return (entity,)


def explain(
    *,
    entity: Entity = ONE_ENTITY,
    directory: Path | None = DIRECTORY,
    config: Path | None = CONFIG,
    cluster: list[str] | None = CLUSTER,
    output: Output = printed("explain"),
) -> int:
    """Show where the declared values of an entity come from, offline.

    For each quota key: the effective declared value, then what each layer sets, in order (profile, values, unset,
    state: absent or expiry), with its location; the last one wins, marked with *. Without --cluster, all clusters of
    quotaform.yaml. Exit 1 if no file declares the entity.

    \b
    Examples:
      quotaform explain user=svc-orders
      quotaform explain 'user=svc-a,client-id=<default>' --cluster prod-eu
      quotaform explain 'user="CN=a,O=b"' quotas.d --format json
    """
    from quotaform.api import explain as explain_declared
    from quotaform.repository.repository import Repository

    explained = explain_declared(Repository.at(directory, config), entity, cluster or ())
    output.print(explained)
    return report_failures(output.console, explained.failed)
