"""Receipts as files: each in one of its own, which no other one overwrites."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

from quotaform.app.apply.receipt_name import numbered_paths
from quotaform.atomic_file import write_new_text, write_text_atomically
from quotaform.core.receipt import Receipt, SavedReceipt
from quotaform.document.receipt import load_receipt, receipt_lines
from quotaform.files import RECEIPT_LIMIT, read_bytes


def load_receipt_file(path: Path, *, within: Path | None = None) -> SavedReceipt:
    """Read a receipt.

    Args:
        path: Where it is.
        within: The folder that it must not lead out of; `None` for one that the operator names.

    Raises:
        FileReadError: It cannot be read.
        ReceiptFileError: It is cut off, or of an unknown major version.
        ReceiptFileChangedError: It was changed after it was written.
    """
    return load_receipt(read_bytes(path, RECEIPT_LIMIT, within=within), str(path))


def write_receipt(path: Path, receipt: Receipt) -> Path:
    """Write a receipt; see `write_receipt_lines`."""
    return write_receipt_lines(path, lambda: receipt_lines(receipt))


def write_receipt_lines(path: Path, lines: Callable[[], Iterable[str]]) -> Path:
    """Write a receipt, and never over another file: see `quotaform.app.apply.receipt_name.numbered_paths`.

    Args:
        path: Where it is to be; what is no regular file (a pipe, `/dev/stdout`) is written to as it is.
        lines: Returns the receipt in pieces.

    Returns:
        Where it is.

    Raises:
        OSError: It cannot be written.
    """
    if path.exists() and not path.is_file():
        write_text_atomically(path, lines())
        return path
    for candidate in numbered_paths(path):
        try:
            write_new_text(candidate, lines())
        except FileExistsError:
            continue
        return candidate
    raise AssertionError("too many files with this name exist")
