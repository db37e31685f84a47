"""An error as columns of a table, and back."""

from __future__ import annotations

from typing import Any

import pytest

from quotaform.cluster.wire.failure import UnansweredError
from quotaform.fleet.data_source import failure_row, require_read
from quotaform.model.errors import (
    AuthenticationError,
    AuthorizationError,
    BlockedError,
    ClusterError,
    ConnectError,
    InvalidFilesError,
    PlanBlockedError,
    QuotaformError,
    UsageError,
)
from quotaform.model.finding import Allowance, Finding, Location, Severity
from quotaform.resolve.spark_quotas import FAILURE

FULL = Finding(
    rule="r",
    message="ä\n\u2028",
    severity=Severity.WARNING,
    blocking=True,
    address="user=a",
    key="k",
    override="--x",
    allowance=Allowance("r", 3),
    allowed_by="--allow r=4",
    location=Location("a.yaml", 3, 4),
)


def again(error: QuotaformError) -> QuotaformError:
    with pytest.raises(QuotaformError) as caught:
        require_read(dict(zip(FAILURE.names, failure_row(error), strict=True)))
    return caught.value


@pytest.mark.parametrize(
    "error",
    [
        ClusterError("gone"),
        ConnectError("down"),
        AuthenticationError("who?"),
        ConnectError("No broker answers.", remedy="start one", cluster="lab", server="b1:9092"),
        AuthorizationError("You may not read", remedy="grant it DESCRIBE", code=31),
        UsageError("a:b is not host:port"),
        InvalidFilesError(
            [FULL, Finding(rule="s", message="n"), Finding(rule="t", message="o", location=Location("b"))]
        ),
    ],
)
def test_a_failure_is_raised_as_it_was(error: QuotaformError) -> None:
    raised = again(error)
    assert type(raised) is type(error)
    assert (str(raised), raised.args, vars(raised)) == (str(error), error.args, vars(error))
    require_read(None)


@pytest.mark.parametrize(
    ("error", "base"), [(UnansweredError("lost"), ClusterError), (PlanBlockedError("lab", [FULL]), BlockedError)]
)
def test_an_error_that_is_not_known_everywhere_is_its_base(error: QuotaformError, base: type[QuotaformError]) -> None:
    raised = again(error)
    assert type(raised) is base
    assert (str(raised), raised.exit_code) == (str(error), error.exit_code)


def test_an_attribute_that_is_not_understood_is_left_out() -> None:
    with pytest.raises(ClusterError, match=r"^words$") as caught:
        require_read({"kind": "ConnectError", "message": "words", "code": "31", "server": 7, "problems": None})
    assert (caught.value.code, caught.value.server, caught.value.problem) == (None, None, "words")


@pytest.mark.parametrize(
    "kind", ["Sequence", "annotations", "QuotaformErrors", "PlanBlockedError", "__name__", "", None]
)
def test_what_is_no_error_of_ours_is_an_error_of_the_cluster(kind: str | None) -> None:
    with pytest.raises(ClusterError, match=r"^words$"):
        require_read({"kind": kind, "message": "words", "problems": None})


@pytest.mark.parametrize(
    "problems",
    [
        None,
        "",
        "[",
        "7",
        "[7]",
        "[]",
        "{}",
        '[{"rule": "r"}]',
        '[{"rule": "r", "message": "m", "severity": "grave", "location": null}]',
        '[{"rule": "r", "message": "m", "severity": "error", "location": {"place": 1}}]',
        '[{"rule": "r", "message": "m", "severity": "error", "location": null, "more": 1}]',
        "[" * 100_000,
    ],
)
def test_problems_that_nobody_can_read_leave_the_message(problems: Any) -> None:
    with pytest.raises(ClusterError, match=r"^words$"):
        require_read({"kind": "InvalidFilesError", "message": "words", "problems": problems})
