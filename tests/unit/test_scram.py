"""SCRAM credentials: how they are made and cut into requests; `golden/scram-answered.txt` has what becomes of them."""

from __future__ import annotations

from base64 import b64decode
from hashlib import sha256
from hmac import digest

import pytest

from quotaform.cluster import scram
from quotaform.cluster.scram import (
    make_upsertion,
    split_scram,
)
from quotaform.cluster.scram_credential import (
    ScramAlteration,
    ScramDeletion,
    ScramMechanism,
    ScramUpsertion,
)
from quotaform.model.text import Secret

SHA_256, SHA_512 = ScramMechanism.SHA_256, ScramMechanism.SHA_512


def upsertion(user: str, mechanism: ScramMechanism = SHA_512, iterations: int = 4096) -> ScramUpsertion:
    return ScramUpsertion(user=user, mechanism=mechanism, iterations=iterations, salt=b"s", salted_password=b"hidden")


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
        shown = repr(made)
        assert "pencil" not in shown
        assert "salt" not in shown
        assert "iterations=4096" in shown


class TestSplitting:
    def test_a_user_is_in_a_request_once(self) -> None:
        both: list[ScramAlteration] = [upsertion(user, each) for user in "ab" for each in (SHA_256, SHA_512)]
        gone = ScramDeletion("c", SHA_256)
        assert split_scram([*both, gone]) == [[both[0], both[2], gone], [both[1], both[3]]]

    def test_requests_are_cut_by_number_and_by_bytes(self) -> None:
        assert [len(part) for part in split_scram([upsertion(f"u{n}") for n in range(2001)])] == [1000, 1000, 1]
        assert [len(part) for part in split_scram([upsertion(f"{n:02}" + "x" * 32_000) for n in range(40)])] == [32, 8]
