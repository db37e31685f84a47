"""Without the extra or a JDK: one sentence; and nothing of Spark is imported before it is needed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from quotaform.cli.main import run
from quotaform.fleet import session
from quotaform.fleet.launch import temporary_warehouse
from quotaform.fleet.session import require_java
from quotaform.model.errors import EngineError, missing_extra

CHEAP = ("quotaform.fleet.session", "quotaform.fleet.launch", "quotaform.fleet.options")
"""The modules that may be imported before it is known whether Spark is there."""
ROOMS = ("quotaform.fleet.", "quotaform.history.", "quotaform.resolve.spark", "quotaform.plan.spark")
MODULES = "java.base@{version}\njava.sql@{version}\n"


def make_java(folder: Path, script: str) -> str:
    """Make a `java` that says what a script says, and return its home."""
    path = folder / "bin" / "java"
    path.parent.mkdir(parents=True)
    path.write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
    path.chmod(0o755)
    return str(folder)


def says(version: str, more: str = "") -> str:
    modules = MODULES.format(version=version) + more
    return f"echo '{modules}'"


VECTOR = "jdk.incubator.vector@1"


@pytest.mark.parametrize(
    ("script", "is_home", "told"),
    [
        pytest.param(None, False, "there is no java on the PATH, and JAVA_HOME is not set", id="no Java"),
        pytest.param(None, True, "the Java of JAVA_HOME ({home}) does not run", id="no Java there"),
        pytest.param(says("11.0.20", VECTOR), True, "the Java of JAVA_HOME ({home}) is Java 11.0.20", id="Java 11"),
        pytest.param(
            "echo 'Unrecognized option: --list-modules' >&2; exit 1", False, "is older than 17 or does not run", id="8"
        ),
        pytest.param(says("25.0.2"), True, "is a runtime without the module jdk.incubator.vector", id="trimmed"),
    ],
)
def test_a_java_that_cannot_run_spark_is_one_sentence(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, script: str | None, is_home: bool, told: str
) -> None:
    home = str(tmp_path) if script is None else make_java(tmp_path, script)
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", "" if is_home or script is None else f"{home}/bin")
    if is_home:
        monkeypatch.setenv("JAVA_HOME", home)
    with pytest.raises(EngineError) as raised:
        require_java()
    text = str(raised.value)
    assert (raised.value.exit_code, "\n" in text) == (1, False)
    assert told.format(home=home) in text
    remedy = "set JAVA_HOME to a JDK 17 or newer, or unset it to use the java on the PATH."
    path_remedy = "install a JDK 17 or newer and put its java on the PATH or set JAVA_HOME."
    assert text.endswith(remedy if is_home else path_remedy)


def test_a_whole_jdk_is_accepted(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("JAVA_HOME", make_java(tmp_path, says("17", VECTOR)))
    require_java()


@pytest.mark.parametrize(
    "words",
    [
        "plan --engine spark",
        "drift --engine spark",
        "apply --engine spark --auto-approve",
        "snapshot --engine spark",
        "import --engine spark --output new",
        "resolve --from requests.parquet --engine spark",
        "history append --all --history there",
        "history show --history there --entity user=a",
        "history diff --history there --at 2026-01-01 --at 2026-02-01",
        "drift --against 2026-01-01 --history there",
    ],
)
def test_the_missing_extra_is_one_sentence_and_exit_1(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str], words: str
) -> None:
    (tmp_path / "quotas.d").mkdir()
    (tmp_path / "quotas.d/none.yaml").write_text("quotas: []\n", encoding="utf-8")
    (tmp_path / "quotaform.yaml").write_text("clusters: {lab: {bootstrap_servers: ['x:1']}}\n", encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(session, "find_spec", lambda module: None)
    for name in [name for name in sys.modules if name.startswith((*ROOMS, "pyspark", "py4j", "pyarrow"))]:
        if not name.startswith(CHEAP):
            monkeypatch.delitem(sys.modules, name)
    for name in ("pyspark", "py4j", "pyarrow"):
        monkeypatch.setitem(sys.modules, name, None)
    code = run(words.split())
    shown = capsys.readouterr()
    assert code == 1
    assert shown.out == ""
    assert shown.err == f"Error: The Spark engine is not installed: {missing_extra('spark')}.\n"


@pytest.mark.slow
def test_importing_the_package_imports_nothing_of_spark() -> None:
    script = (
        "import sys, quotaform.fleet.options, quotaform.fleet.session\n"
        "sys.exit(any(name.partition('.')[0] in {'pyspark', 'py4j', 'pyarrow', 'pandas'} for name in sys.modules))"
    )
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0


def test_the_directory_is_removed_if_nothing_was_saved_in_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("quotaform.fleet.launch.gettempdir", lambda: str(tmp_path))
    with temporary_warehouse() as unused:
        assert not unused.exists()
    with temporary_warehouse() as empty:
        empty.mkdir()
    with temporary_warehouse() as kept:
        (kept / "limits").mkdir(parents=True)
    assert list(tmp_path.iterdir()) == [kept]
    assert len({unused, empty, kept}) == 3
