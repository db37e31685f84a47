"""Filters that select the entities to describe.

| rule | matches, among the names of its entity type | origin |
| --- | --- | --- |
| EXACT | that name | KIP-546 |
| DEFAULT | the default entity | KIP-546 |
| ANY | every name and the default | KIP-546 |
| PREFIX | every name that begins with the text; never the default | KIP-546, draft |
| NOT | every other name, and the default | KIP-546, draft |

Components are AND-ed. An entity without the type of a component does not match, even with NOT. A strict filter also
requires that the entity has no other types than those of the components. Names are compared literally: case-sensitive,
not sanitized, not normalised.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from types import NoneType
from typing import Any, Final

from msgspec import Struct

from quotaform.model.entity import ABSENT, MAX_NAME_BYTES, Entity, given_names, is_sendable, spell_name
from quotaform.model.quotas import Quotas, SnapshotFile
from quotaform.model.text import quote, require_type


class Rule(StrEnum):
    """How a component matches names."""

    EXACT = "exact"
    DEFAULT = "default"
    ANY = "any"
    PREFIX = "prefix"
    NOT = "not"


_ANSWERED: Final = frozenset({Rule.EXACT, Rule.DEFAULT, Rule.ANY})


class _Any:
    def __repr__(self) -> str:
        return "ANY"


ANY: Final = _Any()
"""In a filter: every name of the type, and its default."""

FilterName = str | None | _Any


@dataclass(frozen=True, slots=True)
class FilterComponent:
    """What a filter asks of one entity type.

    Raises `TypeError`: an argument has another type; `ValueError`: the rule is unknown, needs a text and has none, or
    the other way round; or no name can be like the text.
    """

    entity_type: str  # such as `user`
    rule: Rule  # the rule of matching
    match: str | None = None  # the text of EXACT, PREFIX and NOT; `None` for the others

    def __post_init__(self) -> None:
        require_type(self.entity_type, str, "entity_type", "a string")
        require_type(self.match, (str, NoneType), "match", "a string or None")
        if self.rule not in tuple(Rule):
            raise ValueError(f"rule must be one of {', '.join(f'Rule.{name}' for name in Rule.__members__)}")
        object.__setattr__(self, "rule", Rule(self.rule))
        if (self.match is None) != (self.rule in (Rule.DEFAULT, Rule.ANY)):
            problem = "needs match, the text to compare with" if self.match is None else "has no match"
            raise ValueError(f"a filter component with the rule {self.rule} {problem}")
        if self.match is not None and not is_sendable(self.match):
            raise ValueError(
                f"{quote(self.match)} cannot be a name: names are Unicode text of at most {MAX_NAME_BYTES:,} bytes in "
                "UTF-8"
            )

    def matches(self, name: str | None) -> bool:
        """Whether a name of this type matches; `None` is the default entity."""
        match self.rule:
            case Rule.EXACT:
                return name == self.match
            case Rule.DEFAULT:
                return name is None
            case Rule.ANY:
                return True
            case Rule.PREFIX:
                return name is not None and name.startswith(self.match or "")
            case Rule.NOT:
                return name != self.match


@dataclass(frozen=True, slots=True)
class EntityFilter:
    """Selects entities by type and name, as DescribeClientQuotas does (KIP-546) and beyond.

    >>> EntityFilter.contains(user="alice").matches(Entity(user="alice", client_id="app"))
    True
    >>> EntityFilter.contains_only(user="alice").matches(Entity(user="alice", client_id="app"))
    False
    >>> EntityFilter.contains(user=ANY).matches(Entity(user=None))
    True
    """

    # What is asked of each type; AND-ed. A type may be asked more than once.
    components: tuple[FilterComponent, ...] = ()
    is_strict: bool = False  # whether entities with other types are left out

    def __post_init__(self) -> None:
        require_type(self.components, (tuple, list), "components", "a tuple of FilterComponent")
        for component in self.components:
            require_type(component, FilterComponent, "each item of components", "a FilterComponent")
        require_type(self.is_strict, bool, "is_strict", "True or False")
        object.__setattr__(self, "components", tuple(self.components))

    @classmethod
    def all(cls) -> EntityFilter:
        """Select every entity."""
        return cls()

    @classmethod
    def contains(
        cls,
        names: Mapping[str, FilterName] | None = None,
        /,
        *,
        user: FilterName = ABSENT,
        client_id: FilterName = ABSENT,
        ip: FilterName = ABSENT,
    ) -> EntityFilter:
        """Select entities that have at least these types: a name, `None` for the default, or `ANY`.

        Raises `TypeError` if a name is something else, or a type is given twice.
        """
        return cls(_components("EntityFilter.contains()", names, user, client_id, ip))

    @classmethod
    def contains_only(
        cls,
        names: Mapping[str, FilterName] | None = None,
        /,
        *,
        user: FilterName = ABSENT,
        client_id: FilterName = ABSENT,
        ip: FilterName = ABSENT,
    ) -> EntityFilter:
        """Select entities that have exactly these types (strict); see `contains`."""
        return cls(_components("EntityFilter.contains_only()", names, user, client_id, ip), is_strict=True)

    def matches(self, entity: Entity) -> bool:
        """Whether the filter selects an entity."""
        require_type(entity, Entity, "entity", "an Entity")
        if not self.components:
            return not self.is_strict
        names = dict(entity.parts)
        if self.is_strict and names.keys() != {component.entity_type for component in self.components}:
            return False
        return all(
            component.entity_type in names and component.matches(names[component.entity_type])
            for component in self.components
        )

    def for_brokers(self) -> EntityFilter:
        """Return the narrowest filter that a broker can evaluate (EXACT, DEFAULT and ANY, each type once) and that
        selects no less.

        >>> str(EntityFilter((FilterComponent("user", Rule.PREFIX, "svc-"),)).for_brokers())
        'user=<any>'
        """
        chosen: dict[str, FilterComponent] = {}
        for component in self.components:
            known = chosen.get(component.entity_type)
            if component.rule not in _ANSWERED:
                component = FilterComponent(component.entity_type, Rule.ANY)
            if known is None or known.rule is Rule.ANY:
                chosen[component.entity_type] = component
        return EntityFilter(tuple(chosen.values()), self.is_strict)

    def __str__(self) -> str:
        parts = [f"{component.entity_type}={_spell(component)}" for component in self.components]
        return (", ".join(parts) or "everything") + (" (strict)" if self.is_strict else "")


EVERYTHING: Final = EntityFilter()


class Described(Struct, frozen=True, kw_only=True):
    """The live quotas of a cluster that a filter and quota keys select."""

    cluster_name: str
    cluster_id: str
    read_at: str  # ISO 8601 in UTC
    quotas: Quotas
    heading: str | None  # what people call the cluster; `None` for one that has an address and no name
    snapshot: SnapshotFile | None  # the file that was read instead of a running cluster
    entity_filter: EntityFilter
    keys: Sequence[str]  # without any, all of them


def select(quotas: Quotas, entity_filter: EntityFilter) -> Quotas:
    """Return the quotas of the entities that a filter selects."""
    if entity_filter == EVERYTHING:
        return quotas
    return {entity: values for entity, values in quotas.items() if entity_filter.matches(entity)}


def _spell(component: FilterComponent) -> str:
    if component.rule in (Rule.DEFAULT, Rule.ANY):
        return f"<{component.rule}>"
    return component.match or "" if component.rule is Rule.EXACT else f"<{component.rule}>{component.match}"


def _components(caller: str, *asked: Any) -> tuple[FilterComponent, ...]:
    components = []
    for entity_type, name in given_names(caller, *asked).items():
        if isinstance(name, _Any) or name is None:
            components.append(FilterComponent(entity_type, Rule.DEFAULT if name is None else Rule.ANY))
        else:
            require_type(name, str, spell_name(entity_type), "a string, None for the default, or ANY")
            components.append(FilterComponent(entity_type, Rule.EXACT, name))
    return tuple(components)
