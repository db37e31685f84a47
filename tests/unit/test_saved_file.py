"""It is said on stderr where a result was saved."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import pytest

from quotaform.cli.console import Console
from quotaform.cli.present import TableOutput, report_saved_files
from tests.golden.usage_example import HEADROOM as FOUND

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


class Rows:
    """Rows that are written nowhere."""

    @property
    def write(self) -> Any:
        return self

    def parquet(self, folder: str) -> None:
        assert folder


def test_a_result_names_all_of_its_files_in_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nobody knew whether --out had written something."""
    monkeypatch.chdir(tmp_path)
    files = TableOutput("usage-headroom", ("json=found/headroom.json", "parquet=rows", "markdown=a\nb.md"))
    files.write(FOUND, cast("DataFrame", Rows()))
    files.report(Console())
    assert capsys.readouterr() == ("", 'Saved the result to: found/headroom.json, rows, "a\\nb.md"\n')
    files.report(Console(is_quiet=True))
    TableOutput("usage-headroom", ()).report(Console())
    assert capsys.readouterr() == ("", "")


def test_many_files_are_not_all_named(capsys: pytest.CaptureFixture[str]) -> None:
    report_saved_files(Console(), "plans", (f"{number}.json" for number in range(12)))
    assert capsys.readouterr().err.endswith(", 9.json and 2 more\n")
