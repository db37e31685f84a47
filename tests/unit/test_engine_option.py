"""Where a command computes: what options and variables mean, and what is refused before any work is done."""

from __future__ import annotations

import pytest

from quotaform.cli.console import Console
from quotaform.cli.option.engine import Engine
from quotaform.fleet.options import Master, Remote, SessionOptions, is_secret
from quotaform.model.errors import EngineError
from quotaform.model.text import MIB


def choose(engine: Engine, clusters: int = 1, size: int = 0) -> str:
    return "local" if engine.place(Console(), clusters, lambda: size) is None else "spark"


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
