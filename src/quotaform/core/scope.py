"""Which entities are meant: patterns over entity types, and globs over addresses."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from fnmatch import translate
from functools import lru_cache
from re import Pattern as Regex
from re import compile as regex
from typing import Final

from quotaform.model.entity import DEFAULT_WORD, Entity, Part

MAX_PATTERN: Final = 1000
"""How many characters a glob may have: a longer one takes the square of its length to read."""
MOST_PATTERNS: Final = 1000
"""How many patterns may be given in one place."""

_IN_VAIN: Final = 50
_NOTHING: Final = "(?!)"

# Between names; neither a file nor a cluster can hold it, so no glob crosses it: the number of names is fixed.
_BETWEEN: Final = "\udc00"


def pattern_problem(glob: str) -> str | None:
    """Return why a glob is not accepted; `None` if it is.

    >>> pattern_problem("svc-*"), pattern_problem("[" * 1001)
    (None, 'a pattern has at most 1,000 characters, and this one has 1,001')
    """
    if len(glob) <= MAX_PATTERN:
        return None
    return f"a pattern has at most {MAX_PATTERN:,} characters, and this one has {len(glob):,}"


def count_problem(patterns: Sequence[object]) -> str | None:
    """Return why so many patterns are not accepted; `None` if they are."""
    if len(patterns) <= MOST_PATTERNS:
        return None
    return f"at most {MOST_PATTERNS:,} patterns are allowed, and these are {len(patterns):,}"


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

    >>> scope = Scope(include=(Pattern((("user", "svc-*"),)),))
    >>> scope.contains(Entity(user="svc-a", client_id=None)), scope.contains(Entity(user=None))
    (True, False)
    """

    parts: tuple[Part, ...]


_Kinds = tuple[tuple[str, ...], tuple[str, ...]]
_Groups = tuple[tuple[_Kinds, Regex[str]], ...]


@dataclass(frozen=True, slots=True)
class Scope:
    """The entities that a repository speaks for: all that `include` selects and `exclude` does not.

    An empty `include` means everything.
    """

    include: tuple[Pattern, ...] = ()
    exclude: tuple[Pattern, ...] = ()
    _included: _Groups = field(init=False, compare=False, repr=False)
    _excluded: _Groups = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_included", _grouped(self.include))
        object.__setattr__(self, "_excluded", _grouped(self.exclude))

    def contains(self, entity: Entity) -> bool:
        """Whether the entity is in scope."""
        if self is FULL_SCOPE:
            return True
        if self.include and not _is_in(entity, self._included):
            return False
        return not (self._excluded and _is_in(entity, self._excluded))


def _grouped(patterns: Iterable[Pattern]) -> _Groups:
    """Return patterns by the types whose names and whose defaults they ask for, the globs of each as one expression.

    A thousand patterns take about as long as one that way, whatever number of entities is held against them.
    """
    groups: dict[_Kinds, dict[str, None]] = {}
    for pattern in patterns:
        named = [(kind, glob) for kind, glob in pattern.parts if glob is not None]
        if all(len(glob) <= MAX_PATTERN for _, glob in named):
            kinds = tuple(kind for kind, _ in named), tuple(kind for kind, glob in pattern.parts if glob is None)
            groups.setdefault(kinds, {})[_BETWEEN.join(glob for _, glob in named)] = None
    return tuple((kinds, _any_glob(globs)) for kinds, globs in groups.items())


def _any_glob(globs: Iterable[str]) -> Regex[str]:
    return regex("|".join(map(translate, globs)) or _NOTHING)


def _is_in(entity: Entity, groups: _Groups) -> bool:
    names = dict(entity.parts)
    for (named, defaults), globs in groups:
        if all(kind in names and names[kind] is None for kind in defaults):
            texts = [name for kind in named if (name := names.get(kind)) is not None]
            if len(texts) == len(named) and globs.match(_BETWEEN.join(texts)):
                return True
    return False


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
    _selected: Regex[str] = field(init=False, compare=False, repr=False)
    _excluded: Regex[str] = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        for name, globs in (("_selected", self.select), ("_excluded", self.exclude)):
            object.__setattr__(self, name, _any_glob(glob for glob in globs if len(glob) <= MAX_PATTERN))

    @property
    def is_partial(self) -> bool:
        """Whether anything could be left out."""
        return bool(self.select or self.exclude)

    def contains(self, entity: Entity) -> bool:
        """Whether the entity was asked for."""
        if not self.is_partial:
            return True
        if self.select and not _matches_any(entity, self._selected):
            return False
        return not (self.exclude and _matches_any(entity, self._excluded))

    def without_match(self, entities: Iterable[Entity]) -> list[str]:
        """Return the globs of `select` that none of some entities matches, in their order.

        >>> Selection(("user=a", "user=b*", "ip=*")).without_match([Entity(user="b"), Entity(user="c")])
        ['user=a', 'ip=*']
        """
        missing = {glob: _any_glob([glob]) for glob in self.select}
        any_missing, in_vain = self._selected, 0
        for entity in entities:
            if not missing:
                break
            if not _matches_any(entity, any_missing):
                continue
            found = [glob for glob, regex in missing.items() if _matches_any(entity, regex)]
            for glob in found:
                del missing[glob]
            in_vain += not found
            if in_vain > _IN_VAIN:  # Globs that were found already match many.
                any_missing, in_vain = _any_glob(missing), 0
        return list(missing)


def _matches_any(entity: Entity, globs: Regex[str]) -> bool:
    if globs.match(entity.address):
        return True
    if any(name == DEFAULT_WORD for _, name in entity.parts):
        return False  # without its quotes it would look like the default
    raw = ",".join([f"{kind}={DEFAULT_WORD if name is None else name}" for kind, name in entity.parts])
    return globs.match(raw) is not None


ALL: Final = Selection()
