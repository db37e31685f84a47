"""`quotaform resolve`: which quota applies to a request, and why."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from quotaform.app.rendering import render
from quotaform.cli.format import format_option, require_format
from quotaform.cli.option.cluster import OneCluster
from quotaform.cli.option.common import SnapshotOption
from quotaform.cli.option.completion import complete_quota_key
from quotaform.cli.option.engine import SPARK, Engine
from quotaform.cli.option.entity import EntityArgument, FormerNameOption
from quotaform.cli.option.group import with_option_groups
from quotaform.cli.option.output import Output
from quotaform.cli.resolve_engine import OUT_FORMATS, choose_engine, read_few, read_out, write_table
from quotaform.errors import UsageError
from quotaform.exit_code import ExitCode

if TYPE_CHECKING:
    from quotaform.app.resolve.resolve import ResolveRequest
    from quotaform.cli.console import Console
    from quotaform.core.plan import Plan
    from quotaform.core.resolve.resolution import Detail
    from quotaform.model.entity import Entity

_STDIN: Final = "-"


@with_option_groups
def resolve(
    *,
    entity: EntityArgument = None,
    name: FormerNameOption = None,
    from_file: Annotated[
        str | None,
        typer.Option(
            "--from",
            metavar="FILE|TABLE",
            help="Requests: CSV with user, client_id, ip, or JSON lines; - is stdin. On Spark also Parquet, or a table "
            "of the catalog.",
        ),
    ] = None,
    key: Annotated[
        list[str] | None,
        typer.Option(
            "--key", metavar="KEY", help="Only this quota key. Repeatable.", autocompletion=complete_quota_key
        ),
    ] = None,
    overridden: Annotated[
        bool, typer.Option("--overridden/--omit-overridden", help="Whether to show overridden entries.")
    ] = True,
    inherited: Annotated[
        bool,
        typer.Option(
            "--inherited/--omit-inherited", help="Whether to show keys whose value comes from another entity."
        ),
    ] = True,
    plan: Annotated[
        Path | None, typer.Option("--plan", metavar="PLAN.json", help="Resolve as if this saved plan were applied.")
    ] = None,
    target: OneCluster,
    snapshot: SnapshotOption = None,
    engine: Engine,
    out: Annotated[
        str | None,
        typer.Option(
            "--out",
            metavar="|".join(f"{name}=NAME" for name in OUT_FORMATS),
            help="On Spark: write a row per request and key to a new folder or table, and print counts alone.",
        ),
    ] = None,
    format_name: Annotated[str, format_option("resolve")] = "text",
    output: Output,
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
      quotaform resolve user=svc-orders,client-id=etl --plan plan.json
      quotaform resolve --from clients.csv --format csv --key producer_byte_rate
      quotaform resolve --from principals.parquet --engine spark --out parquet=resolved
    """
    from quotaform.app.plan.plan_file import load_plan_file
    from quotaform.app.repository.gateway import open_pinned_gateway
    from quotaform.app.resolve.resolve import ResolveRun
    from quotaform.app.steps import repeated
    from quotaform.core.resolve.resolution import Detail
    from quotaform.model.entity import spell_name
    from quotaform.model.quota_key import key_order

    console = output.console()
    require_format("resolve", format_name)
    keys = tuple(sorted(set(key or ()), key=key_order))
    detail = Detail(keys=keys, inherited=inherited, overridden=overridden)
    on_spark = choose_engine(engine, from_file, out) == SPARK
    if out is not None:
        read_out(out)
        if format_name != "text":
            raise UsageError(f"--out prints counts as text; leave --format {format_name} out")
    source = _read_source(entity, name or (), from_file)
    saved = None if plan is None else load_plan_file(plan)
    planned = saved.header.cluster_name if saved is not None else None
    if on_spark and from_file is not None:
        chosen = target.choose(snapshot=snapshot, planned=planned)
        if out is not None:
            write_table(console, engine, chosen, principals=from_file, out=out, plan=saved, detail=detail)
            return ExitCode.DONE
        request = _made(read_few(console, engine, chosen, from_file), saved, detail)
    else:
        request = _request(console, source, saved, detail)
        chosen = target.choose(snapshot=snapshot, planned=planned)
    reading = f"Reading quotas of {spell_name(chosen.label)}"
    with repeated(console.progress, reading) as steps, open_pinned_gateway(chosen) as gateway:
        run = ResolveRun(request, gateway, steps)
    console.echo(render("resolve", format_name, run, header=run.header, findings=run.findings, style=console.style()))
    if format_name == "csv":
        for finding in run.findings():
            console.warn(f"quotaform: {f'{finding.address}: ' if finding.address else ''}{finding}")
    return ExitCode.DONE


def _request(console: Console, source: Entity | str, plan: Plan | None, detail: Detail) -> ResolveRequest:
    """Read the requests, so that problems in files are reported without waiting for a broker."""
    from quotaform.app.resolve.request_file import RequestFile, nameless_note
    from quotaform.app.resolve.resolve import ResolveRequest

    if not isinstance(source, str):
        return _made((source,), plan, detail)
    rows = RequestFile.read_stdin() if source == _STDIN else RequestFile.read(Path(source))
    if rows.nameless:
        console.warn(f"Warning: {nameless_note(rows.name, rows.nameless)}")
    return ResolveRequest(entities=rows, has_clients=rows.has_clients, has_ips=rows.has_ips, plan=plan, detail=detail)


def _made(entities: Sequence[Entity], plan: Plan | None, detail: Detail) -> ResolveRequest:
    from quotaform.app.resolve.resolve import ResolveRequest
    from quotaform.model.entity import IP

    ips = sum(IP in entity.types for entity in entities)
    return ResolveRequest(entities=entities, has_clients=ips < len(entities), has_ips=ips > 0, plan=plan, detail=detail)


def _read_source(entity: Entity | None, names: Sequence[str], file: str | None) -> Entity | str:
    """Return who makes the one request, or the file that has the requests."""
    from quotaform.cli.option.entity_reader import read_entity
    from quotaform.core.resolve.request import request_of
    from quotaform.model.entity import DEFAULT_WORD

    if file is not None:
        if entity is not None or names:
            raise UsageError("an entity and --from cannot be combined; give one of them")
        return file
    if entity is None and not names:
        raise UsageError(
            "no request is given; write who makes it, as in user=U,client-id=C or ip=A, or give --from FILE"
        )
    for text in names:
        entity_type, _, entity_name = text.partition("=")
        if entity_name == DEFAULT_WORD:
            raise UsageError(
                f"--name {text}: requests have a name; leave {entity_type} out for one that no quota mentions, or "
                f"write --name '{entity_type}=\"{DEFAULT_WORD}\"' for the literal name {DEFAULT_WORD}"
            )
    entity = read_entity(names, entity=entity)
    try:
        request_of(entity)
    except ValueError as error:
        raise UsageError(str(error)) from None
    return entity
