"""Policies: what they are about, what they refuse, and which files are none."""

from __future__ import annotations

import itertools
import json
import time
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft7Validator

from quotaform.desired.policy.policy import LONGEST_TEXT, MOST_SECONDS, TOO_SLOW, check_policies, entry_document
from quotaform.desired.policy.reader import MOST_STEPS, Policy, read_policy
from quotaform.desired.tree import SourceFile
from quotaform.model import rule
from quotaform.model.entity import Entity
from quotaform.model.finding import Finding, Location
from quotaform.model.quotas import Entry, ProfileUse
from quotaform.model.records.schema import make_policy_gate
from quotaform.model.rule import MAX_PROBLEMS
from quotaform.model.scope import Scope
from quotaform.repository.policy import MOST_POLICIES, load_policies
from quotaform.repository.repository import Repository
from tests.builder import CONSUMER, PRODUCER, REQUEST, declare
from tests.loading import load_schema

A = Entity(user="svc-a")


def policy_of(schema: Any) -> Any:
    policy, problems, _ = read_policy(SourceFile("p.json", json.dumps(schema)))
    assert problems == []
    return policy


def problems_of(text: str) -> list[str]:
    policy, problems, _ = read_policy(SourceFile("p.json", text))
    assert policy is None
    assert {problem.rule for problem in problems} <= {rule.BAD_POLICY.id, rule.NOT_UTF8.id}
    return [str(problem).removesuffix(" [bad-policy]") for problem in problems]


def test_the_document_of_an_entry_fits_its_schema() -> None:
    entry = Entry(
        Entity(user="svc-a", client_id=None),
        {PRODUCER: 2.0**63, REQUEST: 12.5, CONSUMER: 1024.0},
        owner="team-a",
        reason="x" * 2000,
        expires=date(2027, 1, 31),
        profile=ProfileUse("gold", Location("a.yaml")),
    )

    document = entry_document(entry, "prod")

    assert document == {
        "address": "user=svc-a,client-id=<default>",
        "entity": {"user": "svc-a", "client-id": None},
        "values": {PRODUCER: 2**63, REQUEST: 12.5, CONSUMER: 1024},
        "unlimited": [PRODUCER],
        "owner": "team-a",
        "reason": "x" * LONGEST_TEXT,
        "expires": "2027-01-31",
        "profile": "gold",
        "cluster": "prod",
    }
    Draft7Validator(load_schema("entry")).validate(document)
    Draft7Validator(load_schema("entry")).validate(
        entry_document(Entry(Entity(ip=None), {"x": 1.0} and {"connection_creation_rate": 5.0}), None)
    )


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (f'{{"maximum": {"9" * 5000}}}', 'p.json: error: "999'),
        ("[" * 100_000, "p.json: error: it is nested too deeply"),
        ('{"type": "txt"}', "p.json:1:2: error: type is not valid in a JSON Schema: "),
        ('{"required": "owner"}', "p.json:1:2: error: required is not valid in a JSON Schema: "),
        ('{"properties": []}', "p.json:1:2: error: properties is not valid in a JSON Schema: "),
    ],
)
def test_what_the_library_refuses_of_a_policy_is_a_problem_at_its_place(text: str, said: str) -> None:
    assert problems_of(text)[0].startswith(said)


def nested(depth: int) -> dict[str, Any]:
    schema: dict[str, Any] = {}
    for _ in range(depth):
        schema = {"allOf": [schema]}
    return schema


def doubling(levels: int) -> dict[str, Any]:
    """A schema whose alternatives are two to the power of the levels."""
    parts: dict[str, Any] = {"d0": {"required": ["owner"]}}
    for level in range(1, levels + 1):
        parts[f"d{level}"] = {"anyOf": [{"$ref": f"#/$defs/d{level - 1}"}] * 2}
    return {"$defs": parts, "$ref": f"#/$defs/d{levels}"}


HOSTILE: dict[str, tuple[Any, str]] = {
    "deep": (nested(300), "nested"),
    "deeper": (nested(400), "nested"),
    "doubling": (
        doubling(40),
        "the policies ask for more than 50,000 subschemas and listed values per entry; simplify them",
    ),
    "reference-chain": (
        {"$ref": "#/$defs/0", "$defs": {str(n): {"$ref": f"#/$defs/{n + 1}"} for n in range(5000)}},
        "schemas are nested more than 100 deep",
    ),
    "reference-loop": (
        {"$ref": "#/$defs/a", "$defs": {"a": {"anyOf": [{"$ref": "#/$defs/a"}] * 5}}},
        "the schema refers to itself",
    ),
    "many-options": ({"properties": {"owner": {"enum": list(range(115_000))}}}, "subschemas and listed values"),
    "a-large-constant": ({"const": {"a": [[0] * 60_000]}}, "subschemas and listed values"),
    "many-names": ({"properties": {"values": {"required": [f"a{n}" for n in range(60_000)]}}}, "values has no field"),
    "many-fields": ({"properties": {f"a{n}": True for n in range(60_000)}}, "an entry has no field"),
    "many-keywords": ({"anyOf": [{"keyword": n} for n in range(40_000)]}, "unknown keyword"),
    "many-anchors": ({"anyOf": [{"$ref": f"#a{n}"} for n in range(40_000)]}, "does not exist"),
    "many-matches": ({"x-match": [{"usr": "a"}] * 1000}, "x-match must be a pattern"),
    "many-patterns": ({"anyOf": [{"pattern": f"{n}[a-z]{{1,100}}"} for n in range(600)]}, "simplify them"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_policy_is_refused_at_once(name: str) -> None:
    schema, said = HOSTILE[name]
    begin = time.process_time()
    found = problems_of(json.dumps(schema))
    assert said in found[0]
    assert len(found) <= MAX_PROBLEMS + 1
    assert time.process_time() - begin < 5


def test_a_field_that_is_twice_in_a_large_object_is_found_at_once() -> None:
    """Each of 90,000 fields was compared with all others."""
    begin = time.process_time()

    (found,) = problems_of("{" + ", ".join(f'"a{n}": 1' for n in [*range(90_000), 5]) + "}")

    assert '"a5" appears twice in one object' in found
    assert time.process_time() - begin < 5


def test_a_catastrophic_pattern_is_matched_in_no_more_time_than_another() -> None:
    policy = policy_of({"properties": {"owner": {"pattern": "^(a+)+$"}}})
    desired = {A: Entry(A, {PRODUCER: 1.0}, owner="a" * 300 + "!")}
    begin = time.process_time()

    assert len(check_policies(desired, [policy], "lab")) == 1

    assert time.process_time() - begin < 20


def test_a_slow_policy_is_stopped_and_blocks() -> None:
    schema = {"required": ["owner"]}
    policy = Policy("slow.json", schema, Scope(), make_policy_gate(schema, is_old=False), seconds=-1.0)
    other = policy_of({"required": ["reason"]})
    desired = declare({A: {PRODUCER: 1.0}, Entity(user="b"): {PRODUCER: 1.0}})
    assert policy.violations(A, {}) == [TOO_SLOW]

    found = check_policies(desired, [policy, other], "lab")

    assert [(each.rule, each.blocking) for each in found].count(("slow-policy", True)) == 1
    assert [each.address for each in found if each.rule == "policy"] == ["user=svc-a", "user=b"]


def test_messages_count_for_the_time_limit_of_a_policy(monkeypatch: pytest.MonkeyPatch) -> None:
    """A policy with 115,000 options took 28 s of processor time for its messages, outside of its limit."""
    times = itertools.count(step=MOST_SECONDS)
    monkeypatch.setattr("quotaform.desired.policy.reader.thread_time", lambda: next(times))

    found = check_policies(declare({A: {PRODUCER: 1.0}}), [policy_of({"required": ["owner"]})], "lab")

    assert [(each.rule, each.blocking) for each in found] == [("policy", True)]

    found = check_policies(declare({A: {PRODUCER: 1.0}}), [policy_of({"x-match": {"user": "x"}})], "lab")

    assert found == []

    monkeypatch.setattr("quotaform.desired.policy.reader.violation_of", lambda *_: next(times))
    found = check_policies(declare({A: {PRODUCER: 1.0}}), [policy_of({"required": ["owner"]})], "lab")

    assert [each.rule for each in found] == ["slow-policy"]


def test_policies_share_one_limit() -> None:
    text = json.dumps({"anyOf": [{"required": ["owner"]}] * 10})
    _, problems, steps = read_policy(SourceFile("p.json", text))
    assert problems == []
    assert 10 <= steps < MOST_STEPS

    _, (problem,), _ = read_policy(SourceFile("p.json", text), room=steps - 1)

    assert "simplify" in problem.message


def repository(folder: Path, policies: str, files: dict[str, Any]) -> list[Finding]:
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")
    (folder / "quotaform.yaml").write_text(f"policies: {policies}\n", encoding="utf-8")
    return list(load(folder)[1])


def load(folder: Path) -> tuple[tuple[str, ...], tuple[Finding, ...]]:
    where = Repository(directory=folder / "quotas.d", config_path=folder / "quotaform.yaml", needs_config=True)
    loaded = load_policies(where, where.config())
    names = tuple(Path(policy.name).relative_to(folder).as_posix() for policy in loaded.policies)
    return names, loaded.problems


def test_paths_and_globs_name_policies_each_once_in_order(tmp_path: Path) -> None:
    files: dict[str, Any] = {
        name: {} for name in ("p/b.json", "p/a.json", "p/.hidden.json", "p/sub/c.json", "q/x/d.json", "z.json")
    }

    assert repository(tmp_path, "[z.json, 'p/*.json', p/a.json, 'q/*/[d]*', ./p/../p/sub/c.json]", files) == []

    assert load(tmp_path)[0] == ("z.json", "p/a.json", "p/b.json", "q/x/d.json", "p/sub/c.json")


def test_a_policy_is_bounded_in_size_and_in_number(tmp_path: Path) -> None:
    big = '{"title": "' + "x" * (10 << 20) + '"}'

    (problem,) = repository(tmp_path, "[big.json]", {"big.json": big})
    assert problem.message == "the policy cannot be read: it is larger than 1 MiB"

    (problem,) = repository(tmp_path, "['m/*']", {f"m/{n:03}.json": {} for n in range(MOST_POLICIES + 1)})
    assert problem.message == "there are more than 100 files of policies; join some"


def test_a_directory_and_a_pipe_are_no_policies(tmp_path: Path) -> None:
    import os

    (tmp_path / "d.json").mkdir()
    os.mkfifo(tmp_path / "p.json")

    found = repository(tmp_path, "[d.json, p.json]", {})

    assert [problem.message for problem in found] == [
        "the policy cannot be read: Is a directory",
        "the policy cannot be read: it is a named pipe, not a regular file",
    ]
