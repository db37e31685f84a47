"""What files say: expansion, profiles, layers, expiry, aliases, and files that are no text."""

from __future__ import annotations

import gc
import pickle
from datetime import date

import pytest

from quotaform.desired.loader import assemble
from quotaform.desired.quotas_file import LoadedFile, load_file
from quotaform.desired.tree import SourceFile
from quotaform.model.entity import Entity
from quotaform.model.errors import InvalidFilesError
from quotaform.model.finding import Location, Severity
from quotaform.model.quotas import Desired
from quotaform.model.scope import Pattern, Scope
from tests.loading import check, load

TODAY = date(2026, 12, 31)
MIB = 1048576.0
GOLD = {"gold": {"producer_byte_rate": 50 * MIB, "consumer_byte_rate": 100 * MIB}}


def loaded(*texts: str, layer: str | None = None) -> Desired:
    """Load common texts, and one more as the layer of a cluster."""
    sources = [SourceFile(f"{number}.yaml", text) for number, text in enumerate(texts, start=1)]
    if layer is not None:
        sources.append(SourceFile("prod/1.yaml", layer, "prod"))
    return load(sources, GOLD, TODAY)


def problems(*sources: SourceFile) -> list[str]:
    with pytest.raises(InvalidFilesError) as caught:
        load(sources, GOLD, TODAY)
    return [str(problem) for problem in caught.value.problems]


def test_an_entry_keeps_its_values_its_place_and_its_metadata() -> None:
    text = """\
# a comment
quotas:
  - match: {user: svc-orders}
    values: {producer_byte_rate: 20MiB/s, request_percentage: 150%}
    owner: team-orders
    reason: checkout traffic
"""
    entry = loaded(text)[Entity(user="svc-orders")]
    assert entry.values == {"producer_byte_rate": 20 * MIB, "request_percentage": 150.0}
    assert entry.location == Location("1.yaml", 3, 5)
    assert (entry.owner, entry.reason, entry.absent) == ("team-orders", "checkout traffic", None)


def test_values_beside_a_profile_override_it_key_by_key() -> None:
    text = "quotas:\n  - match: {user: a}\n    profile: gold\n    values: {producer_byte_rate: 1MiB/s}\n"
    assert loaded(text)[Entity(user="a")].values == {"producer_byte_rate": MIB, "consumer_byte_rate": 100 * MIB}


def test_a_tombstone_has_no_values_and_says_why() -> None:
    entry = loaded("quotas:\n  - match: {user: a}\n    state: absent\n")[Entity(user="a")]
    assert (entry.values, entry.absent) == ({}, "state: absent")


@pytest.mark.parametrize(
    ("expires", "absent"),
    [("2026-12-30", "expired 2026-12-30"), ("2026-12-31", "expired 2026-12-31"), ("2027-01-01", None)],
)
def test_an_entry_counts_as_absent_from_the_day_on_which_it_expires(expires: str, absent: str | None) -> None:
    text = f"quotas:\n  - match: {{user: a}}\n    profile: gold\n    expires: {expires}\n"
    entry = loaded(text)[Entity(user="a")]
    assert entry.absent == absent
    assert bool(entry.values) == (absent is None)


def test_an_expired_entry_is_worth_a_note() -> None:
    text = "quotas:\n  - match: {user: a}\n    profile: gold\n    expires: 2026-01-01\n"
    _, findings = check([SourceFile("f.yaml", text)], GOLD, TODAY)
    assert [str(finding) for finding in findings] == [
        "f.yaml:2:5: note: user=a has expired 2026-01-01, so it is treated as state: absent; remove it after "
        "the entity has been deleted "
        "[expired]"
    ]


COMMON = """\
quotas:
  - match: {user: a}
    values: {producer_byte_rate: 1, consumer_byte_rate: 2}
    owner: common
    reason: why
"""


def test_the_layer_of_a_cluster_is_merged_key_by_key() -> None:
    above = "quotas:\n  - match: {user: a}\n    values: {consumer_byte_rate: 3}\n    owner: prod\n"
    entry = loaded(COMMON, layer=above)[Entity(user="a")]
    assert entry.values == {"producer_byte_rate": 1.0, "consumer_byte_rate": 3.0}
    assert (entry.owner, entry.reason) == ("prod", "why")
    assert entry.location == Location("prod/1.yaml", 2, 5)


def test_absent_in_the_layer_of_a_cluster_removes_the_common_entry() -> None:
    entry = loaded(COMMON, layer="quotas:\n  - match: {user: a}\n    state: absent\n")[Entity(user="a")]
    assert (entry.values, entry.absent) == ({}, "state: absent")


def test_values_in_the_layer_of_a_cluster_bring_back_what_is_absent_elsewhere() -> None:
    common = "quotas:\n  - match: {user: a}\n    state: absent\n"
    above = "quotas:\n  - match: {user: a}\n    values: {consumer_byte_rate: 3}\n"
    entry = loaded(common, layer=above)[Entity(user="a")]
    assert (entry.values, entry.absent) == ({"consumer_byte_rate": 3.0}, None)


def test_the_order_of_layers_does_not_depend_on_the_order_of_sources() -> None:
    above = SourceFile("prod/1.yaml", "quotas:\n  - match: {user: a}\n    values: {consumer_byte_rate: 3}\n", "prod")
    desired = load([above, SourceFile("1.yaml", COMMON)], {}, TODAY)
    assert desired[Entity(user="a")].values == {"producer_byte_rate": 1.0, "consumer_byte_rate": 3.0}


def test_an_entity_twice_in_a_layer_names_both_places() -> None:
    assert problems(SourceFile("a.yaml", COMMON), SourceFile("b.yaml", COMMON)) == [
        "b.yaml:2:5: error: user=a is declared twice; it is also at a.yaml:2:5. Keep one of the two [duplicate-entity]"
    ]


def test_all_problems_of_all_files_are_found_in_one_run_sorted_by_place() -> None:
    one = "quotas:\n  - match: {user: 007}\n    values: {producer_byte_rat: 1}\n"
    two = "quotas: [\n"
    found = problems(SourceFile("b.yaml", one), SourceFile("a.yaml", two), SourceFile("c.yaml", b"\xff"))
    assert [line.split(" ")[0] for line in found] == ["a.yaml:2:1:", "b.yaml:2:19:", "b.yaml:3:14:", "c.yaml:1:"]


def test_the_error_counts_its_problems() -> None:
    with pytest.raises(InvalidFilesError, match=r"1 problem found; nothing was sent to any cluster\.$") as caught:
        load([SourceFile("f.yaml", "quotas: 5")], {}, TODAY)
    problem, total = caught.value.text_of("lab").split("\n")
    assert problem.startswith("f.yaml:1")
    assert total == "1 problem found for cluster lab; nothing was sent to it."


def test_anchors_and_merge_keys_work() -> None:
    text = """\
quotas:
  - match: {user: a}
    values: &small {producer_byte_rate: 1, consumer_byte_rate: 2}
  - match: {user: b}
    values: *small
  - match: {user: c}
    values: {<<: *small, consumer_byte_rate: 3}
  - &entry
    match: {user: d}
    values: {request_percentage: &half 50%}
    owner: x
  - <<: *entry
    match: {user: e}
  - match: {user: f}
    values: {<<: [{request_percentage: *half}, *small]}
"""
    values = {entity.address: entry.values for entity, entry in loaded(text).items()}
    assert values == {
        "user=a": {"producer_byte_rate": 1.0, "consumer_byte_rate": 2.0},
        "user=b": {"producer_byte_rate": 1.0, "consumer_byte_rate": 2.0},
        "user=c": {"producer_byte_rate": 1.0, "consumer_byte_rate": 3.0},
        "user=d": {"request_percentage": 50.0},
        "user=e": {"request_percentage": 50.0},
        "user=f": {"request_percentage": 50.0, "producer_byte_rate": 1.0, "consumer_byte_rate": 2.0},
    }


def test_a_name_that_kafka_cannot_carry_is_refused() -> None:
    text = f"quotas:\n  - match: {{user: {'å' * 20_000}}}\n    values: {{producer_byte_rate: 1}}\n"
    assert problems(SourceFile("f.yaml", text)) == [
        "f.yaml:2:19: error: this user name has 40000 bytes; Kafka's protocol allows at most 32767 [bad-name]"
    ]
    longest = f"quotas:\n  - match: {{user: {'a' * 32_767}}}\n    values: {{producer_byte_rate: 1}}\n"
    assert len(loaded(longest)) == 1


def test_a_file_is_loaded_anywhere_and_carried_back() -> None:
    file = load_file(SourceFile("f.yaml", COMMON, "prod"), {})
    carried: LoadedFile = pickle.loads(pickle.dumps(file))  # noqa: S301
    assert carried == file
    desired, found = assemble([carried], TODAY)
    assert (list(desired), found.all()) == ([Entity(user="a")], [])


def test_what_can_be_made_of_the_rest_is_returned_with_the_problems() -> None:
    text = "quotas:\n  - match: {user: 007}\n    profile: gold\n  - match: {user: b}\n    profile: gold\n"
    text += "  - match: {user: c}\n    values: {producer_byte_rate: 5MB/s, consumer_byte_rate: 0}\n"
    desired, findings = check([SourceFile("f.yaml", text)], GOLD, TODAY)
    assert list(desired) == [Entity(user="b")]
    assert [finding.severity for finding in findings] == [Severity.ERROR] * 2


def test_entries_out_of_scope_are_problems_of_their_own_while_they_are_few() -> None:
    # A narrow `include` gave a hundred errors, each with the same remedy, and no word about how many more there were.
    scope = Scope(include=(Pattern((("user", "svc-*"),)),))

    def found(*numbers: int) -> list[str]:
        sources = []
        for at, number in enumerate(numbers):
            entries = "".join(f"- match: {{ip: 10.{at}.0.{ip}}}\n  state: absent\n" for ip in range(number))
            sources.append(SourceFile(f"{at}.yaml", f"quotas:\n{entries}"))
        return [str(problem) for problem in check(sources, {}, TODAY, scope)[1]]

    problem = "is declared here, but is outside of the scope in quotaform.yaml; remove the entry, or add {ip: "
    scope_line = "to scope.include [out-of-scope]"
    assert found(2) == [
        f"0.yaml:{line}:3: error: ip=10.0.0.{ip} {problem}10.0.0.{ip}}} {scope_line}" for line, ip in ((2, 0), (4, 1))
    ]
    assert len(found(5)) == 5
    shown = "ip=10.0.0.0, ip=10.0.0.1, ip=10.0.0.2, ip=10.0.0.3, ip=10.0.0.4 and 195 more"
    assert found(200, 1) == [
        f"0.yaml:2:3: error: 200 entities of this file are outside of the scope in quotaform.yaml: {shown}; remove the "
        "entries, or extend the scope, as in: add {ip: 10.0.0.0} to scope.include [out-of-scope]",
        f"1.yaml:2:3: error: ip=10.1.0.0 {problem}10.1.0.0}} to scope.include [out-of-scope]",
    ]


@pytest.mark.parametrize(
    ("match", "exclude", "remedy"),
    [
        ("{user: <default>}", "", 'add {user: "<default>"} to scope.include, where * does not stand for a default'),
        ("{user: svc-a, client-id: x*y}", "svc-*", 'take {user: "svc-*"} out of scope.exclude'),
        ("{client-id: x*y}", "", 'add {client-id: "x[*]y"} to scope.include'),
    ],
)
def test_an_entry_out_of_scope_says_which_line_brings_it_into_scope(match: str, exclude: str, remedy: str) -> None:
    """`{user: "*"}` leaves the default out, and the message said "extend the scope", not how."""
    excluded = (Pattern((("user", exclude),)),) if exclude else ()
    source = SourceFile("a.yaml", f"quotas:\n  - match: {match}\n    state: absent\n")
    found = check([source], {}, TODAY, Scope(include=(Pattern((("user", "*"),)),), exclude=excluded))[1]
    (problem,) = (each for each in found if each.rule == "out-of-scope")
    assert problem.message.partition("; remove the entry, or ")[2] == remedy


def test_equal_values_are_kept_once() -> None:
    text = "quotas:\n  - match: {user: a}\n    profile: gold\n  - match: {user: b}\n    profile: gold\n"
    one, two = loaded(text).values()
    assert one.values is two.values


def test_garbage_collection_is_as_it_was_before() -> None:
    assert gc.isenabled()
    with pytest.raises(InvalidFilesError):
        load([SourceFile("f.yaml", "quotas: 5")], {}, TODAY)
    assert gc.isenabled()
    gc.disable()
    try:
        load([], {}, TODAY)
        assert not gc.isenabled()
    finally:
        gc.enable()
