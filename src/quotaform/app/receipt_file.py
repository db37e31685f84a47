"""Where the receipts of applies are kept: each in a file of its own, which no other one overwrites."""

from __future__ import annotations

from itertools import chain, count
from pathlib import Path
from typing import Final

from quotaform.app.clock import SYSTEM_CLOCK, Clock, timestamp
from quotaform.app.repository import Repository
from quotaform.atomic_file import write_new_text, write_text_atomically
from quotaform.core.plan import Plan
from quotaform.core.receipt import Receipt
from quotaform.document.receipt import receipt_lines

_LONGEST_NAME: Final = 100
"""Characters of a cluster's name in a file name, which file systems limit to 255 bytes."""


def receipt_path(plan: Plan, repository: Repository, clock: Clock = SYSTEM_CLOCK) -> Path:
    """Return where the receipt of an apply goes unless somebody says otherwise."""
    moment = timestamp(clock).replace(":", "").replace("-", "")
    name = plan.header.cluster_name[:_LONGEST_NAME]
    cluster = "".join(letter if letter.isascii() and (letter.isalnum() or letter in "-_.") else "_" for letter in name)
    file = f"{moment}-{cluster}-{plan.plan_id.removeprefix('sha256:')[:8]}.json"
    return repository.config_path.parent / ".quotaform" / "receipts" / file


def write_receipt(path: Path, receipt: Receipt) -> Path:
    """Write a receipt, and never over another file: a name that is taken gets a number.

    Args:
        path: Where it is to be; what is no regular file (a pipe, `/dev/stdout`) is written to as it is.
        receipt: The receipt.

    Returns:
        Where it is.

    Raises:
        OSError: It cannot be written.
    """
    if path.exists() and not path.is_file():
        write_text_atomically(path, receipt_lines(receipt))
        return path
    for suffix in chain([""], (f"-{number}" for number in count(2))):
        candidate = path.with_name(f"{path.stem}{suffix}{path.suffix}") if suffix else path
        try:
            write_new_text(candidate, receipt_lines(receipt))
        except FileExistsError:
            continue
        return candidate
    raise AssertionError("too many files with this name exist")
