"""`quotaform init`: from a cluster with quotas that were made by hand to a repository whose plan is empty."""

from __future__ import annotations

import os
from errno import ENOSPC
from pathlib import Path

import pytest
import yaml

from quotaform.model.entity import Entity
from quotaform.model.errors import QuotaformError
from quotaform.sandbox import Sandbox
from quotaform.system import files
from quotaform.system.files import write_new_files
from tests.workflow.command import Cluster, Repository, Result
from tests.workflow.terminal import talk
from tests.workflow.test_import import ODD_NAMES, ODD_VALUES, SHAPES

pytestmark = pytest.mark.workflow

MIB = 1048576.0
EVERYTHING = ("--cluster", "lab", "--bootstrap-server", "127.0.0.1:1", "--no-import", "--ci", "github")
FILES = [
    ".github/workflows/quotas-apply.yml",
    ".github/workflows/quotas-drift.yml",
    ".github/workflows/quotas-plan.yml",
    ".gitignore",
    "quotaform.yaml",
    "quotas.d/quotas.yaml",
    "schemas/config.schema.json",
    "schemas/quotas.schema.json",
]


def files_in(path: Path) -> list[str]:
    return sorted(found.relative_to(path).as_posix() for found in path.rglob("*") if not found.is_dir())


def adopt(offline: Repository, sandbox: Sandbox, *options: str) -> Result:
    where = ("--cluster", "lab", "--bootstrap-server", sandbox.bootstrap_servers)
    return offline("init", *where, "--import", "--ci", "github", *options)


def test_a_cluster_with_quotas_of_all_shapes_is_adopted(
    offline: Repository, cluster: Cluster, sandbox: Sandbox
) -> None:
    cluster.alter({**SHAPES, **ODD_VALUES, **{Entity(user=name): {"producer_byte_rate": MIB} for name in ODD_NAMES}})
    done = adopt(offline, sandbox)
    assert (done.code, done.err) == (0, "")
    assert "Wrote quotas.d/lab/imported.yaml (" in done.out
    assert offline("validate", "--quiet").code == 0
    plan = offline("plan", "--detailed-exitcode")
    assert plan.code == 0, plan
    assert "No changes. Your infrastructure matches the configuration." in plan.out
    assert offline("drift").code == 0
    assert offline("fmt", "--check") == Result(0, "", "")
    config = yaml.safe_load(offline.read("quotaform.yaml"))["clusters"]["lab"]
    assert config == {"bootstrap_servers": [sandbox.bootstrap_servers], "cluster_id": cluster.id}


def test_300_quotas_that_were_made_by_hand_are_adopted(offline: Repository, cluster: Cluster, sandbox: Sandbox) -> None:
    quotas = {Entity(user=f"svc-{n}"): {"producer_byte_rate": MIB * (n + 1)} for n in range(150)}
    quotas |= {Entity(user=f"svc-{n}", client_id="etl"): {"request_percentage": n + 0.5} for n in range(100)}
    quotas |= {Entity(client_id=f"app-{n}"): {"consumer_byte_rate": 1e6 + n} for n in range(50)}
    cluster.alter(quotas)
    done = adopt(offline, sandbox, "--dry-run")
    assert (done.code, files_in(offline.path)) == (0, [])
    assert "Would write quotas.d/lab/imported.yaml (300 entities)" in done.out
    done = adopt(offline, sandbox)
    assert "Wrote quotas.d/lab/imported.yaml (300 entities)" in done.out
    assert offline("plan", "--detailed-exitcode").code == 0


def test_a_further_cluster_has_quotas_of_its_own(offline: Repository, cluster: Cluster, sandbox: Sandbox) -> None:
    """The import of a second cluster clashed in 300 places: init declared the quotas of the first one for all."""
    cluster.alter({Entity(user=f"svc-{n}"): {"producer_byte_rate": MIB * (n + 1)} for n in range(30)})
    assert adopt(offline, sandbox).code == 0
    assert offline("snapshot", "--output", "lab.json").code == 0
    cluster.alter({Entity(user=f"svc-{n}"): {"producer_byte_rate": MIB * (n + 2)} for n in range(20, 40)})
    before = files_in(offline.path)
    further = ("--cluster", "us", *("--bootstrap-server", sandbox.bootstrap_servers), "--import", "--ci", "github")
    done = offline("init", *further)
    assert (done.code, done.err) == (0, "")
    assert done.out.startswith("Wrote quotas.d/us/imported.yaml (40 entities)\n\nNext:\n")
    assert "  add the cluster to each matrix in .github/workflows/quotas-plan.yml\n" in done.out
    assert files_in(offline.path) == sorted([*before, "quotas.d/us/imported.yaml"])
    lines = done.out.partition("  add to clusters in quotaform.yaml:\n")[2].partition("  add the cluster")[0]
    offline.config(offline.read("quotaform.yaml") + lines)
    assert offline("validate").code == 0
    assert offline("plan", "--cluster", "us", "--detailed-exitcode").code == 0
    assert offline("plan", "--cluster", "lab", "--snapshot", "lab.json", "--detailed-exitcode").code == 0
    again = offline("init", *further)
    assert (again.code, "Error: us is already in quotaform.yaml" in again.err) == (1, True)


def test_everything_is_there_and_what_comes_next_is_said(offline: Repository) -> None:
    done = offline("init", *EVERYTHING)
    assert (done.code, done.err) == (0, "")
    assert files_in(offline.path) == FILES
    assert "Warning: the cluster id is not pinned: Cannot connect to lab" in done.out
    assert "follow the first lines of .github/workflows/quotas-plan.yml" in done.out
    assert offline.read("quotaform.yaml") == (
        "# yaml-language-server: $schema=schemas/config.schema.json\n"
        'clusters:\n  lab:\n    bootstrap_servers: ["127.0.0.1:1"]\n'
    )
    assert offline.read("quotas.d/quotas.yaml") == (
        "# yaml-language-server: $schema=../schemas/quotas.schema.json\nquotas: []\n"
    )
    assert ".quotaform/\n" in offline.read(".gitignore")
    workflow = yaml.safe_load(offline.read(".github/workflows/quotas-plan.yml"))
    assert workflow["jobs"]["plan"]["strategy"]["matrix"] == {"cluster": ["lab"]}
    assert offline("validate").code == 0
    assert offline("fmt", "--check").code == 0


def test_what_comes_next_begins_with_the_directory_and_says_how_the_secret_is_read(offline: Repository) -> None:
    done = offline("init", "my quotas", *EVERYTHING)
    after = done.out.partition("Next:\n")[2].splitlines()
    line = 'command_config: "${env:QUOTAFORM_COMMAND_CONFIG}"'
    assert after[:4] == [
        "  cd 'my quotas'",
        f"  if the cluster requires authentication or TLS, add to it in quotaform.yaml: {line}",
        "    export QUOTAFORM_COMMAND_CONFIG=path/to/client.properties   # CI sets it",
        "    export QUOTAFORM_ENV=QUOTAFORM_COMMAND_CONFIG   # CI sets it",
    ]
    assert line in offline.read("my quotas/.github/workflows/quotas-drift.yml")
    offline.write("client.properties", "")
    done = offline("init", "other", *EVERYTHING, "--command-config", "client.properties")
    assert f"    {line}\n" in offline.read("other/quotaform.yaml")
    assert "if the cluster requires" not in done.out


def test_a_number_as_a_name_stays_a_name_in_every_file(offline: Repository) -> None:
    arguments = ["1.5" if word == "lab" else "gitlab" if word == "github" else word for word in EVERYTHING]
    assert offline("init", *arguments).code == 0
    assert list(yaml.safe_load(offline.read("quotaform.yaml"))["clusters"]) == ["1.5"]
    jobs = yaml.safe_load(offline.read(".gitlab-ci.yml"))
    assert jobs["quotas-plan"]["parallel"]["matrix"] == [{"CLUSTER": ["1.5"]}]


def test_nothing_that_exists_is_overwritten(offline: Repository) -> None:
    offline.config("clusters: {}\n")
    offline.write("quotas.d/a.yaml", "quotas: []\n")
    offline.write("schemas/quotas.schema.json", "{}")
    offline.write(".github/workflows/quotas-plan.yml", "mine")
    before = files_in(offline.path)
    done = offline("init", *EVERYTHING)
    assert (done.code, done.out) == (1, "")
    assert done.err.splitlines()[1:] == [
        "  quotaform.yaml",
        "  schemas/quotas.schema.json",
        "  .github/workflows/quotas-plan.yml",
        "  quotas.d",
    ]
    assert "exist already and are never overwritten, so nothing was written" in done.err
    assert files_in(offline.path) == before
    assert offline.read("quotaform.yaml") == "clusters: {}\n"


def test_an_existing_gitignore_stays_and_what_it_lacks_is_said(offline: Repository) -> None:
    offline.write(".gitignore", ".quotaform\n*.pyc\n")
    done = offline("init", *EVERYTHING)
    assert done.code == 0
    assert (
        ".gitignore exists already; add /plan.json, /plan.md, /plans/, /revert.json, /receipt.json, /audit.jsonl\n"
        in done.out
    )
    assert offline.read(".gitignore") == ".quotaform\n*.pyc\n"


def test_a_link_in_the_place_of_a_folder_is_not_followed(offline: Repository, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (offline.path / "schemas").symlink_to(tmp_path / "elsewhere")
    done = offline("init", *EVERYTHING)
    assert done.code == 1
    assert done.err.splitlines()[1:] == ["  schemas"]
    assert files_in(tmp_path / "elsewhere") == []


def test_all_is_taken_back_when_something_cannot_be_written(
    offline: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    write = files.write_new_text

    def fail_late(path: Path, text: str) -> None:
        if path.name == ".gitignore":
            raise OSError(ENOSPC, "No space left on device")
        write(path, text)

    monkeypatch.setattr(files, "write_new_text", fail_late)
    done = offline("init", *EVERYTHING)
    assert (done.code, done.out) == (1, "")
    assert ".gitignore cannot be written: No space left on device" in done.err
    assert list(offline.path.iterdir()) == []


def test_properties_are_named_by_a_variable_in_ci_and_by_their_path_without(offline: Repository) -> None:
    properties = offline.write("secret/client.properties", "security.protocol=PLAINTEXT\n")
    given = ("--command-config", os.path.relpath(properties, offline.path))
    done = offline("init", "ci", *EVERYTHING, *given)
    assert done.code == 0, done
    assert "export QUOTAFORM_COMMAND_CONFIG=secret/client.properties   # CI sets it\n" in done.out
    assert "export QUOTAFORM_ENV=QUOTAFORM_COMMAND_CONFIG   # CI sets it\n" in done.out
    assert 'command_config: "${env:QUOTAFORM_COMMAND_CONFIG}"\n' in offline.read("ci/quotaform.yaml")
    assert offline("init", "none", *EVERYTHING[:-1], "none", *given).code == 0
    assert 'command_config: "../secret/client.properties"\n' in offline.read("none/quotaform.yaml")


def test_what_is_missing_is_asked_for_on_a_terminal(offline: Repository, cluster: Cluster, sandbox: Sandbox) -> None:
    cluster.set({"producer_byte_rate": MIB}, user="a")
    code, screen = talk(
        "init",
        cwd=offline.path,
        answers=[
            ("Name of the cluster [kafka]: ", "lab\n"),
            ("Bootstrap servers [localhost:9092]: ", f"{sandbox.bootstrap_servers}\n"),
            ("Client properties file (if it needs one): ", "\n"),
            ("Import its quotas (yes or no) [yes]: ", "perhaps\n"),
            ("Please answer yes or no.", ""),
            ("Import its quotas (yes or no) [yes]: ", "\n"),
            ("CI system (github, gitlab or none) [none]: ", "gitl\n"),
        ],
        hides_answers=False,
    )
    assert code == 0, screen
    assert "quotas.d/lab/imported.yaml" in files_in(offline.path)
    assert ".gitlab-ci.yml" in files_in(offline.path)
    assert offline("plan", "--detailed-exitcode").code == 0


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (
            [],
            64,
            "there is no terminal to ask on; give --cluster, --bootstrap-server, --import or --no-import, --ci",
        ),
        (["--cluster", "lab", "--ci", "none"], 64, "there is no terminal to ask on; give --bootstrap-server, --import"),
        ([*EVERYTHING[:-1], "jenkins"], 64, "unknown ci 'jenkins'; choose github, gitlab or none"),
        (["--cluster", "a b", *EVERYTHING[2:]], 64, 'the cluster name "a b" must consist of letters'),
        (["--bootstrap-server", "nonsense", *EVERYTHING[:2], *EVERYTHING[4:]], 64, "nonsense"),
        ([*EVERYTHING, "--import"], 1, "Cannot connect to lab"),
        ([*EVERYTHING, "--command-config", "nowhere.properties"], 3, "nowhere.properties"),
    ],
)
def test_what_is_wrong_is_said_and_nothing_is_written(
    offline: Repository, arguments: list[str], code: int, words: str
) -> None:
    done = offline("init", *arguments)
    assert (done.code, done.out) == (code, "")
    assert words in done.err
    assert files_in(offline.path) == []


def test_new_files_never_replace_others(tmp_path: Path) -> None:
    """An import replaced a file that appeared between the look and the write."""
    (tmp_path / "b").write_text("mine")
    with pytest.raises(QuotaformError, match="b cannot be written: File exists"):
        write_new_files({str(tmp_path / "new" / "a"): "a", str(tmp_path / "b"): "b"})
    assert files_in(tmp_path) == ["b"]
    assert (tmp_path / "b").read_text() == "mine"
