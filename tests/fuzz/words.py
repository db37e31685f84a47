"""Fuzzed: what is typed (addresses, names, filters, values, patterns), client properties, JAAS lines and servers."""

from __future__ import annotations

from typing import Final

from quotaform.cli import client_quotas as lists
from quotaform.cli.command.cluster import read_ops
from quotaform.cli.option.entity import Filters, read_entity
from quotaform.cluster.client.reader import load_client_config
from quotaform.cluster.sasl.jaas import parse_jaas, render_jaas
from quotaform.model.entity import Entity, parse_address
from quotaform.model.errors import InvalidFilesError, UsageError
from quotaform.model.quota_key import QUOTA_KEYS
from quotaform.model.scope import Selection
from quotaform.model.server import parse_servers
from quotaform.model.units import is_writable, parse_value, render_value, spell_value
from tests.fuzz.target import CANARY, Target, kept, line_problems, require_words, round_trip, scratch, text_of

_ENTITIES: Final = (
    Entity(user="svc-a"),
    Entity(user="a" * 200, client_id=None),
    Entity(ip="10.0.0.1"),
    Entity(user="<default>"),
)


def _read_address(document: bytes) -> None:
    entity = parse_address(text_of(document))
    assert not list(line_problems(entity.address)) or not entity.parts, "an address is not one printable line"
    if entity.parts:
        assert parse_address(entity.address) == entity, "what was written does not read back"


def _read_names(document: bytes) -> None:
    """Read the lines as names; each reader refuses them in its own words."""
    lines = text_of(document).split("\n")[:50]
    readers = (
        lambda: read_entity(lines, None),
        lambda: Filters(name=lines[:1], prefix=lines[1:2], other=lines[2:3], any_name=lines[3:], strict=True).read(),
        lambda: Filters(prefix=lines[:1]).read().matches(_ENTITIES[0]),
        lambda: lists.read_parts(lines, []),
        lambda: lists.read_parts([], lines),
    )
    require_words(UsageError, readers)


def _read_ops(document: bytes) -> None:
    lines = text_of(document).split("\n")[:50]
    readers = (
        lambda: read_ops(_ENTITIES[0], lines[:1], lines[1:]),
        lambda: lists.read_ops(lines[:1], lines[1:]),
        lambda: lists.read_properties(lines),
    )
    require_words(UsageError, readers, CANARY)


def _read_value(document: bytes) -> None:
    text = text_of(document)
    refused: list[str] = []
    for key in QUOTA_KEYS.values():
        try:
            value = parse_value(key, text)
        except ValueError as error:
            refused.append(str(error))
            continue
        assert is_writable(key, value), "a value that may not be written was read"
        spelled = spell_value(key, value)
        assert spelled is not None, "a value that was read cannot be written"
        assert parse_value(key, spelled) == value, "what was written does not read back"
        assert render_value(key, value).isprintable()
    assert not [found for message in refused for found in line_problems(message)], refused[0][:300]


def _match_pattern(document: bytes) -> None:
    selection = Selection(select=(text_of(document),), exclude=("user=x",))
    for entity in _ENTITIES:
        selection.contains(entity)


def _read_properties(document: bytes) -> None:
    path = scratch() / "client.properties"
    path.write_bytes(document)
    config = load_client_config(path, environ={"QUOTAFORM_X": CANARY, "QUOTAFORM_ENV": "QUOTAFORM_X"})
    assert CANARY not in repr(config.credentials), "shows a secret"


def _read_jaas(document: bytes) -> None:
    name, options = parse_jaas(document.decode("utf-8", "replace"))
    assert parse_jaas(render_jaas(f"x.{name}", options)) == (name, options), "what was written does not read back"


_read_servers: Final = round_trip(
    lambda text: parse_servers(text_of(text) if isinstance(text, bytes) else text),
    lambda servers: ",".join(map(str, servers)),
)

TARGETS: Final = (
    Target("address", _read_address, (ValueError,)),
    Target("names", _read_names, ()),
    Target("ops", _read_ops, ()),
    Target("value", _read_value, ()),
    Target("pattern", _match_pattern, ()),
    Target("properties", _read_properties, (InvalidFilesError,), refused=kept("refused-properties")),
    Target("jaas", _read_jaas, (ValueError,)),
    Target("servers", _read_servers, (ValueError,)),
)
