"""Shell completion: what a shell asks the installed command, and what bash makes of its script."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.workflow.command import QUOTAFORM, Repository, environment

pytestmark = pytest.mark.workflow

CLUSTERS = (
    "clusters: {prod-eu: {bootstrap_servers: ['a:1']}, prod-us: {bootstrap_servers: ['a:1']}, lab: {snapshot: l}}"
)


def complete(repository: Repository, line: str) -> list[str]:
    """Return what the command offers for a line with the cursor at its end, asked as bash asks."""
    words = line.split(" ")
    asked = {"_QUOTAFORM_COMPLETE": "complete_bash", "COMP_WORDS": line, "COMP_CWORD": str(len(words) - 1)}
    result = repository(env=asked)
    assert (result.code, result.err) == (0, "")
    return result.out.split()


@pytest.mark.parametrize(
    ("line", "offered"),
    [
        ("pl", "plan"),
        ("s", "show snapshot schema scram sandbox"),
        ("scram ", "describe upsert delete"),
        ("plan --det", "--detailed-exitcode"),
        ("scram upsert --pass", "--password-file --password-env"),
        ("plan --cluster p", "prod-eu prod-us"),
        ("scram describe --cluster l", "lab"),
        ("plan --config elsewhere/q.yaml --cluster o", "other"),
    ],
)
def test_commands_options_and_clusters_are_completed(offline: Repository, line: str, offered: str) -> None:
    offline.config(CLUSTERS)
    offline.write("elsewhere/q.yaml", "clusters: {other: {bootstrap_servers: ['a:1']}}")
    assert complete(offline, f"quotaform {line}") == offered.split()


@pytest.mark.parametrize("config", [None, "clusters: [", "clusters: {a: {}}"])
def test_a_configuration_that_cannot_be_read_completes_to_nothing(offline: Repository, config: str | None) -> None:
    if config is not None:
        offline.config(config)
    assert complete(offline, "quotaform plan --cluster ") == []


@pytest.mark.parametrize(
    ("shell", "asked", "offered"),
    [
        ("zsh", {"_TYPER_COMPLETE_ARGS": "quotaform pl"}, '"plan":"Show what apply would change."'),
        (
            "fish",
            {"_TYPER_COMPLETE_ARGS": "quotaform pl", "_TYPER_COMPLETE_FISH_ACTION": "get-args"},
            "plan\tShow what apply would change.",
        ),
    ],
)
def test_other_shells_are_answered_in_their_way(
    offline: Repository, shell: str, asked: dict[str, str], offered: str
) -> None:
    result = offline(env={"_QUOTAFORM_COMPLETE": f"complete_{shell}", **asked})
    assert result.code == 0
    assert offered in result.out


def test_a_shell_is_answered_whatever_the_arguments_are(offline: Repository) -> None:
    asked = {"_QUOTAFORM_COMPLETE": "complete_bash", "COMP_WORDS": "quotaform pl", "COMP_CWORD": "1"}
    assert offline("--version", env=asked).out == "plan\n"


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
