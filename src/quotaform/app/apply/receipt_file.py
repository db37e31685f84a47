"""Receipts as files: each in one of its own, which no other one overwrites.

A started receipt is written before the first change is sent, and replaced when the apply has ended.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

from quotaform.app.apply.receipt_name import numbered_paths
from quotaform.atomic_file import write_new_text, write_text_atomically
from quotaform.core.receipt import Receipt, SavedReceipt
from quotaform.document.receipt import load_receipt, receipt_lines
from quotaform.errors import QuotaformError
from quotaform.files import RECEIPT_LIMIT, read_bytes


def load_receipt_file(path: Path, *, within: Path | None = None) -> SavedReceipt:
    """Read a receipt.

    Args:
        within: The folder that it must not lead out of; `None` for one that the operator names.

    Raises:
        FileReadError: It cannot be read.
        ReceiptFileError: It is cut off, or of an unknown major version.
        ReceiptFileChangedError: It was changed after it was written.
    """
    return load_receipt(read_bytes(path, RECEIPT_LIMIT, within=within), str(path))


def start_receipt(path: Path, receipt: Receipt) -> Path | None:
    """Write the started receipt of an apply, before the first change is sent.

    Returns:
        Where it is; `None` if the path is no regular file (a pipe), which takes only the receipt of what was done.

    Raises:
        QuotaformError: It cannot be written.
    """
    if path.exists() and not path.is_file():
        return None
    try:
        return write_receipt(path, receipt)
    except OSError as error:
        raise QuotaformError(
            f"{path} cannot be written: {error.strerror or error}; nothing was written to the cluster"
        ) from error


def write_receipt(path: Path, receipt: Receipt, *, is_started: bool = False) -> Path:
    """Write a receipt; see `write_receipt_lines`."""
    return write_receipt_lines(path, lambda: receipt_lines(receipt), is_started=is_started)


def write_receipt_lines(path: Path, lines: Callable[[], Iterable[str]], *, is_started: bool = False) -> Path:
    """Write a receipt, and never over another file: see `quotaform.app.apply.receipt_name.numbered_paths`.

    Args:
        path: Where it is to be; what is no regular file (a pipe, `/dev/stdout`) is written to as it is.
        lines: Returns the receipt in pieces.
        is_started: Whether `start_receipt` has written the receipt to this path, which is replaced.

    Returns:
        Where it is.

    Raises:
        OSError: It cannot be written.
    """
    if is_started or (path.exists() and not path.is_file()):
        write_text_atomically(path, lines())
        return path
    for candidate in numbered_paths(path):
        try:
            write_new_text(candidate, lines())
        except FileExistsError:
            continue
        return candidate
    raise AssertionError("too many files with this name exist")
