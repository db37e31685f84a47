"""Each command once as an installed command, in a process of its own: it does what it does when tests call it.

The other tests of this folder call commands in their own process (see `tests.workflow.command`); here both ways are
compared. What only a process has (signals, terminals, pipes) is tested where its subject is.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from quotaform.cli.client_quotas import run as client_quotas
from quotaform.model.entity import Entity
from quotaform.sandbox import Sandbox
from tests.builder import MIB
from tests.command_line import LEAVES
from tests.workflow.command import QUOTAFORM, SCRIPT, Cluster, Repository, Result, call, environment, run_process

pytestmark = pytest.mark.workflow

SECRET = "correct horse"

READING = {
    "quotaform validate": 0,
    "quotaform comment gone.md": 1,
    "quotaform fmt --check": 2,
    "quotaform init new --cluster a --bootstrap-server 127.0.0.1:1 --no-import --ci none --dry-run": 0,
    "quotaform plan --detailed-exitcode": 2,
    "quotaform drift": 2,
    "quotaform show plan.json": 0,
    "quotaform explain user=new": 0,
    "quotaform explain user=nobody": 1,
    "quotaform describe": 0,
    "quotaform doctor": 0,
    "quotaform resolve --name user=a --format json": 0,
    "quotaform snapshot": 0,
    "quotaform schema config": 0,
    "quotaform history append --history kept nothing.json": 64,
    "quotaform history show": 64,
    "quotaform history diff": 64,
    "quotaform usage ingest --usage usage": 64,
    "quotaform usage compact": 64,
    "quotaform usage headroom": 64,
    "quotaform usage backtest": 64,
    "quotaform usage recommend": 64,
    "quotaform scram describe": 0,
    "quotaform sandbox status --name none": 1,
    "quotaform sandbox stop --name none": 0,
    "quotaform alter user=b --add producer_byte_rate=1MiB/s --validate-only": 0,
    "quotaform plan --cluster none": 64,
    "quotaform plan nowhere": 4,
    "quotaform": 0,
    "quotaform --version": 0,
    "quotaform --help": 0,
}
"""What changes nothing, so that it can be run twice, and its exit code."""

WRITING = {
    "quotaform apply": "Apply complete! Resources: 1 added, 0 changed, 0 destroyed.",
    "quotaform alter user=a --add consumer_byte_rate=1MiB/s": "consumer_byte_rate",
    "quotaform scram upsert user=process --mechanism SCRAM-SHA-256 --password-env PW": "process",
    "quotaform scram delete user=process --mechanism SCRAM-SHA-256": "process",
    "quotaform import": "imported.yaml",
}
"""What changes something, in this order, and a part of what it prints."""

ELSEWHERE = {
    "quotaform demo": "test_demo",
    "quotaform sandbox start": "test_docs and tests/kafka/test_sandbox",
    "quotaform top": "test_usage_live",
    "quotaform usage record": "test_usage_live",
}


@pytest.fixture
def different(repository: Repository, cluster: Cluster) -> Repository:
    """A repository with something to create, and its plan."""
    cluster.alter({Entity(user="a"): {"producer_byte_rate": MIB}, Entity(user="other"): {"producer_byte_rate": MIB}})
    repository.quotas(
        "  - match: {user: a}\n    values: {producer_byte_rate: 1MiB/s}\n"
        "  - match: {user: new}\n    values: {producer_byte_rate: 1MiB/s}\n"
    )
    assert repository("plan", "--out", "plan.json").code == 0
    return repository


def without_times(result: Result) -> tuple[int, str, str]:
    """Return a result without what differs from run to run."""
    time = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z")
    return result.code, time.sub("TIME", result.out), time.sub("TIME", result.err)


def test_no_command_is_left_out() -> None:
    lines = [*READING, *WRITING, *ELSEWHERE]
    assert {path for path in LEAVES if any(f"{line} ".startswith(f"{path} ") for line in lines)} == set(LEAVES)


@pytest.mark.parametrize("line", READING)
def test_a_process_and_a_call_give_the_same(different: Repository, line: str) -> None:
    arguments = line.split()[1:]
    process, called = different.process(*arguments), different(*arguments)
    assert process.code == READING[line], process
    assert without_times(process) == without_times(called)


def test_what_a_process_writes_is_there(different: Repository, cluster: Cluster) -> None:
    for line, printed in WRITING.items():
        yes = [] if line == "quotaform import" else ["--auto-approve"]
        done = different.process(*line.split()[1:], *yes, env={"PW": SECRET})
        assert done.code == 0, done
        assert printed in done.said
    assert cluster.values(user="new") == {"producer_byte_rate": MIB}
    assert cluster.values(user="a") == {"producer_byte_rate": MIB, "consumer_byte_rate": MIB}
    assert len(different.receipts) == 1
    assert "user: other" in different.read("quotas.d/imported.yaml")


def test_the_script_in_a_process_and_in_a_call_gives_the_same(different: Repository, sandbox: Sandbox) -> None:
    where = ("--bootstrap-server", sandbox.bootstrap_servers)
    for arguments, code in ((("--describe",), 0), (("--help",), 0), (("--nope",), 1)):
        process = run_process(*where, *arguments, cwd=different.path, command=SCRIPT)
        assert process.code == code, process
        assert process == call(client_quotas, *where, *arguments)


def test_a_reader_that_goes_away_is_no_accident(different: Repository, cluster: Cluster) -> None:
    for line, code in (
        ("plan", 0),
        ("plan --format json --detailed-exitcode", 2),
        ("snapshot", 0),
        ("drift", 2),
        ("validate", 0),
        ("apply --auto-approve", 0),
    ):
        reader, writer = os.pipe()
        os.close(reader)
        assert onto(writer, different, line) == (code, b""), line
    assert cluster.values(user="new") == {"producer_byte_rate": MIB}
    assert len(different.receipts) == 1


def test_output_that_cannot_be_written_is_one_sentence(different: Repository) -> None:
    full = os.open("/dev/full", os.O_WRONLY)
    said = b"Error: the output cannot be written: No space left on device\n"
    assert onto(full, different, "plan") == (1, said)


def onto(descriptor: int, repository: Repository, line: str) -> tuple[int, bytes]:
    """Run a command whose output goes to a descriptor, which is closed; return its exit code and its errors."""
    with open(descriptor, "wb") as out:
        done = subprocess.run(
            [QUOTAFORM, *line.split(), "-q"],
            cwd=repository.path,
            env=environment(),
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.PIPE,
            timeout=240,
            check=False,
        )
    return done.returncode, done.stderr


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_script_of_each_shell_is_shown_and_installed(offline: Repository, shell: str, tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    # Without this typer looks at which shell runs it, which is none that it knows here.
    env = {"HOME": str(home), "_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION": "1"}
    shown = offline("--show-completion", shell, env=env)
    assert shown.code == 0
    assert f"complete_{shell}" in shown.out
    assert "_QUOTAFORM_COMPLETE" in shown.out
    installed = offline("--install-completion", shell, env=env)
    assert installed.code == 0
    written = [path for path in home.rglob("*quotaform*") if path.is_file()]
    assert [shown.out.strip() in path.read_text() for path in written] == [True]


def test_bash_itself_completes_with_the_script(offline: Repository) -> None:
    bash = shutil.which("bash")
    assert bash is not None
    env = {"_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION": "1"}
    script = offline("--show-completion", "bash", env=env).out
    ask = 'COMP_WORDS=(quotaform pl); COMP_CWORD=1; _quotaform_completion quotaform; echo "${COMPREPLY[@]}"'
    path = {"PATH": f"{Path(QUOTAFORM).parent}:/usr/bin:/bin"}
    done = subprocess.run(
        [bash, "--norc", "-c", f"{script}\n{ask}"], env=environment(path), capture_output=True, text=True, check=True
    )
    assert done.stdout == "plan\n", done
