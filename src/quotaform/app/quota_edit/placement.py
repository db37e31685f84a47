"""Which entry of which file a proposal changes.

| the value is in | clusters of quotaform.yaml | changed |
| --- | --- | --- |
| an entry of the cluster's layer | any | that entry |
| a common entry | one, or none | that entry; if it cannot be changed alone, an entry in the cluster's layer |
| a common entry | several | an entry in the cluster's layer |
| a profile | any | `values` beside it, in the entry that is changed |
| no file | any | a new entry with all values of the entity, in the cluster's layer if there are several clusters |

An entry cannot be changed alone if it is of several entities, or if anchors, aliases or merge keys make it a part of
others. What is removed of the last value is `state: absent`, which `plan` deletes whatever `prune` says.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Final

from quotaform.core.check.writable import writable_values
from quotaform.core.usage.sizing.recommendation import Action, Recommendation, entry_reason
from quotaform.core.usage.sizing.rounding import spell_rounded
from quotaform.desired.config import Config
from quotaform.desired.edit.entry_edit import EntryEdit
from quotaform.desired.edit.mapping_text import UneditableError
from quotaform.desired.loader import LoadedFiles
from quotaform.model.entity import Entity
from quotaform.model.entry import Desired, Entry
from quotaform.model.location import Position
from quotaform.model.quota_key import QUOTA_KEYS
from quotaform.model.quotas import Values, same_value
from quotaform.model.text import quote
from quotaform.model.units import is_decimal, is_writable, render_value

NEW_FILE: Final = "recommended.yaml"
"""The file of new entries, in the quotas directory or in the folder of a cluster."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Placed:
    """A change of an entry, or a new one.

    Attributes:
        file: The file in messages of the entry; `None` for a new entry.
        position: Where the entry begins.
        layer: Of a new entry, the cluster whose own it is; `None` for a common one.
    """

    edit: EntryEdit
    file: str | None = None
    position: Position = 0
    layer: str | None = None


class ClusterEntries:
    """The entries that count for a cluster, by layer. `desired` is what they say together."""

    def __init__(self, loaded: LoadedFiles, config: Config, cluster: str) -> None:
        """Index the entries. Raises `InvalidFilesError` if the files are invalid."""
        self.desired: Desired = loaded.desired(cluster)
        self._cluster = cluster
        self._has_layer = cluster in config.clusters
        self._profiles = config.profiles
        self._has_several = len(config.clusters) > 1
        self._by_layer: dict[str | None, dict[Entity, Entry]] = {}
        self._shared: Counter[tuple[str, Position]] = Counter()
        for file in loaded.files(cluster):
            layer = self._by_layer.setdefault(file.layer, {})
            for entry in file.entries:
                layer.setdefault(entry.entity, entry)
                self._shared[file.name, entry.position] += 1

    def refusal(self, proposal: Recommendation, proposals: Sequence[Recommendation]) -> str | None:
        """Return why a proposal cannot be followed while others of its entity can; `None` if it can be.

        `proposals` are all of its entity.
        """
        top = self._by_layer.get(self._cluster, {}).get(proposal.entity)
        gone = {each.key for each in proposals if each.action is Action.DELETE}
        left = (self.desired[proposal.entity].values.keys() if proposal.entity in self.desired else set()) - gone
        is_absent = not left and len(gone) == len(proposals)
        if proposal.action is not Action.DELETE or top is None or is_absent:
            return None
        common = self._by_layer.get(None, {}).get(proposal.entity)
        if top.profile is None or proposal.key not in self._of_profile(top):
            return None
        if common is not None and proposal.key in common.values:
            return None
        return f"it comes from the profile {quote(top.profile.name)}; write values in the place of the profile"

    def place(self, entity: Entity, proposals: Sequence[Recommendation], live: Values, day: date) -> list[Placed]:
        """Return the ways to follow the proposals for an entity, the best one first.

        Args:
            proposals: What is proposed for it, at least one.
            live: All its values on the cluster.
            day: Today (UTC).

        Raises:
            UneditableError: There is none.
        """
        entry = self.desired.get(entity)
        reason = entry_reason(None if entry is None else entry.reason, proposals, day)
        spelled = {each.key: _spelled(each) for each in proposals if each.action is not Action.DELETE}
        gone = frozenset(each.key for each in proposals if each.action is Action.DELETE)
        if entry is None:
            rest = {key: _spelled_live(key, value) for key, value in live.items() if key not in gone}
            values = {**rest, **spelled}
            if writable_values(entity, {**live, **_set(proposals)}) is None:
                raise UneditableError("files cannot hold this entity; see quotaform import")
            edit = EntryEdit(entity=entity, values=values, is_absent=not values, reason=reason)
            return [Placed(edit=edit, layer=self._cluster if self._has_several and self._has_layer else None)]
        _require_applied(entry, proposals)
        is_absent = not (entry.values.keys() - gone | spelled.keys())
        top = self._by_layer.get(self._cluster, {}).get(entity)
        common = self._by_layer.get(None, {}).get(entity)
        ways: list[Placed] = []
        problem = "it is common to several clusters"
        if (target := top or (None if self._has_several else common)) is not None:
            below = common if top is not None else None
            try:
                ways.append(self._in_place(target, below, spelled, gone, reason, is_absent=is_absent))
            except UneditableError as error:
                problem = str(error)
        if top is None and self._has_layer:
            edit = EntryEdit(entity=entity, values=spelled, unset=gone, is_absent=is_absent, reason=reason)
            ways.append(Placed(edit=edit, layer=self._cluster))
        if not ways:
            raise UneditableError(problem)
        return ways

    def _in_place(
        self,
        target: Entry,
        below: Entry | None,
        spelled: Mapping[str, str],
        gone: frozenset[str],
        reason: str,
        *,
        is_absent: bool,
    ) -> Placed:
        if target.file is None:
            raise UneditableError("it is in no file")
        if self._shared[target.file.name, target.position] > 1:
            raise UneditableError("it is of several entities; give this one an entry of its own")
        if both := spelled.keys() & (target.unset or {}).keys():
            raise UneditableError(f"its entry unsets {min(both)}; take it from unset first")
        own = {key for key, place in target.provenances().items() if place.profile is None} & target.values.keys()
        beneath = frozenset() if below is None else gone & below.values.keys()
        if not is_absent and (given := gone - (own - self._of_profile(target).keys()) - beneath):
            raise UneditableError(f"{min(given)} comes from a profile")
        edit = EntryEdit(
            entity=target.entity,
            values=spelled,
            removed=frozenset() if is_absent else gone & own,
            unset=frozenset() if is_absent else beneath - frozenset(target.unset or ()),
            is_absent=is_absent,
            reason=reason,
        )
        return Placed(edit=edit, file=target.file.name, position=target.position)

    def _of_profile(self, entry: Entry) -> Values:
        """Return what the profile of an entry gives, also where `values` beside it override that."""
        return {} if entry.profile is None else self._profiles.get(entry.profile.name, {})


def _require_applied(entry: Entry, proposals: Sequence[Recommendation]) -> None:
    """Raise `UneditableError` unless the files say what the cluster holds, which is what the proposals rest on."""
    if entry.absent is not None:
        raise UneditableError("the files say that it must not exist; apply them first")
    for each in proposals:
        declared = entry.values.get(each.key)
        if not same_value(declared, each.before):
            shown, held = (
                "no value" if value is None else render_value(QUOTA_KEYS.get(each.key), value)
                for value in (declared, each.before)
            )
            raise UneditableError(f"the files say {shown} and the cluster holds {held}; apply them first")


def _set(proposals: Sequence[Recommendation]) -> Values:
    return {each.key: each.after for each in proposals if each.after is not None}


def _spelled(proposal: Recommendation) -> str:
    key = QUOTA_KEYS[proposal.key]
    if proposal.after is None:
        raise ValueError("a value that is to be removed is not spelled")
    return spell_rounded(key, proposal.after, decimal=is_decimal(key, proposal.before))


def _spelled_live(key: str, value: float) -> str:
    known = QUOTA_KEYS[key]
    if not is_writable(known, value):
        raise UneditableError(f"its {key} is {value}, which files cannot hold; alter it first")
    return spell_rounded(known, value, decimal=is_decimal(known, value))
