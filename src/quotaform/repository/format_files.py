"""Bringing files into one style."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from quotaform.desired.format import FormattedFile, format_source
from quotaform.desired.tree import Root, SourceFile, is_read, shown_path
from quotaform.model import rule
from quotaform.model.errors import FileReadError, UsageError
from quotaform.model.finding import Location
from quotaform.model.text import inert
from quotaform.repository.revision import CONFIG_NAME, QUOTAS_NAME, WorkTree, find_above
from quotaform.system.files import QUOTAS_LIMIT, is_folder, read_bytes

_HERE: Final = Path()


def format_files(paths: Sequence[Path]) -> Iterator[tuple[FormattedFile, Path]]:
    """Read files, and yield each once, in the style or with why it stays as it is.

    `paths`: YAML files and folders, named by the operator; the current folder without any. A folder with a folder
    `quotas.d` stands for that and the quotaform.yaml next to it, another one for the YAML files in it. Raises
    `FileReadError` if one that is named cannot be read, and `UsageError` if it is not a YAML file.
    """
    found: dict[Path, SourceFile | str] = {}
    for path in paths or (_HERE,):
        if is_folder(path):
            found |= {file: source for file, source in _read_folder(path) if file not in found}
        elif not is_read(path.name.lstrip(".")) and os.path.lexists(path):
            raise UsageError(f"{inert(str(path))} is not a YAML file; give .yaml and .yml files, or a directory")
        else:
            found.setdefault(path, SourceFile(shown_path(path), read_bytes(path, QUOTAS_LIMIT)))
    for path, source in found.items():
        if isinstance(source, SourceFile):
            yield format_source(source), path
        else:
            problem = rule.UNREADABLE.finding(f"cannot be read: {source}", location=Location(shown_path(path)))
            yield FormattedFile(name=shown_path(path), before="", after="", problems=(problem,)), path


def _read_folder(folder: Path) -> Iterator[tuple[Path, SourceFile | str]]:
    """Yield the files of a folder, or why one cannot be read."""
    quotas = folder / QUOTAS_NAME
    has_quotas = is_folder(quotas)
    if not has_quotas and folder == _HERE:
        looked_at, above = find_above(quotas)
        remedy = f"run this in {above}" if above else "give the files, or the directory that holds them"
        raise FileReadError(QUOTAS_NAME, f"there is no {looked_at}; {remedy}")
    if has_quotas:
        config = folder / CONFIG_NAME
        try:
            if (source := WorkTree().read_config(config)) is not None:
                yield config, source
        except FileReadError as error:
            yield config, error.reason
    top = quotas if has_quotas else folder
    tree = WorkTree(named=frozenset((folder,))).read_tree(top)
    if tree.root is not Root.DIRECTORY:
        raise FileReadError(str(top), "No such directory", is_missing=True)
    yield from ((top / name, SourceFile(shown_path(top / name), content)) for name, content in tree.files.items())
    yield from ((top / name, reason) for name, reason in tree.unreadable.items())
