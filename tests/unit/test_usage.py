"""Arguments of any length; `story-said.txt` and `story-wrong-usage.txt` have what is said of others."""

from __future__ import annotations

from pathlib import Path

import pytest

from quotaform.cli.main import run


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("quotaform.yaml").write_text("clusters: {lab: {snapshot: lab.json}}\n")
    Path("quotas.d").mkdir()


@pytest.mark.parametrize("line", ["import --output", "plan --config", "plan", "validate", "plan --snapshot", "show"])
def test_a_name_that_is_too_long_for_the_file_system_is_no_internal_error(
    line: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """`import --output` with a name of 100,000 characters ended with an internal error."""
    assert run([*line.split(), "a" * 100_000]) in (1, 3, 64)
    assert "internal error" not in capsys.readouterr().err


@pytest.mark.parametrize("line", ["plan --config {}", "apply {}", "show {}", "describe --snapshot {}"])
def test_a_very_long_argument_is_not_repeated_whole(line: str, capsys: pytest.CaptureFixture[str]) -> None:
    """An argument of 100,000 characters was printed whole, and the remedy scrolled away."""
    assert run(line.format("A" * 100_000).split()) in {1, 3, 64}
    printed = capsys.readouterr().err
    assert len(printed) < 2_100
    assert "more characters" in printed


def test_a_very_long_argument_of_kafka_client_quotas_is_not_repeated_whole(capsys: pytest.CaptureFixture[str]) -> None:
    from quotaform.cli.client_quotas.command import run as run_client_quotas

    assert run_client_quotas(["--describe", "--bootstrap-server", "b:1", "--command-config", "A" * 100_000]) == 1
    assert len(capsys.readouterr().err) < 2_100
