"""What is shown of SCRAM credentials and of their changes, and what becomes of them when brokers misbehave."""

from __future__ import annotations

from ast import literal_eval
from collections.abc import Callable, Iterator
from json import loads
from re import sub
from typing import Any

import pytest

from quotaform.cluster.records import (
    ScramCredential,
    ScramError,
    ScramMechanism,
    ScramResult,
    ScramRow,
    ScramUser,
    dump_scram,
    dump_scram_result,
)
from quotaform.cluster.report import render_scram, render_scram_result
from quotaform.cluster.scram import (
    AlterUserScramCredentials,
    ScramAlteration,
    ScramGateway,
)
from quotaform.cluster.wire.failure import UnansweredError
from quotaform.cluster.wire.message import DescribeResponse
from quotaform.model.alteration import Outcome
from quotaform.model.errors import ClusterError
from quotaform.model.records.schema import gate
from quotaform.report.format import schema_builder
from tests.golden.conftest import Golden
from tests.golden.table import Text, check_told
from tests.scripted_gateway import ScriptedConnection

FORGED = "x\n::error::"
USERS = (
    ScramUser("alice", (ScramCredential("SCRAM-SHA-256", 8192), ScramCredential("SCRAM-SHA-512", 4096))),
    ScramUser(FORGED, (), ScramError(91, f"Attempt to describe a user credential that does not exist: {FORGED}")),
    ScramUser("d", (), ScramError(92, "refused\n::error::")),
)


def test_credentials_and_their_changes_are_shown_like_this(golden: Golden) -> None:
    result = ScramResult(
        (
            ScramRow("alice", "SCRAM-SHA-512", 4096, Outcome.OK),
            ScramRow(FORGED, "SCRAM-SHA-512", 4096, Outcome.REFUSED, 93, FORGED),
            ScramRow("c", "SCRAM-SHA-512", 4096, Outcome.UNKNOWN, None, "No answer."),
            ScramRow("d", "SCRAM-SHA-512", 4096, Outcome.NOT_SENT, None, "Not sent: no connection"),
        )
    )
    deleted = ScramResult((ScramRow("a", ScramMechanism.SHA_256, None, Outcome.OK),))
    shown = [render_scram(USERS, "lab"), render_scram((), "lab"), *map(render_scram_result, (result, deleted))]
    written = {"scram": dump_scram(USERS, "lab", "id"), "scram-result": dump_scram_result(result, "lab", "id")}
    for name, text in written.items():
        assert gate(schema_builder(name)).is_valid(loads(text))
    some, none, unknown = (ScramResult(result.rows[part]) for part in (slice(2), slice(1, 2), slice(2, 3)))
    codes = f"exit codes: {deleted.exit_code:d}, {some.exit_code:d} if some fail, {none.exit_code:d} if all fail"
    codes += f", {unknown.exit_code:d} if it is not known; users: {[int(user.exit_code) for user in USERS]}\n"
    whole = "\n".join([*shown, codes, *written.values()])
    assert "hidden" not in whole
    golden("scram.txt", whole)


def scram_answer(reply: str) -> Callable[[object], Any] | BaseException:
    """Return what a broker answers: `rows` by user, `users` that are described, or an error's code and words."""
    word, _, more = reply.partition(" ")
    raised = {
        "lost": UnansweredError("lab did not answer within 10 s."),
        "interrupt": KeyboardInterrupt(),
    }
    if word in raised:
        return raised[word]
    said = literal_eval(more)
    if word == "rows":
        return lambda _: said
    users = (
        [ScramUser(name, held, ScramError(*why) if why else None) for name, held, why in said]
        if word == "users"
        else []
    )
    code, words = said if word == "error" else (0, "")
    return lambda _: DescribeResponse(code, words, users)


def scram_alteration(word: str) -> ScramAlteration:
    """Return what `USER:MECHANISM` sets, with 4096 iterations; `-USER:MECHANISM` is deleted."""
    user, _, bits = word.partition(":")
    mechanism = ScramMechanism(f"SCRAM-SHA-{bits}")
    if user.startswith("-"):
        return ScramAlteration(user[1:], mechanism)
    return ScramAlteration(user=user, mechanism=mechanism, iterations=4096, salt=b"s", salted_password=b"hidden")


def of_scram(text: Text) -> Iterator[str]:
    """Yield what becomes of SCRAM credentials that the last line alters or describes, when brokers answer so."""
    *replies, line = sub(r"<(.) (\d+)>", lambda said: said[1] * int(said[2]), str(text)).splitlines()
    word, *asked = line.replace("SURROGATE", "\udc80").split()
    connection = ScriptedConnection(map(scram_answer, replies))
    gateway = ScramGateway(connection, name="lab")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("quotaform.cluster.kafka.sleep", lambda seconds: None)
        try:
            if word == "describe":
                yield from map(str, gateway.describe(asked))
            else:
                result = gateway.alter([scram_alteration(each) for each in asked])
                rows = (f"{each.user} {each.outcome} {each.code} {each.message}" for each in result)
                yield from map(str.rstrip, rows)
                yield f"wrote anything {result.wrote_anything}, interrupted by {result.interrupt!r}"
                result.raise_for_errors()
        except (ClusterError, ValueError) as error:
            yield f"{type(error).__name__}: {error}"
    for request in connection.requests:
        sent = request.alterations if isinstance(request, AlterUserScramCredentials) else ()
        names = [f"{'-' * (each.iterations is None)}{each.user}" for each in sent] or request.users
        yield f"asked {type(request).__name__} {' '.join(names)}".rstrip()


def test_this_becomes_of_credentials_when_brokers_answer_so(golden: Golden) -> None:
    check_told(golden, "scram-answered.txt", of_scram)
