"""Files of principals are looked for before Spark is started."""

from __future__ import annotations

from pathlib import Path

import pytest

from quotaform.fleet import session
from quotaform.fleet.options import LOCAL_SESSION, SessionOptions
from quotaform.fleet.principals import require_files
from quotaform.model.errors import InvalidFilesError
from tests.workflow.command import Repository

NO_JAVA = {"JAVA_HOME": "/nowhere", "PATH": ""}
"""Whoever asks for Java is told first that there is none."""


@pytest.fixture(autouse=True)
def no_session(monkeypatch: pytest.MonkeyPatch) -> None:
    """Other tests of this process may have one."""
    monkeypatch.setattr(session, "_active_session", lambda: None)


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("none.parquet", "there is no such file or directory; correct the path"),
        ("none/principals", "there is no such file or directory; correct the path"),
        ("none.csv", "there is no such file or directory; correct the path"),
        ("empty", "the directory has no files; give a CSV file or a directory of Parquet files"),
        ("texts", '"a/people.csv" is not Parquet; give a CSV file or a directory of Parquet files only'),
    ],
)
def test_what_is_not_there_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, reason: str) -> None:
    monkeypatch.chdir(tmp_path)
    fill(tmp_path)
    with pytest.raises(InvalidFilesError) as caught:
        require_files(name, LOCAL_SESSION)
    assert str(caught.value).splitlines()[0] == f"{name}: error: it cannot be read: {reason} [requests]"


@pytest.mark.parametrize("name", ["parts", "s3a://lake/none", "none/*.parquet", "ops.principals", "principals"])
def test_what_may_be_there_is_left_to_spark(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.chdir(tmp_path)
    fill(tmp_path)
    require_files(name, LOCAL_SESSION)


def test_a_spark_connect_server_may_see_other_files() -> None:
    require_files("/none.parquet", SessionOptions(remote="sc://host"))


@pytest.mark.parametrize(
    "command", [("plan", "--all", "--principals"), ("resolve", "--cluster", "lab", "--out", "limits", "--from")]
)
def test_commands_report_it_before_they_start_spark(tmp_path: Path, command: tuple[str, ...]) -> None:
    """It took as long as Spark takes to start."""
    repository = Repository(tmp_path, "127.0.0.1:1")
    repository.quotas("  - match: {user: alice}\n    values: {producer_byte_rate: 1MiB/s}\n")
    done = repository(*command, "none.parquet", "--engine", "spark", env=NO_JAVA)
    assert (done.code, done.out) == (3, "")
    assert done.err.startswith("none.parquet: error: it cannot be read: there is no such file or directory; correct")


def fill(folder: Path) -> None:
    """Make what the names of tests are."""
    files = {
        "empty/_SUCCESS": b"",
        "texts/a/people.csv": b"user",
        "parts/_logs/a": b"no",
        "parts/cluster=lab/0": b"PAR1",
    }
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
