"""An entity: a name or the default for each entity type."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from re import compile as regex
from types import NoneType
from typing import Any, Final, NoReturn

from quotaform.model.argument import require_names, require_type
from quotaform.model.text import quote

USER: Final = "user"
CLIENT_ID: Final = "client-id"
IP: Final = "ip"

DEFAULT_WORD: Final = "<default>"
"""The default entity of a type in input and output; internally it is `None`."""

MAX_NAME_BYTES: Final = 32_767
"""The longest name in UTF-8 that Kafka's protocol can carry (a string's length is an INT16)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EntityType:
    """One entity type.

    Attributes:
        name: As on the wire.
        parameter: Its spelling without a hyphen, for parameters and columns.
        description: What its names are, for editors.
        examples: Names as files hold them.
        glob: A pattern over names, as an example.
        combines_with: The types that an entity may have besides.
        spellings: Other spellings of the same word; on the command line, too, they are taken for mistakes.
        related: Words that a file may use by mistake, and that may be types of their own elsewhere.
    """

    name: str
    parameter: str
    description: str
    examples: tuple[Any, ...]
    glob: str
    combines_with: frozenset[str] = frozenset()
    spellings: tuple[str, ...] = ()
    related: tuple[str, ...] = ()


_TYPE_ROWS: Final = (
    EntityType(
        name=USER,
        parameter="user",
        description="The name of an authenticated principal, without its type: alice, CN=alice,O=Example.",
        examples=("svc-orders", DEFAULT_WORD, ["svc-a", "svc-b"], {"name": DEFAULT_WORD}),
        glob="svc-*",
        combines_with=frozenset({CLIENT_ID}),
        spellings=("users",),
        related=("username", "usr", "principal"),
    ),
    EntityType(
        name=CLIENT_ID,
        parameter="client_id",
        description="A client-id, which clients choose themselves.",
        examples=("etl", DEFAULT_WORD, ["etl-1", "etl-2"]),
        glob="etl-*",
        combines_with=frozenset({USER}),
        spellings=("client-ids", "clientid", "clientids", "client", "clients"),
    ),
    EntityType(
        name=IP,
        parameter="ip",
        description="An IP address in its canonical spelling, not a network or a host name.",
        examples=("10.0.0.1", "2001:db8::1", DEFAULT_WORD),
        glob="10.0.*",
        spellings=("ips",),
        related=("address", "host"),
    ),
)

KNOWN_TYPES: Final[dict[str, EntityType]] = {row.name: row for row in _TYPE_ROWS}
"""The entity types that Kafka 4 knows by name, in the order in which addresses print them."""

ENTITY_TYPES: Final = tuple(KNOWN_TYPES)
"""Their names."""

_RANK: Final = {entity_type: rank for rank, entity_type in enumerate(ENTITY_TYPES)}
_UNKNOWN_RANK: Final = len(ENTITY_TYPES)
_PLAIN: Final = regex(r"[A-Za-z0-9._@:/*-]+").fullmatch
_ABSENT: Final[Any] = object()

Part = tuple[str, str | None]
"""An entity type and its name; `None` is the default entity of that type."""


def type_order(entity_type: str) -> tuple[int, str]:
    """Sort key for entity types: the known ones in their order, then the others by name."""
    return _RANK.get(entity_type, _UNKNOWN_RANK), entity_type


def _order(part: Part) -> tuple[int, str]:
    return _RANK.get(part[0], _UNKNOWN_RANK), part[0]


class Entity:
    """An entity match: an immutable mapping of entity type to name, where `None` is the default.

    A missing type is absent, which differs from its default. Types are opaque strings
    (KIP-546: a broker may know more of them than `user`, `client-id` and `ip`).

    >>> Entity(user="alice", client_id=None).address
    'user=alice,client-id=<default>'
    >>> Entity({"client-id": "x", "user": "a"}) == Entity(user="a", client_id="x")
    True
    >>> Entity(user="<default>").address
    'user="<default>"'

    Raises:
        TypeError: A type is not a string or is given twice, or a name is neither a string nor `None`.
    """

    __slots__ = ("_address", "_hash", "parts")

    parts: tuple[Part, ...]
    """The parts in canonical order: user, client-id, ip, then others by type."""

    def __init__(
        self,
        names: Mapping[str, str | None] | None = None,
        /,
        *,
        user: str | None = _ABSENT,
        client_id: str | None = _ABSENT,
        ip: str | None = _ABSENT,
    ) -> None:
        require_names(names, "Entity()")
        named = dict(names or {})
        for entity_type, name in ((USER, user), (CLIENT_ID, client_id), (IP, ip)):
            if name is not _ABSENT:
                if entity_type in named:
                    raise TypeError(f"{entity_type} is given twice in Entity()")
                named[entity_type] = name
        for entity_type, name in named.items():
            require_type(name, (str, NoneType), spell_name(entity_type), "a string, or None for the default")
        self._fill(tuple(sorted(named.items(), key=_order)))

    def _fill(self, parts: tuple[Part, ...]) -> None:
        object.__setattr__(self, "parts", parts)
        object.__setattr__(self, "_hash", hash(parts))
        object.__setattr__(self, "_address", None)

    @classmethod
    def of(cls, parts: Iterable[Part]) -> Entity:
        """Build an entity from (type, name) pairs in any order; each type at most once.

        The fast constructor for bulk work, without checks; a describe returns parts in arbitrary order.
        """
        ordered = tuple(parts)
        # Most pairs are already in order, and sorting takes longer than all the rest.
        if len(ordered) > 2 or (len(ordered) == 2 and _order(ordered[0]) > _order(ordered[1])):
            ordered = tuple(sorted(ordered, key=_order))
        entity = cls.__new__(cls)
        entity._fill(ordered)
        return entity

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise AttributeError("an Entity cannot be changed")

    def __reduce__(self) -> tuple[Any, ...]:
        return (Entity.of, (self.parts,))

    def __eq__(self, other: object) -> bool:
        return self.parts == other.parts if isinstance(other, Entity) else NotImplemented

    def __hash__(self) -> int:
        return self._hash  # type: ignore[no-any-return, attr-defined]

    def __repr__(self) -> str:
        return f"Entity({dict(self.parts)!r})"

    def __str__(self) -> str:
        return self.address

    @property
    def names(self) -> dict[str, str | None]:
        """The parts as a mapping of type to name."""
        return dict(self.parts)

    @property
    def types(self) -> tuple[str, ...]:
        """The entity types, in canonical order."""
        return tuple([entity_type for entity_type, _ in self.parts])

    @property
    def address(self) -> str:
        """The one-line spelling, unique per entity and inert in any terminal or log.

        >>> Entity(user="CN=a b").address
        'user="CN=a b"'
        >>> Entity(user="tab\\there").address
        'user="tab\\\\there"'
        """
        address: str | None = self._address  # type: ignore[attr-defined]
        if address is None:
            spelled = [
                f"{kind if kind in _RANK else spell_name(kind)}={DEFAULT_WORD if name is None else spell_name(name)}"
                for kind, name in self.parts
            ]
            address = ",".join(spelled)
            object.__setattr__(self, "_address", address)
        return address


def can_combine(types: Collection[str]) -> bool:
    """Whether an entity may have all of these known types.

    >>> can_combine(["user", "client-id"]), can_combine(["user", "ip"])
    (True, False)
    """
    return len(types) < 2 or all(
        KNOWN_TYPES[name].combines_with.issuperset(other for other in types if other != name) for name in types
    )


def meant_type(word: str) -> str | None:
    """Return the known entity type that another spelling, or a related word, stands for; `None` if it is none.

    >>> meant_type("Client_ID"), meant_type("users"), meant_type("group"), meant_type("host")
    ('client-id', 'user', None, 'ip')
    """
    folded = word.lower().replace("_", "-")
    for row in KNOWN_TYPES.values():
        if folded == row.name or folded in row.spellings or folded in row.related:
            return row.name
    return None


def spell_name(name: str) -> str:
    r"""Return a name as an address holds it: as it is when plain, else as a JSON string.

    Everything that is not printable (controls, line separators, bidirectional marks, lone surrogates) is
    escaped, so that no name can forge a line of output.

    >>> print(spell_name("svc-orders"), spell_name("a b"), spell_name("x\n::error"))
    svc-orders "a b" "x\n::error"
    """
    return name if _PLAIN(name) else quote(name, len(name))


def is_sendable(name: str) -> bool:
    r"""Whether Kafka's protocol can carry a name: it is text, and not too long.

    >>> is_sendable("Å" * 16_383), is_sendable("Å" * 16_384), is_sendable("\ud800")
    (True, False, False)
    """
    if name.isascii():
        return len(name) <= MAX_NAME_BYTES
    try:
        return len(name.encode()) <= MAX_NAME_BYTES
    except UnicodeEncodeError:
        return False
