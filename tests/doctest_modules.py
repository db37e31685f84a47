"""Which modules are looked through for doctests: those that have any.

pytest imports every module to find its doctests and reads the docstring of everything in it. Four of five modules have
no doctest.
"""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path

import pytest
from _pytest.doctest import DoctestModule

_PROMPT = b">>>"


class DoctestModules:
    """A plugin that leaves out modules without a prompt; the hook of a conftest would act in its own folder only."""

    @pytest.hookimpl(wrapper=True)
    def pytest_collect_file(self, file_path: Path) -> Generator[None, list[pytest.Collector], list[pytest.Collector]]:
        """Return the collectors of a file without the one for doctests that are not there."""
        collectors = yield
        if file_path.suffix != ".py" or _PROMPT in file_path.read_bytes():
            return collectors
        return [each for each in collectors if not isinstance(each, DoctestModule)]
