"""What Atlantis and tfcmt look for in the output of Terraform: their regular expressions.

Atlantis: `server/events/models/models.go`; tfcmt: `pkg/terraform/parser.go`, whose order of the tests is kept.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

ATLANTIS_CHANGES = re.compile(
    r"Plan: (?:(\d+) to import, )?(\d+) to add, (\d+) to change, (\d+) to destroy(?:, (\d+) to forget)?\."
)
ATLANTIS_NO_CHANGES = re.compile(
    r"No changes. (Infrastructure is up-to-date|Your infrastructure matches the configuration)."
)

_PLAN_PASS = re.compile(r"^(Plan: \d|No changes.)", re.MULTILINE)
_PLAN_FAIL = re.compile(r"^([│|] )?(Error: )", re.MULTILINE)
_DESTROY = re.compile(r"([1-9][0-9]* to destroy.)")
_NO_CHANGES = re.compile(r"^(No changes\.|Plan: 0 to add, 0 to change, 0 to destroy\.)")
_CREATED = re.compile(r"^ *# (.*) will be created$")
_UPDATED = re.compile(r"^ *# (.*) will be updated in-place$")
_DELETED = re.compile(r"^ *# (.*) will be destroyed$")
_APPLY_PASS = re.compile(r"^(Apply complete!)", re.MULTILINE)
_APPLY_FAIL = re.compile(r"^(Error: )", re.MULTILINE)


@dataclass
class Found:
    """What tfcmt reads of a plan or an apply; entities only of a plan."""

    result: str = ""
    has_parse_error: bool = False
    has_error: bool = False
    has_destroy: bool = False
    has_no_changes: bool = False
    created: list[str] = field(default_factory=list)
    updated: list[str] = field(default_factory=list)
    deleted: list[str] = field(default_factory=list)


def read_plan(body: str) -> Found:
    lines = body.split("\n")
    first = next((line for line in lines if _PLAN_FAIL.search(line) or _PLAN_PASS.search(line)), None)
    if first is None:
        return Found(has_parse_error=True)
    error = next((line for line in lines if _PLAN_FAIL.search(line)), None)
    entities = ([found[1] for line in lines if (found := each.match(line))] for each in (_CREATED, _UPDATED, _DELETED))
    return Found(
        first if error is None else "\n".join(lines[lines.index(error) :]).strip(),
        False,
        first == error,
        _DESTROY.search(first) is not None,
        _NO_CHANGES.search(first) is not None,
        *entities,
    )


def read_apply(body: str) -> Found:
    lines = body.split("\n")
    told = next((at for at, line in enumerate(lines) if _APPLY_FAIL.search(line) or _APPLY_PASS.search(line)), None)
    if told is None:
        return Found(has_parse_error=True)
    if _APPLY_FAIL.search(body):
        return Found("\n".join(lines[told:]).strip(), has_error=True)
    return Found(lines[told])
