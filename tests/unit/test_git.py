"""A pull request may make git directories and configurations of its files: planning executes none of it.

`plan` ran `git -C quotas.d status`. A change could make quotas.d itself a git directory whose configuration names a
command (core.fsmonitor), which then ran, on a fresh clone, as whoever planned; and the plan named the attacker's
commit.
"""

from __future__ import annotations

import json
import os
import shutil
import time
from collections.abc import Callable
from functools import partial
from itertools import count
from pathlib import Path
from threading import enumerate as enumerate_threads
from typing import Any

import pytest

from quotaform import git
from quotaform.cli.main import run
from quotaform.git import GitError, ObjectTooLargeError, TimeLeft, find_work_tree, open_objects
from quotaform.plan.source import list_files
from tests.git_repository import ENVIRONMENT, GitRepository

pytestmark = pytest.mark.slow

SNAPSHOT = {
    "format_version": "1.0",
    "kind": "quotaform.snapshot",
    "cluster": {"name": "lab", "id": "id"},
    "captured_at": "2026-11-20T09:12:44Z",
    "quotas": [],
}


@pytest.fixture(autouse=True)
def own_git(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith("GIT_")]:
        monkeypatch.delenv(name)
    for name in ("GIT_CONFIG_GLOBAL", "GIT_CONFIG_NOSYSTEM"):
        monkeypatch.setenv(name, ENVIRONMENT[name])


@pytest.fixture
def origin(tmp_path: Path) -> GitRepository:
    made = GitRepository.init(tmp_path / "origin")
    made.write("quotaform.yaml", "clusters: {lab: {snapshot: lab.json}}\n")
    made.write("lab.json", json.dumps(SNAPSHOT))
    made.declare("all.yaml", "alice")
    made.commit()
    return made


@pytest.fixture
def marker(tmp_path: Path) -> Path:
    """What a command of the attacker would write."""
    return tmp_path / "marker"


def planned(folder: Path, capsys: pytest.CaptureFixture[str], directory: str | None = None) -> dict[str, Any]:
    """Plan as JSON, which must succeed; return the source, with the rules of all findings."""
    here = Path.cwd()
    os.chdir(folder)
    try:
        capsys.readouterr()
        code = run(["plan", *([directory] if directory else []), "--format", "json"])
        printed = capsys.readouterr()
        assert code == 0, printed.err
        for command in ("plan", "drift"):
            run([command, *([directory] if directory else [])])
    finally:
        os.chdir(here)
    made = json.loads(printed.out)
    return {**made["source"], "rules": [finding["rule"] for finding in made["findings"]]}


def commands(marker: Path) -> str:
    """A configuration in which everything that git executes writes the marker."""
    run = f"touch {marker}; false"
    return (
        f'[core]\n\trepositoryformatversion = 0\n\tbare = false\n\tworktree = .\n\tfsmonitor = "{run}"\n'
        f'\tpager = "{run}"\n\tsshCommand = "{run}"\n\teditor = "{run}"\n\taskPass = "{run}"\n\thooksPath = hooks\n'
        f'\talternateRefsCommand = "{run}"\n\tgitProxy = "{run}"\n\tattributesFile = attributes\n'
        f'[diff]\n\texternal = "{run}"\n[diff "x"]\n\ttextconv = "{run}"\n\tcommand = "{run}"\n'
        f'[filter "x"]\n\tclean = "{run}"\n\tsmudge = "{run}"\n\tprocess = "{run}"\n\trequired = true\n'
        f'[log]\n\tshowSignature = true\n[gpg]\n\tprogram = "{run}"\n[pager]\n\tcat-file = "{run}"\n'
        f'[credential]\n\thelper = "!{run}"\n[alias]\n\tcat-file = "!{run}"\n\tstatus = "!{run}"\n'
    )


def make_bare(origin: GitRepository, folder: str, store: str, marker: Path) -> None:
    """Make a folder a git directory whose objects are elsewhere, so that nothing in the folder looks odd."""
    head = origin.git("rev-parse", "HEAD")
    shutil.copytree(origin.path / ".git" / "objects", origin.path / store / "objects")
    shutil.copyfile(origin.path / ".git" / "index", origin.path / folder / "index")
    origin.write(f"{store}/refs/.keep", "")
    origin.write(f"{store}/objects/.keep", "")
    origin.write(f"{store}/config", commands(marker) + "[extensions]\n\tworktreeConfig = true\n")
    origin.write(f"{folder}/config.worktree", commands(marker))
    origin.write(f"{folder}/commondir", os.path.relpath(origin.path / store, origin.path / folder) + "\n")
    origin.write(f"{folder}/HEAD", f"{head}\n")


def quotas_directory(origin: GitRepository, marker: Path) -> None:
    make_bare(origin, "quotas.d", "store", marker)


def folder_above(origin: GitRepository, marker: Path) -> None:
    """The folder that holds the quotas directory is a git directory too, and so is the top."""
    for folder in ("team", "."):
        (origin.path / "team").mkdir(exist_ok=True)
        make_bare(origin, folder, f"store{folder.strip('.')}", marker)


def attributes(origin: GitRepository, marker: Path) -> None:
    origin.write(".gitattributes", "* filter=x diff=x\n*.yaml text eol=lf ident\n")
    origin.write("quotas.d/.gitattributes", "* filter=x diff=x\n")
    origin.write(".gitmodules", f'[submodule "x"]\n\tpath = quotas.d\n\turl = ext::touch {marker}\n\tupdate = !touch\n')
    origin.write(".gitconfig", commands(marker))


@pytest.mark.parametrize("attack", [quotas_directory, folder_above, attributes])
def test_nothing_of_a_clone_is_executed_and_its_own_commit_is_named(
    attack: Callable[[GitRepository, Path], None],
    origin: GitRepository,
    marker: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    origin.declare("../team/quotas.d/all.yaml", "alice")
    origin.write("team/quotaform.yaml", "clusters: {lab: {snapshot: ../lab.json}}\n")
    attack(origin, marker)
    commit = origin.commit()
    clone = origin.clone(tmp_path / "clone")
    # What is different is what git would look at more closely.
    clone.declare("all.yaml", "carol")
    for directory in (None, "quotas.d", "team", "team/quotas.d"):
        source = planned(clone.path, capsys, directory)
        assert source["commit"] == commit, directory
        assert source["dirty"] is (directory in (None, "quotas.d"))
    assert planned(clone.path / "team", capsys)["commit"] == commit
    assert not marker.exists()


def test_the_attack_would_work_on_a_git_that_is_not_restrained(origin: GitRepository, marker: Path) -> None:
    """The other tests prove nothing unless the repository that they make does execute its command."""
    quotas_directory(origin, marker)
    GitRepository(origin.path / "quotas.d").git("-c", "safe.bareRepository=all", "status", "--porcelain")
    assert marker.exists()


def other_repository(origin: GitRepository, marker: Path) -> Path:
    """Make a repository beside the other one, whose configuration executes commands; return its git directory."""
    evil = GitRepository.init(origin.path.parent / "evil")
    evil.commit()
    (evil.path / ".git" / "config").write_text(commands(marker).replace("worktree = .", "bare = true"))
    return evil.path / ".git"


def git_file(origin: GitRepository, marker: Path, _: pytest.MonkeyPatch) -> None:
    """Git refuses to check out a `.git`, an archive of a pull request may hold one."""
    (origin.path / "quotas.d" / ".git").write_text(f"gitdir: {other_repository(origin, marker)}\n")


def git_link(origin: GitRepository, marker: Path, _: pytest.MonkeyPatch) -> None:
    (origin.path / "quotas.d" / ".git").symlink_to(other_repository(origin, marker))


def git_directory(origin: GitRepository, marker: Path, _: pytest.MonkeyPatch) -> None:
    shutil.copytree(other_repository(origin, marker), origin.path / "quotas.d" / ".git")


def configuration(origin: GitRepository, marker: Path, _: pytest.MonkeyPatch) -> None:
    """The configuration of a clone is not a pull request's, but may be a tool's or a template's."""
    included = origin.path / ".git" / "more"
    included.write_text(commands(marker).replace("\tworktree = .\n", ""))
    config = origin.path / ".git" / "config"
    config.write_text(config.read_text() + f"[include]\n\tpath = {included}\n")
    hooks = origin.path / ".git" / "hooks"
    shutil.rmtree(hooks, ignore_errors=True)
    hooks.mkdir()
    for name in ("post-index-change", "fsmonitor-watchman", "post-checkout", "reference-transaction"):
        (hooks / name).write_text(f"#!/bin/sh\ntouch {marker}\n")
        (hooks / name).chmod(0o755)
    origin.write("quotas.d/.gitattributes", "* filter=x diff=x\n")


def variables(origin: GitRepository, marker: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a hook and in some CI systems GIT_DIR is set, and the plan named the commit of another repository."""
    other = other_repository(origin, marker)
    monkeypatch.setenv("GIT_DIR", str(other))
    monkeypatch.setenv("GIT_WORK_TREE", str(other.parent))
    monkeypatch.setenv("GIT_INDEX_FILE", str(other / "index"))
    monkeypatch.setenv("GIT_OBJECT_DIRECTORY", str(other / "objects"))
    for name in ("GIT_SSH_COMMAND", "GIT_EXTERNAL_DIFF", "GIT_PAGER"):
        monkeypatch.setenv(name, f"touch {marker}")


def git_command(path: str, origin: GitRepository, marker: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With `.` in the PATH a file called git in the repository ran."""
    for name in ("git", "bin/git"):
        origin.write(name, f"#!/bin/sh\ntouch {marker}\n")
        (origin.path / name).chmod(0o755)
    monkeypatch.setenv("PATH", os.pathsep.join([path.format(folder=origin.path), os.environ["PATH"]]))


COMMANDS = [partial(git_command, path) for path in (".", "", "{folder}", "{folder}/bin")]


@pytest.mark.parametrize("attack", [git_file, git_link, git_directory, configuration, variables, *COMMANDS])
def test_what_is_around_the_files_is_not_executed_and_no_other_commit_is_named(
    attack: Callable[[GitRepository, Path, pytest.MonkeyPatch], None],
    origin: GitRepository,
    marker: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    commit = origin.git("rev-parse", "HEAD")
    attack(origin, marker, monkeypatch)
    origin.declare("all.yaml", "bob")
    source = planned(origin.path, capsys)
    assert (source["commit"], source["dirty"], source["rules"]) == (commit, True, [])
    assert not marker.exists()


def test_a_partial_clone_fetches_nothing(
    origin: GitRepository, marker: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A lazy fetch runs the transport that the remote names, such as `ext::COMMAND`."""
    for number in range(3):
        origin.declare("all.yaml", *"abc"[: 3 - number])
        origin.commit()
    origin.git("config", "uploadpack.allowFilter", "true")
    clone = origin.clone(tmp_path / "partial", "--filter=blob:none")
    clone.git("config", "protocol.ext.allow", "always")
    clone.git("config", "remote.origin.url", f"ext::sh -c touch% {marker}")
    live = [{"entity": {"user": name}, "values": {"producer_byte_rate": 1048576}} for name in "abc"]
    clone.write("lab.json", json.dumps(SNAPSHOT | {"quotas": live}))
    source = planned(clone.path, capsys)
    assert (source["commit"], source["rules"]) == (clone.git("rev-parse", "HEAD"), ["history-not-searched"])
    with open_objects(clone.path, TimeLeft()) as objects, pytest.raises(GitError, match="partial clone"):
        objects.blob(origin.git("rev-parse", "HEAD~1:quotas.d/all.yaml"), 1000)
    assert not marker.exists()


def test_a_repository_that_git_refuses_is_a_warning(
    origin: GitRepository, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A repository of another user (safe.directory), and one without a git command, had no commit and no reason."""
    monkeypatch.setenv("GIT_TEST_ASSUME_DIFFERENT_OWNER", "1")
    monkeypatch.setattr(git, "_KEPT_VARIABLES", ("GIT_CONFIG", "GIT_TEST"))
    monkeypatch.chdir(origin.path)
    assert run(["plan"]) == 0
    printed = capsys.readouterr().out
    assert "Source quotas.d\n" in printed
    assert (
        "  unknown-commit  the commit of the files is not known: git refuses a repository that another user owns; "
        f'if you trust it, run: git config --global --add safe.directory "{origin.path}"\n' in printed
    )
    monkeypatch.setenv("PATH", "")
    assert run(["plan"]) == 0
    assert "is not known: no git command was found on the PATH; install git\n" in capsys.readouterr().out


def test_links_that_lead_to_no_file_of_a_commit_are_not_followed(origin: GitRepository) -> None:
    for target in ("../../outside.yaml", "/etc/passwd", "link.yaml", "missing.yaml", ""):
        blob = origin.git("hash-object", "-w", "--stdin", stdin=target.encode())
        tree = origin.git("mktree", stdin=f"120000 blob {blob}\tlink.yaml\n".encode())
        with open_objects(origin.path, TimeLeft()) as objects:
            assert objects.entry(tree, "link.yaml") is None, target


def test_the_files_of_a_link_are_looked_for_where_they_are(origin: GitRepository, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "quotas.d").symlink_to(origin.path / "quotas.d")
    assert find_work_tree(tmp_path / "elsewhere" / "quotas.d") == origin.path
    assert find_work_tree(origin.path) is None
    assert find_work_tree(origin.path / "no" / "such" / "folder") == origin.path


def test_an_object_that_is_too_large_is_a_reason_and_others_are_still_read(
    origin: GitRepository, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Git was killed at the first object over the limit, and nothing else was read."""
    monkeypatch.setattr(git, "_MAX_OBJECT_BYTES", 10)
    blob = origin.git("hash-object", "-w", "--stdin", stdin=b"0123456789x")
    small = origin.git("hash-object", "-w", "--stdin", stdin=b"0123456789")
    with open_objects(origin.path, TimeLeft()) as objects:
        with pytest.raises(ObjectTooLargeError, match=r"^an object of [0-9]+ bytes is larger than 10$"):
            objects.commit("HEAD")
        with pytest.raises(ObjectTooLargeError, match=r"^an object of 11 bytes is larger than 10$"):
            objects.blob(blob, 10)
        assert objects.blob(small, 10) == b"0123456789"
        assert objects.bytes_read == 10


def test_a_damaged_object_is_a_reason(
    origin: GitRepository, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    head = origin.git("rev-parse", "HEAD")
    (origin.path / ".git" / "objects" / head[:2] / head[2:]).chmod(0o644)
    (origin.path / ".git" / "objects" / head[:2] / head[2:]).write_bytes(b"no object")
    monkeypatch.chdir(origin.path)
    assert run(["plan"]) == 0
    assert "the commit of the files is not known: git failed: " in capsys.readouterr().out


def test_a_damaged_commit_is_a_reason(
    origin: GitRepository, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    bad = f"parent HEAD\n{origin.git('cat-file', 'commit', 'HEAD')}\n".encode()
    commit = origin.git("hash-object", "-t", "commit", "-w", "--literally", "--stdin", stdin=bad)
    (origin.path / ".git" / "HEAD").write_text(f"{commit}\n")
    monkeypatch.chdir(origin.path)
    assert run(["plan"]) == 0
    assert "is not known: a commit of the repository is damaged\n" in capsys.readouterr().out


def test_a_folder_is_read_once_however_many_files_it_has(
    origin: GitRepository, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each file was looked for from the top again, which read the same folders for each: `plan` did not end."""
    monkeypatch.setattr(git, "_MAX_CACHED_ENTRIES", 1)
    for number in range(200):
        origin.write(f"quotas.d/{number}.yaml", "quotas: []\n")
        origin.write(f"quotas.d/lab/{number}.yaml", "quotas: []\n")
        origin.write(f"{number}.txt", "")
    commit = origin.commit()
    size = sum(int(origin.git("cat-file", "-s", f"{commit}:{path}")) for path in ("", "quotas.d", "quotas.d/lab"))
    with open_objects(origin.path, TimeLeft()) as objects:
        made = objects.commit(commit)
        assert made is not None
        before = objects.bytes_read
        assert len(list_files(objects, made.tree, "quotas.d")) == 401
        assert objects.bytes_read - before < 3 * size


def test_what_has_ended_is_not_killed(origin: GitRepository, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its number may be that of other processes by then, and they were killed."""
    killed: list[int] = []
    monkeypatch.setattr(os, "killpg", lambda group, _: killed.append(group))
    with open_objects(origin.path, TimeLeft()) as objects:
        assert objects.error_message() is None
    assert killed == []


def test_time_may_run_out_at_any_moment(origin: GitRepository, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where it did between two processes, what was said was that a file is closed."""
    origin.write("quotas.d/a.yaml", "quotas: []\n")
    blob = origin.git("rev-parse", f"{origin.commit()}:quotas.d/a.yaml")
    for seconds in range(1, 12):
        clock = count()
        monkeypatch.setattr(git, "monotonic", lambda clock=clock: float(next(clock)))
        with pytest.raises(GitError), open_objects(origin.path, TimeLeft(seconds)) as objects:
            objects.blob(blob, 1)


def test_the_bytes_and_the_time_of_reading_are_limited(
    origin: GitRepository, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(origin.path)
    with monkeypatch.context() as patched, open_objects(origin.path, TimeLeft()) as objects:
        assert objects.commit("HEAD") is not None
        patched.setattr(git, "_MAX_BYTES_READ", objects.bytes_read)
        for _ in range(2):
            with pytest.raises(GitError):
                objects.commit("HEAD")
        assert run(["plan"]) == 0
        assert "the commit of the files is not known: at most 0 MiB of the repository are read\n" in (
            capsys.readouterr().out
        )
    passed = [0.0]
    monkeypatch.setattr(git, "monotonic", lambda: time.monotonic() + passed[0])
    left = TimeLeft(300)
    with open_objects(origin.path, left) as objects:
        passed[0] += 200
        assert objects.commit("HEAD") is not None
    assert left.seconds < 100
    with open_objects(origin.path, TimeLeft(100)) as objects:
        passed[0] += 100
        with pytest.raises(GitError, match=r"^the repository is read for at most 3 seconds$"):
            objects.commit("HEAD")
    with pytest.raises(GitError, match="at most 3 seconds"), open_objects(origin.path, TimeLeft(0)):
        pytest.fail("git was started")


@pytest.fixture
def fake_git(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Puts a script before git in the PATH."""

    def make(script: str) -> None:
        path = tmp_path / "bin" / "git"
        path.parent.mkdir()
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(0o755)
        monkeypatch.setenv("PATH", f"{path.parent}{os.pathsep}{os.environ['PATH']}")

    return make


@pytest.mark.parametrize(
    "script", ["exec sleep 60", "exec cat /dev/zero >&2", "sleep 60 & exec <&- >&-", "exec cat /dev/zero"]
)
def test_a_git_that_does_not_answer_is_not_waited_for(
    script: str, origin: GitRepository, fake_git: Callable[[str], None]
) -> None:
    """The standard error of git was read to its end without a limit, and not before git had answered."""
    fake_git(script)
    started = time.monotonic()
    with open_objects(origin.path, TimeLeft(0.5)) as objects, pytest.raises(GitError):
        objects.commit("HEAD")
    assert time.monotonic() - started < 30


def test_a_git_that_writes_many_warnings_still_answers(origin: GitRepository, fake_git: Callable[[str], None]) -> None:
    """Git waited for room in the pipe of its standard error, and quotaform for git."""
    real = shutil.which("git")
    fake_git(f'head -c 1000000 /dev/zero >&2\nexec {real} "$@"')
    with open_objects(origin.path, TimeLeft()) as objects:
        assert objects.commit("HEAD") is not None


def test_no_thread_waits_for_a_base_that_does_not_exist(origin: GitRepository, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a process that goes on, such as a watch, they would pile up."""
    monkeypatch.chdir(origin.path)
    before = set(enumerate_threads())
    assert run(["plan", "--base", "mian"]) == 1
    for thread in set(enumerate_threads()) - before:
        thread.join(60)
        assert not thread.is_alive()
