"""Without the extra or a JDK: one sentence, nothing of Spark imported; and what is chosen without a session."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass
from io import StringIO
from pathlib import Path
from types import SimpleNamespace

import pytest

from quotaform.cli import console
from quotaform.cli.console import Console
from quotaform.cli.main import run
from quotaform.cli.option.run import Engine, spark_progress
from quotaform.fleet import session
from quotaform.fleet.job import Bundle, DriverContext, ShippedJob, _opened_job
from quotaform.fleet.launch import temporary_warehouse
from quotaform.fleet.options import Master, Remote, SessionOptions, is_secret
from quotaform.fleet.session import require_java
from quotaform.model.errors import EngineError, missing_extra
from quotaform.model.outcome import Progress
from quotaform.model.text import MIB

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
        pytest.param(None, True, "the Java of JAVA_HOME ({home}) is older than 17 or does not run", id="no Java there"),
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
        "history show user=a --history there",
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


def choose(engine: Engine, clusters: int = 1, size: int = 0) -> str:
    return "local" if engine.start(Console(), "Planning", clusters, lambda: size)[0] is None else "spark"


@pytest.mark.parametrize(
    ("engine", "chosen"),
    [
        (Engine(), "local"),
        (Engine(engine="local"), "local"),
        (Engine(engine="spark"), "spark"),
        (Engine(master="local[2]"), "spark"),
        (Engine(remote="sc://host"), "spark"),
        (Engine(spark_conf=["spark.executor.memory=4g"]), "spark"),
        (Engine(engine="auto", master="local[2]"), "local"),
    ],
)
def test_options_about_spark_mean_spark(engine: Engine, chosen: str) -> None:
    assert choose(engine, clusters=400, size=64 * MIB) == chosen


IN_THIS_PROCESS = "(--engine local computes in this process)"


@pytest.mark.parametrize(
    ("clusters", "size", "problem", "told"),
    [
        (401, 0, None, f"Engine spark: 401 clusters are more than 400 {IN_THIS_PROCESS}\n"),
        (1, 65 * MIB, None, f"Engine spark: 65 MiB of quota files are more than 64 MiB {IN_THIS_PROCESS}\n"),
        (401, 0, "no Java", "Engine local: 401 clusters are more than 400, but Spark cannot be used: no Java\n"),
    ],
)
def test_auto_says_what_it_chose(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    clusters: int,
    size: int,
    problem: str | None,
    told: str,
) -> None:
    def require(options: SessionOptions) -> None:
        if problem is not None:
            raise EngineError(problem)

    monkeypatch.setattr("quotaform.fleet.session.require_spark", require)
    assert choose(Engine(engine="auto"), clusters, size) == ("spark" if problem is None else "local")
    assert capsys.readouterr().err == told


@pytest.mark.parametrize(
    "name",
    [
        "spark.kubernetes.authenticate.submission.oauthTokenFile",
        "spark.kubernetes.executor.secrets.kafka",
        "spark.kubernetes.executor.secretKeyRef.PASSWORD",
        "spark.kerberos.keytab",
        "spark.sql.mapKeyDedupPolicy",
        "spark.hadoop.fs.s3a.aws.credentials.provider",
    ],
)
def test_names_of_what_is_no_secret_are_accepted(name: str) -> None:
    assert not is_secret(name)
    assert Engine(spark_conf=[f"{name}=a"]).is_given


def test_addresses_are_read_as_spark_reads_them() -> None:
    assert Master.parse("{master}", "local[4,2]").is_local
    assert Master.parse("{master}", "local-cluster[2,1,1024]").is_local
    assert str(Master.parse("{master}", "k8s://https://[::1]:6443").servers[0]) == "[::1]:6443"
    assert str(Master.parse("{master}", "k8s://https://api/k8s/clusters/c-1").servers[0]) == "api:443"
    assert Master.parse("{master}", "spark://127.0.0.1:7077,localhost:7078").is_here
    assert not Master.parse("{master}", "spark://127.0.0.1:7077,far:7078").is_here
    assert Remote.parse("{remote}", "sc://[::1]:1/").shown == "sc://[::1]:1"
    assert Remote.parse("{remote}", "sc://host/;a=b;x-c=d").parameters == ("a", "x-c")


WHAT = "Planning clusters on Spark"


class Log(StringIO):
    """A stderr, and the time."""

    now = 0.0
    is_terminal = False

    def isatty(self) -> bool:
        return self.is_terminal


def new_log(monkeypatch: pytest.MonkeyPatch) -> Log:
    made = Log()
    monkeypatch.setattr(sys, "stderr", made)
    monkeypatch.setattr(console, "time", SimpleNamespace(monotonic=lambda: made.now))
    monkeypatch.setattr(session, "_active_session", lambda: None)
    return made


def progress(*, is_quiet: bool = False) -> Progress:
    options = SessionOptions(master="spark://host:7077")
    shown = Console(is_quiet=is_quiet, _started=0.0, _logged_at=0.0)
    return spark_progress(shown, "Planning 400 clusters", options)


def test_a_log_has_a_line_every_half_minute_if_more_is_done(monkeypatch: pytest.MonkeyPatch) -> None:
    log = new_log(monkeypatch)
    report = progress()
    report("Starting Spark", 0, 0)
    for second, done in {0: 0, 29: 6, 40: 0, 41: 7, 42: 8, 70: 9, 71: 10, 101: 10, 300: 10, 301: 11}.items():
        log.now = float(second)
        report(WHAT, done, 400)
    assert log.getvalue().splitlines() == [
        "Planning 400 clusters on Spark (spark://host:7077) ...",
        f"{WHAT} 7 of 400 (1%) ...",
        f"{WHAT} 10 of 400 (2%) ...",
        f"{WHAT} 11 of 400 (2%) ...",
    ]


def test_the_session_that_exists_has_no_place(monkeypatch: pytest.MonkeyPatch) -> None:
    log = new_log(monkeypatch)
    monkeypatch.setattr(session, "_active_session", object)
    progress()(WHAT, 0, 400)
    assert log.getvalue() == "Planning 400 clusters on Spark ...\n"


@pytest.mark.parametrize("why", ["terminal", "quiet"])
def test_a_terminal_and_a_quiet_log_have_no_lines(monkeypatch: pytest.MonkeyPatch, why: str) -> None:
    log = new_log(monkeypatch)
    log.is_terminal = why == "terminal"
    report = progress(is_quiet=why == "quiet")
    report(WHAT, 0, 400)
    log.now = 60.0
    report(WHAT, 200, 400)
    Console.clear()
    assert "\n" not in log.getvalue()


@dataclass(frozen=True)
class Reading:
    """A job that has a file in the bundle."""

    bundle: Bundle
    name: str


def shipped(folder: Path, content: bytes) -> ShippedJob:
    bundle = Bundle(folder / f"{content.decode()}.zip", is_new=True)
    bundle.finish((Reading(bundle, bundle.add(content)), ()))
    return ShippedJob(str(bundle.path), False, (), DriverContext.current(None))


def test_a_worker_opens_a_job_once_and_closes_it_when_it_opens_the_next(tmp_path: Path) -> None:
    """The archives of all jobs stayed open as long as the worker ran."""
    one, other = shipped(tmp_path, b"one"), shipped(tmp_path, b"other")
    first, _ = _opened_job(one)
    assert _opened_job(one)[0] is first
    assert first.bundle.read(first.name) == b"one"
    second, _ = _opened_job(other)
    assert second.bundle.read(second.name) == b"other"
    with pytest.raises(ValueError, match="closed"):
        first.bundle.read(first.name)
