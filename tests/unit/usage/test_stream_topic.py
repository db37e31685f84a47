"""What a stream asks the cluster of its topic, while brokers come and go."""

from __future__ import annotations

from typing import cast

import pytest

from quotaform.cli.command.usage.ingest import TopicSource
from quotaform.model.errors import AuthorizationError, ClusterError
from quotaform.usage.stream import run
from quotaform.usage.stream.run import described
from quotaform.usage.stream.topic import Topic, TopicGateway

TOPIC = Topic(name="usage", topic_id="t1", partitions=1, cluster_id="c1")


class Topics:
    """Answers with errors first."""

    def __init__(self, *answers: Topic | ClusterError | None) -> None:
        self.answers = list(answers)

    def topic(self, _: str) -> Topic | None:
        """Return the next answer, or raise it."""
        answer = self.answers.pop(0)
        if isinstance(answer, ClusterError):
            raise answer
        return answer


def asked(*answers: Topic | ClusterError | None) -> Topic | None:
    return described(cast("TopicGateway", Topics(*answers)), "usage")


@pytest.fixture(autouse=True)
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run, "_AGAIN_S", 0.0)


def test_a_broker_that_is_away_for_a_moment_is_asked_again() -> None:
    # A batch that ended while a broker started again ended the stream.
    assert asked(ClusterError("refused"), ClusterError("refused"), TOPIC) == TOPIC
    assert asked(None) is None


def test_a_broker_that_stays_away_ends_the_stream(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run, "_LONGEST_AWAY_S", 0.0)
    with pytest.raises(ClusterError, match="refused"):
        asked(ClusterError("refused"), TOPIC)


def test_a_client_that_may_not_ask_is_not_kept_waiting() -> None:
    with pytest.raises(AuthorizationError):
        asked(AuthorizationError("no", remedy="grant it", code=29), TOPIC)


def test_options_that_fit_are_taken() -> None:
    TopicSource().require_valid(["a.json"])
    source = TopicSource(topic="usage", bootstrap_server="b1:9092", checkpoint="c", duration="5m")
    source.require_valid([])
    assert source.seconds() == (600, 10, 300)
