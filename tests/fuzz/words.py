"""Fuzzed: what is typed: addresses, names, filters, values, patterns, and the lists of kafka-client-quotas."""

from __future__ import annotations

from typing import Final

from quotaform.cli.client_quotas import command as lists
from quotaform.cli.command.alter import read_ops
from quotaform.cli.option.entity import read_entity, read_filter
from quotaform.model.entity import Entity, parse_address
from quotaform.model.errors import UsageError
from quotaform.model.quota_key import QUOTA_KEYS
from quotaform.model.scope import Selection
from quotaform.model.units import is_writable, parse_value, render_value, spell_value
from tests.fuzz.target import CANARY, Target, line_problems

_ADDRESSES: Final = (
    "user=svc-a", "user=svc-a,client-id=<default>", 'user="CN=a,O=b"',
    'user="<default>",client-id="a\\"\\u0000"', "ip=::1",
    'group="\\ud83d\\ude42"',
)  # fmt: skip
_NAMES: Final = (
    "user=alice\nclient-id=app",
    'user="a b"\nip=10.0.0.1',
    "user=CN%3Da%2CO%3Db,client-id=x%20y",
    "user=<default>",
)
_VALUES: Final = (
    "20MiB/s",
    "5MB/s",
    "1.5KiB/s",
    "150%",
    "20/s",
    "1048576",
    "12.5",
    "unlimited",
    "1e3",
    "9223372036854775807",
)
_PATTERNS: Final = ("user=svc-*", "user=[a-z]*,client-id=?", 'user="CN=*"', "*", "user=<default>", "[!a]*[]]")
_OPS: Final = (
    "producer_byte_rate=10MiB/s,consumer_byte_rate=5", "request_percentage=150%\nproducer_byte_rate",
    "future_rate=1e3",
    f'a=1,sasl.jaas.config="x password={CANARY};"',
)  # fmt: skip
_ENTITIES: Final = (
    Entity(user="svc-a"),
    Entity(user="a" * 200, client_id=None),
    Entity(ip="10.0.0.1"),
    Entity(user="<default>"),
)


def _text(document: bytes) -> str:
    """Return an argument as Python has it: bytes that are not UTF-8 are surrogates; there is no NUL in one."""
    return document.replace(b"\0", b"").decode("utf-8", "surrogateescape")


def _read_address(document: bytes) -> None:
    entity = parse_address(_text(document))
    assert not list(line_problems(entity.address)) or not entity.parts, "an address is not one printable line"
    if entity.parts:
        assert parse_address(entity.address) == entity, "what was written does not read back"


def _read_names(document: bytes) -> None:
    """Read the lines as names; each reader refuses them in its own words."""
    lines = _text(document).split("\n")[:50]
    problems: list[UsageError] = []
    for read in (
        lambda: read_entity(lines, None),
        lambda: read_filter(
            names=lines[:1], prefixes=lines[1:2], others=lines[2:3], any_names=lines[3:], is_strict=True
        ),
        lambda: read_filter(prefixes=lines[:1]).matches(_ENTITIES[0]),
        lambda: lists.read_parts(lines, []),
        lambda: lists.read_parts([], lines),
    ):
        try:
            read()
        except UsageError as error:
            problems.append(error)
    assert not [found for problem in problems for found in line_problems(str(problem))], problems


def _read_ops(document: bytes) -> None:
    lines = _text(document).split("\n")[:50]
    problems: list[UsageError] = []
    for read in (
        lambda: read_ops(_ENTITIES[0], lines[:1], lines[1:]),
        lambda: lists.read_ops(lines[:1], lines[1:]),
        lambda: lists.read_properties(lines),
    ):
        try:
            read()
        except UsageError as error:
            problems.append(error)
    messages = [str(problem).replace(CANARY, "") for problem in problems]
    assert not [found for message in messages for found in line_problems(message)], messages


def _read_value(document: bytes) -> None:
    text = _text(document)
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
    selection = Selection(select=(_text(document),), exclude=("user=x",))
    for entity in _ENTITIES:
        selection.contains(entity)


TARGETS: Final = (
    Target("address", lambda: [text.encode() for text in _ADDRESSES], _read_address, (ValueError,)),
    Target("names", lambda: [text.encode() for text in _NAMES], _read_names, ()),
    Target("ops", lambda: [text.encode() for text in _OPS], _read_ops, ()),
    Target("value", lambda: [text.encode() for text in _VALUES], _read_value, ()),
    Target("pattern", lambda: [text.encode() for text in _PATTERNS], _match_pattern, ()),
)
