"""Which entities are meant: patterns, scopes and selections."""

from __future__ import annotations

import pytest

from quotaform.model.entity import Entity
from quotaform.model.scope import ALL, FULL_SCOPE, Pattern, Scope, Selection

SVC = Pattern((("user", "svc-*"),))
DEFAULT_USER = Pattern((("user", None),))


@pytest.mark.parametrize(
    ("pattern", "entity", "expected"),
    [
        (SVC, Entity(user="svc-a"), True),
        (SVC, Entity(user="svc-a", client_id="x"), True),
        (SVC, Entity(user="svc-a", client_id=None), True),
        (SVC, Entity(user="SVC-a"), False),
        (SVC, Entity(user="my-svc-a"), False),
        (SVC, Entity(client_id="svc-a"), False),
        (SVC, Entity(user=None), False),
        (Pattern((("user", "*"),)), Entity(user=None), False),
        (Pattern((("user", "*"),)), Entity(user="<default>"), True),
        (Pattern((("user", "<default>"),)), Entity(user=None), False),
        (DEFAULT_USER, Entity(user=None), True),
        (DEFAULT_USER, Entity(user=None, client_id="x"), True),
        (DEFAULT_USER, Entity(user="<default>"), False),
        (DEFAULT_USER, Entity(client_id="x"), False),
        (Pattern((("user", "a"), ("client-id", None))), Entity(user="a", client_id=None), True),
        (Pattern((("user", "a"), ("client-id", None))), Entity(user="a", client_id="c"), False),
        (Pattern((("user", "a"), ("client-id", "*"))), Entity(user="a"), False),
        (Pattern((("ip", "10.0.*"),)), Entity(ip="10.0.7.1"), True),
        (Pattern((("user", "?"),)), Entity(user="ab"), False),
        (Pattern((("user", "[ab]"),)), Entity(user="a"), True),
        (Pattern((("user", "*"),)), Entity(user="a\nb"), True),
    ],
)
def test_every_type_of_a_pattern_must_be_there_and_match(pattern: Pattern, entity: Entity, expected: bool) -> None:
    assert Scope(include=(pattern,)).contains(entity) is expected


def test_without_includes_everything_is_in_scope_but_what_is_excluded() -> None:
    assert FULL_SCOPE.contains(Entity({"group": "g"}))
    scope = Scope(exclude=(SVC,))
    assert scope.contains(Entity(user="a"))
    assert not scope.contains(Entity(user="svc-a"))


def test_with_includes_only_those_are_in_scope() -> None:
    scope = Scope(include=(SVC, DEFAULT_USER), exclude=(Pattern((("user", "svc-legacy-*"),)),))
    assert scope.contains(Entity(user="svc-a"))
    assert scope.contains(Entity(user=None))
    assert not scope.contains(Entity(user="svc-legacy-a"))
    assert not scope.contains(Entity(ip=None))


def test_a_selection_takes_globs_over_addresses() -> None:
    selection = Selection(select=("user=svc-*", "ip=*"), exclude=("*,client-id=*",))
    assert selection.is_partial
    assert selection.contains(Entity(user="svc-a"))
    assert selection.contains(Entity(ip=None))
    assert not selection.contains(Entity(user="svc-a", client_id="x"))
    assert not selection.contains(Entity(user="other"))


def test_a_selection_of_nothing_in_particular_is_all() -> None:
    assert not ALL.is_partial
    assert ALL.contains(Entity(user=None))


def test_a_selection_sees_the_default_as_it_is_written() -> None:
    assert Selection(select=("user=<default>",)).contains(Entity(user=None))
    assert not Selection(select=("user=<default>",)).contains(Entity(user="<default>"))
    assert Selection(select=('user="<default>"',)).contains(Entity(user="<default>"))


def test_excluding_alone_is_partial_too() -> None:
    selection = Selection(exclude=("user=a",))
    assert selection.is_partial
    assert selection.contains(Entity(user="b"))
    assert not selection.contains(Entity(user="a"))
