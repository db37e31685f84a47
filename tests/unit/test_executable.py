"""What is run and imported is never what lies in the current folder, which may be a stranger's repository."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from quotaform.system.executable import find_executable, find_java_commands


def make_command(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("#!/bin/sh\nexit 0\n")
    path.chmod(0o755)
    return path


def test_relative_folders_of_the_path_are_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With `.` or an empty folder in the PATH, a file called git or java of the repository was run."""
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    monkeypatch.delenv("JAVA_HOME", raising=False)
    for folder in (".", "bin"):
        make_command(tmp_path / "here" / folder / "java")
    monkeypatch.setenv("PATH", os.pathsep.join([".", "", "bin", "../here"]))
    assert find_executable("java") is None
    assert list(find_java_commands()) == []
    installed = make_command(tmp_path / "installed" / "java")
    monkeypatch.setenv("PATH", os.pathsep.join([".", "", "bin", str(installed.parent)]))
    assert find_executable("java") == installed
    assert [found.path for found in find_java_commands()] == [installed]


def test_a_folder_can_be_left_out_whatever_leads_to_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_command(tmp_path / "repository" / "bin" / "git")
    (tmp_path / "link").symlink_to(tmp_path / "repository" / "bin")
    outside = make_command(tmp_path / "outside" / "git")
    folders = [tmp_path / "repository" / "bin", tmp_path / "link", outside.parent]
    monkeypatch.setenv("PATH", os.pathsep.join(map(str, folders)))
    assert find_executable("git", outside=tmp_path / "repository") == outside


@pytest.mark.slow
def test_modules_in_the_current_folder_are_not_imported(tmp_path: Path) -> None:
    """`python -m quotaform plan` in a repository imported its yaml.py, which ran as whoever planned."""
    for module in ("yaml", "typer", "typing", "jsonschema_rs", "subprocess", "selectors"):
        (tmp_path / f"{module}.py").write_text("open('marker', 'w'); raise SystemExit('executed')\n")
    done = subprocess.run(
        [sys.executable, "-m", "quotaform", "plan"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.stderr.startswith("Error: "), done.stderr
    assert not (tmp_path / "marker").exists()
