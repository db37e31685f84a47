"""Golden files: what the code prints, kept beside the tests. `make golden` rewrites them."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

FOLDER = Path(__file__).parent
Golden = Callable[[str, str], None]


@pytest.fixture
def golden() -> Golden:
    """Compare a text with a golden file, or write it when QUOTAFORM_UPDATE_GOLDEN is set."""

    def check(name: str, text: str) -> None:
        path = FOLDER / name
        if os.environ.get("QUOTAFORM_UPDATE_GOLDEN"):
            path.write_text(text, encoding="utf-8")
        assert text == path.read_text(encoding="utf-8")

    return check
