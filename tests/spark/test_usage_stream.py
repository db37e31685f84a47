"""Topics of a real broker, streamed into tables by a session that has the connector, which comes from Maven."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from quotaform.sandbox import Sandbox

ROOT = Path(__file__).parents[2]


def streamed(sandbox: Sandbox, folder: Path, what: str) -> Any:
    """Return what is seen in a process of its own: the session of the other tests has no connector."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.spark.usage_in_stream", sandbox.bootstrap_servers, str(folder), what],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=590,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.timeout(600)
def test_a_topic_becomes_a_table_record_by_record(tmp_path: Path, sandbox: Sandbox) -> None:
    assert streamed(sandbox, tmp_path, "sample") == {}


@pytest.mark.prove
@pytest.mark.timeout(900)
def test_the_command_is_killed_again_and_again_and_the_table_is_that_of_a_batch_ingest() -> None:
    """With a broker of its own; `python -m tests.faults.stream_kills` says what is killed, and takes other numbers."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.faults.stream_kills", "12"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=890,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr[-4000:]


@pytest.mark.prove
@pytest.mark.timeout(600)
def test_topics_become_tables_record_by_record_whatever_happens(tmp_path: Path, sandbox: Sandbox) -> None:
    seen = streamed(sandbox, tmp_path, "all")
    begin = "the stream of the checkpoint FOLDER/checkpoint cannot go on: "
    assert "it is in a table; give a folder of its own" in seen["in-table"]
    assert seen["in-use"].startswith(f"{begin}another process streams with it")
    assert "is damaged, or of another version" in seen["version"]
    assert "v9" in seen["version"]
    assert seen["damaged"].startswith(f"{begin}what Spark has written into it is damaged")
    assert "records of the topic refused are gone that were not read yet" in seen["gone"]
    assert "give another --checkpoint, which begins with the oldest record that is there" in seen["gone"]
    assert 'the topic "refused" was deleted and recreated; records of it' in seen["recreated-running"]
