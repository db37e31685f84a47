"""Addresses and names that results print can be given back."""

from __future__ import annotations

from hypothesis import example, given
from hypothesis import strategies as st

from quotaform.model.entity import Entity, parse_address, read_name, spell_name
from tests.strategies import ENTITIES

NAMES = st.none() | st.text()


@given(ENTITIES | st.dictionaries(st.text() | st.sampled_from(["user", "ip"]), NAMES, max_size=4).map(Entity))
@example(Entity())
@example(Entity(user="<default>", client_id=None))
@example(Entity(user='a",client-id="b'))
@example(Entity(user="\ud800"))
@example(Entity({"a=b,": "c\\"}))
def test_an_address_reads_back_as_its_entity(entity: Entity) -> None:
    assert parse_address(entity.address) == entity


@given(st.text())
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


def test_the_types_may_come_in_any_order() -> None:
    assert parse_address("client-id=<default>,user=a") == Entity(user="a", client_id=None)


def test_an_empty_client_id_needs_no_quotes() -> None:
    assert parse_address("user=a,client-id=") == parse_address("client-id=,user=a") == Entity(user="a", client_id="")
