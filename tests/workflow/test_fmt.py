"""`quotaform fmt` as a user, an editor and a CI job call it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.workflow.command import Repository

pytestmark = pytest.mark.workflow

MODELINE = "# yaml-language-server: $schema=../schemas/quotas.schema.json\n"
UGLY = "quotas:\n- match:   {user: a}\n  values: {producer_byte_rate: 1024 KiB/s}   # why\n"
NEAT = "quotas:\n  - match: {user: a}\n    values: {producer_byte_rate: 1MiB/s}  # why\n"
BROKEN = "quotas:\n  - match: {user: a}\n    match: {user: b}\n"
DUPLICATE = (
    'quotas.d/a.yaml:3:5: error: the key "match" is written twice; it is also at quotas.d/a.yaml:2:5 [duplicate-key]'
)


@pytest.fixture
def ugly(offline: Repository) -> Repository:
    offline.quotas(UGLY, "a.yaml")
    offline.quotas(NEAT.replace("user: a", "user: b"), "b.yaml")
    offline.quotas(UGLY, "prod/a.yaml")
    offline.config("clusters:\n    prod: {bootstrap_servers: [ b1:9092 ]}\n")
    return offline


def test_everything_is_formatted_and_what_was_changed_is_listed(ugly: Repository) -> None:
    done = ugly("fmt")
    assert (done.code, done.err) == (0, "")
    assert done.out == "quotaform.yaml\nquotas.d/a.yaml\nquotas.d/prod/a.yaml\n"
    assert ugly.read("quotas.d/a.yaml") == ugly.read("quotas.d/prod/a.yaml") == NEAT
    assert ugly.read("quotaform.yaml") == "clusters:\n  prod: {bootstrap_servers: [b1:9092]}\n"
    assert ugly("fmt") == ugly("fmt", "--check") == ugly("fmt", "--diff") == type(done)(0, "", "")
    assert ugly("validate").code == 0


def test_check_and_diff_write_nothing_and_exit_2(ugly: Repository) -> None:
    before = ugly.read("quotas.d/a.yaml")
    done = ugly("fmt", "--check")
    assert (done.code, done.out) == (2, "quotaform.yaml\nquotas.d/a.yaml\nquotas.d/prod/a.yaml\n")
    done = ugly("fmt", "--diff", "--check", "quotas.d/a.yaml")
    assert done.code == 2
    assert done.out.splitlines()[:4] == [
        "--- a/quotas.d/a.yaml",
        "+++ b/quotas.d/a.yaml",
        "@@ -1,3 +1,3 @@",
        " quotas:",
    ]
    assert ugly.read("quotas.d/a.yaml") == before


@pytest.mark.parametrize(
    ("arguments", "changed"),
    [
        (["quotas.d"], ["quotas.d/a.yaml", "quotas.d/prod/a.yaml"]),
        (["quotas.d/prod"], ["quotas.d/prod/a.yaml"]),
        (["."], ["quotaform.yaml", "quotas.d/a.yaml", "quotas.d/prod/a.yaml"]),
        (["quotas.d/a.yaml", "quotas.d/a.yaml", "quotaform.yaml"], ["quotas.d/a.yaml", "quotaform.yaml"]),
        (["quotas.d/b.yaml"], []),
    ],
)
def test_files_and_directories_are_chosen(ugly: Repository, arguments: list[str], changed: list[str]) -> None:
    assert ugly("fmt", "--check", *arguments).out.splitlines() == changed


def test_a_file_that_is_wrong_stays_and_the_others_are_formatted(ugly: Repository) -> None:
    ugly.quotas(BROKEN, "a.yaml")
    done = ugly("fmt")
    assert done.code == 3
    assert done.err == f"{DUPLICATE}\n"
    assert done.out == "quotaform.yaml\nquotas.d/prod/a.yaml\n"
    assert ugly.read("quotas.d/a.yaml") == BROKEN
    assert DUPLICATE in ugly("validate").out
    assert ugly("fmt", "--check").code == 3


def test_an_editor_formats_by_way_of_the_standard_streams(ugly: Repository) -> None:
    text = MODELINE + UGLY + "# \u00a0::error::\u202e\n"
    done = ugly("fmt", "-", stdin=text)
    assert (done.code, done.out, done.err) == (0, MODELINE + NEAT + "# \u00a0::error::\u202e\n", "")
    assert ugly("fmt", "-", "--check", stdin=text).code == 2
    assert ugly("fmt", "-", "--check", stdin=text).out == "stdin\n"
    assert ugly("fmt", "-", "--diff", stdin=UGLY).out.startswith("--- a/stdin\n")
    done = ugly("fmt", "-", stdin="a: 1\na: 2\n")
    assert (done.code, done.out) == (3, "")
    assert done.err == 'stdin:2:1: error: the key "a" is written twice; it is also at stdin:1:1 [duplicate-key]\n'


def test_a_file_keeps_its_mode_and_a_link_stays_a_link(ugly: Repository) -> None:
    path = ugly.path / "quotas.d" / "a.yaml"
    path.chmod(0o640)
    (ugly.path / "quotas.d" / "c.yaml").symlink_to("a.yaml")
    assert ugly("fmt", "quotas.d/c.yaml").code == 0
    assert path.stat().st_mode & 0o777 == 0o640
    assert path.read_text() == NEAT
    assert (ugly.path / "quotas.d" / "c.yaml").is_symlink()
    assert not list(ugly.path.glob("quotas.d/.*"))


def test_a_link_that_leads_out_is_neither_read_nor_written(ugly: Repository, tmp_path: Path) -> None:
    secret = tmp_path / "secret.yaml"
    secret.write_text(UGLY)
    (ugly.path / "quotas.d" / "a.yaml").unlink()
    (ugly.path / "quotas.d" / "a.yaml").symlink_to(secret)
    done = ugly("fmt")
    assert done.code == 3
    assert "quotas.d/a.yaml: error: cannot be read: a link leads out of the directory that was given" in done.err
    assert secret.read_text() == UGLY


def test_a_file_that_cannot_be_written_is_an_error(ugly: Repository, tmp_path: Path) -> None:
    (tmp_path / "elsewhere.yaml").write_text(UGLY)
    path = ugly.path / "quotas.d" / "a.yaml"
    path.unlink()
    path.symlink_to(tmp_path / "elsewhere.yaml")
    done = ugly("fmt", "quotas.d/a.yaml")
    assert (done.code, done.out) == (1, "")
    assert done.err.startswith("Error: quotas.d/a.yaml cannot be written: a link leads out of the current directory")


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["nowhere.yaml"], 1, "nowhere.yaml cannot be read: No such file or directory"),
        (["README.md"], 64, "README.md is not a YAML file; give .yaml and .yml files, or a directory"),
        (["-", "quotas.d"], 64, "- stands for stdin and cannot be combined with files"),
        (["--chek"], 64, "No such option: --chek; did you mean --check?"),
    ],
)
def test_what_is_wrong_is_one_sentence(ugly: Repository, arguments: list[str], code: int, words: str) -> None:
    ugly.write("README.md", "# a")
    done = ugly("fmt", *arguments)
    assert (done.code, done.out) == (code, "")
    assert done.err.startswith(f"Error: {words}")
    assert done.err.count("\n") == 1


def test_without_files_it_says_where_it_looked(offline: Repository) -> None:
    done = offline("fmt")
    assert (done.code, done.out) == (1, "")
    assert done.err == (
        f"Error: quotas.d cannot be read: there is no {offline.path.resolve()}/quotas.d; "
        "give the files, or the directory that holds them\n"
    )
