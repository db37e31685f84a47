"""quotaform.yaml: what it says, and what is said about its mistakes."""

from __future__ import annotations

from pathlib import Path

import pytest

from quotaform.core.prune import PruneMode
from quotaform.core.scope import Pattern, Scope
from quotaform.desired.cluster_choice import choose_cluster, choose_clusters
from quotaform.desired.config import Cluster, Config, ListedPath
from quotaform.errors import InvalidFilesError, UsageError
from quotaform.model.location import Location
from tests.builder import ALL_KEYS_TEXT
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


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            "clusters: {a: {snapshot: '$HOME/${HOME}/x'}}",
            [f"1:26: {ELSEWHERE}"],
        ),
        (
            "cluster: {a: {}}",
            [
                '1:1: error: unknown field "cluster"; did you mean clusters? '
                "The fields are clusters, profiles, scope, protect, guards, prune, "
            ],
        ),
        (
            "clusters: {a: {snapshot: x, bootstrap_server: [y]}}",
            [
                '1:29: error: unknown field "bootstrap_server"; did you mean bootstrap_servers? The fields are '
                "bootstrap_servers, command_config, cluster_id, confirm, snapshot, "
            ],
        ),
        (
            "clusters: {a: {}}",
            ['1:12: error: the cluster "a" has neither bootstrap_servers nor snapshot; give one of them [bad-cluster]'],
        ),
        (
            "clusters: {a: {snapshot: x, bootstrap_servers: [b:1]}}",
            ['1:12: error: the cluster "a" has both bootstrap_servers and snapshot; give one of them [bad-cluster]'],
        ),
        (
            "clusters: {a: {snapshot: x, command_config: y}}",
            ["1:29: error: command_config has no effect with snapshot; remove it [bad-cluster]"],
        ),
        (
            "clusters: {a: {bootstrap_servers: b:9092}}",
            ['1:35: error: bootstrap_servers must be a list, not "b:9092"; write ["b:9092"] [wrong-type]'],
        ),
        (
            "clusters: {a: {bootstrap_servers: []}}",
            ["1:35: error: bootstrap_servers must not be empty [empty-field]"],
        ),
        (
            "clusters: {a: {bootstrap_servers: [b, c:99999, 'd:1,e']}}",
            [
                '1:36: error: "b" is not HOST:PORT, as in broker-1:9092 [bad-server]',
                '1:39: error: "c:99999" is not HOST:PORT, as in broker-1:9092 [bad-server]',
                '1:48: error: "d:1,e" is not HOST:PORT, as in broker-1:9092 [bad-server]',
            ],
        ),
        (
            "clusters: {a: {bootstrap_servers: [1:30]}}",
            ['1:36: error: this must be text, but YAML reads 1:30 as a sexagesimal number; write "1:30" [wrong-type]'],
        ),
        (
            "clusters: {a b: {snapshot: x}}",
            [
                '1:12: error: the cluster name "a b" must consist of letters, digits, dots, dashes and underscores '
                "[bad-name]"
            ],
        ),
        (
            "clusters: {a: }",
            ["1:15: error: a must be a mapping, but it is empty; add a value or remove the field [wrong-type]"],
        ),
        (
            "profiles: {gold: {producer_byte_rates: 1, consumer_byte_rate: 10MiBps}}",
            [
                '1:19: error: unknown quota key "producer_byte_rates"; did you mean producer_byte_rate? The keys are '
                f"{ALL_KEYS_TEXT} [unknown-key]",
                '1:63: error: consumer_byte_rate: "10MiBps" is not in a unit of consumer_byte_rate; '
                "did you mean 10MiB/s? [bad-value]",
            ],
        ),
        ("profiles: {gold: {}}", ["1:18: error: gold must not be empty [empty-field]"]),
        (
            "scope: {include: [{user: 007}, {user: 5}]}",
            [
                '1:26: error: this must be text, but YAML reads 007 as an octal number; write "007" [wrong-type]',
                '1:39: error: user must be text, but YAML reads 5 as a number; write "5" [wrong-type]',
            ],
        ),
        ("scope: {include: []}", ["1:18: error: include must not be empty [empty-field]"]),
        (
            "scope: {exclude: [{users: a}]}",
            [
                '1:20: error: unknown field "users"; did you mean user? The fields are user, client-id, ip '
                "[unknown-field]"
            ],
        ),
        (
            "prune: scope",
            ["1:8: error: prune: scope deletes every entity in scope that no file declares, so quotaform.yaml"],
        ),
        ("scope: {exclude: [{user: a}]}\nprune: scope", ["2:8: error: prune: scope deletes every entity in scope"]),
        (
            "prune: reprot",
            ['1:8: error: prune must be report or removed or scope, not "reprot"; did you mean report? [bad-choice]'],
        ),
        ("protect: {}", ["1:10: error: protect must be a list, not a mapping [wrong-type]"]),
        (
            "profiles: {a: producer_byte_rate 1MiB/s}",
            [
                '1:15: error: a must be a mapping, not "producer_byte_rate 1MiB/s"; a colon is missing after '
                "producer_byte_rate [wrong-type]"
            ],
        ),
        (
            "clusters: {a: {bootstrap_servers: ['${BROKER}']}}",
            ["1:36: error: only ${env:NAME} is expanded; write ${env:BROKER} [bad-variable]"],
        ),
        ("guards: {delete: 5}", ['1:18: error: delete must be a mapping, not "5" [wrong-type]']),
        (
            "guards: {delete: {count: -1, percent: 101}, change_factor: 1}",
            [
                "1:26: error: count must be from 0 to 1,000,000, not -1 [bad-field]",
                "1:39: error: percent must be from 0 to 100, not 101 [bad-field]",
                "1:60: error: change_factor must be from 2 to 1,000,000, not 1 [bad-field]",
            ],
        ),
        ("guards: {change_factor: 2.5}", ['1:25: error: change_factor must be a whole number, not "2.5" [wrong-type]']),
        (
            "guards: {deletes: 5}",
            [
                '1:10: error: unknown field "deletes"; did you mean delete? '
                "The fields are delete, update, change_factor [unknown-field]"
            ],
        ),
        ("policies: []", ["1:11: error: policies must not be empty [empty-field]"]),
        ("policies: p.json", ['1:11: error: policies must be a list, not "p.json"; write ["p.json"] [wrong-type]']),
        ("policies: [5]", ['1:12: error: item 1 of policies must be text, but YAML reads 5 as a number; write "5"']),
        (
            "policies: ['${env:QUOTAFORM_X}']",
            ["1:12: error: ${env:NAME} is expanded only in bootstrap_servers and command_config of quotaform.yaml"],
        ),
        ("prune: report\nprune: report\n", ['2:1: error: the key "prune" is written twice; it is also at 1:1']),
        ("- a\n", ["1:1: error: the file must be a mapping, not a list; begin with clusters: [wrong-type]"]),
        (
            "a: [\n",  # It ended with "missing before" and no word.
            [
                "2:1: error: not valid YAML: did not find expected node content while parsing a flow node that begins "
                "on line 2; something is missing before the end of the file [yaml-syntax]"
            ],
        ),
    ],
)
def test_a_mistake_is_named_with_its_place(tmp_path: Path, text: str, said: list[str]) -> None:
    found = problems(tmp_path, text)
    assert len(found) == len(said)
    assert all(line.startswith(start) for line, start in zip(found, said, strict=True)), found


def test_all_problems_are_found_in_one_run_sorted_by_place(tmp_path: Path) -> None:
    text = "guards: 5\nclusters: {a: {}}\nprune: scope\nclustrs: {}\n"
    assert [line.split(" ")[0] for line in problems(tmp_path, text)] == ["1:9:", "2:12:", "3:8:", "4:1:"]


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
