"""Laws of the files: what is written reads back, no text breaks the loader, and policies are whole or wrong."""

from __future__ import annotations

import re
from datetime import date
from functools import cache
from typing import Any

import yaml
from hypothesis import example, given
from hypothesis import strategies as st

from quotaform.desired.schema import quotas as quotas_schema
from quotaform.desired.tree import SourceFile
from quotaform.desired.writer import render_quotas, spell_scalar, writable_values
from quotaform.model.entity import Entity
from quotaform.model.finding import Severity
from quotaform.model.quota_key import QUOTA_KEYS, QuotaKey, keys_for
from quotaform.model.records.schema import gate
from quotaform.model.units import is_writable, parse_value, render_value, spell_value
from tests.loading import check, load

TODAY = date(2026, 1, 1)

ODD_NAMES = [
    *("<default>", "yes", "No", "y", "on", "007", "0x1F", "1_000", "1e5", "1.5", "1:30", "null", "~", "=", "<<", "-"),
    *("2026-12-31", ".inf", ".nan", "#x", "a #b", "a: b", "a:", ": a", "- a", "? a", "*a", "&a", "!a", "!!str a", "%a"),
    *(
        "`a",
        "@a",
        "---",
        "{a}",
        "[a]",
        "a,b",
        "|",
        ">",
        "'",
        '"',
        "\\",
        "a\n::b",
        "\n",
        "\r\n",
        "\t",
        " ",
        " a",
        "a ",
    ),
    *("\0", "\x1b[31m", "\x7f", "\x85", "\xa0", "\u2028", "\u2029", "\ufeff", "\ufffe", "\U0001f600", "\U000e0001"),
    *("\u202e", "Å", "A\u030a", "${env:HOME}", "{{ name }}", "%0A::error", "CN=a,O=b", "a" * 1000),
]
NAMES = st.sampled_from(ODD_NAMES) | st.text(min_size=1, max_size=20)
MAYBE_NAMES = st.one_of(NAMES, NAMES, st.none())
IPS = st.one_of(st.ip_addresses().map(str), st.none())
ENTITIES = st.one_of(
    st.builds(lambda user: Entity(user=user), MAYBE_NAMES),
    st.builds(lambda client: Entity(client_id=client), MAYBE_NAMES),
    st.builds(lambda user, client: Entity(user=user, client_id=client), MAYBE_NAMES, MAYBE_NAMES),
    st.builds(lambda ip: Entity(ip=ip), IPS),
)
KEYS = st.sampled_from(list(QUOTA_KEYS.values()))


@cache
def values_of(key: QuotaKey) -> st.SearchStrategy[float]:
    """Any value that a broker can hold for a key, whether files can say it or not."""
    whole = st.integers(1, 2**53).map(float)
    round_ones = st.builds(lambda number, power: float(number << power), st.integers(1, 99), st.integers(0, 56))
    return st.one_of(whole, round_ones, st.just(key.maximum), st.floats(), st.floats(1e-9, 1e9))


@cache
def values_for(keys: tuple[str, ...]) -> st.SearchStrategy[dict[str, float]]:
    """At least one value."""
    return st.fixed_dictionaries({}, optional={name: values_of(QUOTA_KEYS[name]) for name in keys}).filter(bool)


@st.composite
def quotas(draw: st.DrawFn) -> dict[Entity, dict[str, float]]:
    """Values for entities, at least one each."""
    return {entity: draw(values_for(keys_for(entity))) for entity in draw(st.lists(ENTITIES, unique=True, max_size=6))}


QUOTAS = quotas()


@given(QUOTAS)
def test_what_is_written_reads_back_bit_for_bit(quotas: dict[Entity, dict[str, float]]) -> None:
    text, findings = render_quotas(quotas)
    desired = load([SourceFile("quotas.d/imported.yaml", text)], {}, TODAY)
    writable = {entity: said for entity, values in quotas.items() if (said := writable_values(entity, values))}
    assert {entity: entry.values for entity, entry in desired.items()} == writable
    left_out = {entity.address for entity in quotas if entity not in writable}
    assert left_out == {finding.address for finding in findings}


@given(QUOTAS)
def test_what_is_written_is_the_same_to_any_reader_of_yaml(quotas: dict[Entity, dict[str, float]]) -> None:
    text, _ = render_quotas(quotas)
    root = yaml.safe_load(text)
    assert gate(quotas_schema).is_valid(root)
    for item in root["quotas"]:
        names = [name["name"] if isinstance(name, dict) else name for name in item["match"].values()]
        assert all(isinstance(name, str) for name in names)
    assert text.isascii() or all(line.isprintable() for line in text.splitlines())


@given(NAMES)
def test_a_spelled_name_is_that_name(name: str) -> None:
    assert yaml.safe_load(f"{{a: {spell_scalar(name)}}}") == {"a": name}
    assert yaml.safe_load(f"- {spell_scalar(name)}\n") == [name]


@given(KEYS.flatmap(lambda key: st.tuples(st.just(key), values_of(key))))
def test_a_value_that_is_spelled_reads_back_bit_for_bit(pair: tuple[QuotaKey, float]) -> None:
    key, value = pair
    spelled = spell_value(key, value)
    assert (spelled is not None) == is_writable(key, value)
    if spelled is not None:
        assert parse_value(key, spelled) == value
    assert not re.search("[0-9][eE]", render_value(key, value)), "no exponents"


@given(
    KEYS,
    st.one_of(st.text(max_size=12), st.from_regex(r"-?[0-9]{1,4}(\.[0-9]{1,3})?(e[0-9]{1,3})? ?[KkMG]?i?B?/?s?%?")),
)
def test_a_text_is_a_value_or_says_why_not_in_one_line(key: QuotaKey, text: str) -> None:
    try:
        value = parse_value(key, text)
    except ValueError as error:
        assert str(error).isprintable()  # noqa: PT017
    else:
        assert 0 < value <= (key.maximum if key.is_whole else float("inf"))
        assert gate(quotas_schema).is_valid({"quotas": [{"match": {"user": "a"}, "values": {key.name: text}}]}), (
            "the schema must not refuse what the loader takes"
        )


SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-5, 10**20),
    st.floats(),
    st.text(max_size=5),
    st.sampled_from(ODD_NAMES[:40]),
    st.sampled_from(["a", "b", "gold", "absent", "present", "2026-12-31", "10.0.0.1", "5MiB/s", "unlimited"]),
)
FIELDS = [
    *("quotas", "match", "values", "profile", "owner", "reason", "expires", "state", "user", "client-id", "ip", "name"),
    *("<<", "producer_byte_rate", "connection_creation_rate", "ownr"),
]
TREES: st.SearchStrategy[Any] = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(FIELDS), inner, max_size=4),
    max_leaves=10,
)
ITEMS = st.fixed_dictionaries(
    {},
    optional={
        "match": st.dictionaries(st.sampled_from(["user", "client-id", "ip", "usr"]), TREES, max_size=2),
        "values": st.dictionaries(st.sampled_from(FIELDS[-3:-1]), SCALARS, max_size=2) | TREES,
        "profile": st.sampled_from(["gold", "silver"]) | SCALARS,
        "state": st.sampled_from(["absent", "present"]) | SCALARS,
        "expires": SCALARS,
        "owner": SCALARS,
        "ownr": SCALARS,
    },
)


@given(st.lists(ITEMS, max_size=3) | TREES)
@example([{"match": {"user": ["a", ["b"]]}, "values": {"producer_byte_rate": True}}])
def test_a_file_that_the_schema_refuses_has_a_problem(items: Any) -> None:
    document = {"quotas": items}
    text = yaml.safe_dump(document, sort_keys=False, allow_unicode=True)
    desired, findings = check([SourceFile("f.yaml", text)], {"gold": {"producer_byte_rate": 5.0}}, TODAY)
    errors = [finding for finding in findings if finding.severity is Severity.ERROR]
    if not gate(quotas_schema).is_valid(yaml.safe_load(text)):
        assert errors
    for finding in findings:
        assert str(finding).isprintable()
        assert finding.location
        assert finding.location.line
    places = [(finding.location, finding.rule, finding.message) for finding in errors]
    assert len(places) == len(set(places))
    if not errors:
        assert all(entry.values or entry.absent for entry in desired.values())
