"""Whatever a file of policies holds: it is a policy, or it says what is wrong; asking it never fails."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from quotaform.desired.policy.policy import check_policies
from quotaform.desired.policy.reader import read_policy
from quotaform.desired.policy.shape import KEYWORDS, ROOT_KEYWORDS
from quotaform.desired.tree import SourceFile
from quotaform.model.entity import Entity
from quotaform.model.quotas import Entry
from tests.builder import PRODUCER, REQUEST
from tests.strategies import desired

FIELDS = ("address", "entity", "values", "owner", PRODUCER, REQUEST, "user", "client-id", "cluster")
SCALARS = st.one_of(
    st.sampled_from([0, 1, -1, 1048576, 2**63, 1e300, 0.5, True, False, None]),
    st.sampled_from(
        ["", "^svc-", "(a+)+$", "string", "object", "number", "#", "#/$defs/owner", "user=<default>", *FIELDS]
    ),
    st.text(max_size=5),
)
NAMES = st.sampled_from([*KEYWORDS, *ROOT_KEYWORDS, *FIELDS])
SCHEMAS = st.recursive(
    SCALARS,
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(NAMES, inner, max_size=4)),
    max_leaves=12,
)
LIKELY = st.dictionaries(
    st.sampled_from(["properties", "if", "then", "not", "allOf", "required", "x-match", "$defs", "x-message"]),
    SCHEMAS,
    max_size=3,
)
ODD = {Entity(user="a"): Entry(Entity(user="a"), {PRODUCER: 1.0}, owner="x\n::error::", reason="\x1b[0m")}


@given(st.one_of(SCHEMAS, LIKELY), desired(max_size=4))
def test_any_json_is_a_policy_or_says_why_not(schema: Any, declared: dict[Entity, Entry]) -> None:
    policy, problems, steps = read_policy(SourceFile("p.json", json.dumps(schema)))

    assert (policy is None) == bool(problems)
    assert steps >= 0
    for problem in problems:
        assert problem.location is not None
        assert problem.location.line >= 1
        assert str(problem).isprintable()
    if policy is not None:
        for finding in check_policies({**declared, **ODD}, [policy], "lab"):
            assert finding.message.isprintable()
            assert finding.address is not None or finding.rule == "more-problems"


@given(st.one_of(st.binary(max_size=40), st.text(max_size=40)))
def test_any_bytes_are_a_policy_or_say_why_not(content: bytes | str) -> None:
    policy, problems, _ = read_policy(SourceFile("p.json", content))

    assert (policy is None) == bool(problems)
    assert all(str(problem).isprintable() for problem in problems)
