"""What must hold of the files of this repository, whoever wrote them, and of the tests that share a worker."""

from __future__ import annotations

import re
import subprocess
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.worker import TOGETHER
from tools.schema_files import render_files

ROOT = Path(__file__).resolve().parents[2]

LINKED_HOSTS = {
    "api.github.com",
    "cwiki.apache.org",
    "github.com",
    "gitlab.com",
    "hooks.slack.com",
    "issues.apache.org",
    "json-schema.org",
    "json.schemastore.org",
    "kafka.apache.org",
    "keepachangelog.com",
    "no-color.org",
    "pre-commit.com",
    "repo1.maven.org",
    "semver.org",
    "www.apache.org",
    "www.runatlantis.io",
}
"""The public hosts that files may link to; a package registry is reached by package names alone."""

NAMESPACE_HOSTS = {"creativecommons.org", "purl.org", "www.w3.org"}
"""The hosts in the names of XML namespaces, which nothing asks."""

_LOCAL_HOST = re.compile(r"[\w-]+|127\.0\.0\.[12]|\[::1\]|[\w.-]*\bexample(\.com|\.org|\.net)?|[\w.-]+\.(test|invalid)")
_URL = re.compile(r"https?://(?P<host>\[[0-9a-fA-F:]+\]|[\w.-]+)")
_HOME = re.compile(r"(?<![\w.~/])/(?:(?:home|Users)/(?!(?:u|me|user|alice)\b)|root/)[\w.]+")
_PIN = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*==[A-Za-z0-9.!+]+")


def tracked_texts() -> Iterator[tuple[str, str]]:
    """Yield the path and text of every tracked text file."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True).stdout
    for name in filter(None, listed.decode().split("\0")):
        path = ROOT / name
        if path.is_file() and b"\0" not in (data := path.read_bytes()):
            yield name, data.decode("utf-8", errors="replace")


def pins() -> dict[str, str]:
    """Return the constrained version of each package."""
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    return dict(re.sub(r"[-_.]+", "-", line).lower().split("==") for line in lines if not line.startswith("#"))


def test_files_link_to_known_public_hosts_only() -> None:
    unknown = [
        f"{name}: {match['host']}"
        for name, text in tracked_texts()
        for match in _URL.finditer(text)
        if match["host"].rstrip(".") not in LINKED_HOSTS | NAMESPACE_HOSTS
        and not _LOCAL_HOST.fullmatch(match["host"].rstrip("."))
    ]
    assert unknown == []


@pytest.mark.exhaustive
def test_no_file_names_somebodys_home() -> None:
    assert [f"{name}: {match[0]}" for name, text in tracked_texts() for match in _HOME.finditer(text)] == []


def test_constraints_are_plain_pins() -> None:
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    assert [line for line in lines if not line.startswith("#") and not _PIN.fullmatch(line)] == []


def test_every_dependency_is_pinned() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    wanted = [
        *project["build-system"]["requires"],
        *project["project"]["dependencies"],
        *(one for extra in project["project"]["optional-dependencies"].values() for one in extra),
    ]
    names = {re.sub(r"[-_.]+", "-", re.split(r"[<>=!~;\[ ]", one)[0]).lower() for one in wanted}
    assert names - pins().keys() == set()


def test_ci_runs_on_the_python_versions_that_the_package_names() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    named = [line.rsplit(" ", 1)[-1] for line in project["classifiers"] if re.search(r":: 3\.\d+$", line)]
    workflow = (ROOT / ".github/workflows/ci.yml").read_text(encoding="utf-8")
    assert f"python: {named}".replace("'", '"') in workflow


def test_every_make_target_explains_itself() -> None:
    text = (ROOT / "Makefile").read_text(encoding="utf-8")
    (targets,) = re.findall(r"^\.PHONY: (.*)$", text, re.M)
    phony = set(targets.split())
    explained = set(re.findall(r"^([a-z-]+):.*## ", text, re.M))
    assert phony - {"venv"} == explained


def test_the_published_schemas_are_those_of_the_package() -> None:
    packaged = render_files()
    published = {path.name: path.read_text("utf-8") for path in (ROOT / "schemas").glob("*.json")}
    assert published == packaged, "run `make schemas`"
    assert packaged


@pytest.mark.parametrize("script", [".ci/run", "bench/run.py"])
def test_scripts_can_be_run(script: str) -> None:
    assert (ROOT / script).stat().st_mode & 0o111


FIXTURES = ('"standalone"', "standalone: ", "connect: ", "connect_url: ")


def test_files_that_share_processes_of_spark_run_on_one_worker() -> None:
    """A second standalone cluster takes as long as all tests of a file."""
    found = {
        f"tests/spark/{path.name}"
        for path in (ROOT / "tests/spark").glob("test_*.py")
        if any(name in path.read_text(encoding="utf-8") for name in FIXTURES)
    }
    assert found == {file for file in TOGETHER if file.startswith("tests/spark/")}
    assert all((ROOT / file).is_file() for file in TOGETHER)
