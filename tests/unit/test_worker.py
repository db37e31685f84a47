"""Which tests stay together when they run in parallel."""

from __future__ import annotations

from pathlib import Path

from tests.worker import TOGETHER

ROOT = Path(__file__).parents[2]
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
