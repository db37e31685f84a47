"""The folder in which a stream keeps its progress.

| in it | content |
| --- | --- |
| quotaform-stream.json | which stream this is: topic, table, format; made once |
| spark | Spark's checkpoint: the offsets of each batch, and which batches are done |
| seen/N | the ids of the records that batches up to N have read, those that may still come again |
| staging-RUN | what a run makes of these |

The folder itself is locked by the process that streams. Its Java process may outlive it for a moment; what a run has
not finished is in folders that only this run names, so that no other one takes it for its own.

A batch that is not done when its process is killed is made again: from the same offsets, beside the same `seen/N-1`,
and its files take the places of those that are there.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from secrets import token_hex
from typing import TYPE_CHECKING, Any, Final

from quotaform.model.errors import FileReadError, StreamError
from quotaform.model.records.document import (
    USAGE_CHECKPOINT,
    EnvelopeError,
    VersionError,
    envelope,
    indented,
    require_kind,
)
from quotaform.model.text import MIB, inert, quote
from quotaform.system.files import TEMPORARY, read_text, sync_file, sync_folder, sync_tree, take_lock, write_new_text

if TYPE_CHECKING:
    from quotaform.usage.stream.topic import Topic

FILE: Final = "quotaform-stream.json"
_OFFSETS: Final = "offsets"
_COMMITS: Final = "commits"
_FIRST: Final = ("metadata", "sources/0/0")
_SEEN: Final = "seen"
_STAGING: Final = "staging"
_LIMIT: Final = MIB
_LONGEST_SHOWN: Final = 1000
_OTHER: Final = "give another --checkpoint, or the {option} that it is for"


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamIdentity:
    """What a checkpoint is for."""

    topic: str
    topic_id: str | None  # Its id, which a topic that is recreated does not have; `None` before Kafka 2.8
    cluster_id: str | None  # The id of its cluster, if it has one
    input_format: str  # How its records are written
    usage: str  # The folder of the table, absolute
    quarantine: str  # The folder of what could not be read, absolute


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A checkpoint that is open."""

    path: Path  # The folder, absolute
    stream_id: str  # What the names of the files of this stream begin with in the table
    topic: str
    topic_id: str | None
    shown: str  # The folder as it was given
    run_id: str = field(default_factory=lambda: token_hex(4), compare=False)
    """A name of this run, which no other one has."""

    @property
    def spark(self) -> Path:
        """Where Spark keeps its own checkpoint."""
        return self.path / "spark"

    @property
    def is_new(self) -> bool:
        """Whether no batch was begun."""
        return not any(_names(self.spark / _OFFSETS))

    def has_ended(self, batch: int) -> bool:
        """Whether Spark has noted the end of a batch, so that it is not made again."""
        return batch < 0 or (self.spark / _COMMITS / str(batch)).exists()

    def require_topic(self, found: Topic | None) -> None:
        """Make sure that the topic was neither deleted nor recreated while it was read.

        `found`: what the cluster says of it now.
        """
        if found is None:
            raise StreamError(
                self.shown,
                f"the topic {quote(self.topic)} was deleted; records of it that were not read are lost",
                "create the topic, and give another --checkpoint; what is in the table stays",
            )
        _require_topic(self.shown, self.topic_id, self.topic, found.topic_id)

    def sync(self, batch: int) -> None:
        """Make what Spark has noted of a batch last through a power cut, before the table has anything of the batch."""
        if batch == 0:
            # What it writes when a stream begins, and never again.
            sync_tree(self.spark)
            return
        for folder, number in ((self.spark / _OFFSETS, batch), (self.spark / _COMMITS, batch - 1)):
            if (folder / str(number)).exists():
                sync_file(folder / str(number))
                sync_folder(folder)

    def seen(self, batch: int) -> Path:
        """Return the folder of what batches up to one have read."""
        return self.path / _SEEN / str(batch)

    def staging(self) -> Path:
        """Return the folder in which the next `seen` is made."""
        return self.path / f"{_STAGING}-{self.run_id}"

    def keep_seen(self, made: Path, batch: int) -> None:
        """Put what batches up to one have read in its place, and forget what is before the last one.

        `made`: the folder with it, on the same file system. `batch`: the batch that has ended.
        """
        sync_tree(made)
        place = self.seen(batch)
        shutil.rmtree(place, ignore_errors=True)
        place.parent.mkdir(exist_ok=True)
        made.replace(place)
        sync_folder(place.parent)
        for name in _names(place.parent):
            if name.isdigit() and not batch - 1 <= int(name) <= batch:
                shutil.rmtree(place.parent / name, ignore_errors=True)


@contextmanager
def open_checkpoint(path: str, identity: StreamIdentity) -> Iterator[Checkpoint]:
    """Yield a checkpoint that no other process uses; it is made if it does not exist.

    Raises `StreamError` if it is in use, for another stream, of another version, or no checkpoint, and `OSError` if it
    cannot be read or made.
    """
    folder = Path(path).absolute()
    folder.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        if not take_lock(descriptor):
            raise StreamError(
                path, "another process streams with it", "wait for its end, or give each topic a checkpoint of its own"
            )
        if not (folder / FILE).exists():
            _begin(path, folder, identity)
        stream_id = _require_same(path, folder, identity)
        for name in _names(folder):
            if name.startswith(_STAGING):
                shutil.rmtree(folder / name, ignore_errors=True)
        checkpoint = Checkpoint(folder, stream_id, identity.topic, identity.topic_id, path)
        _remove_lost_notes(checkpoint)
        if checkpoint.is_new and any(name.startswith(stream_id) for name in _names(Path(identity.usage))):
            raise StreamError(
                path,
                f"{inert(str(checkpoint.spark))} is missing, but the table has rows of this stream",
                "restore it, or give another --checkpoint, which reads the topic again",
            )
        yield checkpoint
    finally:
        os.close(descriptor)


def _begin(path: str, folder: Path, identity: StreamIdentity) -> None:
    # A run that was killed here may have left a part of the file.
    for part in folder.glob(TEMPORARY):
        part.unlink()
    if any(_names(folder)):
        raise StreamError(path, "it is a folder with other files", "give a folder that is empty or does not exist")
    fields = {"stream_id": f"stream-{token_hex(6)}", **asdict(identity)}
    write_new_text(folder / FILE, indented(envelope(USAGE_CHECKPOINT, fields)))


def _remove_lost_notes(checkpoint: Checkpoint) -> None:
    """Remove notes of Spark that a power cut has left empty, of the last batch at most: it is then made (again).

    Those that Spark writes when a stream begins last from before the first batch is in the table. If one of them is
    empty, nothing was read, and the stream begins again.
    """
    first = (checkpoint.spark / name for name in _FIRST)
    if not any(_names(checkpoint.path / _SEEN)) and any(note.is_file() and not note.stat().st_size for note in first):
        shutil.rmtree(checkpoint.spark)
    for folder in (checkpoint.spark / _OFFSETS, checkpoint.spark / _COMMITS):
        last = max((int(name) for name in _names(folder) if name.isdigit()), default=-1)
        note = folder / str(last)
        if last >= 0 and note.stat().st_size == 0:
            note.unlink()
            (folder / f".{last}.crc").unlink(missing_ok=True)


def _require_same(path: str, folder: Path, identity: StreamIdentity) -> str:
    """Return the id of the stream of a checkpoint that is for the same one."""
    found = _read(path, folder / FILE)
    wanted = asdict(identity)
    for name, option in (
        ("topic", "--topic"),
        ("cluster_id", "--bootstrap-server"),
        ("input_format", "--input-format"),
        ("usage", "--usage"),
        ("quarantine", "--quarantine"),
    ):
        if found.get(name) != wanted[name]:
            raise StreamError(
                path,
                f"it is for {_WORDS[name]} {_shown(found.get(name))}, not {_shown(wanted[name])}",
                _OTHER.format(option=option),
            )
    _require_topic(path, found.get("topic_id"), identity.topic, identity.topic_id)
    return str(found["stream_id"])


def _require_topic(path: str, before: object, name: str, topic_id: str | None) -> None:
    """Make sure that a topic was not recreated."""
    if before != topic_id:
        raise StreamError(
            path,
            f"the topic {quote(name)} was deleted and recreated since the stream began (topic id "
            f"{_shown(topic_id)}, before {_shown(before)}); records of the earlier topic that were not read are lost",
            "give another --checkpoint; what is in the table stays",
        )


_WORDS: Final = {
    "topic": "the topic",
    "cluster_id": "a topic of the cluster",
    "input_format": "the format",
    "usage": "the table",
    "quarantine": "the quarantine",
}


def _read(path: str, file: Path) -> dict[str, Any]:
    remedy = f"restore {FILE}, or give another --checkpoint"
    try:
        document = require_kind(json.loads(read_text(file, _LIMIT)), USAGE_CHECKPOINT)
    except VersionError as error:
        raise StreamError(
            path,
            f"{FILE} is of the format {_shown(error.version)}, and this quotaform knows {USAGE_CHECKPOINT.version}",
            "use the version of quotaform that made it, or give another --checkpoint",
        ) from None
    except FileReadError as error:
        raise StreamError(path, f"{FILE} cannot be read: {error.reason}", remedy) from None
    except (EnvelopeError, ValueError, RecursionError):
        raise StreamError(path, f"{FILE} is damaged", remedy) from None
    if not isinstance(document.get("stream_id"), str):
        raise StreamError(path, f"{FILE} is damaged: it has no stream_id", remedy)
    return document


def _shown(value: object) -> str:
    return "none" if value is None else quote(str(value), _LONGEST_SHOWN)


def _names(folder: Path) -> list[str]:
    try:
        return [path.name for path in folder.iterdir()]
    except FileNotFoundError:
        return []
