"""Changing one entity by hand: a request to the broker, and reading back until it holds."""

from __future__ import annotations

from quotaform.apply.freshness import describe_difference
from quotaform.cluster.broker import with_alter_remedy
from quotaform.cluster.gateway import SETTLE_SECONDS
from quotaform.model.alteration import Alteration, Altered, Ops, Outcome, apply_ops
from quotaform.model.entity import Entity
from quotaform.model.errors import ArgumentError, AuthorizationError, ClusterError, PartialError, UsageError
from quotaform.model.filter import EntityFilter
from quotaform.model.outcome import Progress, no_progress
from quotaform.model.quota_key import QUOTA_KEYS
from quotaform.model.quotas import Values, same_values
from quotaform.model.text import did_you_mean, inert, quote
from quotaform.resolve.quota_admin import QuotaAdmin
from quotaform.system.clock import SYSTEM_CLOCK, Clock

_DEADLINE = 30.0
_FIRST_PAUSE = 0.005
_LONGEST_PAUSE = 0.25


def alter_entity(
    admin: QuotaAdmin,
    entity: Entity,
    ops: Ops,
    *,
    validate_only: bool = False,
    progress: Progress = no_progress,
    clock: Clock = SYSTEM_CLOCK,
) -> Altered:
    """Change one entity and read it until it holds what was asked for.

    `ops`: what to set and remove; removing what is not there is fine. `validate_only`: let the broker check, and say
    what would be.

    Raises `ClusterError` if the broker refused, in its words, or could not be asked; nothing was changed;
    `PartialError` if it is not known whether it was changed, or the change does not show; `UsageError` if the entity
    cannot be sent; also if a key is to be removed that is unknown and the entity does not hold.
    """
    try:
        try:
            before = _read(admin, entity)
        except AuthorizationError as error:
            raise with_alter_remedy(error) from None
        # To remove an unknown key that the entity does not hold is most likely a typo.
        for name, value in ops.items():
            if value is None and name not in before and (hint := unknown_key_hint(name)):
                raise ArgumentError("{delete}: {} does not have {}{}", entity.address, quote(name), hint)
        progress("Validating on the broker" if validate_only else "Applying", 0, 0)
        result = admin.alter([Alteration(entity, ops)], validate_only=validate_only)
    except ValueError as error:
        raise UsageError(str(error)) from error
    is_certain = not any(row.outcome is Outcome.UNKNOWN for row in result)
    if is_certain or validate_only:
        try:
            result.raise_for_errors()
        except ClusterError as error:
            hints = [unknown_key_hint(name) for name, value in ops.items() if value is not None]
            raise error.with_more(f"; nothing was changed{''.join(hints)}") from error
    if validate_only:
        return Altered(entity=entity, ops=ops, before=before, after=apply_ops(before, ops), is_validation=True)
    progress("Reading back", 0, 0)
    status = f"the broker accepted the change of {entity.address}"
    if not is_certain:
        status = f"it is not known whether {entity.address} was changed ({inert(result.rows[0].message)})"
    live = _read_back(admin, entity, before, ops, status, clock)
    return Altered(entity=entity, ops=ops, before=before, after=live, is_late=not is_certain)


def unknown_key_hint(name: str) -> str:
    """Return what to add to a message about a quota key if this version does not know it."""
    return "" if name in QUOTA_KEYS else f"; {quote(name)} is not known to this version{did_you_mean(name, QUOTA_KEYS)}"


def _read(admin: QuotaAdmin, entity: Entity) -> Values:
    return admin.describe(EntityFilter.contains_only(entity.names)).get(entity, {})


def _read_back(admin: QuotaAdmin, entity: Entity, before: Values, ops: Ops, status: str, clock: Clock) -> Values:
    """Return what the entity holds once it shows the change: an acknowledged one may take a moment to show.

    As in an apply, what holds neither what was there before nor what was asked for is waited for only for a few
    seconds: somebody else changed it.
    """
    was = {key: before[key] for key in ops if key in before}
    wanted = apply_ops(was, ops)
    now = clock.monotonic()
    deadline, settled_at = now + _DEADLINE, now + SETTLE_SECONDS
    pause = _FIRST_PAUSE
    while True:
        is_other = False
        try:
            seen = _read(admin, entity)
        except ClusterError as error:
            found = f"it could not be read back: {error}; describe it again"
        else:
            held = {key: seen[key] for key in ops if key in seen}
            if same_values(held, wanted):
                return seen
            is_other = not same_values(held, was)
            difference = describe_difference(wanted, held)
            found = (
                f"after {_DEADLINE:.0f} s the change is not visible: {difference}; it may become visible later, or "
                "somebody else reverted it: run quotaform describe"
            )
            if is_other:
                found = f"somebody else has changed it since: {difference}"
        if clock.monotonic() > (settled_at if is_other else deadline):
            raise PartialError(f"{status}, and {found}", [entity])
        clock.sleep(pause)
        pause = min(_LONGEST_PAUSE, 2 * pause)
