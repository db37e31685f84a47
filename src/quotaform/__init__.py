"""Kafka client quotas as code: validate, plan, apply, and detect drift.

The Python API is `QuotaAdmin` and the values that it takes and returns; errors are in `quotaform.errors`.
"""

import sys

if sys.argv[:1] == ["-m"] and not sys.flags.safe_path:
    # `python -m quotaform` looks for modules in the current folder first, which may hold a stranger's yaml.py.
    del sys.path[0]

TYPE_CHECKING = False  # without typing, whose import takes as long as the whole of `quotaform --version`
if TYPE_CHECKING:
    from typing import Any

    from quotaform.admin import QuotaAdmin
    from quotaform.core.resolve.entry import Effective, Resolved
    from quotaform.errors import QuotaformError
    from quotaform.model.alteration import Alteration, AlterResult, AlterRow, Outcome
    from quotaform.model.entity import Entity
    from quotaform.model.filter import ANY, EntityFilter, FilterComponent, Rule

__version__ = "0.1.0"

__all__ = [
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
]

_HOMES = {
    "quotaform.admin": ("QuotaAdmin",),
    "quotaform.core.resolve.entry": ("Effective", "Resolved"),
    "quotaform.errors": ("QuotaformError",),
    "quotaform.model.alteration": ("AlterResult", "AlterRow", "Alteration", "Outcome"),
    "quotaform.model.entity": ("Entity",),
    "quotaform.model.filter": ("ANY", "EntityFilter", "FilterComponent", "Rule"),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> "Any":
    """Import a public name when it is first used, so that `quotaform --version` imports none of them."""
    from importlib import import_module

    home = _HOME_OF.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(home), name)
