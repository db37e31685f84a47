"""The blocks of README.md and of some pages of docs, run as they stand.

Only the places of brokers, the name of the sandbox and what differs from run to run (ids, times) are put in. A block
that no test here runs must be in `NOT_RUN`, with the reason.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from quotaform.drift.alert import sign
from quotaform.model.entity import Entity
from quotaform.model.text import Secret
from quotaform.sandbox import Sandbox
from quotaform.sandbox.release import cache_directory
from tests.builder import CONSUMER, MIB, PRODUCER, REQUEST
from tests.git_repository import GitRepository
from tests.markdown import ROOT, Block, blocks
from tests.workflow.command import Cluster, Repository, Result, environment, require_calm, run

pytestmark = pytest.mark.workflow


ENTRY = "quotas:"
PLAN = "$ quotaform plan\n"
IMPORT = "mkdir kafka-quotas"
CONFIG = "clusters:"
LOOP = "quotaform validate"
REVIEW = "quotaform plan --base"
BLOCKED = "$ quotaform plan --base"
MANY = "quotaform plan --all --out"
MANY_PLAN = "$ quotaform plan --all"
SANDBOX = "quotaform sandbox start"
RESOLVE = "$ quotaform resolve"
SCRIPT = "$ kafka-client-quotas"
PYTHON = "from quotaform import"
RUN = (ENTRY, PLAN, IMPORT, CONFIG, LOOP, BLOCKED, MANY, MANY_PLAN, SANDBOX, RESOLVE, SCRIPT, PYTHON)
"""How the blocks begin that the tests below run."""

NOT_RUN = {
    "git clone": "fetches this repository; what `make demo` plays is in test_demo",
    "python3 -m venv": "installs from a package index",
    "pip install": "installs from a package index",
    "repos:": "is a file of pre-commit",
    REVIEW: "needs a pull request; test_ci_files runs the steps of the workflows",
    "make setup": "is what runs the tests",
}
"""How the blocks begin that no test can run, and why."""

PAGES = ("README.md", "docs/getting-started.md", "docs/resolve.md")
BLOCKS = [block for page in PAGES for block in blocks(ROOT / page)]
TUTORIAL = list(blocks(ROOT / "docs/tutorial.md"))


def block(start: str) -> Block:
    """Return the one block that begins like this."""
    (found,) = (block for block in BLOCKS if block.text.startswith(start))
    return found


def put_in(text: str, places: Mapping[str, str]) -> str:
    for place, own in places.items():
        assert place in text, f"{place!r} is not in {text!r}"
        text = text.replace(place, own)
    return text


def shell(text: str, folder: Path) -> Result:
    """Run lines in a shell that finds the installed commands and stops at the first one that fails."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        ["sh", "-e", "-c", text],
        cwd=folder,
        env=environment({"PATH": path}),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=240,
        check=False,
    )
    result = Result(done.returncode, done.stdout.decode(), done.stderr.decode())
    require_calm(result)
    return result


def calm(text: str) -> str:
    """Return a text without what differs from run to run."""
    text = re.sub(r"\(id `?[\w-]{22}`?\)", "(id …)", text)
    text = re.sub(r"@ [0-9a-f]{7}\b|sha256:[0-9a-f]{64}|reverts plan [0-9a-f]{12}", "…", text)
    return re.sub(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", "…", text)


def require_session(session: Block, folder: Path, places: Mapping[str, str], *, code: int = 0) -> None:
    """Run the commands of a session and compare what they print; a line of `...` stands for any lines."""
    for command, printed in zip(session.commands, session.printed, strict=True):
        done = shell(put_in(command, places), folder)
        assert done.code == code, done
        shown = calm("\n".join(printed))
        if "..." not in printed:
            assert calm(done.out).rstrip("\n") == shown, f"{session} {command}"
            continue
        at = 0
        for part in re.split(r"^\.\.\.$", shown, flags=re.MULTILINE):
            found = calm(done.out).find(part.strip("\n"), at)
            assert found >= 0, f"{session} {command}: {part} is not in {done.out}"
            at = found + len(part)


@pytest.fixture
def alice(cluster: Cluster) -> Cluster:
    """The cluster that the page resolves on."""
    cluster.alter(
        {
            Entity(user="alice", client_id="app1"): {PRODUCER: 5 * MIB},
            Entity(user="alice"): {PRODUCER: 10 * MIB, CONSUMER: 20 * MIB},
            Entity(user=None): {PRODUCER: MIB, REQUEST: 50.0},
            Entity(client_id="app1"): {CONSUMER: 4 * MIB},
        }
    )
    return cluster


def test_every_block_is_run_or_says_why_not() -> None:
    left = {
        str(block): block.text.partition("\n")[0] for block in BLOCKS if not block.text.startswith((*RUN, *NOT_RUN))
    }
    assert not left, "run these blocks in a test below, or say in NOT_RUN why no test can"
    for start in (*RUN, *NOT_RUN):
        assert any(block.text.startswith(start) for block in BLOCKS), f"no block begins with {start!r} any more"


def test_the_first_plan_is_what_is_printed(repository: Repository, cluster: Cluster) -> None:
    repository.write("quotas.d/teams.yaml", block(ENTRY).text)
    cluster.set({PRODUCER: 10 * MIB, CONSUMER: 50e6, REQUEST: 150.0}, user="svc-orders")
    require_session(block(PLAN), repository.path, {})


def test_a_cluster_comes_under_management_as_described(offline: Repository, cluster: Cluster, sandbox: Sandbox) -> None:
    cluster.set({PRODUCER: 10 * MIB, REQUEST: 50.0}, user="svc-orders")
    cluster.set({PRODUCER: MIB}, user=None)
    offline.path.mkdir(exist_ok=True)
    here = {"broker1:9092": sandbox.bootstrap_servers, "mkdir kafka-quotas && cd kafka-quotas": "true"}
    imported = shell(put_in(block(IMPORT).text, here), offline.path)
    assert imported.code == 0, imported
    assert offline.read("quotas.d/imported.yaml").count("- match") == 2

    places = {"broker1:9093, broker2:9093": f'"{sandbox.bootstrap_servers}"', "3JxQ0v7pT2aXXXXXXXXXXX": cluster.id}
    offline.config(put_in(block(CONFIG).text, places))
    offline.write("client-prod.properties", "security.protocol=PLAINTEXT\n")
    unchanged = offline("plan", "--detailed-exitcode")
    assert unchanged.code == 0, unchanged

    text = offline.read("quotas.d/imported.yaml").replace("10MiB/s", "20MiB/s")
    offline.quotas(text, "imported.yaml")
    done = shell(block(LOOP).text, offline.path)
    assert done.code == 0, done
    assert "Plan: 0 to add, 1 to change, 0 to destroy." in done.out
    assert "Apply complete! Resources: 0 added, 1 changed, 0 destroyed." in done.out
    assert "No drift." in done.out
    assert cluster.values(user="svc-orders") == {PRODUCER: 20 * MIB, REQUEST: 50.0}


def test_a_mass_delete_is_blocked_as_printed(repository: Repository, cluster: Cluster) -> None:
    cluster.set({PRODUCER: 5 * MIB}, user=None)
    git = GitRepository.init(repository.path / "clone")
    repository.config(repository.read("quotaform.yaml") + "prune: removed\n")
    (repository.path / "quotaform.yaml").rename(git.path / "quotaform.yaml")
    users = [f"svc-{number}" for number in range(9)]
    for user in users:
        cluster.set({PRODUCER: MIB}, user=user)
    git.declare("kept.yaml", users[0])
    git.declare("removed.yaml", *users[1:])
    git.git("update-ref", "refs/remotes/origin/main", git.commit())
    (git.path / "quotas.d/removed.yaml").unlink()
    git.commit()

    require_session(block(BLOCKED), git.path, {}, code=4)


@pytest.fixture
def fleet(repository: Repository, cluster: Cluster) -> Repository:
    """A repository whose files ask prod-eu for a change and prod-us for none."""
    cluster.set({PRODUCER: 10 * MIB}, user="svc-orders")
    for folder, rate in ((".", 20), ("prod-us", 10)):
        entry = f"  - match: {{user: svc-orders}}\n    values: {{{PRODUCER}: {rate}MiB/s}}\n"
        repository.quotas(entry, f"{folder}/teams.yaml")
    return repository


def configure(fleet: Repository, eu: str, us: str, lab: str) -> None:
    """Write a quotaform.yaml of three clusters, given the fields of each."""
    fleet.config(f"clusters:\n  prod-eu: {{{eu}}}\n  prod-us: {{{us}}}\n  lab: {{{lab}}}\n")


def at(server: str) -> str:
    """Return the fields of a cluster with one server."""
    return f"bootstrap_servers: ['{server}']"


def test_many_clusters_are_planned_applied_and_compared(fleet: Repository, cluster: Cluster, sandbox: Sandbox) -> None:
    configure(fleet, *[at(sandbox.bootstrap_servers)] * 3)
    # One broker cannot hold both values: the files of prod-us ask for what the others do.
    fleet.quotas(fleet.read("quotas.d/teams.yaml"), "prod-us/teams.yaml")
    done = shell(block(MANY).text, fleet.path)
    assert done.code == 0, done
    assert cluster.read() == {Entity(user="svc-orders"): {PRODUCER: 20 * MIB}}
    assert {path.stem for path in (fleet.path / "plans").iterdir()} == {"prod-eu", "prod-us", "lab"}
    assert "3 clusters: 3 complete." in done.out


def test_a_cluster_that_is_down_is_reported_as_printed(fleet: Repository, sandbox: Sandbox) -> None:
    # One broker cannot hold both values: prod-us is another one, as it was when its snapshot was taken.
    document = {
        "format_version": "1.0",
        "kind": "quotaform.snapshot",
        "cluster": {"name": "prod-us", "id": "us"},
        "captured_at": "2026-01-01T00:00:00Z",
        "quotas": [{"entity": {"user": "svc-orders"}, "values": {PRODUCER: 10 * MIB}}],
    }
    fleet.write("prod-us.json", json.dumps(document))
    configure(fleet, at(sandbox.bootstrap_servers), "snapshot: prod-us.json", at("127.0.0.1:1"))
    require_session(block(MANY_PLAN), fleet.path, {}, code=1)


@pytest.mark.timeout(300)
def test_the_example_of_this_repository_is_tried_on_a_sandbox(tmp_path: Path) -> None:
    shutil.copytree(ROOT / "quotas.d", tmp_path / "quotas.d")
    shutil.copy(ROOT / "quotaform.yaml", tmp_path)
    # A name of its own: the sandbox that somebody may be using is not ours to stop.
    name = f"readme-{os.getpid()}"
    own = re.sub(r"quotaform sandbox \w+", rf"\g<0> --name {name}", block(SANDBOX).text)
    try:
        done = shell(own, tmp_path)
    finally:
        shell(f"quotaform sandbox stop --name {name} || true", tmp_path)
        (cache_directory() / "sandboxes" / f"{name}.json").unlink(missing_ok=True)
    assert done.code == 0, done
    assert re.search(r"^Plan: \d+ to add, 0 to change, 0 to destroy\.$", done.out, re.MULTILINE)
    assert re.search(r"^Apply complete! Resources: \d+ added, 0 changed, 0 destroyed\.$", done.out, re.MULTILINE)


@pytest.mark.timeout(300)
def test_the_first_week_goes_as_printed(tmp_path: Path) -> None:
    """All blocks of the tutorial, one after the other in one shell."""
    steps = [
        (command, "\n".join(printed))
        for block in TUTORIAL
        for command, printed in (
            zip(block.commands, block.printed, strict=True) if block.is_session else [(block.text, [])]
        )
    ]
    script = "".join(f"{{ {command}\n}} >out{n} || echo $? >code{n}\n" for n, (command, _) in enumerate(steps))
    # `ls` sorts receipts by their second, of which a week has more.
    script = script.replace("{ quotaform apply", "{ sleep 1; quotaform apply")
    suffix = f"-{os.getpid()}"
    script = re.sub(r"(sandbox \w+ --name \w+)", rf"\1{suffix}", script)
    script = script.replace(">out", f'>"{tmp_path}/out"/').replace(">code", f'>"{tmp_path}/out/code"')
    (tmp_path / "out").mkdir()
    identity = "export GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@b GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@b\n"
    try:
        shell(identity + script, tmp_path)
    finally:
        for name in ("eu", "us"):
            shell(f"quotaform sandbox stop --name {name}{suffix} || true", tmp_path)
            (cache_directory() / "sandboxes" / f"{name}{suffix}.json").unlink(missing_ok=True)
    codes = {steps[int(path.name[4:])][0]: path.read_text().strip() for path in (tmp_path / "out").glob("code*")}
    assert codes == {"quotaform drift --all --baseline applied": "2"}
    for number, (command, printed) in enumerate(steps):
        if printed:
            assert calm((tmp_path / "out" / str(number)).read_text()).rstrip() == calm(printed).rstrip(), command


def test_resolve_prints_what_is_printed(repository: Repository, alice: Cluster, sandbox: Sandbox) -> None:
    repository.config(f'clusters: {{local: {{bootstrap_servers: ["{sandbox.bootstrap_servers}"]}}}}\n')
    require_session(block(RESOLVE), repository.path, {})


def test_the_script_of_kip_546_prints_what_is_printed(tmp_path: Path, alice: Cluster, sandbox: Sandbox) -> None:
    require_session(block(SCRIPT), tmp_path, {"localhost:9092": sandbox.bootstrap_servers})


def test_the_python_example_runs_and_changes_nothing(tmp_path: Path, alice: Cluster, sandbox: Sandbox) -> None:
    before = alice.read()
    script = tmp_path / "example.py"
    script.write_text(put_in(block(PYTHON).text, {"localhost:9092": sandbox.bootstrap_servers}), encoding="utf-8")
    done = subprocess.run([sys.executable, script], capture_output=True, timeout=60, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
    assert alice.read() == before


def changed(path: Path, page: str) -> GitRepository:
    """Return a repository with what was applied and merged (folder 1), and a change of it (folder 2)."""
    git = GitRepository.init(path)
    for commit in ("1", "2"):
        shutil.copytree(ROOT / "tests/data/pages" / page / commit, git.path, dirs_exist_ok=True)
        git.commit()
        if commit == "1":
            git.git("tag", "applied")
            git.git("update-ref", "refs/remotes/origin/main", "HEAD")
    return git


@pytest.mark.parametrize(("page", "code"), [("drift", 2), ("pull-requests", 0)])
def test_a_session_in_a_repository_prints_what_is_printed(tmp_path: Path, page: str, code: int) -> None:
    (session,) = (each for each in blocks(ROOT / f"docs/{page}.md") if each.is_session)
    require_session(session, changed(tmp_path / "repository", page).path, {}, code=code)


def test_the_comment_of_the_page_is_real(tmp_path: Path) -> None:
    git = changed(tmp_path / "repository", "pull-requests")
    assert run("plan", "--base", "origin/main", "--out", "markdown=plan.md", cwd=git.path).code == 0
    comment = calm((git.path / "plan.md").read_text()).splitlines()
    page = calm((ROOT / "docs/pull-requests.md").read_text()).splitlines()
    shown = [line[2:] for line in page if line.startswith("> ") and len(line) > 2]
    assert len(shown) > 5
    assert [line for line in shown if line not in comment] == []


def test_the_function_that_verifies_a_signature_works() -> None:
    (text,) = (each.text for each in blocks(ROOT / "docs/drift.md") if each.language == "python")
    names: dict[str, Any] = {}
    exec(text, names)  # noqa: S102
    is_genuine = names["is_genuine"]
    now = datetime.now(UTC)
    header = sign(b'{"a":1}', Secret("key"), now)
    assert is_genuine(header, b'{"a":1}', "key")
    assert not is_genuine(header, b'{"a":2}', "key")
    assert not is_genuine(header, b'{"a":1}', "other")
    assert not is_genuine(sign(b"{}", Secret("key"), now - timedelta(seconds=301)), b"{}", "key")
    for damaged in ("", "t=,v1=", "v1=x", "t=1", "t=x,v1=y", header.replace("v1=", "v1=0")):
        assert not is_genuine(damaged, b'{"a":1}', "key")
