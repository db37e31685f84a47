"""Reading the quotas of a cluster as somebody asks for them."""

from __future__ import annotations

from collections.abc import Sequence

from quotaform.admin import QuotaAdmin
from quotaform.errors import UnknownKeyError
from quotaform.model.filter import EVERYTHING, EntityFilter, select_keys
from quotaform.model.quota_key import QUOTA_KEYS
from quotaform.model.quotas import Quotas
from quotaform.model.text import did_you_mean, quote


def describe_quotas(admin: QuotaAdmin, entity_filter: EntityFilter, keys: Sequence[str] = ()) -> Quotas:
    """Return the quotas of the entities that match a filter.

    Args:
        keys: The quota keys, and only the entities that have any of them; empty for all.

    Raises:
        ClusterError: The cluster could not be read.
        UnknownKeyError: A key is known neither to this version nor to the cluster: most likely a typo.
    """
    found = admin.describe(entity_filter)
    if unknown := [key for key in keys if key not in QUOTA_KEYS]:
        _require_held(unknown, found if entity_filter == EVERYTHING else admin.describe())
    return select_keys(found, keys) if keys else found


def _require_held(keys: Sequence[str], quotas: Quotas) -> None:
    for key in keys:
        if not any(key in values for values in quotas.values()):
            hint = did_you_mean(key, QUOTA_KEYS) or "."
            raise UnknownKeyError(key, quote(key), f"{hint} The keys are {', '.join(QUOTA_KEYS)}")
