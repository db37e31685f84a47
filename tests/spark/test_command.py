"""`quotaform plan --engine spark`: where it says so in a process of its own, with a session of its own."""

from __future__ import annotations

import os
import shutil
import signal
from pathlib import Path

import pytest

from quotaform.model.entity import Entity
from tests.builder import PRODUCER, REQUEST
from tests.spark.command_process import messages
from tests.spark.files import write_snapshot
from tests.waiting import is_alive, wait_until
from tests.workflow.command import Repository

pytestmark = pytest.mark.workflow


ALLOWED = ("--allow", "change-factor", "--allow", "default-entity", "--allow", "to-unlimited")


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    """A folder with a snapshot and a cluster that is down."""
    made = Repository(tmp_path)
    made.config("clusters:\n  lab: {snapshot: lab.json}\n  down: {bootstrap_servers: ['127.0.0.1:1']}\n")
    made.quotas("  - match: {user: [alice, <default>]}\n    values: {producer_byte_rate: 1MiB/s}\n")
    write_snapshot(tmp_path / "lab.json", {Entity(user="alice"): {PRODUCER: 5.0, REQUEST: 1.0}})
    return made


def test_the_command_does_what_the_local_engine_does_imports_no_module_of_the_folder_and_leaves_nothing(
    repository: Repository, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """The workers of Spark run in the current folder, and a pyspark.py of a pull request there was executed."""
    temporary = tmp_path_factory.mktemp("temporary")
    options = {"env": {"SOURCE_DATE_EPOCH": "1795000000", "TMPDIR": str(temporary)}}
    arguments = ("plan", "--cluster", "lab", "--detailed-exitcode", "--out", "plan.json", *ALLOWED)
    local = repository(*arguments, **options)
    written = repository.read("plan.json")
    modules = [f"{name}.py" for name in ("pyspark", "pandas", "yaml", "typing", "socket", "select")]
    for module in modules:
        repository.write(module, "open('marker', 'w'); raise SystemExit('executed')\n")
    spark = repository.process(*arguments, "--engine", "spark", **options)
    assert (spark.code, spark.out) == (local.code, local.out)
    assert (spark.code, messages(spark)) == (2, local.err)
    assert local.err == "Saved the plan to: plan.json\n"
    assert repository.read("plan.json") == written
    expected = {"lab.json", "plan.json", "quotaform.yaml", "quotas.d", *modules}
    assert {path.name for path in repository.path.iterdir()} == expected
    assert not list(temporary.glob("quotaform-*"))


def test_a_jvm_that_does_not_start_is_one_sentence_and_exit_1(repository: Repository) -> None:
    env = {"PYSPARK_SUBMIT_ARGS": "--driver-memory 1k pyspark-shell"}
    spark = repository.process("plan", "--cluster", "lab", "--engine", "spark", env=env)
    assert (spark.code, spark.out) == (1, "")
    assert messages(spark) == "Error: Spark did not start: Too small maximum heap; check the JDK and the memory.\n"


def test_ctrl_c_while_spark_starts_ends_it_at_once_and_leaves_no_jvm_behind(
    repository: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    """PySpark forgets a JVM whose start is interrupted, and that JVM then waits for ever."""
    java = shutil.which("java", path=f"{os.environ.get('JAVA_HOME', '')}/bin:{os.environ['PATH']}")
    assert java
    note = repository.path / "jvm.pid"
    # What becomes of the process that is to be Spark.
    spark = f'*SparkSubmit*) echo $$ > "{note}"; exec "{java}" "$@" ;;'
    script = repository.write(
        "jdk/bin/java", f'#!/bin/sh\ncase "$*" in *launcher.Main*) ;; {spark} esac\nexec "{java}" "$@"\n'
    )
    script.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(repository.path / "jdk"))
    running = repository.start("plan", "--cluster", "lab", "--engine", "spark")
    wait_until(lambda: note.exists() and note.read_text(encoding="utf-8").strip() != "")
    running.signal(signal.SIGINT)
    # A start takes longer where nothing else runs.
    done = running.end(timeout=5)
    assert (done.code, done.err) == (130, "Planning 1 cluster on Spark (local[*]) ...\nError: interrupted\n")
    pid = int(note.read_text(encoding="utf-8"))
    wait_until(lambda: not is_alive(pid))
