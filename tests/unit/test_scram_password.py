"""Where passwords come from: exactly what was written is taken, and what cannot be meant is refused unseen."""

from __future__ import annotations

from io import BytesIO, TextIOWrapper
from pathlib import Path

import pytest

from quotaform.cli.command.scram import read_mechanisms, read_password_file, read_password_variable, read_users
from quotaform.cluster.scram import STDIN, is_open_to_all, require_password
from quotaform.cluster.scram_credential import ScramMechanism
from quotaform.model.errors import UsageError

SECRET = "hunter2"


@pytest.mark.parametrize(
    ("content", "password"),
    [
        (b"hunter2", "hunter2"),
        (b"hunter2\n", "hunter2"),
        (b"hunter2\r\n", "hunter2"),
        (b"\xef\xbb\xbfhunter2\n", "hunter2"),
        (b" two words \n", " two words "),
        ("pässwörd\n".encode(), "pässwörd"),
        (b"# not a comment", "# not a comment"),
    ],
)
def test_the_password_is_the_one_line_of_its_file(content: bytes, password: str, tmp_path: Path) -> None:
    path = tmp_path / "password"
    path.write_bytes(content)
    assert read_password_file(path).reveal() == password


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "is empty"),
        (b"\n", "is empty"),
        (b"\r\n", "is empty"),
        (b"hunter2\nhunter3\n", "more than one line"),
        (b"hunter2\n\n", "more than one line"),
        (b"hunter2\0", "more than one line"),
        (b"hunter2\xff", "not UTF-8"),
        (b"hunter2" * 10_000, "larger than 64 KiB"),
    ],
)
def test_a_file_that_holds_no_password_is_refused_and_not_quoted(content: bytes, words: str, tmp_path: Path) -> None:
    path = tmp_path / "password"
    path.write_bytes(content)
    with pytest.raises(UsageError, match=words) as caught:
        read_password_file(path)
    assert SECRET not in str(caught.value)
    assert str(path) not in str(caught.value)


def test_a_password_in_the_place_of_the_name_of_a_file_is_not_repeated(tmp_path: Path) -> None:
    """`--password-file hunter2` printed the password: "the password file hunter2 cannot be read"."""
    with pytest.raises(UsageError, match=r"^password file 2 cannot be read: No such file.*not the password$") as caught:
        read_password_file(tmp_path / SECRET, "password file 2")
    assert SECRET not in str(caught.value)
    with pytest.raises(UsageError, match="cannot be read: Is a directory"):
        read_password_file(tmp_path)


def test_the_password_can_come_from_the_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", TextIOWrapper(BytesIO(b"hunter2\n")))
    assert read_password_file(STDIN).reveal() == SECRET


def test_the_password_can_come_from_the_environment_and_is_taken_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PW", " hunter2 ")
    assert read_password_variable("PW").reveal() == " hunter2 "


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (None, "the environment variable given with --password-env is not set"),
        ("", "PW is empty"),
        ("a\nb", "more than one line"),
        ("\udcff", "not UTF-8"),
    ],
)
def test_a_variable_without_a_password_is_named(value: str | None, words: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PW", raising=False)
    if value is not None:
        monkeypatch.setenv("PW", value)
    with pytest.raises(UsageError, match=words):
        read_password_variable("PW")


def test_a_password_in_the_place_of_the_name_of_a_variable_is_not_repeated() -> None:
    with pytest.raises(UsageError, match="takes the name of an environment variable") as caught:
        read_password_variable("hunter2!")
    assert SECRET not in str(caught.value)


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


def test_mechanisms_are_read_in_any_case() -> None:
    assert read_mechanisms(["scram-sha-512", "SCRAM-SHA-256"]) == (ScramMechanism.SHA_512, ScramMechanism.SHA_256)


@pytest.mark.parametrize(
    ("names", "words"),
    [
        (["PLAIN"], 'unknown SCRAM mechanism "PLAIN"; choose SCRAM-SHA-256 or SCRAM-SHA-512'),
        (["SCRAM-SHA-512", "scram-sha-512"], '--mechanism "SCRAM-SHA-512" is given more than once'),
    ],
)
def test_mechanisms_that_do_not_exist_or_repeat_are_refused(names: list[str], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        read_mechanisms(names)


@pytest.mark.parametrize(
    ("addresses", "words"),
    [
        (["user=a", "user=b", 'user="a"'], 'user "a" is given more than once'),
        (['user=""'], "an argument is not the address of a user; write user=NAME"),
        (["user=<default>"], "not the address of a user"),
        (["user=a,client-id=b"], "not the address of a user"),
        (["ip=10.0.0.1"], "not the address of a user"),
        (['user="\\udcff"'], "user: .*lone surrogate"),
        ([f"user={'x' * 32_768}"], "user: .*32,768 bytes"),
        ([], "no user is given; write the address, as in user=NAME"),
    ],
)
def test_users_that_no_request_can_hold_are_refused(addresses: list[str], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        read_users(addresses, ())


def test_users_are_named_by_address_or_by_the_former_option() -> None:
    assert read_users(['user="b b"', "user=a"], ()) == read_users((), ["b b", "a"]) == ["b b", "a"]
    assert read_users((), (), takes_all=True) == []
    with pytest.raises(UsageError, match="leave --user out"):
        read_users(["user=a"], ["b"])
