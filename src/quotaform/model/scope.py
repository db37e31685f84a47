"""Which entities are meant: patterns over entity types, and globs over addresses."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from fnmatch import translate
from functools import lru_cache
from re import Pattern as Regex
from re import compile as regex
from typing import Final

from msgspec import Struct

from quotaform.model.entity import DEFAULT_WORD, Entity, EntityPart
from quotaform.model.text import inert

MAX_PATTERN: Final = 1000
"""How many characters a glob may have: a longer one takes the square of its length to read."""
MOST_PATTERNS: Final = 1000
"""How many patterns may be given in one place."""

_MOST_MISSES: Final = 50
"""After how many entities that match no missing glob the globs that were found are left out of the expression."""
_MOST_PAIRS: Final = 20_000
_NOTHING: Final = "(?!)"
_SPECIAL: Final = regex(r"[*?\[]")
"""What is not a plain name in a glob."""

# Between names; neither a file nor a cluster can hold it, so no glob crosses it: the number of names is fixed.
_BETWEEN: Final = "\udc00"


def pattern_problem(glob: str) -> str | None:
    """Return why a glob is not accepted; `None` if it is.

    >>> pattern_problem("[" * 1000), pattern_problem("[" * 1001)
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
    """Whether a name matches a case-sensitive glob; none that is too long does.

    >>> matches_glob("svc-a", "svc-*"), matches_glob("a" * 1000, "a" * 1000), matches_glob("a" * 1001, "a" * 1001)
    (True, True, False)
    """
    return len(glob) <= MAX_PATTERN and _matcher(glob)(name) is not None


def is_glob(name: str | None) -> bool:
    """Whether a name may match others than itself; `None` is the default.

    >>> is_glob("svc-*"), is_glob("svc-1"), is_glob(None)
    (True, False, False)
    """
    return name is not None and _SPECIAL.search(name) is not None


def escape_glob(name: str) -> str:
    """Return the glob that matches this name and no other.

    >>> escape_glob("team[1]-*")
    'team[[]1]-[*]'
    """
    return _SPECIAL.sub(r"[\g<0>]", name)


class Pattern(Struct, frozen=True):
    """Selects entities by type: every listed type must be present and match; other types are free.

    A name is a case-sensitive glob over named entities; `None` matches the default entity only, and a glob
    never does.

    >>> scope = Scope(include=(Pattern((("user", "svc-*"),)),))
    >>> scope.contains(Entity(user="svc-a", client_id=None)), scope.contains(Entity(user=None))
    (True, False)
    """

    parts: tuple[EntityPart, ...]

    def covers(self, other: Pattern) -> bool:
        """Whether this certainly selects all that another pattern selects; of two globs that is not always decided.

        >>> kafka = Pattern((("user", "kafka-*"),))
        >>> kafka.covers(Pattern((("client-id", None), ("user", "kafka-1*")))), kafka.covers(Pattern((("user", "k*"),)))
        (True, False)
        """
        names = dict(other.parts)
        return all(kind in names and _glob_covers(glob, names[kind]) for kind, glob in self.parts)

    def __str__(self) -> str:
        return ",".join(f"{kind}={DEFAULT_WORD if glob is None else glob}" for kind, glob in self.parts)


def _glob_covers(wide: str | None, narrow: str | None) -> bool:
    """Whether a glob certainly matches every name that another one matches; `None` is the default.

    It does when both are equal, when the other one is a plain name that it matches, or when it is PREFIX*SUFFIX and the
    other one begins and ends so.
    """
    if wide == narrow:
        return True
    if wide is None or narrow is None:
        return False
    if not is_glob(narrow):
        return matches_glob(narrow, wide)
    prefix, star, suffix = wide.partition("*")
    if not star or is_glob(prefix) or is_glob(suffix) or (suffix and "[" in narrow):
        return False
    texts = _SPECIAL.split(narrow)
    return texts[0].startswith(prefix) and texts[-1].endswith(suffix)


def not_covered(patterns: Iterable[Pattern], others: Sequence[Pattern]) -> list[Pattern]:
    """Return the patterns that none of some others certainly covers; the order of types means nothing.

    Of very many only those are covered that are also among the others: comparing takes time for each pair.
    """
    same = {frozenset(other.parts) for other in others}
    different = [pattern for pattern in patterns if frozenset(pattern.parts) not in same]
    if len(different) * len(others) > _MOST_PAIRS:
        return different
    return [pattern for pattern in different if not any(other.covers(pattern) for other in others)]


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

    def wider_than(self, base: Scope) -> Iterator[str]:
        """Yield in what way this may select more than another scope.

        >>> list(Scope(include=(Pattern((("user", "*"),)),)).wider_than(Scope(exclude=(Pattern((("user", "a"),)),))))
        ['scope no longer excludes user=a']
        """
        if base.include and not self.include:
            yield "scope includes everything"
        elif base.include:
            yield from (f"scope also includes {inert(str(each))}" for each in not_covered(self.include, base.include))
        yield from (f"scope no longer excludes {inert(str(each))}" for each in not_covered(base.exclude, self.exclude))


def _grouped(patterns: Iterable[Pattern]) -> _Groups:
    """Return patterns by the types whose names and whose defaults they ask for, the globs of each as one expression.

    A thousand patterns take about as long as one that way, whatever number of entities is matched against them.
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

    A glob is matched against the address, and against the address without quotes.

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
        any_missing, misses = self._selected, 0
        for entity in entities:
            if not missing:
                break
            if not _matches_any(entity, any_missing):
                continue
            found = [glob for glob, regex in missing.items() if _matches_any(entity, regex)]
            for glob in found:
                del missing[glob]
            misses += not found
            if misses > _MOST_MISSES:  # Globs that were found already match many.
                any_missing, misses = _any_glob(missing), 0
        return list(missing)


def _matches_any(entity: Entity, globs: Regex[str]) -> bool:
    if globs.match(entity.address):
        return True
    if any(name == DEFAULT_WORD for _, name in entity.parts):
        return False  # without its quotes it would look like the default
    raw = ",".join([f"{kind}={DEFAULT_WORD if name is None else name}" for kind, name in entity.parts])
    return globs.match(raw) is not None


ALL: Final = Selection()
