"""`quotaform alter`: change one entity by hand."""

from __future__ import annotations

from typing import Annotated

import typer

from quotaform.app.rendering import render
from quotaform.cli.approval import require_confirmed
from quotaform.cli.format import format_option, require_format
from quotaform.cli.option.cluster import OneCluster
from quotaform.cli.option.completion import complete_quota_keys, complete_value
from quotaform.cli.option.entity import EntityArgument, FormerDefaultOption, FormerNameOption
from quotaform.cli.option.group import with_option_groups
from quotaform.cli.option.output import Output
from quotaform.errors import KeyNotHeldError, UsageError


@with_option_groups
def alter(
    *,
    entity: EntityArgument = None,
    name: FormerNameOption = None,
    default: FormerDefaultOption = None,
    add: Annotated[
        list[str] | None,
        typer.Option(
            "--add",
            metavar="KEY=VALUE,...",
            help="Values to set, e.g. producer_byte_rate=10MiB/s. Repeatable.",
            autocompletion=complete_value,
        ),
    ] = None,
    delete: Annotated[
        list[str] | None,
        typer.Option(
            "--delete",
            metavar="KEY,...",
            help="Quota keys to remove. Repeatable.",
            autocompletion=complete_quota_keys,
        ),
    ] = None,
    validate_only: Annotated[
        bool, typer.Option("--validate-only", help="Validate on the broker and show the result; change nothing.")
    ] = False,
    target: OneCluster,
    auto_approve: Annotated[
        bool, typer.Option("--auto-approve", help="Do not ask for approval, even with confirm: name in quotaform.yaml.")
    ] = False,
    format_name: Annotated[str, format_option("alter")] = "text",
    output: Output,
) -> int:
    """Set and remove quotas of one entity, and print the resulting values.

    All changes are made or none. Values that differ from the files are reported as drift. Exit 6 if it is unknown
    whether the change was made, or if it does not become visible within 30 seconds.

    \b
    Examples:
      quotaform alter user=svc-orders --add producer_byte_rate=20MiB/s,request_percentage=150%
      quotaform alter 'user=<default>,client-id=etl' --delete producer_byte_rate
      quotaform alter 'ip=<default>' --add connection_creation_rate=unlimited --validate-only
    """
    from quotaform.admin import QuotaAdmin
    from quotaform.app.alter import alter_entity
    from quotaform.app.clock import timestamp
    from quotaform.app.repository.gateway import open_gateway, require_pinned
    from quotaform.app.steps import repeated
    from quotaform.cli.option.entity_reader import read_entity
    from quotaform.cli.option.op_reader import read_ops
    from quotaform.model.entity import spell_name

    console = output.console()
    console.keep_code()
    require_format("alter", format_name)
    entity = read_entity(name, default, entity=entity)
    if not entity.parts:
        raise UsageError("no entity is given; write its address, as in user=alice or 'user=<default>'")
    ops = read_ops(entity, add or (), delete or ())
    chosen = target.choose()
    if chosen.snapshot is not None:
        raise UsageError(f"cluster {chosen.name} is a snapshot file, which cannot be altered")
    reading = f"Reading quotas of {spell_name(chosen.label)}"
    with repeated(console.progress, reading):
        opened = open_gateway(chosen)
    with QuotaAdmin(opened) as admin:
        cluster_id = admin.cluster_id()
        require_pinned(chosen.name, chosen.cluster_id, cluster_id)
        require_confirmed(console, chosen, auto_approve=auto_approve or validate_only)
        try:
            with repeated(console.progress, reading) as steps:
                done = alter_entity(admin, entity, ops, validate_only=validate_only, progress=steps)
        except KeyNotHeldError as error:
            raise UsageError(f"--delete: {error}") from None
        except KeyboardInterrupt:
            if not validate_only:
                console.write_stderr(f"It is not known whether {entity.address} was changed: describe it.\n")
            raise
    if done.is_late:
        console.warn("The response of the broker was lost, but the change is visible.")
    text = render(
        "alter",
        format_name,
        done,
        cluster_name=chosen.label,
        cluster_id=cluster_id,
        read_at=timestamp(),
        heading=chosen.label if chosen.has_name else None,
        style=console.style(),
    )
    console.echo(text)
    return 0
