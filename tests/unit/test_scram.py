"""SCRAM credentials: how they are made, sent and told, and what becomes of them when brokers misbehave."""

from __future__ import annotations

from base64 import b64decode
from hashlib import sha256
from hmac import digest
from typing import Any

import pytest

from quotaform.cluster import kafka as broker_gateway
from quotaform.cluster import scram
from quotaform.cluster.scram import (
    AlterUserScramCredentials,
    ScramGateway,
    make_upsertion,
    split_scram,
)
from quotaform.cluster.scram_credential import (
    ScramAlteration,
    ScramCredential,
    ScramDeletion,
    ScramMechanism,
    ScramResult,
    ScramRow,
    ScramUpsertion,
    ScramUser,
)
from quotaform.cluster.wire.failure import UnansweredError
from quotaform.cluster.wire.message import Described
from quotaform.model.alteration import Outcome
from quotaform.model.errors import (
    AuthorizationError,
    ClusterError,
    InvalidRequestError,
    UnsupportedError,
)
from quotaform.model.text import Secret
from tests.scripted_connection import ScriptedConnection

SHA_256, SHA_512 = ScramMechanism.SHA_256, ScramMechanism.SHA_512


def upsertion(user: str, mechanism: ScramMechanism = SHA_512, iterations: int = 4096) -> ScramUpsertion:
    return ScramUpsertion(user=user, mechanism=mechanism, iterations=iterations, salt=b"s", salted_password=b"hidden")


def step(answer: Any) -> Any:
    """An error to raise, an answer, or the code and words of each user."""
    if isinstance(answer, BaseException):
        return answer
    return lambda _: answer


def gateway(*answers: Any) -> tuple[ScramGateway, ScriptedConnection]:
    connection = ScriptedConnection(map(step, answers))
    return ScramGateway(connection, name="lab"), connection


@pytest.fixture(autouse=True)
def no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(broker_gateway, "sleep", lambda seconds: None)


class TestMaking:
    def test_a_password_is_salted_as_rfc_7677_says(self, monkeypatch: pytest.MonkeyPatch) -> None:
        # The RFC's own example: the proof that its client sends follows from the salted password.
        monkeypatch.setattr(scram, "token_bytes", lambda size: b64decode("W22ZaJ0SNY7soEsUEjb6gQ=="))
        made = make_upsertion("user", SHA_256, Secret("pencil"), 4096)
        messages = (
            "n=user,r=rOprNGfwEbeRWgbNEkqO,"
            "r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096,"
            "c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"
        )
        client_key = digest(made.salted_password, b"Client Key", "sha256")
        signature = digest(sha256(client_key).digest(), messages.encode(), "sha256")
        proof = bytes(a ^ b for a, b in zip(client_key, signature, strict=True))
        assert proof == b64decode("dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=")

    def test_one_password_gets_a_new_salt_every_time(self) -> None:
        first, second = (make_upsertion("a", SHA_512, Secret("pencil")) for _ in range(2))
        assert len(first.salt) == 32
        assert first.salt != second.salt
        assert first.salted_password != second.salted_password
        assert len(first.salted_password) == 64

    def test_nothing_that_helps_an_attacker_is_in_a_repr(self) -> None:
        made = make_upsertion("a", SHA_512, Secret("pencil"))
        shown = repr(ScramResult((ScramRow(made, Outcome.OK),)))
        assert "pencil" not in shown
        assert "salt" not in shown
        assert "iterations=4096" in shown


class TestSplitting:
    def test_nothing_makes_no_request(self) -> None:
        assert split_scram([]) == []

    def test_a_user_is_in_a_request_once(self) -> None:
        both: list[ScramAlteration] = [upsertion(user, each) for user in "ab" for each in (SHA_256, SHA_512)]
        assert split_scram([*both, ScramDeletion("c", SHA_256)]) == [[0, 2, 4], [1, 3]]

    def test_requests_are_cut_by_number_and_by_bytes(self) -> None:
        assert [len(part) for part in split_scram([upsertion(f"u{n}") for n in range(2001)])] == [1000, 1000, 1]
        assert [len(part) for part in split_scram([upsertion(f"{n:02}" + "x" * 32_000) for n in range(40)])] == [32, 8]

    def test_one_credential_twice_is_refused(self) -> None:
        with pytest.raises(ValueError, match="the SCRAM-SHA-512 credential of a is altered twice in one call"):
            split_scram([upsertion("a"), ScramDeletion("a", SHA_512)])

    @pytest.mark.parametrize(("name", "words"), [("\udc80", "lone surrogate"), ("é" * 16_384, "has 32,768 bytes")])
    def test_a_name_that_no_broker_reads_is_refused(self, name: str, words: str) -> None:
        made, connection = gateway()
        for call in (lambda: made.alter([upsertion(name)]), lambda: made.describe([name])):
            with pytest.raises(ValueError, match=words):
                call()
        assert connection.requests == []


class TestAltering:
    def test_rows_come_in_the_order_in_which_they_were_asked_for(self) -> None:
        made, connection = gateway({"b": (0, None), "a": (0, None)}, {"a": (93, "Too few iterations")})
        result = made.alter([upsertion("a", SHA_256), ScramDeletion("b", SHA_256), upsertion("a", SHA_512, 1)])
        assert [(row.alteration.user, row.outcome, row.code, row.message) for row in result] == [
            ("a", Outcome.OK, 0, ""),
            ("b", Outcome.OK, 0, ""),
            ("a", Outcome.REFUSED, 93, "Too few iterations"),
        ]
        assert result.wrote_anything
        assert all(isinstance(each, AlterUserScramCredentials) for each in connection.requests)
        assert [[type(part) for part in each.alterations] for each in connection.requests] == [
            [ScramUpsertion, ScramDeletion],
            [ScramUpsertion],
        ]

    def test_without_the_right_the_row_says_which_one_it_is(self) -> None:
        made, _ = gateway({"a": (31, "Request Request(processor=1 ...) needs ALTER permission.")})
        result = made.alter([upsertion("a")])
        assert result.rows[0].message.endswith("grant it ALTER on the Cluster resource (kafka-cluster).")
        assert not result.wrote_anything
        with pytest.raises(AuthorizationError, match="a SCRAM-SHA-512: The principal is not authorised to alter"):
            result.raise_for_errors()

    def test_an_interrupt_is_handed_over_with_what_was_done(self) -> None:
        interrupt = KeyboardInterrupt()
        made, _ = gateway({"a": (0, None)}, interrupt)
        result = made.alter([upsertion("a", SHA_256), upsertion("a", SHA_512)])
        assert [row.outcome for row in result] == [Outcome.OK, Outcome.UNKNOWN]
        assert result.interrupt is interrupt


def described(*users: ScramUser, code: int = 0, words: str | None = "") -> Any:
    return Described(code, words, users)


class TestDescribing:
    def test_users_come_by_name(self) -> None:
        users = [ScramUser("b", (ScramCredential("SCRAM-SHA-256", 4096),)), ScramUser("a", (), 91, "no such")]
        assert gateway(described(*users))[0].describe(["b", "a"]) == users[::-1]

    def test_all_users_are_asked_for_in_the_way_that_is_always_answered(self) -> None:
        # A null list means the same, and brokers never answer it to a principal without the right.
        made, connection = gateway(described())
        assert made.describe() == []
        assert connection.requests[0].users == ()

    def test_without_the_right_the_error_says_which_one_it_is(self) -> None:
        with pytest.raises(AuthorizationError, match="SCRAM credentials of lab: grant it DESCRIBE on the Cluster"):
            gateway(described(code=31, words=None))[0].describe()

    @pytest.mark.parametrize(("code", "kind"), [(42, InvalidRequestError), (99, ClusterError)])
    def test_another_error_is_told_with_its_code(self, code: int, kind: type[Exception]) -> None:
        with pytest.raises(kind, match=f"error code {code}: why not"):
            gateway(described(code=code, words="why not"))[0].describe()

    def test_an_old_broker_is_told(self) -> None:
        with pytest.raises(UnsupportedError, match=r"lab have no SCRAM API; it needs Kafka 2\.7"):
            gateway(UnsupportedError("client quotas need Kafka 2.6"))[0].describe()

    def test_silence_is_told_with_its_likely_cause(self) -> None:
        made, connection = gateway(*[UnansweredError("lab did not answer within 10 s.")] * 9)
        with pytest.raises(ClusterError, match=r"did not answer within 10 s\. Some brokers do not respond .* DESCRIBE"):
            made.describe()
        assert len(connection.requests) == 4
