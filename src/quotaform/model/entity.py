"""An entity: a name or the default for each entity type; its address, and other spellings of its names.

Kafka's tools and metrics print names percent-encoded (org.apache.kafka.common.utils.Sanitizer): Java's URL-encoding in
UTF-8, then `*` as `%2A` and a blank as `%20`.

A broker stores an IP address as it is written but enforces the one that it resolves to, so two spellings of one address
are two entities that set the same limit; host names are resolved on the controller (KIP-612,
org.apache.kafka.controller.ClientQuotaControlManager). quotaform therefore writes only canonical addresses.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from functools import lru_cache
from ipaddress import IPv4Address, IPv6Address, ip_address
from json import loads
from re import compile as regex
from types import NoneType
from typing import Any, Final, NoReturn
from urllib.parse import quote as percent_encoded
from urllib.parse import unquote_to_bytes

from msgspec import Struct

from quotaform.model.text import quote, require_type

USER: Final = "user"
CLIENT_ID: Final = "client-id"
IP: Final = "ip"

DEFAULT_WORD: Final = "<default>"
"""The default entity of a type in input and output; internally it is `None`."""

MAX_NAME_BYTES: Final = 32_767
"""The longest name in UTF-8 that Kafka's protocol can carry (a string's length is an INT16)."""


class EntityType(Struct, frozen=True, kw_only=True):
    """One entity type."""

    name: str  # as on the wire
    parameter: str  # its spelling without a hyphen, for parameters and columns
    description: str  # what its names are, for editors
    examples: tuple[Any, ...]  # names as files hold them
    glob: str  # a pattern over names, as an example
    combines_with: frozenset[str] = frozenset()  # the types that an entity may have besides
    # Other spellings of the same word; on the command line, too, they are taken for mistakes
    spellings: tuple[str, ...] = ()
    related: tuple[str, ...] = ()  # words that a file may use by mistake, and that may be types of their own elsewhere


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

_PAIRS: Final = frozenset(frozenset((row.name, other)) for row in _TYPE_ROWS for other in row.combines_with)
_RANK: Final = {entity_type: rank for rank, entity_type in enumerate(ENTITY_TYPES)}
_UNKNOWN_RANK: Final = len(ENTITY_TYPES)
_PLAIN_NAME: Final = regex(r"[A-Za-z0-9._@:/*-]+").fullmatch
ABSENT: Final[Any] = object()
"""Stands for an entity type that is not given, as `None` is its default."""

EntityPart = tuple[str, str | None]
"""An entity type and its name; `None` is the default entity of that type."""


def part_order(part: EntityPart) -> tuple[int, str]:
    """Sort key for parts: the known types in their order, then the others by name."""
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

    Raises `TypeError`: a type is not a string or is given twice, or a name is neither a string nor `None`.
    """

    __slots__ = ("_address", "_hash", "parts")

    parts: tuple[EntityPart, ...]
    """The parts in canonical order: user, client-id, ip, then others by type."""

    def __init__(
        self,
        names: Mapping[str, str | None] | None = None,
        /,
        *,
        user: str | None = ABSENT,
        client_id: str | None = ABSENT,
        ip: str | None = ABSENT,
    ) -> None:
        named = given_names("Entity()", names, user, client_id, ip)
        for entity_type, name in named.items():
            require_type(name, (str, NoneType), spell_name(entity_type), "a string, or None for the default")
        self._fill(tuple(sorted(named.items(), key=part_order)))

    def _fill(self, parts: tuple[EntityPart, ...]) -> None:
        object.__setattr__(self, "parts", parts)
        object.__setattr__(self, "_hash", hash(parts))
        object.__setattr__(self, "_address", None)

    @classmethod
    def of(cls, parts: Iterable[EntityPart]) -> Entity:
        """Build an entity from (type, name) pairs in any order; each type at most once.

        The fast constructor for bulk work, without checks; a describe returns parts in arbitrary order.
        """
        ordered = tuple(parts)
        # Most pairs are already in order, and sorting takes longer than all the rest.
        if len(ordered) > 2 or (len(ordered) == 2 and part_order(ordered[0]) > part_order(ordered[1])):
            ordered = tuple(sorted(ordered, key=part_order))
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


def given_names(caller: str, names: object, *known: Any) -> dict[str, Any]:
    """Return what a call says of each entity type: in a mapping, and of the known ones as arguments of their own.

    Raises `TypeError` if the mapping is not one of entity types, or a type is given twice.
    """
    if names is None:
        names = {}
    require_type(names, Mapping, f"the argument of {caller}", "a mapping of entity type to name")
    given: dict[str, Any] = dict(names)  # type: ignore[call-overload]
    for entity_type in given:
        require_type(entity_type, str, f"an entity type in {caller}", "a string")
    for entity_type, name in zip(ENTITY_TYPES, known, strict=True):
        if name is not ABSENT:
            if entity_type in given:
                raise TypeError(f"{entity_type} is given twice in {caller}")
            given[entity_type] = name
    return given


def can_combine(types: Collection[str]) -> bool:
    """Whether an entity may have all of these known types.

    >>> can_combine(["user", "client-id"]), can_combine(["user", "ip"])
    (True, False)
    """
    return len(types) < 2 or frozenset(types) in _PAIRS


def meant_type(word: str) -> str | None:
    """Return the known entity type that another spelling, or a related word, stands for; `None` if it is not one.

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
    return name if _PLAIN_NAME(name) else quote(name, len(name))


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


_WORD: Final = r'"(?:[^"\\]|\\.)*"|[A-Za-z0-9._@:/*-]+'
_ADDRESS_PART = regex(f"({_WORD})=({DEFAULT_WORD}|{_WORD}|)").match


@lru_cache(maxsize=4096)
def parse_address(text: str) -> Entity:
    r"""Parse an address as printed in plans; the types may be in any order.

    >>> parse_address('user="CN=a,O=b",client-id=<default>')
    Entity({'user': 'CN=a,O=b', 'client-id': None})
    >>> parse_address('user="<default>"')
    Entity({'user': '<default>'})

    An empty client-id needs no quotes.

    Raises `ValueError`: it is not an address; the message says what to write.
    """
    names: dict[str, str | None] = {}
    position = 0
    while text:
        found = _ADDRESS_PART(text, position)
        is_whole = found is not None and text[found.end() : found.end() + 1] in ("", ",")
        if found is None or not is_whole or not (found[2] or found[1] == CLIENT_ID):
            raise ValueError(
                f"{quote(text)} is not an address; write for example user=svc-a, 'user=svc-a,client-id=<default>' or "
                "'user=\"CN=a,O=b\"'"
            )
        entity_type, name = read_name(found[1]), found[2]
        if entity_type in names:
            raise ValueError(f"{quote(text)} has {quote(entity_type)} twice; an entity has one name per type")
        names[entity_type] = None if name == DEFAULT_WORD else read_name(name)
        position = found.end() + 1
        if found.end() == len(text):
            break
    return Entity.of(names.items())


def read_name(text: str) -> str:
    r"""Return the name that a text stands for: a quoted name is unquoted if results print it that way.

    >>> print(read_name('"a b"'), read_name('"a'), read_name("a b"))
    a b "a a b
    """
    if text.startswith('"') and len(text) > 1:
        try:
            name = loads(text)
        except ValueError:
            return text
        if isinstance(name, str) and text in (spell_name(name), quote(name, len(name))):
            return name
    return text


def try_address(text: str) -> Entity | None:
    """Return the entity that a text is the address of; `None` if it is not one."""
    try:
        return parse_address(text)
    except ValueError:
        return None


@lru_cache(maxsize=65536)
def sanitize(name: str) -> str:
    """Return a name as Kafka's Sanitizer writes it.

    >>> sanitize("CN=a b,O=Å"), sanitize("<default>"), sanitize("a*+~")
    ('CN%3Da%20b%2CO%3D%C3%85', '%3Cdefault%3E', 'a%2A%2B%7E')

    A lone surrogate, which no broker can hold, becomes `%3F`, as in Java.
    """
    return percent_encoded(name, safe="", errors="replace").replace("~", "%7E")


def desanitize(text: str) -> str:
    """Return the name that a text stands for: decoded if it is exactly what `sanitize` writes, else as it is.

    Hence every name can be written in the way in which it is printed, and most also just as they are:

    | text | name | because |
    | --- | --- | --- |
    | `CN%3Da%20b` | `CN=a b` | that is how `CN=a b` is printed |
    | `CN=a b` | `CN=a b` | no name is printed with a blank |
    | `100%`, `a%2gb`, `a%2eb`, `%41` | the same | no name is printed like this |
    | `a%2520b` | `a%20b` | that is how `a%20b` is printed |

    Only a name that itself looks like a sanitized one, such as `a%20b`, has to be written in the way it is printed.

    >>> desanitize("CN%3Da%20b"), desanitize("100%"), desanitize("a%2520b")
    ('CN=a b', '100%', 'a%20b')
    """
    if "%" not in text:
        return text
    try:
        name = unquote_to_bytes(text).decode()
    except UnicodeError:
        return text
    return name if sanitize(name) == text else text


def sanitized_entity(entity: Entity) -> str:
    """Return an entity as KIP-546 prints it.

    >>> sanitized_entity(Entity(user="user one", client_id=None))
    '{user=user%20one, client-id=<default>}'
    """
    parts = [
        f"{sanitize(entity_type)}={DEFAULT_WORD if name is None else sanitize(name)}"
        for entity_type, name in entity.parts
    ]
    return f"{{{', '.join(parts)}}}"


LOOPBACK: Final = "127.0.0.1"

_SHORT = regex(r"(?:0|[1-9][0-9]{0,9})(?:\.(?:0|[1-9][0-9]{0,9})){0,2}").fullmatch


def canonical_ip(name: str) -> str | None:
    """Return the canonical spelling of an address; `None` if it is not a single address.

    >>> canonical_ip("0:0::1"), canonical_ip("::ffff:10.0.0.1"), canonical_ip("10.1"), canonical_ip("localhost")
    ('::1', '10.0.0.1', '10.0.0.1', None)
    """
    host, slash, bits = name.partition("/")
    if slash and bits not in {"32", "128"}:
        return None
    try:
        address = ip_address(host.partition("%")[0].strip().removeprefix("[").removesuffix("]"))
    except ValueError:
        return _expand(host)
    if slash and int(bits) != address.max_prefixlen:
        return None
    if isinstance(address, IPv6Address) and address.ipv4_mapped:
        return str(address.ipv4_mapped)
    return str(address)


def _expand(name: str) -> str | None:
    """Return the IPv4 address that Java reads from a short form such as 10.1."""
    if not _SHORT(name) or "." not in name:
        return None
    *first, last = map(int, name.split("."))
    if any(part > 255 for part in first) or last >= 256 ** (4 - len(first)):
        return None
    return str(IPv4Address(sum(part << (8 * (3 - place)) for place, part in enumerate(first)) + last))


def address_of(name: str) -> str | None:
    """Return the address that a broker reads from an ip name; `None` if it depends on the broker's resolver.

    A broker resolves the name and stores the limit by the resulting address
    (org.apache.kafka.server.metadata.ClientQuotaMetadataManager).

    >>> address_of("localhost"), address_of("::ffff:10.0.0.1"), address_of("example.org")
    ('127.0.0.1', '10.0.0.1', None)
    """
    return LOOPBACK if name == "localhost" else canonical_ip(name)


def ip_problem(name: str) -> str | None:
    """Return why a name is not a canonical address and what to write; `None` when it is one.

    >>> ip_problem("10.0.0.1") is None
    True
    >>> print(ip_problem("10.0.0.0/8"))
    10.0.0.0/8 is not an IP address; Kafka limits single addresses or all (<default>), no networks or host names
    """
    canonical = canonical_ip(name)
    if canonical == name:
        return None
    shown = name if name.isascii() and name.isprintable() and " " not in name and len(name) <= 80 else quote(name)
    if canonical:
        return f"{shown} is not the canonical spelling of this address; write {canonical}"
    return f"{shown} is not an IP address; Kafka limits single addresses or all (<default>), no networks or host names"
