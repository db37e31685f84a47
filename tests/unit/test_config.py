"""quotaform.yaml: what it says, and what is said about its mistakes."""

from __future__ import annotations

from pathlib import Path

import pytest

from quotaform.desired.config import Cluster, Config, ListedPath, choose_cluster, choose_clusters
from quotaform.model.errors import InvalidFilesError, UsageError
from quotaform.model.finding import Location
from quotaform.model.scope import Pattern, Scope
from quotaform.model.settings import PruneMode
from tests.loading import load_config

MIB = 1048576.0


def load(directory: Path, text: str) -> Config:
    path = directory / "quotaform.yaml"
    path.write_text(text, encoding="utf-8")
    return load_config(path)


def problems(directory: Path, text: str) -> list[str]:
    with pytest.raises(InvalidFilesError) as caught:
        load(directory, text)
    return [str(problem).replace(f"{directory.as_posix()}/quotaform.yaml:", "") for problem in caught.value.problems]


def test_a_configuration_is_read(tmp_path: Path) -> None:
    text = """\
clusters:
  prod-eu:
    bootstrap_servers: [b1:9093, "[::1]:9093"]
    command_config: client-prod.properties
    cluster_id: 3JxQ0v7pT2aXXXXXXXXXXX
    confirm: name
  lab:
    snapshot: snapshots/lab.json
profiles: {gold: {producer_byte_rate: 50MiB/s}}
policies: [policies/*.schema.json]
scope:
  include: [{user: "svc-*"}, {ip: "10.0.*"}]
  exclude: [{user: <default>, client-id: etl}]
prune: report
"""
    assert load(tmp_path, text) == Config(
        clusters={
            "prod-eu": Cluster(
                name="prod-eu",
                bootstrap_servers=("b1:9093", "[::1]:9093"),
                command_config=tmp_path / "client-prod.properties",
                cluster_id="3JxQ0v7pT2aXXXXXXXXXXX",
                confirm="name",
            ),
            "lab": Cluster(name="lab", snapshot=tmp_path / "snapshots/lab.json"),
        },
        profiles={"gold": {"producer_byte_rate": 50 * MIB}},
        scope=Scope(
            include=(Pattern((("user", "svc-*"),)), Pattern((("ip", "10.0.*"),))),
            exclude=(Pattern((("user", None), ("client-id", "etl"))),),
        ),
        prune=PruneMode.REPORT,
        policies=(ListedPath("policies/*.schema.json", Location("")),),
    )


@pytest.mark.parametrize("text", ["", "# nothing\n", "{}\n"])
def test_a_configuration_may_say_nothing(tmp_path: Path, text: str) -> None:
    assert load(tmp_path, text) == Config()


def test_a_missing_file_says_what_to_write(tmp_path: Path) -> None:
    with pytest.raises(InvalidFilesError) as caught:
        load_config(tmp_path / "quotaform.yaml")
    assert str(caught.value.problems[0]).endswith(
        "error: does not exist; write at least clusters: {local: {bootstrap_servers: [127.0.0.1:9092]}} "
        "[missing-config]"
    )
    assert caught.value.exit_code == 3


def test_a_directory_is_no_configuration(tmp_path: Path) -> None:
    with pytest.raises(InvalidFilesError, match="cannot be read: Is a directory"):
        load_config(tmp_path)


def test_a_path_may_be_absolute(tmp_path: Path) -> None:
    config = load(tmp_path, "clusters: {a: {snapshot: /srv/a.json}}")
    assert config.clusters["a"].snapshot == Path("/srv/a.json")


def test_variables_stay_as_they_are_written_until_the_cluster_is_reached(tmp_path: Path) -> None:
    """One unset variable of one cluster blocked `validate` and all other clusters, and values stood in plans."""
    text = """\
clusters:
  a:
    bootstrap_servers: ["${env:QUOTAFORM_SERVERS}", "${env:HOST}:9092, x:1"]
    command_config: ${env:HOST}.properties
"""
    cluster = load(tmp_path, text).clusters["a"]
    assert cluster.bootstrap_servers == ("${env:QUOTAFORM_SERVERS}", "${env:HOST}:9092", "x:1")
    assert cluster.command_config == tmp_path / "${env:HOST}.properties"
    assert cluster.config_reference is not None
    references = [cluster.config_reference, *cluster.server_references.values()]
    assert [str(each.location).rpartition("/")[2] for each in references] == [
        "quotaform.yaml:4:21",
        "quotaform.yaml:3:25",
        "quotaform.yaml:3:53",
    ]


ELSEWHERE = (
    "error: ${env:NAME} is expanded only in bootstrap_servers and command_config of quotaform.yaml; "
    "write the value itself [bad-variable]"
)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("prune: ${env:QUOTAFORM_X}", f"1:8: {ELSEWHERE}"),
        ("clusters: {a: {snapshot: x, confirm: '${env:QUOTAFORM_X}'}}", f"1:38: {ELSEWHERE}"),
        ("clusters: {a: {snapshot: x, cluster_id: '${env:QUOTAFORM_X}'}}", f"1:41: {ELSEWHERE}"),
        ("clusters: {a: {snapshot: 'x/${env:QUOTAFORM_X}'}}", f"1:26: {ELSEWHERE}"),
        ("scope: {include: [{user: '${env:QUOTAFORM_X}'}]}", f"1:26: {ELSEWHERE}"),
        ('scope: "${env:QUOTAFORM_X}"', f"1:8: {ELSEWHERE}"),
        (
            'profiles: {gold: {producer_byte_rate: "${env:QUOTAFORM_X}"}}',
            '1:39: error: producer_byte_rate: "${env:QUOTAFORM_X}" is not a value; '
            "${env:NAME} is expanded only in bootstrap_servers and command_config of quotaform.yaml [bad-value]",
        ),
        (
            "clusters: {a: {bootstrap_servers: ['${env:1}:9092']}}",
            "1:36: error: the name in ${env:…} is not that of an environment variable; correct it [bad-variable]",
        ),
        (
            "clusters: {a: {bootstrap_servers: ['${file:x}:9092']}}",
            "1:36: error: only ${env:NAME} is expanded here; use it (${file:…} and ${dir:…} work in client properties"
            " only) [bad-variable]",
        ),
    ],
)
def test_variables_are_replaced_only_where_they_say_how_to_connect(
    tmp_path: Path, text: str, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A pull request could read secrets of the CI machine through cluster_id, which plans and plan files show."""
    monkeypatch.setenv("QUOTAFORM_X", "s3cr3t")
    assert problems(tmp_path, text) == [said]


TWO = Config(clusters={"prod": Cluster(name="prod"), "lab": Cluster(name="lab")})


def test_a_cluster_is_chosen_by_name() -> None:
    assert choose_cluster(TWO, "lab").name == "lab"


def test_the_only_cluster_needs_no_name() -> None:
    assert choose_cluster(Config(clusters={"prod": Cluster(name="prod")}), None).name == "prod"


@pytest.mark.parametrize(
    ("config", "name", "said"),
    [
        (TWO, None, "quotaform.yaml names several clusters (prod, lab)"),
        (Config(), None, "quotaform.yaml defines no cluster; add one"),
        (TWO, "prdo", 'unknown cluster "prdo"; did you mean prod? The clusters are prod, lab'),
        (TWO, "x\n", 'unknown cluster "x\\n"; quotaform.yaml does not name it. The clusters are prod, lab'),
        (Config(), "x", 'unknown cluster "x"; quotaform.yaml does not name it.'),
    ],
)
def test_no_clear_choice_names_the_clusters(config: Config, name: str | None, said: str) -> None:
    with pytest.raises(UsageError) as caught:
        choose_cluster(config, name)
    assert str(caught.value) == said


FLEET = Config(clusters={name: Cluster(name=name) for name in ("prod-eu", "prod-us", "lab")})


@pytest.mark.parametrize(
    ("patterns", "takes_all", "chosen"),
    [
        (["lab"], False, ["lab"]),
        (["lab", "prod-eu", "lab"], False, ["prod-eu", "lab"]),
        (["prod-*"], False, ["prod-eu", "prod-us"]),
        (["prod-*", "prod-us"], False, ["prod-eu", "prod-us"]),
        ([], True, ["prod-eu", "prod-us", "lab"]),
    ],
)
def test_names_and_globs_choose_clusters_once_in_the_order_of_the_file(
    patterns: list[str], takes_all: bool, chosen: list[str]
) -> None:
    assert [cluster.name for cluster in choose_clusters(FLEET, patterns, takes_all=takes_all)] == chosen


def test_the_only_cluster_need_not_be_chosen() -> None:
    assert [cluster.name for cluster in choose_clusters(Config(clusters={"lab": Cluster(name="lab")}), ())] == ["lab"]


@pytest.mark.parametrize(
    ("config", "patterns", "takes_all", "message"),
    [
        (FLEET, ["prud-eu"], False, 'unknown cluster "prud-eu"; did you mean prod-eu? The clusters are prod-eu, pr'),
        (FLEET, ["test-*"], False, 'no cluster matches "test-*". The clusters are prod-eu, prod-us, lab'),
        (FLEET, [], False, "quotaform.yaml names several clusters (prod-eu, prod-us, lab)"),
        (Config(), ["*"], False, 'no cluster matches "*".'),
        (Config(), [], True, "quotaform.yaml defines no cluster; add one"),
    ],
)
def test_a_choice_of_clusters_that_is_not_clear_is_refused(
    config: Config, patterns: list[str], takes_all: bool, message: str
) -> None:
    with pytest.raises(UsageError) as raised:
        choose_clusters(config, patterns, takes_all=takes_all)
    assert message in str(raised.value)
