"""Files as they are loaded, beside what `texts-sources.txt` says of them: limits, scope, errors, memory."""

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
from quotaform.model.scope import Pattern, Scope
from tests.loading import check, load

TODAY = date(2026, 12, 31)
MIB = 1048576.0
GOLD = {"gold": {"producer_byte_rate": 50 * MIB, "consumer_byte_rate": 100 * MIB}}


def problems(*sources: SourceFile) -> list[str]:
    with pytest.raises(InvalidFilesError) as caught:
        load(sources, GOLD, TODAY)
    return [str(problem) for problem in caught.value.problems]


COMMON = """\
quotas:
  - match: {user: a}
    values: {producer_byte_rate: 1, consumer_byte_rate: 2}
    owner: common
    reason: why
"""


def test_the_error_counts_its_problems() -> None:
    with pytest.raises(InvalidFilesError, match=r"1 problem found; nothing was sent to any cluster\.$") as caught:
        load([SourceFile("f.yaml", "quotas: 5")], {}, TODAY)
    problem, total = caught.value.text_of("lab").split("\n")
    assert problem.startswith("f.yaml:1")
    assert total == "1 problem found for cluster lab; nothing was sent to it."


def test_a_name_that_kafka_cannot_carry_is_refused() -> None:
    text = f"quotas:\n  - match: {{user: {'å' * 20_000}}}\n    values: {{producer_byte_rate: 1}}\n"
    assert problems(SourceFile("f.yaml", text)) == [
        "f.yaml:2:19: error: this user name has 40000 bytes; Kafka's protocol allows at most 32767 [bad-name]"
    ]
    longest = f"quotas:\n  - match: {{user: {'a' * 32_767}}}\n    values: {{producer_byte_rate: 1}}\n"
    assert len(load([SourceFile("f.yaml", longest)], {}, TODAY)) == 1


def test_a_file_is_loaded_anywhere_and_carried_back() -> None:
    file = load_file(SourceFile("f.yaml", COMMON, "prod"), {})
    carried: LoadedFile = pickle.loads(pickle.dumps(file))  # noqa: S301
    assert carried == file
    desired, found = assemble([carried], TODAY)
    assert (list(desired), found.all()) == ([Entity(user="a")], [])


def test_of_many_entries_of_a_file_out_of_scope_a_few_are_named() -> None:
    # A narrow `include` gave a hundred errors, each with the same remedy, and no word about how many more there were.
    def found(*numbers: int) -> list[str]:
        sources = []
        for at, number in enumerate(numbers):
            entries = "".join(f"- match: {{ip: 10.{at}.0.{ip}}}\n  state: absent\n" for ip in range(number))
            sources.append(SourceFile(f"{at}.yaml", f"quotas:\n{entries}"))
        return [str(problem) for problem in check(sources, {}, TODAY, Scope(include=(Pattern((("user", "a"),)),)))[1]]

    assert len(found(5)) == 5
    many, few = found(200, 1)
    assert many == (
        "0.yaml:2:3: error: 200 entities of this file are outside of the scope in quotaform.yaml: ip=10.0.0.0, "
        "ip=10.0.0.1, ip=10.0.0.2, ip=10.0.0.3, ip=10.0.0.4 and 195 more; remove the entries, or extend the scope, as "
        "in: add {ip: 10.0.0.0} to scope.include [out-of-scope]"
    )
    assert few.startswith("1.yaml:2:3: error: ip=10.1.0.0 is declared here, but is outside of the scope")


def test_equal_values_are_kept_once() -> None:
    text = "quotas:\n  - match: {user: a}\n    profile: gold\n  - match: {user: b}\n    profile: gold\n"
    one, two = load([SourceFile("f.yaml", text)], GOLD, TODAY).values()
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
