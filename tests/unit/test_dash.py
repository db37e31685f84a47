"""`-` is no file or directory in any option that writes."""

from __future__ import annotations

from pathlib import Path

import pytest

from quotaform.cli.main import run

SNAPSHOT = """{"format_version": "1.0", "kind": "quotaform.snapshot", "cluster": {"name": "lab", "id": "x"},
"captured_at": "2026-01-01T00:00:00Z", "quotas": []}"""


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["plan", "--out", "-"], 64),
        (["plan", "--out", "text=-"], 64),
        (["import", "--output", "-"], 64),
        (["schema", "--output", "-"], 64),
        (["snapshot", "--output", "-"], 0),
    ],
)
def test_nothing_writes_a_file_called_dash(
    arguments: list[str], code: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """`--out -` wrote a file called `-`, and nobody found the result."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "quotas.d").mkdir()
    (tmp_path / "quotas.d" / "a.yaml").write_text("quotas: []\n")
    (tmp_path / "lab.json").write_text(SNAPSHOT)
    (tmp_path / "quotaform.yaml").write_text("clusters: {lab: {snapshot: lab.json}}\n")
    assert run(arguments) == code
    assert not (tmp_path / "-").exists()
    assert ("quotaform.snapshot" in capfd.readouterr().out) is (code == 0)
