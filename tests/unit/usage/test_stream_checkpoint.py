"""The folder in which a stream keeps its progress."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from quotaform.model.errors import StreamError
from quotaform.usage.stream.checkpoint import FILE, StreamIdentity, open_checkpoint
from quotaform.usage.stream.topic import Topic

USAGE = StreamIdentity(
    topic="usage", topic_id="t1", cluster_id="c1", input_format="otlp", usage="/usage", quarantine="/bad"
)


def test_a_checkpoint_is_made_once_and_its_stream_keeps_its_id(tmp_path: Path) -> None:
    path = str(tmp_path / "a" / "b")
    with open_checkpoint(path, USAGE) as first:
        assert first.is_new
    with open_checkpoint(path, USAGE) as second:
        assert second == first
    with open_checkpoint(str(tmp_path / "c"), USAGE) as other:
        assert other.stream_id != first.stream_id


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"topic": "other"}, 'it is for the topic "usage", not "other"; give another --checkpoint, or the --topic'),
        ({"cluster_id": "c2"}, 'for a topic of the cluster "c1", not "c2"'),
        ({"input_format": "jmxtool"}, 'for the format "otlp", not "jmxtool"'),
        ({"usage": "/b"}, 'for the table "/usage", not "/b"'),
        ({"quarantine": "/b"}, 'for the quarantine "/bad", not "/b"'),
        (
            {"topic_id": "t2"},
            r'the topic "usage" was deleted and recreated since the stream began \(topic id "t2", bef',
        ),
    ],
)
def test_a_checkpoint_of_another_stream_is_refused(tmp_path: Path, changes: dict[str, str], problem: str) -> None:
    with open_checkpoint(str(tmp_path), USAGE):
        pass
    with pytest.raises(StreamError, match=problem), open_checkpoint(str(tmp_path), replace(USAGE, **changes)):
        pass


def test_a_topic_that_is_deleted_or_made_anew_while_it_is_read_ends_the_stream(tmp_path: Path) -> None:
    # Records of the new topic were left out, as many as had been read of the one before.
    topic = Topic(name="usage", topic_id="t1", partitions=1, cluster_id="c1")
    with open_checkpoint(str(tmp_path), USAGE) as checkpoint:
        checkpoint.require_topic(topic)
        with pytest.raises(StreamError, match=r'the topic "usage" was deleted; records of it'):
            checkpoint.require_topic(None)
        with pytest.raises(StreamError, match=r'was deleted and recreated since the stream began \(topic id "t2", bef'):
            checkpoint.require_topic(replace(topic, topic_id="t2"))


def test_a_checkpoint_is_of_one_process_at_a_time(tmp_path: Path) -> None:
    again = open_checkpoint(str(tmp_path), USAGE)
    with open_checkpoint(str(tmp_path), USAGE), pytest.raises(StreamError, match="another process"), again:
        pass
    with open_checkpoint(str(tmp_path), USAGE):
        pass


@pytest.mark.parametrize("text", ["", "[]", "{", '{"kind":"quotaform.plan"}', "\xff", "[" * 100_000])
def test_a_damaged_file_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / FILE).write_text(text, encoding="latin-1")
    with pytest.raises(StreamError, match=f"{FILE} (is damaged|cannot be read)"), open_checkpoint(str(tmp_path), USAGE):
        pass


def test_a_folder_with_other_files_is_refused_and_left_alone(tmp_path: Path) -> None:
    (tmp_path / "report.txt").touch()
    with pytest.raises(StreamError, match="other files"), open_checkpoint(str(tmp_path), USAGE):
        pass
    assert [path.name for path in tmp_path.iterdir()] == ["report.txt"]


def test_what_was_read_is_kept_for_the_last_batch_and_the_one_before(tmp_path: Path) -> None:
    with open_checkpoint(str(tmp_path), USAGE) as checkpoint:
        for batch in (0, 1, 2, 2):
            made = checkpoint.staging()
            made.mkdir()
            (made / "part").write_text(str(batch))
            checkpoint.keep_seen(made, batch)
        assert sorted(path.name for path in checkpoint.seen(2).parent.iterdir()) == ["1", "2"]
        assert (checkpoint.seen(2) / "part").read_text() == "2"


def test_a_run_that_was_killed_before_the_checkpoint_was_made_is_no_obstacle(tmp_path: Path) -> None:
    # It was taken for a folder with other files.
    (tmp_path / ".quotaform-0123456789abcdef.tmp").write_text('{"kind')
    with open_checkpoint(str(tmp_path), USAGE) as checkpoint:
        assert checkpoint.is_new
    assert [path.name for path in tmp_path.iterdir()] == [FILE]


def test_what_a_run_makes_is_in_a_folder_of_its_own_and_the_next_run_removes_it(tmp_path: Path) -> None:
    # The Java process of a run that was killed went on, and wrote into the folder of the next one.
    with open_checkpoint(str(tmp_path), USAGE) as first:
        first.staging().mkdir()
    with open_checkpoint(str(tmp_path), USAGE) as second:
        assert second.staging() != first.staging()
        assert not first.staging().exists()


@pytest.mark.parametrize("kind", ["offsets", "commits"])
def test_a_note_of_spark_that_a_power_cut_has_left_empty_is_removed(tmp_path: Path, kind: str) -> None:
    with open_checkpoint(str(tmp_path), USAGE) as checkpoint:
        folder = checkpoint.spark / kind
    folder.mkdir(parents=True)
    for name, text in (("9", "v1"), (".9.crc", "c"), ("10", ""), (".10.crc", "c")):
        (folder / name).write_text(text)
    for _ in range(2):
        with open_checkpoint(str(tmp_path), USAGE):
            assert sorted(path.name for path in folder.iterdir()) == [".9.crc", "9"]


@pytest.mark.parametrize("name", ["metadata", "sources/0/0"])
def test_a_stream_that_a_power_cut_ended_before_its_first_batch_begins_again(tmp_path: Path, name: str) -> None:
    """Spark called its own checkpoint damaged, and another one had to be given."""
    with open_checkpoint(str(tmp_path), USAGE) as checkpoint:
        spark = checkpoint.spark
    for note, content in (("metadata", "{}"), ("sources/0/0", "v1"), ("offsets/0", "v1")):
        (spark / note).parent.mkdir(parents=True, exist_ok=True)
        (spark / note).write_text("" if note == name else content)
    with open_checkpoint(str(tmp_path), USAGE) as checkpoint:
        assert checkpoint.is_new
    assert not spark.exists()


def test_a_first_note_that_is_empty_after_a_batch_is_left_as_it_is(tmp_path: Path) -> None:
    with open_checkpoint(str(tmp_path), USAGE) as checkpoint:
        checkpoint.seen(0).mkdir(parents=True)
    (checkpoint.spark / "offsets").mkdir(parents=True)
    for note, content in (("metadata", ""), ("offsets/0", "v1")):
        (checkpoint.spark / note).write_text(content)
    with open_checkpoint(str(tmp_path), USAGE):
        assert (checkpoint.spark / "offsets" / "0").read_text() == "v1"


def test_what_spark_writes_when_a_stream_begins_lasts_before_the_table_has_anything(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: set[str] = set()
    monkeypatch.setattr("quotaform.system.files.sync_file", lambda path: synced.add(str(path.relative_to(tmp_path))))
    with open_checkpoint(str(tmp_path), USAGE) as checkpoint:
        for note in ("metadata", "sources/0/0", "offsets/0"):
            (checkpoint.spark / note).parent.mkdir(parents=True, exist_ok=True)
            (checkpoint.spark / note).touch()
        synced.clear()
        checkpoint.sync(0)
    files = {"spark/metadata", "spark/sources/0/0", "spark/offsets/0"}
    assert synced == files | {".", "spark", "spark/sources", "spark/sources/0", "spark/offsets"}
