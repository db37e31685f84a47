"""Paths that options name, as Spark is told of them: one spelling for all that is read and written."""

from __future__ import annotations

from pathlib import Path
from re import compile as regex
from typing import Final

_SCHEME: Final = regex(r"[A-Za-z][A-Za-z0-9+.-]+:/").match

_GLOB_SIGN: Final = regex(r"[][{}*?\\\\]")
_ESCAPED: Final = r"\\\g<0>"


def is_url(path: str) -> bool:
    """Whether a path says which file system it is on, so that this process need not see what is there.

    >>> is_url("s3a://lake/principals"), is_url("dbfs:/principals"), is_url("/data/principals"), is_url("2026:11/a")
    (True, True, False, False)
    """
    return _SCHEME(path) is not None


def located(path: str) -> str:
    """Return a path as Spark understands it wherever its Java process runs, and whatever `fs.defaultFS` is.

    A path without a scheme is one of the file system that this process sees, from the current folder on: that is where
    the checks look whether something is there.

    >>> located("s3a://lake/principals"), located("/data/principals.csv")
    ('s3a://lake/principals', 'file:///data/principals.csv')
    """
    return path if is_url(path) else f"file://{Path(path).absolute()}"


def located_exactly(path: str) -> str:
    """Return a path to read as Spark understands it, which takes the signs of a glob for those alone.

    >>> located_exactly("/data/usage[1]")
    'file:///data/usage\\\\[1\\\\]'
    """
    return located(_GLOB_SIGN.sub(_ESCAPED, path))
