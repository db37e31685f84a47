"""Files that are replaced, grow, are pipes or locked while somebody uses them; others: `tests/golden/reading-*.txt`."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from threading import Thread, Timer
from typing import TYPE_CHECKING, Any, cast

import pytest

from quotaform.cli.console import Console
from quotaform.cli.option.run import Output
from quotaform.cli.present import TableOutput, report_saved_files
from quotaform.drift.alert import DriftReporter
from quotaform.drift.metric import MetricStore
from quotaform.model.errors import FileReadError
from quotaform.model.text import MIB
from quotaform.system import files
from quotaform.system.files import LEADS_OUT, read_bytes, read_stdin, trusted_folder, update_lock, write_atomically
from tests.golden.example import example_drift
from tests.golden.usage_example import HEADROOM as FOUND
from tests.scripted_gateway import Clock
from tests.unit.test_metrics import run_of


def test_a_pipe_is_written_to_and_not_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("quotaform.system.files._READER_SECONDS", 60.0)
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    read: list[str] = []
    reader = Thread(target=lambda: read.append(pipe.read_text(encoding="utf-8")))
    reader.start()
    write_atomically(pipe, "through")
    reader.join(60)
    assert read == ["through"]
    assert pipe.is_fifo()


def test_a_file_that_has_no_size_is_bounded_too() -> None:
    """A file of /proc says that it is empty."""
    assert len(read_bytes("/proc/self/maps", MIB)) > 1000
    assert reason("/proc/self/maps", 1024) == "it is larger than 1 KiB"


def test_a_file_without_the_right_to_read_it_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The system's answer is made up here, because tests may run as a user who may read everything."""

    def refuse(path: object, *_: object, **__: object) -> int:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), path)

    path = tmp_path / "file"
    path.touch()
    monkeypatch.setattr(os, "open", refuse)
    assert reason(path) == "Permission denied"


def test_a_folder_that_is_replaced_by_a_link_meanwhile_does_not_lead_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where a path leads was found out once to check it and once more to open it, by way of the new link."""
    repository, secrets, folder = tmp_path / "repository", tmp_path / "secrets", tmp_path / "repository" / "folder"
    folder.mkdir(parents=True)
    secrets.mkdir()
    (folder / "file").write_bytes(b"x")
    (secrets / "file").write_bytes(b"secret")
    open_file = os.open

    def swap_and_open(path: str, flags: int) -> int:
        folder.rename(tmp_path / "gone")
        folder.symlink_to(secrets)
        return open_file(path, flags)

    monkeypatch.setattr(os, "open", swap_and_open)
    assert reason(folder / "file", within=repository) == LEADS_OUT


def test_the_operator_may_give_an_open_pipe_as_a_shell_does(tmp_path: Path) -> None:
    """`<(command)` is /dev/fd/63: the pipe of a process that was started for it, not a name that waits."""
    for spelled in ("/dev/fd/{}", "/proc/self/fd/{}"):
        reading, writing = os.pipe()
        os.write(writing, b"through")
        os.close(writing)
        assert read_bytes(spelled.format(reading), MIB) == b"through"
        os.close(reading)
    reading, writing = os.pipe()
    os.write(writing, b"x" * 2000)
    assert reason(f"/dev/fd/{reading}", 1024) == "it is larger than 1 KiB"
    assert reason(f"/dev/fd/{reading}", within=Path("/")) == "it is a link to a file that does not exist"
    os.close(reading)
    os.close(writing)
    assert reason("/dev/fd/999999") == "Bad file descriptor"


@pytest.mark.parametrize("is_stdin", [False, True])
def test_a_pipe_that_does_not_wait_is_read_to_its_end(monkeypatch: pytest.MonkeyPatch, is_stdin: bool) -> None:
    """What was not there yet was left out."""
    reading, writing = os.pipe()
    os.set_blocking(reading, False)
    os.write(writing, b"thro")
    late = Timer(0.2, os.write, (writing, b"ugh"))
    end = Timer(0.3, os.close, (writing,))
    late.start()
    end.start()
    with open(reading, encoding="utf-8") as stdin:  # noqa: PTH123 (a descriptor)
        monkeypatch.setattr("sys.stdin", stdin)
        assert (read_stdin(MIB) if is_stdin else read_bytes(f"/dev/fd/{reading}", MIB)) == b"through"
    end.join()


@pytest.mark.parametrize(
    ("path", "folder"),
    [
        ("repo/a", "repo"),
        ("repo/x/../a", "repo"),
        ("repo/../a", "/"),
        ("/etc/a", "/"),
        ("a", "."),
        ("../a", "/"),
    ],
)
def test_a_path_that_plainly_leads_out_of_a_repository_is_followed(path: str, folder: str) -> None:
    given = Path("repo") if folder == "repo" or path.startswith(("repo", "/")) else Path()
    assert trusted_folder(path, given) == Path(folder)


def reason(path: str | Path, limit: int = MIB, within: Path | None = None) -> str:
    """Return why a file is not read."""
    with pytest.raises(FileReadError) as caught:
        read_bytes(path, limit, within=within)
    return caught.value.reason


if TYPE_CHECKING:
    from pyspark.sql import DataFrame


class Rows:
    """Rows that are written nowhere."""

    @property
    def write(self) -> Any:
        return self

    def parquet(self, folder: str) -> None:
        assert folder


def test_a_result_names_all_of_its_files_in_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nobody knew whether --out had written something."""
    monkeypatch.chdir(tmp_path)
    output = Output(subject="usage-headroom")
    files = TableOutput(output, ("json=found/headroom.json", "parquet=rows", "markdown=a\nb.md"))
    files.present(FOUND, cast("DataFrame", Rows()))
    assert capsys.readouterr().err == 'Saved the result to: found/headroom.json, rows, "a\\nb.md"\n'
    TableOutput(Output(subject="usage-headroom", quiet=True), ("json=quiet.json",)).present(FOUND)
    TableOutput(output, ()).present(FOUND)
    assert capsys.readouterr().err == ""


def test_many_files_are_not_all_named(capsys: pytest.CaptureFixture[str]) -> None:
    report_saved_files(Console(), "plans", (f"{number}.json" for number in range(12)))
    assert capsys.readouterr().err.endswith(", 9.json and 2 more\n")


def test_a_second_update_waits_until_the_first_one_ends(tmp_path: Path) -> None:
    order: list[str] = []

    def update() -> None:
        with update_lock(tmp_path / "state.json"):
            order.append("second")

    with update_lock(tmp_path / "state.json"):
        second = Thread(target=update)
        second.start()
        second.join(0.2)
        order.append("first")
    second.join(60)
    assert order == ["first", "second"]
    assert list(tmp_path.iterdir()) == []


def test_a_lock_that_is_never_released_is_not_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "_MOST_SECONDS", 0.05)
    with update_lock(tmp_path / "a") as first, update_lock(tmp_path / "b") as second:
        assert first is None
        assert second is not None


def test_a_state_and_metrics_that_are_written_without_the_lock_are_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "_MOST_SECONDS", 0.05)
    state, metrics = tmp_path / "state.json", tmp_path / "q.prom"
    warnings: list[str] = []
    store = MetricStore(lambda _: metrics, warnings.append)
    alerts = DriftReporter(metrics=store, state_path=state, clock=Clock(), warn=warnings.append)
    with update_lock(tmp_path / "other"):
        for _ in range(2):
            alerts.record("lab", example_drift())
        store.add([run_of("lab")])
        store.write()
    assert [warning.partition(",")[0] for warning in warnings] == [
        f"{path} is written without a lock" for path in (state, metrics)
    ]
    assert state.exists()
    assert metrics.exists()
    alerts.record("lab", example_drift())
    assert len(warnings) == 2


def test_where_there_is_no_folder_there_is_no_lock(tmp_path: Path) -> None:
    with update_lock(tmp_path / "none" / "a") as first, update_lock(tmp_path / "none" / "a") as second:
        assert (first, second) == (None, None)
