"""Entity matches: equality, names as they are printed and given back, and options that name one.

The addresses of entities and the names that Kafka prints are in tests/golden/texts-entity.txt and texts-sanitized.txt.
"""

from __future__ import annotations

import copy
import pickle
from urllib.parse import quote, unquote

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from quotaform.cli.option.entity import Filters, read_entity, read_pair
from quotaform.model.entity import Entity, desanitize, parse_address, read_name, sanitize, spell_name
from quotaform.model.errors import UsageError
from quotaform.model.filter import EntityFilter, FilterComponent, Rule
from tests.strategies import ENTITIES

ALICE = Entity(user="alice")
WHOLE = st.text(st.characters(exclude_categories=["Cs"]))
NAMES = WHOLE | st.text(st.sampled_from("a%2025B~+* .-_=,/é<>"), max_size=12)
GIVEN = (WHOLE | st.text(st.sampled_from('"\\n<>a =,'), max_size=8)).filter(lambda name: name != "<default>")


def test_a_default_an_absent_type_and_a_literal_default_differ() -> None:
    entities = {Entity(user="a"), Entity(user="a", client_id=None), Entity(user="a", client_id="<default>")}
    assert len(entities) == 3


def test_the_order_of_the_parts_does_not_matter() -> None:
    one = Entity({"client-id": "x", "user": "a"})
    assert one == Entity(user="a", client_id="x") == Entity.of([("client-id", "x"), ("user", "a")])
    assert hash(one) == hash(Entity(user="a", client_id="x"))
    assert (one.types, one.names) == (("user", "client-id"), {"user": "a", "client-id": "x"})
    assert one != "user=a,client-id=x"


def test_an_entity_is_carried_and_copied_and_cannot_be_changed() -> None:
    entity = Entity(user="a", client_id=None)
    assert pickle.loads(pickle.dumps(entity)) == copy.deepcopy(entity) == entity  # noqa: S301
    assert repr(entity) == "Entity({'user': 'a', 'client-id': None})"
    with pytest.raises(AttributeError):
        entity.parts = ()


@pytest.mark.parametrize("names", [{"user": 5}, {5: "a"}, {"user": b"a"}])
def test_a_name_is_text_or_the_default(names: dict[str, str]) -> None:
    with pytest.raises(TypeError, match="must be a string"):
        Entity(names)


@given(
    ENTITIES
    | st.dictionaries(st.text() | st.sampled_from(["user", "ip"]), st.none() | st.text(), max_size=4).map(Entity)
)
@example(Entity())
@example(Entity(user="<default>", client_id=None))
@example(Entity(user='a",client-id="b'))
@example(Entity(user="\ud800"))
@example(Entity({"a=b,": "c\\"}))
def test_an_address_is_one_inert_line_and_reads_back_as_its_entity(entity: Entity) -> None:
    assert entity.address.isprintable()
    assert parse_address(entity.address) == entity


@given(st.text())
@example(" " * 500)
def test_a_name_reads_back_as_it_is_spelled(name: str) -> None:
    assert read_name(spell_name(name)) == name


@given(st.text(alphabet='user=client-id,<default>"\\ a') | st.text())
def test_what_is_read_is_an_address_or_says_why_not_in_one_line(text: str) -> None:
    try:
        entity = parse_address(text)
    except ValueError as error:
        assert str(error).isprintable()  # noqa: PT017
    else:
        assert parse_address(entity.address) == entity


def test_the_types_may_come_in_any_order_and_an_empty_client_id_needs_no_quotes() -> None:
    assert parse_address("client-id=<default>,user=a") == Entity(user="a", client_id=None)
    assert parse_address("user=a,client-id=") == parse_address("client-id=,user=a") == Entity(user="a", client_id="")


@given(NAMES)
def test_kafkas_rule_is_url_encoding_with_three_exceptions_and_what_it_prints_can_be_given_back(name: str) -> None:
    assert sanitize(name) == quote(name, safe=".-_").replace("~", "%7E")
    assert not set(sanitize(name)) & set(" ,={}<>*+~\n")
    assert desanitize(sanitize(name)) == name


@given(NAMES)
def test_a_text_that_is_never_printed_is_taken_as_it_is(text: str) -> None:
    name = desanitize(text)
    assert name == (unquote(text) if sanitize(unquote(text, errors="surrogateescape")) == text else text)


@given(GIVEN)
def test_an_option_takes_a_name_as_results_print_it(name: str) -> None:
    assert read_entity([Entity(user=name).address], None) == Entity(user=name)
    if not name.startswith('"'):
        assert read_pair("--name", f"user={name}") == ("user", name)


@pytest.mark.parametrize("name", ['"', '"a', '"a" b', '"a"x', '"\\u0061"', '""a""', '"1', '"a\\"'])
def test_quotes_that_results_do_not_print_are_part_of_the_name(name: str) -> None:
    assert read_pair("--name", f"user={name}") == ("user", name)


def test_a_literal_default_needs_quotes() -> None:
    with pytest.raises(UsageError, match="for the default write --default client-id"):
        read_entity(["client-id=<default>"], None)
    assert read_entity(['client-id="<default>"'], ["user"]) == Entity(user=None, client_id="<default>")


def test_an_address_is_one_entity() -> None:
    assert Filters(entity=ALICE).read() == EntityFilter.contains_only(user="alice")
    assert read_entity(None, entity=ALICE) == ALICE
    with pytest.raises(UsageError, match=r'^users=a: "users" is not an entity type; did you mean user'):
        read_entity(None, entity=Entity({"users": "a"}))


def test_all_filters_add_up_in_canonical_order() -> None:
    found = Filters(
        name=["client-id=x"], default=["user"], any_name=["user"], prefix=["user=a"], other=["user=b=c"]
    ).read()
    assert found.components == (
        FilterComponent("user", Rule.DEFAULT),
        FilterComponent("client-id", Rule.EXACT, "x"),
        FilterComponent("user", Rule.ANY),
        FilterComponent("user", Rule.PREFIX, "a"),
        FilterComponent("user", Rule.NOT, "b=c"),
    )
    assert not found.is_strict
    assert Filters(any_name=["ip"], strict=True).read().is_strict
    assert Filters().read().components == ()
