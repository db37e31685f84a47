"""Which entities are meant: patterns over entity types, and globs over addresses."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fnmatch import translate
from functools import lru_cache
from re import compile as regex
from typing import Final

from quotaform.model.entity import DEFAULT_WORD, Entity, Part

MAX_PATTERN: Final = 1000
"""How many characters a glob may have: a longer one takes the square of its length to read."""

_NOT_THERE: Final = object()


def pattern_problem(glob: str) -> str | None:
    """Return why a glob is not accepted; `None` if it is.

    >>> pattern_problem("svc-*"), pattern_problem("[" * 1001)
    (None, 'a pattern has at most 1,000 characters, and this one has 1,001')
    """
    if len(glob) <= MAX_PATTERN:
        return None
    return f"a pattern has at most {MAX_PATTERN:,} characters, and this one has {len(glob):,}"


@lru_cache(maxsize=4096)
def _matcher(glob: str) -> Callable[[str], object]:
    return regex(translate(glob)).match


def matches_glob(name: str, glob: str) -> bool:
    """Whether a name matches a case-sensitive glob; none that is too long does."""
    return len(glob) <= MAX_PATTERN and _matcher(glob)(name) is not None


@dataclass(frozen=True, slots=True)
class Pattern:
    """Selects entities by type: every listed type must be present and match; other types are free.

    A name is a case-sensitive glob over named entities; `None` matches the default entity only, and a glob
    never does.

    >>> Pattern((("user", "svc-*"),)).matches(Entity(user="svc-a", client_id=None))
    True
    >>> Pattern((("user", "*"),)).matches(Entity(user=None))
    False
    """

    parts: tuple[Part, ...]

    def matches(self, entity: Entity) -> bool:
        """Whether the pattern selects this entity."""
        names = dict(entity.parts)
        for entity_type, glob in self.parts:
            name = names.get(entity_type, _NOT_THERE)
            if glob is None:
                if name is not None:
                    return False
            elif not isinstance(name, str) or not matches_glob(name, glob):
                return False
        return True


@dataclass(frozen=True, slots=True)
class Scope:
    """The entities that a repository speaks for: all that `include` selects and `exclude` does not.

    An empty `include` means everything.
    """

    include: tuple[Pattern, ...] = ()
    exclude: tuple[Pattern, ...] = ()

    def contains(self, entity: Entity) -> bool:
        """Whether the entity is in scope."""
        if self is FULL_SCOPE:
            return True
        if self.include and not any(pattern.matches(entity) for pattern in self.include):
            return False
        return not any(pattern.matches(entity) for pattern in self.exclude)


FULL_SCOPE: Final = Scope()


@dataclass(frozen=True, slots=True)
class Selection:
    """The part of a plan that was asked for, by globs over addresses (`--select`, `--exclude`).

    A glob is held against the address and against the same without quotes.

    >>> Selection(select=("user=svc-*",)).contains(Entity(user="svc-a"))
    True
    >>> Selection(select=("user=CN=*",)).contains(Entity(user="CN=a b"))
    True
    """

    select: Sequence[str] = ()
    exclude: Sequence[str] = ()

    @property
    def is_partial(self) -> bool:
        """Whether anything could be left out."""
        return bool(self.select or self.exclude)

    def contains(self, entity: Entity) -> bool:
        """Whether the entity was asked for."""
        if not self.is_partial:
            return True
        if self.select and not _matches_any(entity, self.select):
            return False
        return not _matches_any(entity, self.exclude)


def _matches_any(entity: Entity, globs: Sequence[str]) -> bool:
    if any(matches_glob(entity.address, glob) for glob in globs):
        return True
    if any(name == DEFAULT_WORD for _, name in entity.parts):
        return False  # without its quotes it would look like the default
    raw = ",".join([f"{kind}={DEFAULT_WORD if name is None else name}" for kind, name in entity.parts])
    return any(matches_glob(raw, glob) for glob in globs)


ALL: Final = Selection()
