"""Documents as text."""

from __future__ import annotations

from typing import Final

from quotaform.core.usage.sample.sample import Rejected, reject

LONGEST: Final = 64 * 1024 * 1024
"""The limit on bytes of one document."""

_GZIP: Final = b"\x1f\x8b"


def read_text(data: bytes | str) -> str | Rejected:
    """Return a document as text, or why it is none."""
    if len(data) > LONGEST:
        start = data[:200] if isinstance(data, str) else data[:200].decode("utf-8", "replace")
        return reject(0, f"the document has {len(data):,} bytes; the limit is {LONGEST:,}", start)
    if isinstance(data, str):
        return data.removeprefix("\ufeff")
    if data.startswith(_GZIP):
        return reject(0, "the document is compressed by gzip; its name has to end in .gz", "")
    # A byte that is not UTF-8 spoils the name in which it stands, not the document.
    return data.decode("utf-8", "surrogateescape").removeprefix("\ufeff")
