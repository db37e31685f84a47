"""The table of precedence, as KIP-546 lists it and KIP-248 names it."""

import pytest

from quotaform.model.entity import Entity
from quotaform.model.precedence import CLIENT_LEVELS, LEVELS, PRECEDENCES, Level, level_of


def test_the_eight_levels_are_in_the_order_of_kip_546() -> None:
    assert [level.source for level in CLIENT_LEVELS] == [
        "ClientInUser",
        "DefaultClientInUser",
        "User",
        "ClientInDefaultUser",
        "DefaultClientInDefaultUser",
        "DefaultUser",
        "Client",
        "DefaultClient",
    ]
    assert [level.number for level in CLIENT_LEVELS] == list(range(1, 9))


def test_every_shape_that_a_broker_holds_has_one_level() -> None:
    shapes = [
        Entity(user="u", client_id="c"),
        Entity(user="u", client_id=None),
        Entity(user="u"),
        Entity(user=None, client_id="c"),
        Entity(user=None, client_id=None),
        Entity(user=None),
        Entity(client_id="c"),
        Entity(client_id=None),
        Entity(ip="10.0.0.1"),
        Entity(ip=None),
    ]
    assert [level_of(shape) for shape in shapes] == list(LEVELS)


def test_an_empty_client_id_meets_the_levels_without_a_client_id_alone() -> None:
    assert [level.number for level in CLIENT_LEVELS if not level.non_empty] == [3, 6]
    assert {level.non_empty for level in CLIENT_LEVELS} == {(), ("client-id",)}


def test_a_level_says_what_joins_and_what_is_the_default() -> None:
    assert [(level.named, level.defaults) for level in CLIENT_LEVELS] == [
        (("user", "client-id"), ()),
        (("user",), ("client-id",)),
        (("user",), ()),
        (("client-id",), ("user",)),
        ((), ("user", "client-id")),
        ((), ("user",)),
        (("client-id",), ()),
        ((), ("client-id",)),
    ]


@pytest.mark.parametrize("level", LEVELS, ids=lambda level: level.source)
def test_the_columns_of_a_level_are_columns_of_its_requests(level: Level) -> None:
    (precedence,) = (each for each in PRECEDENCES if level in each.levels)
    for columns in (level.entity_types, level.named, level.defaults, level.non_empty, level.bucket):
        assert columns == tuple(column for column in precedence.columns if column in columns)


def test_addresses_alone_have_several_spellings() -> None:
    assert [list(precedence.canonical) for precedence in PRECEDENCES] == [[], ["ip"]]
    assert [precedence.canonical["ip"]("::ffff:10.0.0.1") for precedence in PRECEDENCES[1:]] == ["10.0.0.1"]


def test_a_shape_with_an_unknown_type_has_no_level() -> None:
    assert level_of(Entity({"group": "g"})) is None
    assert level_of(Entity({"user": "u", "group": "g"})) is None
    assert level_of(Entity({})) is None
