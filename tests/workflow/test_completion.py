"""Shell completion: the script of each shell, and what bash makes of it; answers are in `story-completed.txt`."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.workflow.command import QUOTAFORM, Repository, environment

pytestmark = pytest.mark.workflow


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
