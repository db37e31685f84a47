"""Fuzzed: what lies in a repository (quotas, quotaform.yaml) and files of requests."""

from __future__ import annotations

from datetime import date
from pathlib import Path
from typing import Final

from quotaform.desired.approval import read_approvals
from quotaform.desired.config import read_config
from quotaform.desired.format import format_source
from quotaform.desired.loader import conclude, load_file
from quotaform.desired.policy.policy import check_policies
from quotaform.desired.policy.reader import read_policy
from quotaform.desired.tree import SourceFile
from quotaform.desired.writer import render_quotas
from quotaform.model.errors import InvalidFilesError
from quotaform.model.finding import Finding, Severity
from quotaform.model.quotas import Desired
from quotaform.model.settings import Capacity, LintSettings
from quotaform.plan.check.lint import LintFacts, check_lints
from quotaform.resolve.request_file import RequestFile
from tests.fuzz.target import Target, finding_problems, kept, require_none

_TODAY: Final = date(2026, 11, 20)
_PROFILES: Final = {"gold": {"producer_byte_rate": 1048576.0}}

_COMMON: Final = """\
quotas:
  - match: {user: ["CN=a b,O=\\u00c5", common]}
    values: {producer_byte_rate: 1MiB/s, consumer_byte_rate: 2MiB/s}
"""


def _read_policy(document: bytes) -> None:
    """Read a policy, and ask it about entries with and without each field."""
    policy, findings, _ = read_policy(SourceFile("policies/p.json", document))
    assert (policy is None) is bool(findings), findings
    if policy is None:
        raise InvalidFilesError(findings)
    desired, _ = conclude([load_file(SourceFile("quotas.d/lab/a.yaml", kept("quotas")[2], "lab"), _PROFILES)], _TODAY)
    refused = check_policies(desired, [policy], "lab")
    assert not list(finding_problems(refused)), refused


def _read_approvals(document: bytes) -> None:
    _, findings = read_approvals(SourceFile("approvals.yaml", document), _TODAY)
    require_none(findings)


def _check(desired: Desired) -> list[Finding]:
    """Return what policies and lints find, which are asked also when the files have other problems."""
    policies = [read_policy(SourceFile("p.json", text))[0] for text in kept("policy")]
    facts = LintFacts(desired=desired, settings=LintSettings(), capacity=Capacity(), today=_TODAY)
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
    declared = [[entry._replace(location=None, places=()) for entry in loaded.entries] for loaded in (before, after)]
    assert [replaced._replace(profile=None, unset=None) for replaced in declared[0]] == [
        replaced._replace(profile=None, unset=None) for replaced in declared[1]
    ], "it declares something else"


def _read_requests(document: bytes) -> None:
    requests = RequestFile(document, "requests.csv")
    assert len(list(requests)) == len(requests)


TARGETS: Final = (
    Target("quotas", _read_quotas, (InvalidFilesError,)),
    Target("config", _read_config, (InvalidFilesError,)),
    Target("format", _format, (InvalidFilesError,), "fuzz/corpus/[qf]*[st]/*"),
    Target("policy", _read_policy, (InvalidFilesError,), refused=(b'{"required": ["owner"],}',)),
    Target("approvals", _read_approvals, (InvalidFilesError,)),
    Target("requests", _read_requests, (InvalidFilesError,)),
)
