"""Changing one entity by hand: a request to the broker, and reading back until it holds."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping

from quotaform.admin import QuotaAdmin
from quotaform.cluster.gateway import Progress, no_progress
from quotaform.core.result import Altered
from quotaform.errors import ClusterError, PartialError, UsageError
from quotaform.model.alteration import Alteration, AlterResult, Outcome
from quotaform.model.entity import ENTITY_TYPES, IP, Entity
from quotaform.model.filter import EntityFilter
from quotaform.model.ip import ip_problem
from quotaform.model.quota_key import QUOTA_KEYS, keys_for
from quotaform.model.quotas import Values, same_value
from quotaform.model.text import inert, quote
from quotaform.model.units import parse_number, parse_value, render_value

Ops = Mapping[str, float | None]
"""Quota key to the value to set, `None` to remove it."""

_DEADLINE = 30.0
_FIRST_PAUSE = 0.005
_LONGEST_PAUSE = 0.25


def read_ops(entity: Entity, added: Iterable[str], deleted: Iterable[str]) -> dict[str, float | None]:
    """Read what is to be set (`key=value`, in units) and removed (`key`), each list separated by commas.

    A key that this version does not know takes a plain number, and the broker decides on it.

    Raises:
        UsageError: A piece cannot be read, a key comes twice, a value is not one of its key, or the entity cannot
            carry what is set.
    """
    ops: dict[str, float | None] = {}
    for option, lists in (("--add", added), ("--delete", deleted)):
        for piece in (piece for text in lists for piece in text.split(",")):
            name, separator, text = piece.partition("=")
            if not name or bool(separator) is (option == "--delete"):
                form = (
                    "KEY=VALUE, such as producer_byte_rate=10MiB/s" if option == "--add" else "the name of a quota key"
                )
                raise UsageError(f"{option} {quote(piece)} is not {form}")
            if name in ops:
                raise UsageError(f"{quote(name)} is given twice")
            ops[name] = _read_value(entity, name, text) if option == "--add" else None
    if not ops:
        raise UsageError("nothing to do: give --add KEY=VALUE or --delete KEY")
    if any(value is not None for value in ops.values()):
        _require_settable(entity)
    return ops


def _read_value(entity: Entity, name: str, text: str) -> float:
    key = QUOTA_KEYS.get(name)
    try:
        if key is None:
            return parse_number(text)
        if set(entity.types) <= set(ENTITY_TYPES) and not key.fits(entity):
            fitting = keys_for(entity)
            raise ValueError(
                f"{entity.address} cannot have {name}{f', but {_listed(fitting)}' if fitting else ' or any other key'}"
            )
        return parse_value(key, text)
    except ValueError as error:
        raise UsageError(f"--add: {error}{'' if key else _unknown(name)}") from error


def _listed(names: Iterable[str]) -> str:
    return ", ".join(names)


def _unknown(name: str) -> str:
    from quotaform.model.text import did_you_mean

    return f"; {quote(name)} is not known to this version{did_you_mean(name, QUOTA_KEYS)}"


def _require_settable(entity: Entity) -> None:
    for entity_type, name in entity.parts:
        if name == "":
            raise UsageError(f"the name of {entity_type} is empty; for the default write --default {entity_type}")
        if entity_type == IP and name is not None and (problem := ip_problem(name)):
            raise UsageError(f"--name ip={inert(name)}: {problem}")


def alter_entity(
    admin: QuotaAdmin, entity: Entity, ops: Ops, *, validate_only: bool = False, progress: Progress = no_progress
) -> Altered:
    """Change one entity and read it until it holds what was asked for.

    Args:
        admin: The cluster.
        entity: Whose quotas change.
        ops: What to set and remove; removing what is not there is fine.
        validate_only: Let the broker check, and say what would be.
        progress: Told what is being done.

    Raises:
        ClusterError: The broker refused, in its words, or could not be asked; nothing was changed.
        PartialError: It is not known whether it was changed, or the change does not show.
        UsageError: The entity cannot be sent.
    """
    try:
        before = _read(admin, entity)
        _require_held(entity, ops, before)
        progress("Checking with the broker" if validate_only else "Applying", 0, 0)
        result = admin.alter([Alteration(entity, ops)], validate_only=validate_only)
    except ValueError as error:
        raise UsageError(str(error)) from error
    is_certain = not _is_unknown(result)
    if is_certain or validate_only:
        _raise_refusal(result, ops)
    if validate_only:
        after = {key: value for key, value in {**before, **ops}.items() if value is not None}
        return Altered(entity=entity, ops=ops, before=before, after=after, is_validation=True)
    progress("Reading back", 0, 0)
    live = _read_back(admin, entity, ops, result)
    return Altered(entity=entity, ops=ops, before=before, after=live, is_late=not is_certain)


def _require_held(entity: Entity, ops: Ops, before: Values) -> None:
    """Refuse to remove what nobody knows and the entity does not hold: most likely a typo."""
    for name, value in ops.items():
        if value is None and name not in QUOTA_KEYS and name not in before:
            raise UsageError(f"--delete: {entity.address} does not hold {quote(name)}{_unknown(name)}")


def _read(admin: QuotaAdmin, entity: Entity) -> Values:
    return admin.describe(EntityFilter.contains_only(entity.names)).get(entity, {})


def _is_unknown(result: AlterResult) -> bool:
    return any(row.outcome is Outcome.UNKNOWN for row in result)


def _raise_refusal(result: AlterResult, ops: Ops) -> None:
    try:
        result.raise_for_errors()
    except ClusterError as error:
        hints = [_unknown(name) for name, value in ops.items() if value is not None and name not in QUOTA_KEYS]
        raise type(error)(f"{error}; nothing was changed{''.join(hints)}") from error


def _read_back(admin: QuotaAdmin, entity: Entity, ops: Ops, result: AlterResult) -> Values:
    """Return what the entity holds once it shows every change: an acknowledged change may take a moment to show."""
    deadline = time.monotonic() + _DEADLINE
    pause = _FIRST_PAUSE
    while True:
        seen: Values | None = None
        trouble = ""
        try:
            seen = _read(admin, entity)
        except ClusterError as error:
            trouble = str(error)
        if seen is not None and all(same_value(seen.get(key), value) for key, value in ops.items()):
            return seen
        if time.monotonic() > deadline:
            raise PartialError(_not_visible(entity, ops, result, seen, trouble), [entity])
        time.sleep(pause)
        pause = min(_LONGEST_PAUSE, 2 * pause)


def _not_visible(entity: Entity, ops: Ops, result: AlterResult, seen: Values | None, trouble: str) -> str:
    if _is_unknown(result):
        said = f"it is not known whether {entity.address} was changed ({inert(result.rows[0].message)})"
    else:
        said = f"the broker accepted the change of {entity.address}"
    if seen is None:
        found = f"it could not be read back: {trouble}"
    else:
        different = next(key for key, value in ops.items() if not same_value(seen.get(key), value))
        value = seen.get(different)
        shown = "no value" if value is None else render_value(QUOTA_KEYS.get(different), value)
        found = f"after {_DEADLINE:.0f} s the cluster still shows {shown} for {quote(different)}"
    return f"{said}, and {found}; the change may show later, or somebody else changed it too: describe it again"
