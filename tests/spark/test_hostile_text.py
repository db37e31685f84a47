"""A hostile text where Spark reads it: what it says of a path or a table that is not there forges no output."""

from __future__ import annotations

import pytest

from tests.unit.test_hostile_text import Place, place, run_with_each_option

__all__ = ["place"]

STARTS_SPARK = (
    "plan",
    "drift",
    "history append",
    "usage ingest",
    "usage headroom",
    "usage backtest",
    "usage recommend",
)


@pytest.mark.usefixtures("spark")
@pytest.mark.parametrize("path", STARTS_SPARK)
def test_an_argument_forges_no_output(path: str, place: Place) -> None:
    """With a session; `tests/unit` has every shape of every option, without one."""
    run_with_each_option(f"quotaform {path}", place, ("{}",))
