"""The folder of one cluster, given where the whole quotas directory is meant."""

from __future__ import annotations

from pathlib import Path

import pytest

from quotaform.model.entity import Entity
from quotaform.model.errors import InvalidFilesError, LayerDirectoryError
from quotaform.model.scope import MAX_PATTERN, Selection
from quotaform.repository.repository import Repository

CONFIG = "clusters: {lab: {snapshot: lab.json}, prod-eu: {snapshot: prod.json}}\n"


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for folder in ("quotas.d/lab", "quotas.d/prod-eu", "other/lab", "lab"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "quotaform.yaml").write_text(CONFIG)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    ("folder", "given", "said"),
    [
        ("", "quotas.d/lab", "quotas.d/lab is the layer of cluster lab; give quotas.d"),
        ("", "quotas.d/lab/", "quotas.d/lab is the layer of cluster lab; give quotas.d"),
        ("", "./quotas.d/prod-eu", "quotas.d/prod-eu is the layer of cluster prod-eu; give quotas.d"),
        ("quotas.d", "lab", "is the layer of cluster lab"),
        ("quotas.d/lab", ".", "is the layer of cluster lab"),
        ("/", "{}/quotas.d/lab", "is the layer of cluster lab"),
    ],
)
def test_the_layer_of_a_cluster_is_not_a_quotas_directory(
    repository: Path, monkeypatch: pytest.MonkeyPatch, folder: str, given: str, said: str
) -> None:
    """A plan of it removed what the common layer declares, and with another cluster it moved the layer there."""
    monkeypatch.chdir(repository / folder)
    with pytest.raises(LayerDirectoryError, match=said) as raised:
        Repository.at(Path(given.format(repository)), None).config()
    assert raised.value.exit_code == 64


@pytest.mark.parametrize("given", ["quotas.d", ".", "lab", "other/lab"])
def test_other_directories_are_read(repository: Path, given: str) -> None:
    assert list(Repository.at(Path(given), repository / "quotaform.yaml").config().clusters) == ["lab", "prod-eu"]


def test_a_pattern_is_limited_in_length(repository: Path) -> None:
    """A pattern of 50,000 brackets took a quarter of a minute to read."""
    (repository / "quotaform.yaml").write_text(f"scope: {{include: [{{user: '{'[' * 50_000}'}}]}}\n")
    with pytest.raises(InvalidFilesError) as raised:
        Repository.at(Path("quotas.d"), None).config()
    assert [problem.message for problem in raised.value.problems] == [
        f"a pattern has at most {MAX_PATTERN:,} characters, and this one has 50,000; shorten it"
    ]
    assert not Selection(select=("[" * 50_000,)).contains(Entity(user="a"))
    assert Selection(select=("user=[ab]*",)).contains(Entity(user="a"))
