"""What `import quotaform` promises: exactly these names, all of which are there."""

from __future__ import annotations

import subprocess
import sys

import pytest

import quotaform

PUBLIC = {
    "ANY",
    "AlterResult",
    "AlterRow",
    "Alteration",
    "Effective",
    "Entity",
    "EntityFilter",
    "FilterComponent",
    "Outcome",
    "QuotaAdmin",
    "QuotaformError",
    "Resolved",
    "Rule",
}


def test_the_public_names_are_exactly_these() -> None:
    assert set(quotaform.__all__) == PUBLIC
    assert len(quotaform.__all__) == len(PUBLIC)


@pytest.mark.parametrize("name", sorted(PUBLIC))
def test_a_public_name_can_be_imported_and_says_what_it_is(name: str) -> None:
    value = getattr(quotaform, name)
    assert value is not None
    if isinstance(value, type):
        assert (value.__doc__ or "").strip()
        assert value.__name__ == name


def test_another_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        _ = quotaform.nothing


def test_importing_the_package_loads_nothing_heavy() -> None:
    heavy = ("kafka", "yaml", "jsonschema", "typer", "pyspark")
    program = f"import sys, quotaform; quotaform.Entity; print([name for name in {heavy} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
