"""Which clusters the options of a command mean, and what is said when they mean none."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from quotaform.cli.main import run
from quotaform.cli.option.cluster import ManyClusters, OneCluster
from quotaform.model.entity import Entity
from tests.builder import PRODUCER
from tests.scripted_gateway import ScriptedGateway

TWO = "clusters: {lab: {snapshot: lab.json}, prod: {bootstrap_servers: ['a:1'], command_config: p}}\n"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with two clusters, which is the working directory."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "quotaform.yaml").write_text(TWO)
    return tmp_path


def test_one_cluster_is_chosen() -> None:
    assert OneCluster(cluster="lab").choose().snapshot == Path("lab.json")
    elsewhere = OneCluster(cluster="prod", bootstrap_server="b:2, c:3").choose()
    assert (elsewhere.bootstrap_servers, elsewhere.command_config) == (("b:2", "c:3"), Path("p"))
    # What asks one cluster only, without files, needs no name of it.
    asked = OneCluster(bootstrap_server="b:1").choose()
    assert (asked.name, asked.bootstrap_servers, asked.cluster_id) == ("b:1", ("b:1",), None)


def test_many_clusters_are_chosen() -> None:
    for target in (ManyClusters(all_clusters=True), ManyClusters(cluster=["*"]), ManyClusters(cluster=["prod", "lab"])):
        assert [cluster.name for cluster in target.choose()] == ["lab", "prod"]
    (elsewhere,) = ManyClusters(cluster=["prod"], bootstrap_server="b:2").choose()
    assert (elsewhere.name, elsewhere.bootstrap_servers) == ("prod", ("b:2",))


def test_no_cluster_at_all_is_answered_with_how_to_name_one(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "quotaform.yaml").unlink()
    here, give = Path.cwd(), "or give --bootstrap-server HOST:PORT\n"
    for command in ("scram describe", "plan"):
        assert run(command.split()) == 64
        assert capsys.readouterr().err == (
            f"Error: no cluster is given: neither {here}/quotas.d nor {here}/quotaform.yaml exists; "
            f"correct the path, begin with quotaform init, {give}"
        )
    (folder / "quotas.d").mkdir()
    assert run(["scram", "describe"]) == 64
    assert capsys.readouterr().err == (
        f"Error: no cluster is given: {here}/quotaform.yaml does not exist; write clusters: there, {give}"
    )


def test_what_is_missing_is_named_by_the_path_that_was_looked_at(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """In a subdirectory, or with `plan nope`, no message said which path does not exist."""
    here = Path.cwd()
    (folder / "quotaform.yaml").write_text("clusters: {}\n")
    (folder / "sub").mkdir()
    monkeypatch.chdir(folder / "sub")
    there = f"no cluster is given: neither {here}/sub/%s nor {here}/sub/quotaform.yaml exists; run this in {here}"
    for words, code, said in (
        (["plan"], 64, there % "quotas.d"),
        (["drift", "nope"], 64, there % "nope"),
        (["validate"], 3, f"there is no {here}/sub/quotas.d; run this in {here}, where quotaform.yaml is"),
        (["validate", "nope"], 3, f"there is no {here}/sub/nope; run this in {here}, where quotaform.yaml is"),
        (["fmt"], 1, f"quotas.d cannot be read: there is no {here}/sub/quotas.d; run this in {here}"),
        (["fmt", "nope"], 1, "nope cannot be read: No such file or directory"),
    ):
        assert run(words) == code, words
        out, err = capsys.readouterr()
        assert said in out + err, words
    (folder / "quotas.d").mkdir()
    monkeypatch.chdir(folder / "quotas.d")
    said = f"there is no {here}/quotas.d/quotas.d; run this in {here}, where "
    write_snapshot(folder / "x.json", "a")
    (folder / "quotaform.yaml").write_text(
        "clusters: {x: {snapshot: x.json}, y: {bootstrap_servers: ['127.0.0.1:1']}}\n"
    )
    for words in (["plan", "--cluster", "x"], ["apply", "--cluster", "y", "--auto-approve", "--allow", "empty"]):
        assert run(words) == 3, words
        assert f"{said}quotaform.yaml is" in "".join(capsys.readouterr()), words
    (folder / "quotaform.yaml").unlink()
    assert run(["plan", "--snapshot", str(folder / "x.json")]) == 3
    assert f"{said}quotas.d is" in "".join(capsys.readouterr())
    monkeypatch.chdir(folder)
    (folder / "quotas.d").rmdir()
    assert run(["plan", "--snapshot", "x.json"]) == 4
    assert f"the quotas directory {here}/quotas.d does not exist" in capsys.readouterr().out
    assert run(["validate", "nope"]) == 3
    said = f"nope: error: the quotas directory does not exist: there is no {here}/nope; create it, with a file such as"
    assert said in capsys.readouterr().out


def write_snapshot(path: Path, user: str) -> None:
    path.write_text(
        '{"format_version": "1.0", "kind": "quotaform.snapshot", "cluster": {"name": "x", "id": "i"}, '
        '"captured_at": "2026-01-01T00:00:00Z", '
        f'"quotas": [{{"entity": {{"user": "{user}"}}, "values": {{"producer_byte_rate": 1}}}}]}}'
    )


def test_snapshots_of_several_clusters_go_to_a_file_each(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "quotaform.yaml").write_text("clusters: {a: {snapshot: a.json}, b: {snapshot: b.json}}\n")
    write_snapshot(folder / "a.json", "alice")
    write_snapshot(folder / "b.json", "bob")
    assert run(["snapshot", "--all", "--output", "out/{cluster}.json"]) == 0
    assert capsys.readouterr().out == ("Wrote 1 entities of a to out/a.json.\nWrote 1 entities of b to out/b.json.\n")
    assert "alice" in (folder / "out/a.json").read_text()
    assert "bob" in (folder / "out/b.json").read_text()


def test_a_cluster_that_cannot_be_read_hides_no_other(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "quotaform.yaml").write_text(
        "clusters: {a: {bootstrap_servers: ['127.0.0.1:1']}, b: {snapshot: b.json}}\n"
    )
    write_snapshot(folder / "b.json", "bob")
    assert run(["snapshot", "--cluster", "*", "--output", "{cluster}.copy.json"]) == 1
    printed = capsys.readouterr()
    assert printed.out == "Wrote 1 entities of b to b.copy.json.\n"
    assert printed.err.startswith("Error: a: ")


def test_the_files_of_some_clusters_are_validated(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "quotas.d/lab").mkdir(parents=True)
    (folder / "quotas.d/lab/a.yaml").write_text("quotas: []\n")
    (folder / "quotas.d/a.yaml").write_text("quotas: [{match: {user: a}, values: {producer_byte_rate: 1}}]\n")
    for chosen in ([], ["--all"], ["--cluster", "prod", "--cluster", "l*"]):
        assert run(["validate", *chosen]) == 0
        assert "1 entity for lab, 1 entity for prod." in capsys.readouterr().out
    assert run(["validate", "--cluster", "p*"]) == 0
    assert capsys.readouterr().out.endswith("1 file in quotas.d, 1 entity for prod.\n")
    assert run(["validate", "--cluster", "x*"]) == 64
    assert 'no cluster matches "x*". The clusters are lab, prod' in capsys.readouterr().err


def one_cluster(folder: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Configure one cluster, answer for it at any address, and return what connections are called."""
    called: list[str] = []

    def connect(*_: object, name: str) -> ScriptedGateway:
        called.append(name)
        gateway = ScriptedGateway({Entity(user="b"): {PRODUCER: 1.0}}, cluster_id="id")
        gateway.name = name
        return gateway

    monkeypatch.setattr("quotaform.cluster.kafka.KafkaGateway.connect", connect)
    (folder / "quotaform.yaml").write_text("clusters: {lab: {bootstrap_servers: ['a:1'], cluster_id: id}}\n")
    (folder / "quotas.d/lab").mkdir(parents=True)
    (folder / "quotas.d/lab/a.yaml").write_text("quotas: [{match: {user: a}, values: {producer_byte_rate: 1}}]\n")
    return called


@pytest.mark.parametrize(("command", "code"), [("plan", 0), ("drift", 2), ("apply", 4)])
def test_servers_that_stand_for_a_cluster_are_what_it_is_called(
    command: str, code: int, folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Headings and errors named the cluster of quotaform.yaml, though another address was asked."""
    called = one_cluster(folder, monkeypatch)
    assert run([command, "--bootstrap-server", "b:2, c:3"]) == code
    assert "Cluster  b:2,c:3 (id id, files of lab)   " in "".join(capsys.readouterr())
    assert run([command, "--bootstrap-server", "b:2", "--cluster", "lab"]) == code
    assert "Cluster  lab (id id)   " in "".join(capsys.readouterr())
    assert run([command]) == code
    assert "Cluster  lab (id id)   " in "".join(capsys.readouterr())
    assert called == ["b:2,c:3", "lab", "lab"]


def test_a_plan_says_which_servers_it_was_made_with(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    called = one_cluster(folder, monkeypatch)
    assert run(["plan", "--bootstrap-server", "b:2", "--out", "plan.json"]) == 0
    document = json.loads((folder / "plan.json").read_text())
    assert (document["cluster"]["name"], document["options"]["bootstrap_server"]) == ("lab", "b:2")
    assert run(["show", "plan.json"]) == 0
    assert capsys.readouterr().out.count("Cluster  b:2 (id id, files of lab)   ") == 2
    assert run(["apply", "plan.json", "--bootstrap-server", "d:4", "--auto-approve"]) == 0
    assert called == ["b:2", "d:4"]


def test_a_snapshot_of_other_servers_belongs_to_the_cluster_that_they_stand_for(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A plan against the snapshot takes the files of that cluster."""
    one_cluster(folder, monkeypatch)
    assert run(["snapshot", "--bootstrap-server", "b:2", "--output", "b.json"]) == 0
    assert json.loads((folder / "b.json").read_text())["cluster"]["name"] == "lab"


@pytest.mark.parametrize("line", ["describe", "resolve --name user=a", "describe --format json"])
def test_who_is_asked_at_an_address_is_called_by_it(
    line: str, folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    one_cluster(folder, monkeypatch)
    assert run([*line.split(), "--bootstrap-server", "b:2"]) == 0
    printed = capsys.readouterr().out
    assert "b:2" in printed
    assert "lab" not in printed


@pytest.mark.parametrize("line", ["describe", "resolve user=alice"])
def test_many_clusters_are_read_and_one_that_fails_hides_no_other(
    line: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "quotaform.yaml").write_text("clusters: {gone: {snapshot: gone.json}, lab: {snapshot: lab.json}}\n")
    write_snapshot(folder / "lab.json", "alice")
    assert run([*line.split(), "--all"]) == 3
    gone, lab = capsys.readouterr().out.split("\n\n", 1)
    assert gone.startswith("Cluster  gone\nError: gone.json: error: there is no such file")
    assert lab.startswith("Cluster  lab")
    assert run([*line.split(), "--all", "--format", "json"]) == 3
    gone, lab = json.loads(capsys.readouterr().out)["outcomes"]
    assert (gone["error"]["exit_code"], gone["result"], lab["error"]) == (3, None, None)
    assert lab["result"]["kind"] == f"quotaform.{line.split()[0]}"
    assert run([*line.split(), "--all", "--format", "csv"]) == 64
    assert "--format csv prints one cluster" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["..", "../elsewhere", "/tmp/elsewhere", "a/b", ".", "unknown"])
def test_an_import_writes_into_no_folder_that_a_snapshot_names(
    name: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A snapshot of a cluster called `../elsewhere` was imported into that folder, outside of the quotas directory."""
    (folder / "quotas.d").mkdir()
    write_snapshot(folder / "s.json", "alice")
    text = (folder / "s.json").read_text()
    (folder / "s.json").write_text(text.replace('"name": "x"', f'"name": "{name}"'))
    before = sorted(folder.rglob("*"))
    assert run(["import", "--snapshot", "s.json"]) == 64
    assert "The clusters are lab, prod" in capsys.readouterr().err
    assert sorted(folder.rglob("*")) == before
    assert run(["import", "--snapshot", "s.json", "--cluster", "lab"]) == 0
    assert (folder / "quotas.d/lab/imported.yaml").is_file()
