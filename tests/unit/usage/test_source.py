"""Where measurements are read, as options and quotaform.yaml write it, and when."""

from __future__ import annotations

import pytest

from quotaform.model.settings import parse_source, require_distinct


def test_two_sources_of_one_broker_would_count_twice() -> None:
    with pytest.raises(ValueError, match='two sources of broker "1"'):
        require_distinct([parse_source("1=http://a/x"), parse_source("2=http://a/x"), parse_source("1=jmx:a:1")])
