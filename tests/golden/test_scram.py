"""What is shown of SCRAM credentials and of their changes, as text and as JSON."""

from __future__ import annotations

from json import loads

from quotaform.cluster.records import dump_scram, dump_scram_result
from quotaform.cluster.report import render_scram, render_scram_result
from quotaform.cluster.scram_credential import (
    ScramCredential,
    ScramDeletion,
    ScramMechanism,
    ScramResult,
    ScramRow,
    ScramUpsertion,
    ScramUser,
)
from quotaform.model.alteration import Outcome
from quotaform.model.records.validator import gate
from quotaform.report.format import schema_builder
from tests.golden.conftest import Golden

FORGED = "x\n::error::"
USERS = (
    ScramUser("alice", (ScramCredential("SCRAM-SHA-256", 8192), ScramCredential("SCRAM-SHA-512", 4096))),
    ScramUser(FORGED, (), 91, f"Attempt to describe a user credential that does not exist: {FORGED}"),
    ScramUser("d", (), 92, "refused\n::error::"),
)


def upsertion(user: str) -> ScramUpsertion:
    made = {"salt": b"s", "salted_password": b"hidden"}
    return ScramUpsertion(user=user, mechanism=ScramMechanism.SHA_512, iterations=4096, **made)


def test_credentials_and_their_changes_are_shown_like_this(golden: Golden) -> None:
    result = ScramResult(
        (
            ScramRow(upsertion("alice"), Outcome.OK),
            ScramRow(upsertion(FORGED), Outcome.REFUSED, 93, FORGED),
            ScramRow(upsertion("c"), Outcome.UNKNOWN, None, "No answer."),
            ScramRow(upsertion("d"), Outcome.NOT_SENT, None, "Not sent: no connection"),
        )
    )
    deleted = ScramResult((ScramRow(ScramDeletion("a", ScramMechanism.SHA_256), Outcome.OK),))
    shown = [render_scram(USERS, "lab"), render_scram((), "lab"), *map(render_scram_result, (result, deleted))]
    written = {"scram": dump_scram(USERS, "lab", "id"), "scram-result": dump_scram_result(result, "lab", "id")}
    for name, text in written.items():
        assert not gate(schema_builder(name)).refusals(loads(text))
    some, none = ScramResult(result.rows[:2]), ScramResult(result.rows[1:2])
    codes = f"exit codes: {deleted.exit_code:d}, {some.exit_code:d} if some fail, {none.exit_code:d} if all fail\n"
    whole = "\n".join([*shown, codes, *written.values()])
    assert "hidden" not in whole
    golden("scram.txt", whole)
