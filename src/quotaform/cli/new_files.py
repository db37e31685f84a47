"""Writing files that do not exist yet: all of them, or none."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from quotaform.errors import QuotaformError


def write_new_files(files: Mapping[str, str]) -> None:
    """Write files, and make the folders that they are in; what was written goes again when one cannot be.

    Raises `QuotaformError` if one cannot be written, or there is one of this name.
    """
    from quotaform.atomic_file import write_new_text

    written: list[Path] = []
    made: list[Path] = []
    try:
        for path, text in ((Path(name), text) for name, text in files.items()):
            for folder in reversed([folder for folder in path.parents if not folder.exists()]):
                _make(folder)
                made.append(folder)
            try:
                write_new_text(path, text)
            except OSError as error:
                raise QuotaformError(f"{path} cannot be written: {error.strerror or error}") from error
            written.append(path)
    except BaseException:
        with suppress(OSError):
            for path in written:
                path.unlink()
            for folder in reversed(made):
                folder.rmdir()
        raise


def _make(folder: Path) -> None:
    """Make a folder."""
    try:
        folder.mkdir(exist_ok=True)
    except OSError as error:
        raise QuotaformError(f"{folder} cannot be created: {error.strerror or error}") from error
