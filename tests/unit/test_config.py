"""quotaform.yaml on disk and its variables; what it says is in `texts-settings.txt` and `texts-config.txt`."""

from __future__ import annotations

from pathlib import Path

import pytest

from quotaform.desired.config_reader import read_config
from quotaform.desired.tree import SourceFile
from quotaform.model.errors import InvalidFilesError
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
    assert cluster.config_reference is not None
    references = [cluster.config_reference, *cluster.server_references.values()]
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


def test_there_are_limits_on_sources_of_measurements(tmp_path: Path) -> None:
    sources = ", ".join(f"'{number}=http://b{number}/x'" for number in range(1001))
    text = f"clusters: {{a: {{bootstrap_servers: [b:9092], metrics: {{brokers: [{sources}]}}}}}}\n"
    config, findings = read_config(SourceFile("quotaform.yaml", text), tmp_path)
    assert len(config.clusters["a"].metrics.sources) == 1000
    assert "brokers contains more than the limit of 1,000 sources" in "\n".join(map(str, findings))
