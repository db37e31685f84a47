"""quotaform.yaml on disk, its variables, its clusters and the files that are written for each of them.

What it says is in `texts-settings.txt` and `texts-config.txt`.
"""

from __future__ import annotations

import ast
import pickle
from pathlib import Path
from time import process_time

import pytest

import quotaform
from quotaform.cli.present import cluster_paths
from quotaform.cluster.client.config import ClientConfig
from quotaform.cluster.sasl.password import Password
from quotaform.cluster.wire.failure import Failure, Stage, connect_error
from quotaform.desired.config import Cluster, read_config
from quotaform.desired.tree import SourceFile
from quotaform.model import rule
from quotaform.model.errors import InvalidFilesError, UsageError
from quotaform.model.server import Server
from quotaform.model.text import Secret
from quotaform.model.variable import OwnSecret, expand
from quotaform.repository.gateway import connection_of
from tests.loading import load_config


def test_variables_stay_as_they_are_written_until_the_cluster_is_reached(tmp_path: Path) -> None:
    """One unset variable of one cluster blocked `validate` and all other clusters, and values stood in plans."""
    text = """\
clusters:
  a:
    bootstrap_servers: ["${env:QUOTAFORM_SERVERS}", "${env:HOST}:9092, x:1"]
    command_config: ${env:HOST}.properties
"""
    (tmp_path / "quotaform.yaml").write_text(text)
    cluster = load_config(tmp_path / "quotaform.yaml").clusters["a"]
    assert cluster.bootstrap_servers == ("${env:QUOTAFORM_SERVERS}", "${env:HOST}:9092", "x:1")
    assert cluster.command_config == tmp_path / "${env:HOST}.properties"
    assert cluster.written_config is not None
    references = [cluster.written_config, *cluster.server_references.values()]
    assert [str(each.location).rpartition("/")[2] for each in references] == [
        "quotaform.yaml:4:21",
        "quotaform.yaml:3:25",
        "quotaform.yaml:3:53",
    ]


def test_variables_are_replaced_only_where_they_say_how_to_connect(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A pull request could read secrets of the CI machine through cluster_id, which plans and plan files show."""
    monkeypatch.setenv("QUOTAFORM_X", "s3cr3t")
    (tmp_path / "quotaform.yaml").write_text("clusters: {a: {snapshot: x, cluster_id: '${env:QUOTAFORM_X}'}}")
    with pytest.raises(InvalidFilesError, match="is expanded only in bootstrap_servers and command_config") as caught:
        load_config(tmp_path / "quotaform.yaml")
    assert "s3cr3t" not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "most"),
    [
        ("clusters: {%s}", 20_000),
        ("profiles: {%s}", 1000),
        ("scope: {exclude: [%s]}", 1000),
        ("drift_ignore: [%s]", 1000),
        ("policies: [%s]", 100),
        ("lints: {ignore: [%s]}", 200),
        ("clusters: {a: {bootstrap_servers: [%s]}}", 100),
        ("clusters: {a: {bootstrap_servers: [b:9092], metrics: {brokers: [%s]}}}", 1000),
    ],
)
def test_what_is_listed_is_limited(text: str, most: int) -> None:
    items = ", ".join(f"c{number}: {{snapshot: a}}" if "{%s}" in text else f"a{number}" for number in range(most + 1))
    _, findings = read_config(SourceFile("quotaform.yaml", text % items), Path())
    name = text.rpartition(":")[0].rpartition(" ")[2].strip("{")
    assert f"{name} contains more than the limit of {most:,}; remove some" in [each.message for each in findings]


@pytest.mark.parametrize("name", ["../../etc/passwd", "/etc/passwd", "..", "x" * 400, "a\x00b", "a\n"])
def test_the_name_of_a_cluster_leads_to_no_other_folder_and_is_not_too_long(name: str) -> None:
    """A name with slashes or of 300 characters was taken into the path as it was."""
    path = cluster_paths("--out", "plans/{cluster}.json", [name])[name]
    assert path.parent.as_posix() == "plans"
    assert len(path.name) < 120
    assert path.name.isprintable()


def test_names_that_give_one_file_name_are_refused() -> None:
    with pytest.raises(UsageError, match="the same file name"):
        cluster_paths("--out", "{cluster}.json", ["a/b", "a_b"])


def test_of_many_clusters_the_first_are_named() -> None:
    """An error named all of 1,000 clusters."""
    with pytest.raises(UsageError, match=r"^several clusters \(c0, .*, c9 and 990 more\) need one file each; "):
        cluster_paths("--out", "plan.json", [f"c{number}" for number in range(1000)])


VARIABLES = {"HOST": "b1", "PORT": "9092", "NESTED": "${env:HOST}", "QUOTAFORM_ENV": "HOST, PORT,NESTED,OTHER"}


def test_a_value_does_not_show_in_a_representation() -> None:
    assert "b1" not in repr(expand("${env:HOST}", VARIABLES))


def test_many_openings_take_no_time() -> None:
    """`${` 200,000 times took over 15 s in client properties: each opening was followed to the end of the text."""
    start = process_time()
    expand("${" * 200_000, VARIABLES)
    assert process_time() - start < 20


@pytest.mark.parametrize("environment", [{}, {"AWS_SECRET_ACCESS_KEY": "s3cr3t"}])
def test_a_variable_that_the_operator_does_not_allow_is_not_read(environment: dict[str, str]) -> None:
    """A pull request chose which variables of the CI machine were read; now the answer does not say which exist."""
    expansion = expand("${env:AWS_SECRET_ACCESS_KEY}", environment)
    assert expansion.text == "${env:AWS_SECRET_ACCESS_KEY}"
    [(_, problem)] = expansion.problems
    assert problem == (
        "the environment variable AWS_SECRET_ACCESS_KEY may not be read; the operator must list it in QUOTAFORM_ENV: "
        "set the environment variable QUOTAFORM_ENV=AWS_SECRET_ACCESS_KEY (names separated by commas)"
    )


@pytest.mark.parametrize("name", ["hunter2", "Hunter2", "QUOTAFORM_hunter2"])
@pytest.mark.parametrize("form", ["${env:NAME}", "${env:NAME", "${NAME}"])
@pytest.mark.parametrize("listed", ["", "NAME"])
def test_a_value_in_the_place_of_a_name_is_not_repeated(form: str, listed: str, name: str) -> None:
    found = expand(form.replace("NAME", name), {"QUOTAFORM_ENV": listed.replace("NAME", name)})
    [(_, problem)] = found.problems
    assert "hunter2" not in problem.lower()


@pytest.mark.parametrize("name", OwnSecret)
def test_a_secret_that_is_no_part_of_a_connection_is_never_expanded(name: str) -> None:
    """A file could send the token of comments, or that of Prometheus, to a broker of its choice."""
    found = expand(f"${{env:{name}}}.example:9092", {name: "hunter2", "QUOTAFORM_ENV": name})
    [(row, problem)] = found.problems
    assert row is rule.FORBIDDEN_VARIABLE
    assert "hunter2" not in found.text
    assert "contains a secret that is not part of a connection" in problem


@pytest.mark.exhaustive
def test_each_secret_of_our_own_is_named_in_the_table_alone() -> None:
    """The four variables of Prometheus were read by their own names, and missing where expansion is refused."""
    folder = Path(quotaform.__file__).parent
    elsewhere = []
    for path in sorted(folder.rglob("*.py")):
        if path == folder / "model" / "variable.py":
            continue
        texts = {node.value for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Constant)}
        words = ("TOKEN", "SECRET", "PASSWORD")
        named = {text for text in texts if isinstance(text, str) and text.isupper() and text.isidentifier()}
        elsewhere += [text for text in named if text in set(OwnSecret) or text.endswith(words)]
    # That there is one is said, and its value never read.
    assert sorted(elsewhere) == ["CI_JOB_TOKEN"]


SECRET = "s3cr3t-host"
ALICE = Password(mechanism="PLAIN", username="alice", password=Secret("alice-secret"))
LISTED = {
    "QUOTAFORM_ENV": "QUOTAFORM_SERVERS,QUOTAFORM_HOST,QUOTAFORM_LOCAL,QUOTAFORM_SECRETS,QUOTAFORM_COMMAND_CONFIG"
}


def cluster(folder: Path, *servers: str, command_config: str | None = None) -> Cluster:
    listed = ", ".join(f"'{server}'" for server in servers)
    properties = f", command_config: '{command_config}'" if command_config else ""
    path = folder / "quotaform.yaml"
    path.write_text(f"clusters: {{lab: {{bootstrap_servers: [{listed}]{properties}}}}}\n")
    return load_config(path).clusters["lab"]


def test_servers_come_from_variables_and_show_as_they_are_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in {"QUOTAFORM_SERVERS": "a:1,b:2", "QUOTAFORM_HOST": "c", **LISTED}.items():
        monkeypatch.setenv(name, value)
    lab = cluster(tmp_path, "${env:QUOTAFORM_SERVERS}", "${env:QUOTAFORM_HOST}:9092", "x:1")
    found, _ = connection_of(lab)
    assert found == (Server("a", 1), Server("b", 2), Server("c", 9092), "x:1")
    assert list(map(str, found)) == [
        "${env:QUOTAFORM_SERVERS}",
        "${env:QUOTAFORM_SERVERS}",
        "${env:QUOTAFORM_HOST}:9092",
        "x:1",
    ]


@pytest.mark.parametrize("stage", Stage)
@pytest.mark.parametrize("cause", [TimeoutError(), ConnectionRefusedError(111, "refused"), OSError("x")])
def test_a_failure_at_any_step_names_a_server_as_it_is_written(stage: Stage, cause: Exception) -> None:
    server = Server(SECRET, 9092, "${env:QUOTAFORM_HOST}:9092")
    failures = [Failure(server=str(server), stage=stage, cause=cause, seconds=1.0)] * 2
    error = connect_error("lab", ClientConfig(security_protocol="SASL_SSL", credentials=ALICE), failures)
    assert "${env:QUOTAFORM_HOST}" in str(error)
    assert SECRET not in f"{error} {error.server} {server!r} {server}"


def test_a_hidden_server_stays_hidden_in_another_process() -> None:
    server = Server(SECRET, 9092, "${env:QUOTAFORM_HOST}:9092")
    copied = pickle.loads(pickle.dumps(server))  # noqa: S301 (our own)
    assert (copied, str(copied)) == (server, "${env:QUOTAFORM_HOST}:9092")


def test_a_cluster_without_variables_needs_none(tmp_path: Path) -> None:
    servers, _ = connection_of(cluster(tmp_path, "b:1"))
    assert servers == ("b:1",)
