"""Entity matches: equality, order, addresses, and what cannot be one."""

from __future__ import annotations

import copy
import pickle

import pytest

from quotaform.model.entity import Entity, spell_name
from quotaform.model.text import quote


@pytest.mark.parametrize(
    ("entity", "address"),
    [
        (Entity(user="alice"), "user=alice"),
        (Entity(user=None), "user=<default>"),
        (Entity(user="<default>"), 'user="<default>"'),
        (Entity(client_id="x", user="a"), "user=a,client-id=x"),
        (Entity(user=None, client_id=None), "user=<default>,client-id=<default>"),
        (Entity(ip="2001:db8::1"), "ip=2001:db8::1"),
        (Entity({"topic": "t", "user": "a"}), "user=a,topic=t"),
        (Entity({"z": "1", "b": "2"}), "b=2,z=1"),
        (Entity(user="a,client-id=b"), 'user="a,client-id=b"'),
        (Entity(user=""), 'user=""'),
        (Entity(user='a"b\\c'), 'user="a\\"b\\\\c"'),
        (Entity(user="Å"), 'user="Å"'),
        (Entity(user="x\n%0A::error"), 'user="x\\n%0A::error"'),
        (Entity(user="\u202eevil"), 'user="\\u202eevil"'),
        (Entity(user="\ud800"), 'user="\\ud800"'),
        (Entity(user="\u2028"), 'user="\\u2028"'),
        (Entity({"a=b": "c"}), '"a=b"=c'),
        (Entity(), ""),
    ],
)
def test_an_address_is_one_inert_line(entity: Entity, address: str) -> None:
    assert entity.address == str(entity) == address
    assert entity.address.isprintable()


def test_a_default_an_absent_type_and_a_literal_default_differ() -> None:
    entities = {Entity(user="a"), Entity(user="a", client_id=None), Entity(user="a", client_id="<default>")}
    assert len(entities) == 3


def test_the_order_of_the_parts_does_not_matter() -> None:
    one = Entity({"client-id": "x", "user": "a"})
    assert one == Entity(user="a", client_id="x") == Entity.of([("client-id", "x"), ("user", "a")])
    assert hash(one) == hash(Entity(user="a", client_id="x"))
    assert one.types == ("user", "client-id")
    assert one.names == {"user": "a", "client-id": "x"}
    assert one != "user=a,client-id=x"


def test_an_entity_is_carried_and_copied() -> None:
    entity = Entity(user="a", client_id=None)
    assert pickle.loads(pickle.dumps(entity)) == entity  # noqa: S301
    assert copy.deepcopy(entity) == entity
    assert repr(entity) == "Entity({'user': 'a', 'client-id': None})"


def test_an_entity_cannot_be_changed() -> None:
    with pytest.raises(AttributeError):
        Entity(user="a").parts = ()


@pytest.mark.parametrize("names", [{"user": 5}, {5: "a"}, {"user": b"a"}])
def test_a_name_is_text_or_the_default(names: dict[str, str]) -> None:
    with pytest.raises(TypeError, match="must be a string"):
        Entity(names)


@pytest.mark.parametrize("name", ["svc-a", "a.b", "a@b", "a:b", "a/b", "a*", "A_1"])
def test_a_plain_name_is_spelled_as_it_is(name: str) -> None:
    assert spell_name(name) == name


def test_a_long_name_is_spelled_whole() -> None:
    assert spell_name(" " * 500) == f'"{" " * 500}"'


def test_a_quoted_text_is_cut() -> None:
    assert quote("a" * 81) == f'"{"a" * 80}…" (81 characters)'
    assert quote("a\n" * 50, 4) == '"a\\na\\n…" (100 characters)'
