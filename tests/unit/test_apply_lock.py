"""Two applies from one directory exclude each other, and the lock of a dead process is none."""

from __future__ import annotations

import subprocess
import sys
from hashlib import sha256
from pathlib import Path

import pytest

from quotaform.apply.lock import cluster_lock, listed_receipts
from quotaform.model.errors import ApplyRunningError


@pytest.mark.slow
def test_the_lock_of_a_killed_process_is_gone(tmp_path: Path) -> None:
    code = (
        "import os, pathlib\n"
        "from quotaform.apply.lock import cluster_lock\n"
        "with cluster_lock(pathlib.Path(), 'lab', 'id-1'):\n"
        "    print('held', flush=True)\n"
        "    os.read(0, 1)\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code], cwd=tmp_path, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"held\n"
        with pytest.raises(ApplyRunningError), cluster_lock(tmp_path, "lab", "id-1"):
            raise AssertionError
        process.kill()
        process.wait()
    with cluster_lock(tmp_path, "lab", "id-1"):
        pass


def test_where_no_file_can_be_made_there_is_no_lock(tmp_path: Path) -> None:
    (tmp_path / ".quotaform").write_text("a file")
    with cluster_lock(tmp_path, "lab", "id-1"):
        pass


def test_a_link_of_a_repository_is_not_opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    outside = tmp_path.parent / f"{tmp_path.name}-outside"
    outside.mkdir()
    (tmp_path / ".quotaform").mkdir()
    (tmp_path / ".quotaform" / "locks").symlink_to(outside)
    with cluster_lock(Path(), "lab", "id-1"):
        pass
    assert list(outside.iterdir()) == []
    listed = Path(".quotaform/locks") / f"{sha256(b'id-1').hexdigest()[:16]}.lock"
    listed.write_text("receipt.json\n")
    assert listed_receipts(Path(), "id-1") == []


def test_a_long_list_of_started_receipts_is_cut_between_two_of_them(tmp_path: Path) -> None:
    """The last path of a long list was cut in its middle, and what was not read was dropped from the list."""
    receipts = [tmp_path / f"{number:04}-{'long' * 50}.json" for number in range(1000)]
    with cluster_lock(tmp_path, "lab", "id-1") as lock:
        lock.write(receipts)
    listed = listed_receipts(tmp_path, "id-1")
    assert 100 < len(listed) < 1000
    assert listed == receipts[: len(listed)]
