"""Fuzzed: what lies in a repository (quotas, quotaform.yaml) and files of requests."""

from __future__ import annotations

import json
from datetime import date
from pathlib import Path
from typing import Final

from quotaform.desired.approval import read_approvals
from quotaform.desired.config_reader import read_config
from quotaform.desired.format.formatter import format_source
from quotaform.desired.loader import conclude
from quotaform.desired.policy.policy import check_policies
from quotaform.desired.policy.reader import read_policy
from quotaform.desired.quotas_file import load_file
from quotaform.desired.tree import SourceFile
from quotaform.desired.writer import render_quotas
from quotaform.model.errors import InvalidFilesError
from quotaform.model.finding import Finding, Severity
from quotaform.model.quotas import Desired
from quotaform.model.settings import Capacity, LintSettings
from quotaform.plan.check.lint import LintFacts, check_lints, declared_quotas
from quotaform.resolve.request_file import RequestFile
from tests.fuzz.target import Target, finding_problems, require_none

_TODAY: Final = date(2026, 11, 20)
_PROFILES: Final = {"gold": {"producer_byte_rate": 1048576.0}}

_QUOTAS_YAML: Final = """\
# yaml-language-server: $schema=../schemas/quotas.schema.json
quotas:
  - match: {user: svc-orders}
    values: &orders
      producer_byte_rate: 20MiB/s
      consumer_byte_rate: 50MB/s
      request_percentage: 150%
    owner: team-orders
    reason: >-
      checkout
      traffic
  - match: {user: <default>, client-id: etl}
    values: {controller_mutation_rate: 5/s}
  - match: {user: [svc-a, svc-b], client-id: ["x", 'y']}
    profile: gold
    values:
      <<: *orders
      producer_byte_rate: unlimited
  - match: {user: perf-test}
    values: {producer_byte_rate: unlimited}
    expires: 2026-12-31
  - match: {user: old-etl}
    state: absent
  - match: {user: {name: "<default>"}}
    values: {producer_byte_rate: 1.5MiB/s}
  - match: {ip: 10.0.0.7}
    values: {connection_creation_rate: 50/s}
  - match: {user: "CN=a b,O=\\u00c5"}
    unset: [producer_byte_rate]
"""
_COMMON: Final = """\
quotas:
  - match: {user: ["CN=a b,O=\\u00c5", common]}
    values: {producer_byte_rate: 1MiB/s, consumer_byte_rate: 2MiB/s}
"""
_QUOTAS: Final = {
    "quotas": [
        {"match": {"user": "a"}, "values": {"producer_byte_rate": "1MiB/s", "request_percentage": 12.5}, "owner": "o"},
        {"match": {"user": "<default>", "client-id": ["b", "c"]}, "profile": "gold", "reason": "r"},
        {"match": {"user": {"name": "<default>"}}, "values": {"consumer_byte_rate": 7}, "expires": "2027-01-01"},
        {"match": {"ip": "::1"}, "values": {"connection_creation_rate": "unlimited"}},
        {"match": {"client-id": "x"}, "state": "absent"},
    ]
}
_CONFIG_YAML: Final = """\
clusters:
  prod-eu:
    bootstrap_servers: [b1:9093, "[fe80::1%eth0]:9093", "${env:QUOTAFORM_X}:9092"]
    command_config: client-prod.properties
    cluster_id: 3JxQ0v7pT2aXXXXXXXXXXX
    confirm: name
  lab: {snapshot: snapshots/lab.json}
profiles: {gold: {producer_byte_rate: 50MiB/s, consumer_byte_rate: 100MiB/s}}
scope: {include: [{user: "svc-*"}], exclude: [{user: "svc-legacy-*", client-id: <default>}]}
prune: report
"""
_CONFIG: Final = {
    "clusters": {
        "a": {"bootstrap_servers": ["b1:9093"], "command_config": "${env:QUOTAFORM_X}", "cluster_id": "x"},
        "b": {"snapshot": "s.json"},
    },
    "profiles": {"gold": {"producer_byte_rate": "50MiB/s"}},
    "scope": {"include": [{"user": "svc-*"}], "exclude": [{"user": "x"}]},
    "prune": "report",
}
_REQUESTS: Final = (
    b'user,client_id,ip\nalice,app,\n"CN=a,O=b",,\n,,10.0.0.1\n"a ""b""",x,\n',
    b'{"user": "alice", "client_id": "app"}\n{"ip": "10.0.0.1"}\n{"client-id": ""}\n',
    '\ufeffuser\r\nÅ\r\n"two\nlines"\r\n'.encode(),
)


_COMMENTED: Final = (
    b"# a\nquotas: # b\n- # c\n  match: {user: a,  # d\n    client-id: b}\n  # e\n  values: &v # f\n"
    b"     producer_byte_rate: 1024 KiB/s # g\n                       # h\n   # i\n# j\n",
    b"profiles: # a\n    gold: {producer_byte_rate: 5} # b\n\n\n# c\nclusters: {a: {snapshot: s.json}}\n",
    b"quotas:\n  - match: {user: a}\n    reason: |+\n\n      a # b\n\n\n"
    b"  - match: {user: b}\n    reason: >2-\n        c\n",
)


_POLICY: Final = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "title": "quotas have an owner",
    "x-match": [{"user": "*"}, {"ip": None}],
    "required": ["owner", "reason"],
    "properties": {
        "address": {"pattern": "^user="},
        "owner": {"type": "string", "minLength": 2, "enum": ["team-orders", "o"], "x-message": "name a team"},
        "reason": {"type": "string", "maxLength": 100, "$ref": "#/$defs/short"},
        "expires": {"format": "date", "const": "2027-01-01"},
        "values": {
            "properties": {
                "producer_byte_rate": {"maximum": 1048576, "multipleOf": 1024},
                "request_percentage": {"exclusiveMinimum": 0, "type": ["integer", "null"]},
            },
            "additionalProperties": False,
            "minProperties": 1,
        },
        "unlimited": {"maxItems": 0, "items": {"not": {"pattern": "rate$"}}},
    },
    "anyOf": [{"if": {"required": ["profile"]}, "then": {"properties": {"profile": {"const": "gold"}}}}, True],
    "$defs": {"short": {"description": "short", "maxLength": 5}},
}
_OLD_POLICY: Final = {
    "$schema": "http://json-schema.org/draft-07/schema#",
    "dependencies": {"expires": ["reason"], "profile": {"required": ["owner"]}},
    "patternProperties": {"^un": {"contains": {"const": "producer_byte_rate"}}},
    "propertyNames": {"maxLength": 7},
}
_APPROVALS_YAML: Final = """\
- rule: to-unlimited
  address: user=perf-test
  reason: load test
  approver: alice
  expires: 2026-12-01
  to: {producer_byte_rate: unlimited}
- rule: default-entity
  address: user=<default>,client-id=etl
  reason: "4711"
  approver: bob
  expires: 2026-12-02
  action: delete
"""
_APPROVALS: Final = [
    {
        "rule": "change-factor", "address": 'user="CN=a,O=b"', "reason": "r", "approver": "a", "expires": "2026-12-01",
        "to": {"producer_byte_rate": 5},
    },
]  # fmt: skip


def _read_policy(document: bytes) -> None:
    """Read a policy, and ask it about entries with and without each field."""
    policy, findings, _ = read_policy(SourceFile("policies/p.json", document))
    if policy is None:
        raise InvalidFilesError(findings)
    desired, _ = conclude([load_file(SourceFile("quotas.d/lab/a.yaml", _QUOTAS_YAML, "lab"), _PROFILES)], _TODAY)
    refused = check_policies(desired, [policy], "lab")
    assert not list(finding_problems(refused)), refused


def _read_approvals(document: bytes) -> None:
    _, findings = read_approvals(SourceFile("approvals.yaml", document), _TODAY)
    require_none(findings)


def _check(desired: Desired) -> list[Finding]:
    """Return what policies and lints find, which are asked also when the files have other problems."""
    policies = [read_policy(SourceFile("p.json", json.dumps(each)))[0] for each in (_POLICY, _OLD_POLICY)]
    facts = LintFacts(
        desired=desired, quotas=declared_quotas(desired), settings=LintSettings(), capacity=Capacity(), today=_TODAY
    )
    return [*check_policies(desired, [each for each in policies if each], "lab"), *check_lints(facts).findings]


def _read_quotas(document: bytes) -> None:
    common = load_file(SourceFile("quotas.d/common.yaml", _COMMON), _PROFILES)
    file = load_file(SourceFile("quotas.d/lab/a.yaml", document, "lab"), _PROFILES)
    desired, findings = conclude([common, file], _TODAY)
    found = _check(desired)
    assert not list(finding_problems(found)), found
    require_none(findings)
    quotas = {entity: entry.values for entity, entry in desired.items() if entry.values}
    text, left_out = render_quotas(quotas)
    again = load_file(SourceFile("quotas.d/b.yaml", text), {})
    assert not [each for each in again.problems if each.severity is Severity.ERROR], again.problems
    written = {entry.entity: entry.values for entry in again.entries}
    assert written == quotas or left_out, "what was written does not read back"


def _read_config(document: bytes) -> None:
    _, findings = read_config(SourceFile("quotaform.yaml", document), Path())
    require_none(findings)


def _format(document: bytes) -> None:
    name = "quotas.d/lab/a.yaml"
    file = format_source(SourceFile(name, document))
    require_none(file.problems)
    again = format_source(SourceFile(name, file.after))
    assert not again.problems, again.problems
    assert again.after == file.after, "what was formatted is formatted otherwise"
    before, after = (load_file(SourceFile(name, text, "lab"), _PROFILES) for text in (document, file.after))
    declared = [[entry._replace(position=0, places=()) for entry in loaded.entries] for loaded in (before, after)]
    assert [replaced._replace(profile=None, unset=None) for replaced in declared[0]] == [
        replaced._replace(profile=None, unset=None) for replaced in declared[1]
    ], "it declares something else"


def _read_requests(document: bytes) -> None:
    requests = RequestFile(document, "requests.csv")
    assert len(list(requests)) == len(requests)


def _yaml_corpus(text: str, tree: object) -> list[str | bytes]:
    return [text, json.dumps(tree), json.dumps(tree, indent=2)]


TARGETS: Final = (
    Target("quotas", _yaml_corpus(_QUOTAS_YAML, _QUOTAS), _read_quotas, (InvalidFilesError,)),
    Target("config", _yaml_corpus(_CONFIG_YAML, _CONFIG), _read_config, (InvalidFilesError,)),
    Target("format", [*_yaml_corpus(_QUOTAS_YAML, _QUOTAS), *_COMMENTED], _format, (InvalidFilesError,)),
    Target(
        "policy",
        [json.dumps(each, indent=1) for each in (_POLICY, _OLD_POLICY)],
        _read_policy,
        (InvalidFilesError,),
        refused=(b'{"required": ["owner"],}',),
    ),
    Target("approvals", _yaml_corpus(_APPROVALS_YAML, _APPROVALS), _read_approvals, (InvalidFilesError,)),
    Target("requests", _REQUESTS, _read_requests, (InvalidFilesError,)),
)
