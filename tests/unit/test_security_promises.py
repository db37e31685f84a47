"""Every promise of docs/security.md has tests, which tests/data/security-promises.txt lists; some of them are here."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final

import pytest

from quotaform.cli.main import run
from quotaform.cli.option.cluster import complete_cluster
from tests.builder import PRODUCER
from tests.command_line import LEAVES

ROOT: Final = Path(__file__).resolve().parents[2]
SECRET: Final = "c4nary-Pa55word"


@cache
def listed() -> Mapping[str, Sequence[str]]:
    """Return words of docs/security.md, and the tests of what they say."""
    text = (ROOT / "tests/data/security-promises.txt").read_text(encoding="utf-8")
    blocks = (block.splitlines() for block in text.split("\n\n")[1:])
    return {words: [test.strip() for test in tests] for words, *tests in blocks}


@cache
def functions(path: str) -> frozenset[str]:
    tree = ast.parse((ROOT / "tests" / path).read_text(encoding="utf-8"))
    return frozenset(node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef))


def promises() -> str:
    """Return what docs/security.md says of attackers, on one line."""
    text = (ROOT / "docs/security.md").read_text(encoding="utf-8")
    return " ".join(text.partition("## What an attacker can do")[2].partition("## CI")[0].split())


@pytest.mark.parametrize("words", listed())
def test_a_promise_is_made_and_tested(words: str) -> None:
    assert words in promises()
    for test in listed()[words]:
        path, _, name = test.partition("::")
        assert name in functions(path), test


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "quotas.d").mkdir()
    (tmp_path / "quotas.d/a.yaml").write_text("quotas: []\n")
    return tmp_path


def configure(folder: Path, **cluster: object) -> None:
    (folder / "quotaform.yaml").write_text(json.dumps({"clusters": {"lab": cluster}}))


@pytest.mark.parametrize(
    "content",
    [
        f"root:{SECRET}:19000:0:99999:7:::\n",
        f"HOME=/\0TOKEN={SECRET}\0",
        f"-----BEGIN OPENSSH PRIVATE KEY-----\n{SECRET}\n-----END OPENSSH PRIVATE KEY-----\n",
        f'{{"auths": {{"registry.example": {{"auth": "{SECRET}"}}}}}}',
        f'["{SECRET}"]',
        f'"{SECRET}"',
        f"[default]\naws_secret_access_key = {SECRET}\n",
        f"export TOKEN={SECRET}\n",
        f"password: {SECRET}\n",
        SECRET,
    ],
)
def test_no_message_shows_the_content_of_another_file(
    content: str, folder: Path, tmp_path_factory: pytest.TempPathFactory, capfd: pytest.CaptureFixture[str]
) -> None:
    """A pull request may name any file of the machine where client properties, a snapshot or a store are expected."""
    other = tmp_path_factory.mktemp("machine") / "file"
    other.write_text(content)
    store = folder / "client.properties"
    for kind in ("truststore", "keystore"):
        store.write_text(f"security.protocol=SSL\nssl.{kind}.type=PEM\nssl.{kind}.location={other}\n")
        configure(folder, bootstrap_servers=["127.0.0.1:1"], command_config="client.properties")
        assert run(["plan", "-v"]) == 3
    configure(folder, bootstrap_servers=["127.0.0.1:1"], command_config=str(other))
    assert run(["plan", "-v"]) == 3
    configure(folder, snapshot=str(other))
    assert run(["plan", "-v"]) == 3
    printed = "".join(capfd.readouterr())
    assert printed.count("error: ") >= 4
    assert SECRET not in printed


def test_a_reference_in_a_name_is_text(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """In the files and on the cluster, even of a variable that may be read."""
    monkeypatch.setenv("QUOTAFORM_ENV", "QUOTAFORM_SECRET")
    monkeypatch.setenv("QUOTAFORM_SECRET", SECRET)
    name = "${env:QUOTAFORM_SECRET}"
    entry = {"match": {"user": name}, "values": {PRODUCER: 1}, "owner": name, "reason": name}
    (folder / "quotas.d/a.yaml").write_text(json.dumps({"quotas": [entry]}))
    (folder / "lab.json").write_text(
        json.dumps(
            {
                "format_version": "1.0",
                "kind": "quotaform.snapshot",
                "cluster": {"name": "lab", "id": "id"},
                "captured_at": "2026-01-01T00:00:00Z",
                "quotas": [{"entity": {"client-id": name}, "values": {PRODUCER: 1}}],
            }
        )
    )
    configure(folder, snapshot="lab.json")
    for line in ("plan --show-unmanaged", "drift", "describe", f'explain user="{name}"', f"resolve --name user={name}"):
        assert run(line.split()) in (0, 2)
        printed = "".join(capsys.readouterr())
        assert name in printed
        assert SECRET not in printed


@pytest.mark.parametrize("name", ["$(touch marker)", "`touch marker`", "a;b", "a b", "*", "x\ny", "\x1b[31m", "-x"])
def test_completion_offers_nothing_that_a_shell_would_evaluate(name: str, folder: Path) -> None:
    """The script for zsh evaluates what it is given."""
    context: Any = SimpleNamespace(params={})
    (folder / "quotaform.yaml").write_text(json.dumps({"clusters": {"lab": {"snapshot": "a"}}}))
    assert complete_cluster(context, "") == ["lab"]
    (folder / "quotaform.yaml").write_text(
        json.dumps({"clusters": {"lab": {"snapshot": "a"}, name: {"snapshot": "a"}}})
    )
    assert complete_cluster(context, "") == []


@pytest.mark.slow
def test_a_package_of_the_same_name_in_the_current_directory_is_not_run(folder: Path) -> None:
    for name in ("quotaform/__init__.py", "quotaform/__main__.py", "yaml.py", "sitecustomize.py", "typer.py"):
        path = folder / name
        path.parent.mkdir(exist_ok=True)
        path.write_text("open('marker', 'w')\n")
    (folder / "lab.pth").write_text("import os; open('marker', 'w')\n")
    script = Path(sys.executable).with_name("quotaform")
    for command in ([sys.executable, "-P", "-m", "quotaform"], [str(script)]):
        done = subprocess.run([*command, "validate"], cwd=folder, capture_output=True, text=True, check=False)
        assert "\nValid: " in f"\n{done.stdout}", done.stderr
        assert not (folder / "marker").exists()


def test_no_option_takes_a_password() -> None:
    names = {name for command in LEAVES.values() for each in command.params for name in each.opts}
    assert {name for name in names if "pass" in name or "secret" in name} == {"--password-file", "--password-env"}
