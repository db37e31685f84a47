"""The table of precedence, as KIP-546 lists it and KIP-248 names it."""

from quotaform.model.entity import Entity
from quotaform.model.precedence import CLIENT_LEVELS, LEVELS, level_of


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


def test_a_shape_with_an_unknown_type_has_no_level() -> None:
    assert level_of(Entity({"group": "g"})) is None
    assert level_of(Entity({"user": "u", "group": "g"})) is None
    assert level_of(Entity({})) is None
