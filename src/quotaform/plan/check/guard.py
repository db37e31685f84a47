"""What a check of a plan may need to know apart from the plan, and guards, which block a plan that is meant to be
applied. To add a guard:

1. write its row in `quotaform.model.rule`, as `_allowable` if `--allow` lifts it, else `_blocking`;
2. write its function here, and list it in `_CHANGE_GUARDS` if it follows from the changes and the limits alone, so
   that it is found again when a plan file is read, else in `GUARDS`; its cases are in `tests/golden/rules-guard.txt`;
3. a limit of its own is a field of `GuardLimits` (`quotaform.model.settings`, with what is looser), of the schema and
   the reader of quotaform.yaml, and of `GuardsRecord`, in which a plan file keeps it.

Messages, the plan file, the exit code and `docs/rules.md` (`make docs`), which lists all of them, follow from these.

Effective is what `quotaform.resolve.effect` says of the clients that an entity is for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import date
from fractions import Fraction
from functools import lru_cache
from itertools import chain
from math import inf, isfinite
from posixpath import normpath
from typing import TYPE_CHECKING, Final, TypeAlias

from msgspec import Struct, field

from quotaform.model import rule
from quotaform.model.entity import Entity
from quotaform.model.finding import APPROVALS_NAME, DELETE, Approval, Finding, Location
from quotaform.model.quota_key import QUOTA_KEYS
from quotaform.model.quotas import Action, Cause, DeclaredBase, Desired, Quotas
from quotaform.model.rule import MAX_PROBLEMS
from quotaform.model.scope import ALL, Scope, Selection, is_glob
from quotaform.model.settings import GuardLimits
from quotaform.model.text import inert
from quotaform.model.units import UNLIMITED, is_unlimited, plain_fraction, render_value
from quotaform.plan.blast_radius import ChangedLimits, changed_values
from quotaform.plan.difference import Pruning
from quotaform.plan.plan import Plan
from quotaform.report.text import counted
from quotaform.resolve.effect import Direction, Effect, limit_text
from quotaform.resolve.index import representative

if TYPE_CHECKING:
    from quotaform.desired.config import Cluster, Config
    from quotaform.desired.policy.reader import Policy
    from quotaform.plan.receipt import Revert


class Safeguards(Struct, frozen=True):
    """What in a repository protects one cluster."""

    config: Config
    cluster: Cluster | None = None  # `None` is one that quotaform.yaml does not have
    # The digest of the content of each policy file, by its path relative to quotaform.yaml.
    policy_digests: Mapping[str, str] = {}

    @property
    def pinned_id(self) -> str | None:
        """The id that the cluster must have."""
        return self.cluster.cluster_id if self.cluster else None

    def looser_than(self, base: Safeguards) -> Iterator[str]:
        """Yield in what way quotaform.yaml protects less than at the base.

        >>> from quotaform.desired.config import Config, PruneMode
        >>> list(Safeguards(Config(prune=PruneMode.REMOVED)).looser_than(Safeguards(Config())))
        ['prune is removed instead of report']
        """
        here, there = self.config, base.config
        yield from here.guard_limits.looser_than(there.guard_limits)
        policies, roots = {path.text for path in here.policies}, {normpath(path.text) for path in here.roots}
        yield from (f"policies has no {inert(path.text)}" for path in there.policies if path.text not in policies)
        for path in there.roots:
            if normpath(path.text) not in roots:
                yield f"roots has no {inert(path.text)} (what it declares counts as undeclared here)"
        if base.pinned_id and self.pinned_id != base.pinned_id:
            yield (
                f"cluster_id is {inert(self.pinned_id)} instead of {inert(base.pinned_id)}"
                if self.pinned_id
                else "the cluster has no cluster_id"
            )
        confirms, confirmed = (each.cluster is not None and each.cluster.confirm == "name" for each in (self, base))
        if confirmed and not confirms:
            yield "the cluster has no confirm: name"
        if here.prune.deletes_more_than(there.prune):
            yield f"prune is {here.prune} instead of {there.prune}"
        yield from here.scope.wider_than(there.scope)

    def policy_losses(self, base: Safeguards) -> Iterator[str]:
        """Yield what became of each policy file of the base whose content is in no policy file any more.

        Whether the content of now asks for less cannot be decided.
        """
        kept = set(self.policy_digests.values())
        for path, content in base.policy_digests.items():
            if content not in kept:
                yield f"policy {inert(path)} {'changed' if path in self.policy_digests else 'was removed'}"


class ClusterBase(Struct, frozen=True, kw_only=True):
    """What came of reading the base for one cluster."""

    declared: DeclaredBase | None = None  # What the base declares; `None` when that is not known
    findings: tuple[Finding, ...] = ()  # Why that is so, and other findings about the base
    cluster_id: str | None = None  # The id of the cluster that the base is of, if it is a receipt
    # What protects the cluster at the base; `None` without a base, or when that is not known.
    safeguards: Safeguards | None = None
    safeguards_problem: str | None = None  # Why that is not known, although there is a base
    approvals: frozenset[Approval] | None = None


class Removal(Struct, frozen=True):
    """Where an entity was removed from the files."""

    file: str  # The file that declared it, as messages name it
    commit: str | None = None  # The commit that removed it; `None` when that is not committed
    file_exists: bool = True
    is_applied: bool = False  # Whether the files of the last apply did not declare it any more


class RemovalSearch(Struct, frozen=True):
    """What a search of earlier files found."""

    # Entities that the files declared before and do not declare any more.
    removals: Mapping[Entity, Removal] = field(default_factory=dict)
    not_searched: tuple[str, ...] = ()  # What was left out of the search although it may declare others, and why


class Facts(Struct, frozen=True, kw_only=True):
    """The facts around a plan."""

    desired: Desired
    actual: Quotas
    safeguards: Safeguards
    selection: Selection = ALL
    removed: RemovalSearch = field(default_factory=RemovalSearch)
    approvals: Mapping[Approval, Location | None] = field(default_factory=dict)  # With their places in the file
    today: date = date.max
    missing: str | None = None  # Why there are no files, if there are none
    source_problem: str | None = None  # Why the commit of the files is not known, although there is one
    policies: tuple[Policy, ...] = ()
    base: ClusterBase = field(default_factory=ClusterBase)  # What the files are compared with, or why nothing is
    pruning: Pruning = field(default_factory=Pruning)  # What is deleted that no file declares
    revert: Revert | None = None  # What is put back, if the plan is a revert
    has_lints: bool = True


_LEAST_LOST: Final = 5  # Fewer lost entities than this never block
_MOST_LOOSER: Final = 20

Check: TypeAlias = Callable[[Plan, Facts], Iterable[Finding]]


def check_same_cluster(plan: Plan, facts: Facts) -> Iterator[Finding]:
    """Warn of a plan for a cluster whose id quotaform.yaml pins for another name."""
    config, name = facts.safeguards.config, plan.header.cluster.name
    pins = config.pins.get(plan.header.cluster.id, ()) if name in config.clusters else ()
    other = next((each for each in reversed(pins) if each != name), None)
    if other is not None and plan.header.snapshot is None:
        yield rule.SAME_CLUSTER.finding(_names(plan, other))


def check_empty(plan: Plan, facts: Facts) -> Iterator[Finding]:
    """Block a plan of files that declare nothing at all: an emptied directory must not look like a decision."""
    if not facts.desired and facts.revert is None:
        name = inert(plan.header.cluster.name)
        yield rule.EMPTY.finding(facts.missing or f"the files declare no entries for cluster {name}")


def check_shrink(plan: Plan, facts: Facts) -> Iterator[Finding]:
    """Block a plan of files that declare far fewer entities than the base; what they say must go is not missing."""
    base = facts.base.declared
    if base is None or facts.revert is not None:
        return
    before = {entity for entity, entry in base.desired.items() if entry.cause is Cause.ENTRY} | base.unvalued
    lost = sum(entity not in facts.desired for entity in before)
    new = sum(entry.cause is Cause.ENTRY and entity not in before for entity, entry in facts.desired.items())
    fewer = lost - new
    if fewer >= _LEAST_LOST and fewer * 2 > len(before):
        after = len(before) - fewer
        yield rule.SHRINK.finding(
            f"the files declare {counted(after, 'entity')}, the base {inert(base.base.ref)} "
            f"{len(before):,} (limit: less than half, and {_LEAST_LOST} fewer)"
        )


def check_loosened(plan: Plan, facts: Facts) -> Iterator[Finding]:
    """Block a plan of files that loosen the guards against the base: no change may switch off its own guards."""
    base, problem = facts.base.safeguards, facts.base.safeguards_problem
    if base is None:
        if problem is not None:
            yield rule.GUARDS_LOOSENED.finding(
                f"the guards of the base are not known, so quotaform.yaml may loosen them: {problem}"
            )
        return
    for what, looser in (
        ("quotaform.yaml loosens the guards of the base", list(facts.safeguards.looser_than(base))),
        ("this may loosen the policies of the base", list(facts.safeguards.policy_losses(base))),
    ):
        if looser:
            more = [f"and {len(looser) - _MOST_LOOSER:,} more"] if len(looser) > _MOST_LOOSER else []
            yield rule.GUARDS_LOOSENED.finding(f"{what}: {'; '.join(looser[:_MOST_LOOSER] + more)}")


def check_protected(plan: Plan, facts: Facts) -> Iterator[Finding]:
    """Block a plan by which an effective limit of a protected entity becomes half or less, whichever entry does it.

    The entities are those that the cluster holds or the files declare, and those that `protect` names without a glob.
    What the plan changes of an entity itself is found by `check_protected_changes`.
    """
    limits = facts.safeguards.config.guard_limits
    if not limits.protect or not plan.changes:
        return
    own = {(row.entity, row.key) for change in plan.changes for row in change.changes}
    gone = {change.entity for change in plan.changes if change.action is Action.DELETE}
    known = dict.fromkeys(chain(facts.actual, facts.desired))
    protected = list(filter(Scope(include=limits.protect).contains, known))
    for pattern in limits.protect:
        if all(glob is not None and not is_glob(glob) for _, glob in pattern.parts):
            entity = Entity(dict(pattern.parts))
            if entity not in known:
                protected.append(entity)
    changed = ChangedLimits(facts.actual, changed_values(plan.changes))
    for entity in protected:
        request = representative(entity)
        if request is None or entity in gone:
            continue
        for limit in changed.of(entity, request):
            effect = Effect(limit.before, limit.after)
            if (entity, limit.key) not in own and is_halved(limit.key, effect):
                source = effect.after.source
                yield _halved(entity, limit.key, effect, f" by {source.address}" if source is not None else "")


def check_counts(plan: Plan, limits: GuardLimits) -> Iterator[Finding]:
    """Block too many deletions and updates."""
    deleted, updated = plan.count(Action.DELETE), plan.count(Action.UPDATE)
    managed = plan.managed if deleted or updated else 0
    of_managed = f"of {counted(managed, 'managed entity')}"
    if deleted and (limits.delete.is_over(deleted, managed) or deleted >= managed):
        text = f"{deleted:,} {of_managed} would be deleted (limit {limits.delete}, or all)"
        yield rule.DELETE.finding(text, number=deleted)
    if updated and limits.update.is_over(updated, managed):
        yield rule.UPDATE.finding(f"{updated:,} {of_managed} would be updated (limit {limits.update})", number=updated)


def check_new_values(plan: Plan, limits: GuardLimits) -> Iterator[Finding]:
    """Warn of each value that comes in where another entry applied, and is far from what that says.

    Small and large clients are declared against a default every day, so that it blocks nothing.
    """
    number = 0
    for change in plan.changes:
        for row, effect in zip(change.changes, change.effects, strict=True):
            now, then = effect.before.value, effect.after.value
            if now is None or then is None or row.before is not None or change.cause is not Cause.ENTRY:
                continue
            known = QUOTA_KEYS.get(row.key)
            if is_unlimited(known, now) or effect.after.source != change.entity or min(now, then) <= 0:
                continue
            if not is_leap(row.key, now, then, limits.change_factor):
                continue
            number += 1
            if number <= MAX_PROBLEMS:
                times = f"{_times(now, then)} times" if then > now else f"1/{_times(now, then)} of"
                text = (
                    f"{row.key} would be {shown_limit(row.key, then)}, {times} the "
                    f"{limit_text(row.key, effect.before, change.entity)} that applies now; check the unit"
                )
                yield rule.NEW_VALUE_FACTOR.finding(text, address=change.entity.address, key=row.key, value=then)
    if (more := number - MAX_PROBLEMS) > 0:
        yield rule.MORE_WARNINGS.finding(f"and {counted(more, 'more value')} of {rule.NEW_VALUE_FACTOR.id}")


def check_defaults(plan: Plan, limits: GuardLimits) -> Iterator[Finding]:
    """Block any change of an entity of which every part is a default."""
    done = {Action.CREATE: "created", Action.UPDATE: "changed", Action.DELETE: "deleted"}
    for change in plan.changes:
        if all(name is None for _, name in change.entity.parts):
            text = f"this default applies to all that have no entry of their own, and would be {done[change.action]}"
            yield rule.DEFAULT_ENTITY.finding(text, address=change.entity.address)


def check_protected_changes(plan: Plan, limits: GuardLimits) -> Iterator[Finding]:
    """Block the deletion of a protected entity, and that the plan makes a limit of it half or less."""
    protected = Scope(include=limits.protect)
    for change in plan.changes if limits.protect else ():
        if not protected.contains(change.entity):
            continue
        if change.action is Action.DELETE:
            yield rule.PROTECT.finding(
                "this entity is protected, and would be deleted",
                address=change.entity.address,
                override=f"an approval with action: {DELETE} in {APPROVALS_NAME}",
            )
            continue
        for row, effect in zip(change.changes, change.effects, strict=True):
            if is_halved(row.key, effect):
                yield _halved(change.entity, row.key, effect)


def _halved(entity: Entity, key: str, effect: Effect, by: str = "") -> Finding:
    was, will_be = shown_limit(key, effect.before.value), shown_limit(key, effect.after.value)
    fall = f"the effective {key} would fall from {was} to {will_be}{by} (limit: more than half)"
    text = f"this entity is protected, and {fall}"
    return rule.PROTECT.finding(text, address=entity.address, key=key, value=effect.after.value)


def check_values(plan: Plan, limits: GuardLimits) -> Iterator[Finding]:
    """Block a value that leaps, and a limit that becomes unlimited."""
    for change in plan.changes:
        for row, effect in zip(change.changes, change.effects, strict=True):
            if row.before is None and effect.before.value is None:  # A first limit is neither.
                continue
            key = row.key
            what, fallback, before, after = key, "", row.before, row.after
            if after is None:  # What a removed value leaves to the clients is the next entry that they meet.
                what, before, after = f"the effective {key}", effect.before.value, effect.after.value
                fallback = "" if effect.after.source is None else f" by {effect.after.source.address}"
            if before is not None and after is not None and is_leap(key, before, after, limits.change_factor):
                is_limit = isfinite(before) and not is_unlimited(QUOTA_KEYS.get(key), before)
                factor = f", by a factor of {_times(before, after)}" if is_limit and min(before, after) > 0 else ""
                text = (
                    f"{what} would change from {shown_limit(key, before)} to {shown_limit(key, after)}{fallback}"
                    f"{factor} (limit: less than a factor of {limits.change_factor:,})"
                )
                yield rule.CHANGE_FACTOR.finding(text, address=change.entity.address, key=key, value=after)
            if effect.becomes_unlimited(key):
                text = f"{key} would become {UNLIMITED}; the limit is {limit_text(key, effect.before, change.entity)}"
                most = QUOTA_KEYS[key].maximum if key in QUOTA_KEYS else None
                yield rule.TO_UNLIMITED.finding(text, address=change.entity.address, key=key, value=most)


_TIGHTENING: Final = 2  # What is left of a limit of a protected entity must be more than one part in so many
_WHOLE_FACTOR: Final = 100  # From which factor on its decimals are left out
_ROUNDING: Final = 1e-12  # By how much the product of a value and a factor may be off


@lru_cache(maxsize=4096)
def is_leap(key: str, before: float, after: float, factor: int) -> bool:
    """Whether a value changes by a factor or more, either way.

    | before | after | |
    | --- | --- | --- |
    | any | unlimited | no: when that is the effective limit, it is `to-unlimited` |
    | unlimited | a limit | yes |
    | 0 or less | a limit | yes |
    | NaN | a limit | no: it has no size |

    >>> is_leap("producer_byte_rate", 1e6, 1e7, 10), is_leap("producer_byte_rate", 1e7, 1000001.0, 10)
    (True, False)
    """
    known = QUOTA_KEYS.get(key)
    if is_unlimited(known, after) or before != before:
        return False
    if is_unlimited(known, before) or before <= 0:
        return True
    low, high = sorted((before, after))
    return high >= low * factor * (1 - _ROUNDING)


def is_halved(key: str, effect: Effect) -> bool:
    """Whether an effective limit becomes half or less."""
    before, after = effect.before.value, effect.after.value
    if effect.direction(key) is not Direction.TIGHTEN or after is None:
        return False
    return is_unlimited(QUOTA_KEYS.get(key), before) or after * _TIGHTENING <= (inf if before is None else before)


def shown_limit(key: str, value: float | None) -> str:
    """Return a limit as messages show it; `None` is unlimited."""
    return UNLIMITED if value is None else render_value(QUOTA_KEYS.get(key), value)


def _times(before: float, after: float) -> str:
    """Return how many times the smaller one of two values the larger one is, as `1,024` and `12.5`."""
    low, high = sorted((before, after))
    factor = Fraction(high) / Fraction(low)
    return f"{round(factor):,}" if factor >= _WHOLE_FACTOR else plain_fraction(round(factor, 1))


_CHANGE_GUARDS: Final[tuple[Callable[[Plan, GuardLimits], Iterable[Finding]], ...]] = (
    check_counts,
    check_new_values,
    check_defaults,
    check_protected_changes,
    check_values,
)


def check_changes(plan: Plan, limits: GuardLimits) -> Iterator[Finding]:
    """Block what a plan changes too much, as far as that follows from the plan itself."""
    return chain.from_iterable(check(plan, limits) for check in _CHANGE_GUARDS)


GUARDS: Final[tuple[Check, ...]] = (
    check_same_cluster,
    check_empty,
    check_shrink,
    check_loosened,
    lambda plan, facts: check_changes(plan, facts.safeguards.config.guard_limits),
    check_protected,
)
"""All guards."""


def check_second_plan(first: Plan, second: Plan) -> Finding:
    """Return what is wrong with the second of two plans that are for the same live cluster."""
    names = _names(second, first.header.cluster.name)
    entity = _conflict(first, second) or _conflict(second, first)
    if entity is None:
        return rule.SAME_CLUSTER.finding(names)
    return rule.SAME_CLUSTER_CONFLICT.finding(
        f"{names}; their files disagree about {entity.address}, so that each plan would undo the other"
    )


def _conflict(one: Plan, other: Plan) -> Entity | None:
    """Return an entity that one plan changes to something else than what the other plan leaves or makes of it."""
    made = {change.entity: change.after for change in other.changes}
    declared = other.declared or frozenset()
    for change in one.changes:
        entity = change.entity
        if made[entity] != change.after if entity in made else entity in declared:
            return entity
    return None


def _names(plan: Plan, other: str) -> str:
    name = inert(plan.header.cluster.name)
    return f"{name} and {inert(other)} are the same live cluster (id {inert(plan.header.cluster.id)})"
