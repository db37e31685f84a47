"""What is said of an error that ended a stream, of which Spark gives stack traces."""

from __future__ import annotations

from re import DOTALL, MULTILINE
from re import compile as regex
from typing import Final

from quotaform.errors import QuotaformError, StreamError
from quotaform.model.text import inert
from quotaform.spark.session.cause import cause, engine_error

AGAIN: Final = "run the command again, which resumes where it stopped"
_CAUSES: Final = regex(r"^(?:Caused by)?: (?:[a-z]\w*\.)*([A-Z][\w$]*: .*)$", MULTILINE).findall
_LOST: Final = regex(r"Some data may have been lost.*?Reason: ([^\n]*)|\[KAFKA_DATA_LOSS[^]]*\] ([^\n]*)", DOTALL)
_VERSION: Final = regex(r"supported log version is (v\d+), but encountered (v\d+)")
_FILE: Final = regex(r"log file (?:file:)?(/\S+?)\.?(?:\s|$)")
_DAMAGED: Final = regex(r"MALFORMED_LOG_FILE|Incomplete log file|ChecksumException|Json\w*Exception: ")
_AROUND: Final = regex(r"^\[STREAM_FAILED\].*?terminated with exception: |( SQLSTATE: \w+)+$", MULTILINE)


def stream_failure(checkpoint: str, topic: str, text: str) -> QuotaformError:
    """Return the error for one that ended a query.

    Args:
        checkpoint: The folder, as it was given.
        topic: The name of the topic.
        text: What Spark says, with the stack traces of Java and Python.
    """
    lost = _LOST.search(text)
    if lost is not None:
        return StreamError(
            checkpoint,
            f"records of the topic {topic} are gone that were not read yet, because they were older than the topic "
            "keeps them, were deleted, or the topic was recreated "
            f"({inert((lost[1] or lost[2]).removesuffix('.'))})",
            "give another --checkpoint, which begins with the oldest record that is there; records that are in the "
            "table already are then read again, and count once",
        )
    file = _FILE.search(text)
    where = f"{inert(file[1])}, which Spark has written," if file else "what Spark has written into it"
    if version := _VERSION.search(text):
        return StreamError(
            checkpoint,
            f"{where} is of the version {version[2]}, and this Spark knows {version[1]} at most",
            "use the version of Spark that made it, or give another --checkpoint",
        )
    if _DAMAGED.search(text):
        return StreamError(checkpoint, f"{where} is damaged", "restore it, or give another --checkpoint")
    causes = _CAUSES(text)
    return engine_error(text, why=causes[-1] if causes else _AROUND.sub("", cause(text)), again=AGAIN)
