"""The texts of files, and where they come from when they come from a quotas directory."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from quotaform.core.check import rule
from quotaform.desired.report import by_location
from quotaform.desired.schema.explain import did_you_mean
from quotaform.errors import InvalidFilesError
from quotaform.model.entity import spell_name
from quotaform.model.finding import Finding
from quotaform.model.location import Location
from quotaform.model.rule import Rule
from quotaform.model.text import quote

_YAML: Final = frozenset({".yaml", ".yml"})
_UTF16_MARKS: Final = frozenset({b"\xff\xfe", b"\xfe\xff"})


@dataclass(frozen=True, slots=True)
class Source:
    """The text of one file.

    Attributes:
        name: The file in messages.
        text: Its content; bytes are UTF-8.
        layer: The cluster that it is for; `None` for all.
    """

    name: str
    text: bytes | str
    layer: str | None = None


def read_sources(directory: Path, cluster: str | None = None, clusters: Collection[str] = ()) -> list[Source]:
    """Read the YAML files of a quotas directory and those of one cluster's folder in it.

    Args:
        directory: The directory, usually `quotas.d`.
        cluster: The cluster whose own files count, too.
        clusters: The names of all clusters: what folders may be called.

    Raises:
        InvalidFilesError: There is no file, a file cannot be read, or there is something that would be ignored.
    """
    problems: list[Finding] = []
    if not directory.is_dir():
        text = f"the quotas directory does not exist; make it, with a file such as {directory / 'defaults.yaml'}"
        if directory.exists():
            text = f"this is a file; give the quotas directory, the folder that holds it: {directory.parent}"
        raise InvalidFilesError([_problem(rule.EMPTY_DIRECTORY, text, directory)])
    known = sorted({*clusters, *([cluster] if cluster else [])})
    sources: list[Source] = []
    others = 0
    for path in _entries(directory, problems):
        if not path.is_dir():
            sources += _read(path, None, problems)
            continue
        if path.name not in known:
            problems.append(_problem(rule.UNKNOWN_CLUSTER, _folder_text(path.name, known), path))
            continue
        for inner in _entries(path, problems):
            if inner.is_dir():
                text = "a folder inside of a cluster's folder is not read; move its files up"
                problems.append(_problem(rule.NESTED_DIRECTORY, text, inner))
            elif path.name == cluster:
                sources += _read(inner, cluster, problems)
            else:
                others += inner.suffix.lower() in _YAML
    if not sources and not others and not problems:
        text = f"no YAML file in the quotas directory; write one, such as {directory / 'defaults.yaml'}: quotas: []"
        problems.append(_problem(rule.EMPTY_DIRECTORY, text, directory))
    if problems:
        raise InvalidFilesError(by_location(problems))
    return sources


def decode(source: Source) -> str | Finding:
    """Return the text of a source, or why it is none."""
    try:
        if isinstance(source.text, bytes):
            return source.text.decode("utf-8-sig")
        source.text.encode()
        return source.text.removeprefix("\ufeff")
    except UnicodeEncodeError as error:
        text = f"character {error.start + 1} is half of a surrogate pair, which no file can hold"
        line = error.object.count("\n", 0, error.start) + 1
    except UnicodeDecodeError as error:
        text = f"byte {error.start + 1} is not UTF-8; save the file as UTF-8"
        line = error.object.count(b"\n", 0, error.start) + 1
        if error.object[:2] in _UTF16_MARKS:
            text, line = "this is UTF-16; save the file as UTF-8", 0
    return rule.NOT_UTF8.finding(text, location=Location(source.name, line))


def _entries(directory: Path, problems: list[Finding]) -> list[Path]:
    try:
        return sorted(path for path in directory.iterdir() if not path.name.startswith("."))
    except OSError as error:
        problems.append(_problem(rule.UNREADABLE, f"cannot be read: {error.strerror}", directory))
        return []


def _read(path: Path, layer: str | None, problems: list[Finding]) -> Iterator[Source]:
    if path.suffix.lower() == ".json":
        problems.append(
            _problem(rule.UNREAD_FILE, "only .yaml and .yml files are read; JSON is YAML, so rename it", path)
        )
    if path.suffix.lower() not in _YAML:
        return
    try:
        yield Source(shown_path(path), path.read_bytes(), layer)
    except OSError as error:
        problems.append(_problem(rule.UNREADABLE, f"cannot be read: {error.strerror}", path))


def _folder_text(name: str, known: Collection[str]) -> str:
    clusters = f"the clusters are {', '.join(known)}" if known else "quotaform.yaml names no cluster"
    guess = did_you_mean(name, known)
    return f"the folder {quote(name)} is not the name of a cluster and would be ignored{guess or ';'} {clusters}"


def _problem(rule: Rule, message: str, path: Path) -> Finding:
    return rule.finding(message, location=Location(shown_path(path)))


def shown_path(path: Path) -> str:
    """Return a path as messages print it: as it is, unless it could forge a line of output."""
    text = path.as_posix()
    return text if text.isprintable() else spell_name(text)
