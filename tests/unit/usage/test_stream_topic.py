"""What a stream asks the cluster of its topic, while brokers come and go."""

from __future__ import annotations

from dataclasses import replace
from typing import cast

import pytest

from quotaform.cluster.client.config import ClientConfig
from quotaform.model.errors import AuthorizationError, ClusterError, StreamError
from quotaform.usage.metric_name import Origin
from quotaform.usage.stream.run import StreamRequest, _require_topic
from quotaform.usage.stream.topic import Topic, TopicGateway

TOPIC = Topic(name="usage", topic_id="t1", partitions=1, cluster_id="c1")
REQUEST = StreamRequest(
    topic=TOPIC,
    servers=(),
    client=ClientConfig(),
    input_format="otlp",
    origin=Origin(),
    usage="usage",
    quarantine="bad",
    checkpoint="checkpoint",
)


def ask(answer: Topic | ClusterError | None) -> None:
    class Topics:
        def topic(self, _: str) -> Topic | None:
            if isinstance(answer, ClusterError):
                raise answer
            return answer

    _require_topic(cast("TopicGateway", Topics()), REQUEST)


def test_a_topic_that_is_deleted_or_made_anew_while_it_is_read_ends_the_stream() -> None:
    # Records of the new topic were left out, as many as had been read of the one before.
    ask(TOPIC)
    with pytest.raises(StreamError, match=r'the topic "usage" was deleted; records of it'):
        ask(None)
    with pytest.raises(StreamError, match=r'the topic "usage" was deleted and recreated; records of it'):
        ask(replace(TOPIC, topic_id="t2"))


def test_a_broker_that_is_away_for_a_moment_ends_nothing() -> None:
    # A batch that ended while a broker started again ended the stream.
    ask(ClusterError("refused"))
    with pytest.raises(AuthorizationError):
        ask(AuthorizationError("no", remedy="grant it", code=29))


@pytest.mark.parametrize(
    "changes",
    [
        {"topic": replace(TOPIC, name="other")},
        {"topic": replace(TOPIC, topic_id="t2")},
        {"topic": replace(TOPIC, cluster_id="c2")},
        {"input_format": "jmxtool"},
        {"usage": "other"},
        {"quarantine": "other"},
    ],
)
def test_another_stream_has_its_own_progress(changes: dict[str, object]) -> None:
    """Of another topic, table or format, and of a topic that was recreated."""
    assert REQUEST.progress == replace(REQUEST).progress
    assert replace(REQUEST, **changes).progress != REQUEST.progress  # type: ignore[arg-type]
