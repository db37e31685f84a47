"""What a change does to those an entity match is for: effective limits before and after, and their direction."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from math import inf

from quotaform.core.resolve.index import (
    NOTHING,
    UNMENTIONED,
    Effective,
    QuotaIndex,
    Request,
    effective,
    representative,
)
from quotaform.model.entity import CLIENT_ID, IP, USER, Entity
from quotaform.model.precedence import CLIENT_LEVELS, IP_LEVELS
from quotaform.model.quota_key import QUOTA_KEYS
from quotaform.model.quotas import Quotas, same_value
from quotaform.model.units import is_unlimited


class Direction(StrEnum):
    """Whether an effective limit rises or falls; unlimited is the largest."""

    LOOSEN = "loosen"
    TIGHTEN = "tighten"
    MIXED = "mixed"
    NONE = "none"


@dataclass(frozen=True, slots=True)
class Effect:
    """The effective limit of one quota key before and after a plan.

    Attributes:
        before: What limits the representative request now.
        after: What will.
        differs: Entity type to the number of names under the match that will resolve to another value.
    """

    before: Effective
    after: Effective
    differs: Mapping[str, int] = field(default_factory=dict)

    def direction(self, key: str) -> Direction:
        """Whether the effective limit loosens or tightens; NONE when it stays, or cannot be compared (NaN)."""
        before, after = _size(key, self.before.value), _size(key, self.after.value)
        if after > before:
            return Direction.LOOSEN
        return Direction.TIGHTEN if after < before else Direction.NONE

    def becomes_unlimited(self, key: str) -> bool:
        """Whether something limited the request and nothing will."""
        known = QUOTA_KEYS.get(key)
        return not is_unlimited(known, self.before.value) and is_unlimited(known, self.after.value)

    def shadowed_by(self, entity: Entity, after: float | None) -> Entity | None:
        """The entity match that wins over `entity` on both sides, so that changing it has no effect here."""
        winner = self.before.source if after is None else self.after.source
        return winner if winner is not None and winner != entity else None


NO_EFFECT = Effect(NOTHING, NOTHING)


def _size(key: str, value: float | None) -> float:
    """Return a value so that larger is looser; NaN stays NaN, which is neither."""
    if value is None:
        return inf
    known = QUOTA_KEYS.get(key)
    return inf if known is not None and value >= known.maximum else value


class Effects:
    """Answers effects for changes between two states of the same cluster.

    Args:
        actual: All quotas as they are.
        planned: The quotas that will be other ones, as they will be; empty for an entity that will be gone.
    """

    def __init__(self, actual: Quotas, planned: Quotas) -> None:
        self._before = QuotaIndex(actual)
        self._after = self._before.altered(planned)
        self._spreads: dict[str, _Spread] = {}

    def of(self, entity: Entity, keys: tuple[str, ...]) -> tuple[Effect, ...]:
        """The effects on those `entity` is for, one per key."""
        request = representative(entity)
        if request is None:
            return (NO_EFFECT,) * len(keys)
        before, after = self._before.ladder(request), self._after.ladder(request)
        effects = []
        for key in keys:
            then = effective(after, key)
            effects.append(Effect(effective(before, key), then, self._spread(key).differs(request, then)))
        return tuple(effects)

    def _spread(self, key: str) -> _Spread:
        spread = self._spreads.get(key)
        if spread is None:
            spread = self._spreads[key] = _Spread(self._after, key)
        return spread


_PAIR, _USER_ANY_CLIENT, _USER, _ANY_USER_CLIENT, _, _, _CLIENT, _ = CLIENT_LEVELS


class _Spread:
    """How many named users, client-ids and addresses resolve one key to which value.

    Counted once per key, so that a count under any entity match takes one look and not a walk over all names.
    """

    def __init__(self, index: QuotaIndex, key: str) -> None:
        self.users: dict[str, float | None] = {
            user: rung.values[key]
            for level in (_USER, _USER_ANY_CLIENT)
            for user, rung in index.rungs(level).items()
            if key in rung.values
        }
        clients = {
            client: None
            for level in (_ANY_USER_CLIENT, _CLIENT)
            for client, rung in index.rungs(level).items()
            if key in rung.values
        }
        self.clients: dict[str, float | None] = {
            client: effective(index.client_ladder(UNMENTIONED, client), key).value for client in clients
        }
        self.pairs_of_user: dict[str, list[tuple[str, float | None]]] = defaultdict(list)
        self.pairs_of_client: dict[str, list[tuple[str, float | None]]] = defaultdict(list)
        for (user, client), rung in index.rungs(_PAIR).items():
            if key in rung.values:
                self.pairs_of_user[user].append((client, rung.values[key]))
                self.pairs_of_client[client].append((user, rung.values[key]))
        self.ips: Counter[float | None] = Counter(
            rung.values[key] for rung in index.rungs(IP_LEVELS[0]).values() if key in rung.values
        )
        self.user_values = Counter(self.users.values())
        self.client_values = Counter(self.clients.values())

    def differs(self, request: Request, then: Effective) -> dict[str, int]:
        """The number of names under a representative request that resolve to another value, per entity type."""
        counts: dict[str, int] = {}
        if len(request) == 1:
            counts[IP] = 0 if isinstance(request[0], str) else _others(self.ips, then.value)
        else:
            user, client = request
            if not isinstance(client, str):
                named_user = isinstance(user, str)
                own = named_user and then.level is not None and then.level.number <= _USER.number
                counts[CLIENT_ID] = _overlaid(
                    {} if own else self.clients,
                    Counter() if own else self.client_values,
                    self.pairs_of_user.get(user, []) if isinstance(user, str) else [],
                    then.value,
                )
            if not isinstance(user, str):
                pairs = self.pairs_of_client.get(client, []) if isinstance(client, str) else []
                counts[USER] = _overlaid(self.users, self.user_values, pairs, then.value)
        return {entity_type: count for entity_type, count in counts.items() if count}


def _others(values: Counter[float | None], value: float | None) -> int:
    if value == value:
        return values.total() - values[value]
    return sum(count for other, count in values.items() if not same_value(other, value))


def _overlaid(
    names: Mapping[str, float | None],
    values: Counter[float | None],
    pairs: list[tuple[str, float | None]],
    value: float | None,
) -> int:
    """Count the names whose value is not `value`, where a pair's own value replaces that of its name."""
    count = _others(values, value)
    for name, own in pairs:
        count += not same_value(own, value)
        count -= name in names and not same_value(names[name], value)
    return count
