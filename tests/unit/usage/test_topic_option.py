"""The options of reading a topic."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from quotaform.cli.option.topic import TopicSource
from quotaform.errors import UsageError

SERVER: dict[str, Any] = {"topic": "usage", "bootstrap_server": "b1:9092", "checkpoint": "c"}


@pytest.mark.parametrize(
    ("options", "sources", "problem"),
    [
        ({"checkpoint": "c"}, ["a.json"], "--checkpoint is for a topic; give --topic"),
        ({"until_empty": True}, ["a.json"], "--until-empty is for a topic"),
        (SERVER, ["a.json"], "leave SOURCE or --topic out"),
        ({"topic": "usage", "checkpoint": "c"}, [], "--topic requires --bootstrap-server HOST:PORT or --topic-cluster"),
        (SERVER | {"topic_cluster": "prod"}, [], "give one of them"),
        ({"topic": "usage", "bootstrap_server": "b1:9092"}, [], "--topic requires --checkpoint DIR"),
        (
            {"topic": "usage", "topic_cluster": "prod", "command_config": Path("p"), "checkpoint": "c"},
            [],
            "--command-config requires --bootstrap-server",
        ),
        (SERVER | {"until_empty": True, "duration": "5m"}, [], "--until-empty and --for exclude each other"),
        (SERVER | {"watermark": "10"}, [], '--watermark: "10" is not a duration; write for example 30m'),
        (SERVER | {"every": "0s"}, [], "--every: "),
        (SERVER | {"duration": "-1s"}, [], "--for: "),
        (SERVER | {"batch_records": 0}, [], "--batch-records 0: give a number from 1 to 100,000"),
        (SERVER | {"starting": "now"}, [], "earliest"),
    ],
)
def test_options_that_do_not_fit_are_refused(options: dict[str, Any], sources: list[str], problem: str) -> None:
    with pytest.raises(UsageError) as refused:
        TopicSource(**options).require_valid(sources)
    assert problem in str(refused.value)


def test_options_that_fit_are_taken() -> None:
    TopicSource().require_valid(["a.json"])
    source = TopicSource(**SERVER, duration="5m")
    source.require_valid([])
    assert (source.wait_s(), source.every_s(), source.for_s()) == (600, 10, 300)
