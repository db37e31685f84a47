"""What limits those whose value is removed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from quotaform.core.effects import Effect, make_effects
from quotaform.core.usage.sizing.recommendation import Action, Recommendation
from quotaform.model.quota_key import QUOTA_KEYS
from quotaform.model.quotas import Quotas
from quotaform.model.units import render_value


def with_fallbacks(found: Sequence[Recommendation], quotas: Quotas) -> Iterator[Recommendation]:
    """Yield what is proposed for a cluster, where a removal says what applies instead.

    Args:
        found: What is proposed.
        quotas: What the cluster holds.
    """
    planned = {each.entity: dict(quotas.get(each.entity, {})) for each in found if each.before != each.after}
    for each in found:
        if each.before == each.after:
            continue
        if each.after is None:
            del planned[each.entity][each.key]
        else:
            planned[each.entity][each.key] = each.after
    removed = [each for each in found if each.action is Action.DELETE]
    effects = make_effects(quotas, planned, [(each.entity, [each.key]) for each in removed])
    yield from (each for each in found if each.action is not Action.DELETE)
    for each, (effect,) in zip(removed, effects, strict=True):
        yield replace(each, note="; ".join(filter(None, (_fallback(each.key, effect), each.note))))


def _fallback(key: str, effect: Effect) -> str:
    value, source = effect.after.value, effect.after.source
    if value is None or source is None:
        return "then nothing limits it: plan requires --allow to-unlimited"
    return f"then {render_value(QUOTA_KEYS[key], value)} of {source.address} applies"
