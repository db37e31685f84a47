"""Which clusters the options of a command mean, and what is said when they mean none."""

from __future__ import annotations

from pathlib import Path

import pytest

from quotaform.cli.main import run
from quotaform.cli.option.cluster import ManyClusters, OneCluster
from quotaform.errors import UsageError

TWO = "clusters: {lab: {snapshot: lab.json}, prod: {bootstrap_servers: ['a:1'], command_config: p}}\n"
SEVERAL = "quotaform.yaml names several clusters (lab, prod)"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with two clusters, which is the working directory."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "quotaform.yaml").write_text(TWO)
    return tmp_path


def message(target: OneCluster | ManyClusters, snapshot: Path | None = None) -> str:
    with pytest.raises(UsageError) as caught:
        target.choose(snapshot=snapshot)
    return str(caught.value)


def test_one_cluster_is_chosen() -> None:
    assert OneCluster(cluster="lab").choose().snapshot == Path("lab.json")
    elsewhere = OneCluster(cluster="prod", bootstrap_server="b:2, c:3").choose()
    assert (elsewhere.bootstrap_servers, elsewhere.command_config) == (("b:2", "c:3"), Path("p"))


def test_many_clusters_are_chosen() -> None:
    for target in (ManyClusters(all_clusters=True), ManyClusters(cluster=["*"]), ManyClusters(cluster=["prod", "lab"])):
        assert [cluster.name for cluster in target.choose()] == ["lab", "prod"]
    (elsewhere,) = ManyClusters(cluster=["prod"], bootstrap_server="b:2").choose()
    assert (elsewhere.name, elsewhere.bootstrap_servers) == ("prod", ("b:2",))


def test_a_choice_that_is_not_clear_names_the_option() -> None:
    assert message(OneCluster()) == f"{SEVERAL}; choose one with --cluster"
    assert message(ManyClusters()) == f"{SEVERAL}; choose with --cluster, or take --all"
    several = (
        "--bootstrap-server gives an address only, and quotaform.yaml names several clusters (lab, prod); "
        "choose one with --cluster"
    )
    # What asks one cluster only, without files, needs no name of it.
    asked = OneCluster(bootstrap_server="b:1").choose()
    assert (asked.name, asked.bootstrap_servers, asked.cluster_id) == ("b:1", ("b:1",), None)
    assert message(ManyClusters(bootstrap_server="b:1")) == several


def test_options_that_exclude_each_other_are_refused() -> None:
    for kind in (OneCluster, ManyClusters):
        assert message(kind(bootstrap_server="b:1"), Path("s.json")) == (
            "--snapshot and --bootstrap-server are two places to read from; give one of them"
        )
        assert message(kind(command_config=Path("c"))) == (
            "--command-config goes with --bootstrap-server; in quotaform.yaml write command_config"
        )
    assert message(ManyClusters(cluster=["lab"], all_clusters=True)) == (
        "--all chooses every cluster; leave --cluster out"
    )
    for target in (
        ManyClusters(cluster=["lab", "prod"], bootstrap_server="b:1"),
        ManyClusters(all_clusters=True, bootstrap_server="b:1"),
    ):
        assert message(target) == "--bootstrap-server stands for one cluster; choose one with --cluster"
    assert message(ManyClusters(all_clusters=True), Path("s.json")) == (
        "--snapshot stands for one cluster; choose one with --cluster"
    )


@pytest.mark.parametrize("command", ["plan", "validate"])
def test_all_clusters_and_a_named_one_are_refused_by_every_command(
    command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """`validate --all --cluster lab` checked the files of lab."""
    assert run([command, "--all", "--cluster", "lab"]) == 64
    assert "--all chooses every cluster; leave --cluster out" in capsys.readouterr().err


def test_no_cluster_at_all_is_answered_with_how_to_name_one(folder: Path) -> None:
    (folder / "quotaform.yaml").write_text("clusters: {}\n")
    remedy = "write clusters: there, or give --bootstrap-server HOST:PORT"
    for target in (OneCluster(), ManyClusters(), ManyClusters(all_clusters=True)):
        assert message(target) == f"no cluster to talk to: quotaform.yaml names none; {remedy}"
    (folder / "quotaform.yaml").unlink()
    for target in (OneCluster(), ManyClusters()):
        assert message(target) == f"no cluster to talk to: quotaform.yaml does not exist; {remedy}"


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
    assert printed.err.startswith("quotaform: a: ")


@pytest.mark.parametrize("output", [[], ["--output", "all.json"]])
def test_several_snapshots_do_not_share_a_file(output: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["snapshot", "--all", *output]) == 64
    assert capsys.readouterr().err == (
        "quotaform: several clusters (lab, prod) need a file each; "
        "write {cluster} in --output, as in --output 'snapshots/{cluster}.json'\n"
    )


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
