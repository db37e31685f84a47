"""Values as people write and read them."""

from __future__ import annotations

from quotaform.model.quota_key import (
    QUOTA_KEYS,
)
from quotaform.model.units import is_unlimited


def test_no_value_and_the_maximum_limit_nothing() -> None:
    for key in QUOTA_KEYS.values():
        assert is_unlimited(key, None)
        assert is_unlimited(key, key.maximum)
        assert not is_unlimited(key, 1.0)
    assert not is_unlimited(None, 1e300)
    assert is_unlimited(None, float("inf"))
