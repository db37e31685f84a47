"""How quotas are sized: `recommend` of quotaform.yaml, and the options that come before it."""

from __future__ import annotations

from pathlib import Path

import pytest

from quotaform.cli.command.usage.recommend import Sizing
from quotaform.desired.config import Config
from quotaform.desired.config_reader import read_config
from quotaform.desired.tree import SourceFile
from quotaform.model.errors import UsageError
from tests.builder import PRODUCER, REQUEST

MIB = 2.0**20
ALL = """\
recommend:
  percentile: p99.9
  outlier_days: 1
  headroom: 1.25
  floor: {producer_byte_rate: 1MiB/s, request_percentage: 10}
  cap: {producer_byte_rate: 1048577}
  min_history: 7d
  min_samples: 50
  unused_after: 36h
"""


def config_of(text: str) -> tuple[Config, list[str]]:
    """A configuration, and what is wrong with it."""
    config, problems = read_config(SourceFile("quotaform.yaml", text), Path())
    return config, [str(problem) for problem in problems]


def test_options_come_before_the_section() -> None:
    config, _ = config_of(ALL)
    settings = Sizing(headroom=2.0, floor=[f"{REQUEST}=20"], cap=[f"{PRODUCER}=5MiB/s"]).settings(config, ())
    assert (settings.headroom, settings.percentile, settings.min_samples) == (2.0, 99.9, 50)
    assert (settings.floors, settings.caps) == ({PRODUCER: MIB, REQUEST: 20.0}, {PRODUCER: 5 * MIB})
    given = Sizing(percentile="p95", min_history="1d", min_samples=7, unused_after="90d").settings(config, ())
    assert (given.percentile, given.min_history_days, given.min_samples) == (95.0, 1.0, 7)
    assert given.unused_after_days == 90.0
    assert [Sizing(outlier_days=number).settings(config, ()).outlier_days for number in (None, 0, 2)] == [1, 0, 2]
    with pytest.raises(UsageError, match="the floor of producer_byte_rate is above its cap"):
        Sizing(floor=[f"{PRODUCER}=2MiB/s"]).settings(config, ())
