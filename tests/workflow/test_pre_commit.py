"""The hooks of `.pre-commit-hooks.yaml`, run by pre-commit itself in a repository of quotas.

pre-commit would build an environment of the hooks from the network first. Here each hook runs the command of this
environment; everything else is what the file says.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from tests.git_repository import ENVIRONMENT, GitRepository
from tests.workflow.command import QUOTAFORM, environment

pytestmark = pytest.mark.workflow

HOOKS = Path(__file__).parents[2] / ".pre-commit-hooks.yaml"
UGLY = "quotas:\n- match: {user: a}\n  state:   absent # gone\n"
NEAT = "quotas:\n  - match: {user: a}\n    state: absent  # gone\n"


def pre_commit(path: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    own = {
        "PRE_COMMIT_HOME": str(path.parent / "cache"),
        "PATH": f"{Path(QUOTAFORM).parent}{os.pathsep}{os.environ['PATH']}",
    }
    kept = {name: value for name, value in environment().items() if not name.startswith("GIT_")}
    command = [sys.executable, "-m", "pre_commit", *arguments]
    return subprocess.run(
        command, cwd=path, env=kept | ENVIRONMENT | own, capture_output=True, text=True, check=False, timeout=120
    )


@pytest.fixture
def repository(tmp_path: Path) -> GitRepository:
    """A repository of quotas whose commits the hooks check."""
    made = GitRepository.init(tmp_path / "quotas")
    hooks = [hook | {"language": "system"} for hook in yaml.safe_load(HOOKS.read_text(encoding="utf-8"))]
    made.write(".pre-commit-config.yaml", yaml.safe_dump({"repos": [{"repo": "local", "hooks": hooks}]}))
    made.write("quotaform.yaml", "clusters:\n  lab: {bootstrap_servers: [b1:9092]}\n")
    made.write("quotas.d/a.yaml", NEAT)
    made.write("notes.yaml", "a:   1\n")
    made.commit()
    return made


def test_the_file_is_a_manifest_of_hooks(tmp_path: Path) -> None:
    done = pre_commit(tmp_path, "validate-manifest", str(HOOKS))
    assert done.returncode == 0, done.stdout + done.stderr


def test_neat_and_valid_files_pass(repository: GitRepository) -> None:
    done = pre_commit(repository.path, "run", "--all-files")
    assert done.returncode == 0, done.stdout + done.stderr
    assert [line.rpartition(".")[2] for line in done.stdout.splitlines()] == ["Passed", "Passed"]


def test_a_file_is_formatted_and_the_commit_stops(repository: GitRepository) -> None:
    repository.write("quotas.d/lab/odd name.yaml", UGLY)
    repository.git("add", "-A")
    done = pre_commit(repository.path, "run")
    assert done.returncode == 1
    assert "files were modified by this hook\n\nquotas.d/lab/odd name.yaml\n" in done.stdout
    assert (repository.path / "quotas.d" / "lab" / "odd name.yaml").read_text() == NEAT
    assert (repository.path / "notes.yaml").read_text() == "a:   1\n"


def test_a_duplicate_is_found_in_a_file_that_is_not_part_of_the_commit(repository: GitRepository) -> None:
    repository.write("quotas.d/b.yaml", NEAT)
    repository.git("add", "-A")
    done = pre_commit(repository.path, "run")
    assert done.returncode == 1
    assert "- exit code: 3" in done.stdout
    assert "quotas.d/b.yaml:2:5: error: user=a is declared twice" in done.stdout


def test_nothing_runs_for_other_files(repository: GitRepository) -> None:
    repository.write("notes.yaml", "a: [")
    repository.git("add", "-A")
    done = pre_commit(repository.path, "run")
    assert done.returncode == 0
    assert done.stdout.count("(no files to check)Skipped") == 2
