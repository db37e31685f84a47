"""`quotaform alter`: change one entity by hand."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from quotaform.cli.console import require_confirmed
from quotaform.cli.option.cluster import OneCluster
from quotaform.cli.option.common import ApproveOption, flag, option, with_options
from quotaform.cli.option.entity import (
    EntityArgument,
    FormerDefaultOption,
    FormerNameOption,
    read_entity,
    require_settable,
)
from quotaform.cli.option.output import Output, printed
from quotaform.cli.option.value import complete_quota_keys, complete_value
from quotaform.model.entity import ENTITY_TYPES, Entity, spell_name
from quotaform.model.errors import UsageError
from quotaform.model.quota_key import QUOTA_KEYS, keys_for
from quotaform.model.text import did_you_mean, nearest, quote
from quotaform.model.units import parse_number, parse_value


@with_options
def alter(
    *,
    entity: EntityArgument = None,
    name: FormerNameOption = None,
    default: FormerDefaultOption = None,
    add: list[str] | None = option(
        "--add KEY=VALUE,...", "Values to set, e.g. producer_byte_rate=10MiB/s. Repeatable.", complete=complete_value
    ),
    delete: list[str] | None = option(
        "--delete KEY,...", "Quota keys to remove. Repeatable.", complete=complete_quota_keys
    ),
    validate_only: bool = flag("--validate-only", "Validate on the broker and show the result; change nothing."),
    target: OneCluster,
    auto_approve: ApproveOption = False,
    output: Output = printed("alter"),
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
    from quotaform.apply.alter import alter_entity
    from quotaform.repository.cluster_work import repeated
    from quotaform.repository.gateway import open_pinned_gateway
    from quotaform.resolve.quota_admin import QuotaAdmin
    from quotaform.system.clock import timestamp

    console = output.console
    console.keep_code()
    entity = read_entity(name, default, entity=entity)
    if not entity.parts:
        raise UsageError("no entity is given; write its address, as in user=alice or 'user=<default>'")
    ops = read_ops(entity, add or (), delete or ())
    chosen = target.choose()
    if chosen.snapshot is not None:
        raise UsageError(f"cluster {chosen.name} is a snapshot file, which cannot be altered")
    reading = f"Reading quotas of {spell_name(chosen.label)}"
    with repeated(console.progress, reading):
        opened = open_pinned_gateway(chosen, is_reading=False)
    with QuotaAdmin(opened) as admin:
        cluster_id = admin.cluster_id()
        require_confirmed(console, chosen, auto_approve=auto_approve or validate_only)
        try:
            with repeated(console.progress, reading) as steps:
                done = alter_entity(admin, entity, ops, validate_only=validate_only, progress=steps)
        except KeyboardInterrupt:
            if not validate_only:
                console.write_stderr(f"It is not known whether {entity.address} was changed: describe it.\n")
            raise
    if done.is_late:
        console.warn("The response of the broker was lost, but the change is visible.")
    output.print(
        done,
        cluster_name=chosen.label,
        cluster_id=cluster_id,
        read_at=timestamp(),
        heading=chosen.label if chosen.has_name else None,
    )
    return 0


_MISSPELT: Final = 0.8
"""How near a key must be to a known one to be taken for it; a newer broker may have keys that are less near."""


def read_ops(entity: Entity, added: Iterable[str], deleted: Iterable[str]) -> dict[str, float | None]:
    """Read what is to be set (`key=value`, in units) and removed (`key`), each list separated by commas.

    A key that this version does not know, and that is no misspelt known one, takes a plain number, and the broker
    decides on it. Raises `UsageError` if a piece cannot be read, a key comes twice, a value is not one of its key, or
    the entity cannot carry what is set.
    """
    ops: dict[str, float | None] = {}
    for lists, is_set in ((added, True), (deleted, False)):
        for piece in (piece for text in lists for piece in text.split(",")):
            name, separator, text = piece.partition("=")
            if not name or bool(separator) is not is_set:
                form = "KEY=VALUE, such as producer_byte_rate=10MiB/s" if is_set else "the name of a quota key"
                raise UsageError(f"{'--add' if is_set else '--delete'} {quote(piece)} is not {form}")
            if name in ops:
                raise UsageError(f"{quote(name)} is given twice")
            ops[name] = _read_value(entity, name, text) if is_set else None
    if not ops:
        raise UsageError("no change is given; use --add KEY=VALUE or --delete KEY")
    if any(value is not None for value in ops.values()):
        require_settable(entity)
    return ops


def _read_value(entity: Entity, name: str, text: str) -> float:
    key = QUOTA_KEYS.get(name)
    if key is None and nearest(name, QUOTA_KEYS, cutoff=_MISSPELT) is not None:
        raise UsageError(f"--add: {quote(name)} is not a quota key{did_you_mean(name, QUOTA_KEYS)}")
    try:
        if key is None:
            return parse_number(text)
        if set(entity.types) <= set(ENTITY_TYPES) and not key.fits(entity):
            fitting = ", ".join(keys_for(entity))
            can = f"it can have {fitting}" if fitting else "no key is"
            raise ValueError(f"{name} is not valid for {entity.address}; {can}")
        return parse_value(key, text)
    except ValueError as error:
        from quotaform.apply.alter import unknown_key_hint

        raise UsageError(f"--add: {error}{'' if key else unknown_key_hint(name)}") from error
