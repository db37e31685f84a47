"""SCRAM credentials: how they are made and cut into requests, and where passwords come from.

`golden/scram-answered.txt` has what becomes of them.
"""

from __future__ import annotations

from base64 import b64decode
from hashlib import sha256
from hmac import digest
from io import BytesIO, TextIOWrapper
from pathlib import Path

import pytest

from quotaform.cli.command.scram import STDIN, is_open_to_all, read_password_file, require_password
from quotaform.cluster import scram
from quotaform.cluster.records import ScramMechanism
from quotaform.cluster.scram import (
    ScramAlteration,
    ScramGateway,
    make_upsertion,
    split_scram,
)
from quotaform.model.errors import UnsupportedError, UsageError
from quotaform.model.text import Secret
from tests.fake_broker import FakeBroker, serving

SHA_256, SHA_512 = ScramMechanism.SHA_256, ScramMechanism.SHA_512


def upsertion(user: str, mechanism: ScramMechanism = SHA_512, iterations: int = 4096) -> ScramAlteration:
    return ScramAlteration(user=user, mechanism=mechanism, iterations=iterations, salt=b"s", salted_password=b"hidden")


def test_a_broker_without_credentials_is_told_what_it_needs() -> None:
    with serving(FakeBroker()) as broker, ScramGateway.connect(broker.address, name="lab") as gateway:
        for use in (gateway.describe, lambda: gateway.alter([upsertion("a")])):
            with pytest.raises(UnsupportedError, match=r"and 3\.5 with KRaft"):
                use()


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
        both = [upsertion(user, each) for user in "ab" for each in (SHA_256, SHA_512)]
        gone = ScramAlteration("c", SHA_256)
        assert split_scram([*both, gone]) == [[both[0], both[2], gone], [both[1], both[3]]]

    def test_requests_are_cut_by_number_and_by_bytes(self) -> None:
        assert [len(part) for part in split_scram([upsertion(f"u{n}") for n in range(2001)])] == [1000, 1000, 1]
        assert [len(part) for part in split_scram([upsertion(f"{n:02}" + "x" * 32_000) for n in range(40)])] == [32, 8]


SECRET = "hunter2"


def test_a_password_in_the_place_of_the_name_of_a_file_is_not_repeated(tmp_path: Path) -> None:
    """`--password-file hunter2` printed the password: "the password file hunter2 cannot be read"."""
    with pytest.raises(UsageError, match=r"^password file 2 cannot be read: No such file.*not the password$") as caught:
        read_password_file(tmp_path / SECRET, "password file 2")
    assert SECRET not in str(caught.value)
    with pytest.raises(UsageError, match="cannot be read: Is a directory"):
        read_password_file(tmp_path)
    (tmp_path / "large").write_text(SECRET * 10_000)
    with pytest.raises(UsageError, match="larger than 64 KiB"):
        read_password_file(tmp_path / "large")


def test_the_password_can_come_from_the_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", TextIOWrapper(BytesIO(b"hunter2\n")))
    assert read_password_file(STDIN).reveal() == SECRET


def test_a_password_in_an_error_or_a_log_is_stars() -> None:
    assert f"{require_password(SECRET, 'x')} {require_password(SECRET, 'x')!r}" == "*** Secret('***')"


def test_a_file_that_others_may_read_is_told_apart(tmp_path: Path) -> None:
    path = tmp_path / "password"
    path.write_bytes(b"x")
    for mode, is_open in ((0o600, False), (0o640, True), (0o644, True)):
        path.chmod(mode)
        assert is_open_to_all(path) is is_open
    assert not is_open_to_all(STDIN)
    assert not is_open_to_all(Path("/dev/null"))
