"""Where passwords come from: exactly what was written is taken, and what cannot be meant is refused unseen."""

from __future__ import annotations

from io import BytesIO, TextIOWrapper
from pathlib import Path

import pytest

from quotaform.cli.command.scram import read_password_file
from quotaform.cluster.scram import STDIN, is_open_to_all, require_password
from quotaform.model.errors import UsageError

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
