"""Reads plan files: line by line if they have quotaform's layout, otherwise as a whole."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from json import JSONDecodeError, loads
from typing import Any, Final, TypeVar

from quotaform.model.errors import SavedFileChangedError, SavedFileError
from quotaform.model.records.document import (
    MOST_VALUES,
    ConstantError,
    DocumentKind,
    KindError,
    LayoutError,
    RepeatedNameError,
    VersionError,
    document_digest,
    field_lines,
    has_too_many_values,
    read_lines,
    refuse_constant,
    refuse_repeated,
    require_kind,
    seal_start,
)
from quotaform.model.records.validator import ShapeError, require_derived
from quotaform.model.text import quote
from quotaform.system.files import MIB, size_text

T = TypeVar("T")

Strict = Callable[[], Mapping[str, Any]]
"""Returns the document once more, read strictly; see `SealedContent.strict_document`."""

WHOLE_LIMIT: Final = 64 * MIB
"""The most bytes that are read as a whole, because they are not laid out line by line."""

_strictly = partial(loads, object_pairs_hook=refuse_repeated, parse_constant=refuse_constant)


@dataclass(frozen=True, slots=True, kw_only=True)
class SealedFormat:
    """A kind of documents that end with their digest, and what messages say about its files."""

    kind: DocumentKind
    lists: Collection[str]  # The fields with a line per item
    noun: str
    command: str
    remedy: str  # What to do about a file that is invalid
    # The error for a file that is cut off, not of this kind, or of an unknown major version.
    unreadable: type[SavedFileError]
    changed: type[SavedFileChangedError]  # The error for a file that was changed after it was written


class SealedContent:
    """The content of a file whose last field is its digest."""

    def __init__(self, content: bytes, file: str, form: SealedFormat) -> None:
        """Note what is read. `file` is the name of the file, for messages."""
        self._content, self._file, self._form = content, file, form
        self._strict: Mapping[str, Any] | None = None
        self._seal_start = seal_start(content)

    def read(self, load: Callable[[Mapping[str, Any], Strict], T]) -> T:
        """Return what a function makes of the document.

        `load`: called with the document; raises a `ShapeError` when it is not what it has to be. Raises
        `SavedFileError` or `SavedFileChangedError`.
        """
        try:
            try:
                return load(self.document(), self.strict_document)
            except LayoutError:  # Found late: a list is read line by line only when its items are needed.
                whole = self.whole()
                return load(whole, lambda: whole)
        except ShapeError as error:
            raise self.invalid(str(error)) from error
        except RepeatedNameError as error:
            raise self.invalid(f"{quote(error.name)} appears twice in one object") from error
        except ConstantError as error:
            raise self.invalid(f"{error} is not a number in JSON") from error
        except RecursionError as error:
            raise self.invalid("it is nested too deeply") from error

    def require_written(self, fields: Callable[[], Mapping[str, Any]], strict: Strict) -> None:
        """Make sure that a document says what this version writes of what was made of it; it may have more fields.

        Raises `ShapeError` if a field says something else than those from which it follows.
        """
        lists = self._form.lists
        if not self.has_fields(field_lines(fields().items(), lists)):
            require_derived(fields(), strict(), lists)

    def document(self) -> Mapping[str, Any]:
        """Return the document; a list with a line per item may be an `ItemLines`.

        Raises `SavedFileError`, `SavedFileChangedError` or `RepeatedNameError`.
        """
        if self._seal_start is None:
            return self.whole()
        try:
            return self._expected(read_lines(self._content))
        except LayoutError:
            return self.whole()

    def strict_document(self) -> Mapping[str, Any]:
        """Return what was read once more, now looking for names that come twice if that was not done.

        Raises `RepeatedNameError` if a name comes twice in one object; raised as late as its line is read, and
        `ConstantError` if a number is none of JSON, likewise.
        """
        return read_lines(self._content, _strictly) if self._strict is None else self._strict

    def has_fields(self, pieces: Iterable[str]) -> bool:
        """Whether this is, to the letter, what `field_lines` yields, and then the digest: nothing is hashed again."""
        if self._seal_start is None:
            return False
        position = 0
        for piece in pieces:
            if not self._content.startswith(piece.encode("ascii"), position):
                return False
            position += len(piece)
        return position == self._seal_start

    def whole(self) -> dict[str, Any]:
        """Return the document, read as any JSON is.

        Raises `SavedFileError`, `SavedFileChangedError` or `RepeatedNameError`.
        """
        if len(self._content) > WHOLE_LIMIT:
            raise self._unlike(f"is larger than {size_text(WHOLE_LIMIT)}")
        if has_too_many_values(self._content):
            raise self._unlike(f"contains more than {MOST_VALUES:,} values")
        try:
            document = _strictly(self._content)
        except ConstantError:
            raise self._form.changed(self._file, "digest") from None
        except (ValueError, RecursionError) as error:
            where = f" at line {error.lineno}" if isinstance(error, JSONDecodeError) else ""
            problem = f"its JSON is truncated or invalid{where}" if self._is_object() else "it is not JSON"
            raise self.invalid(problem) from error
        document = self._expected(document)
        if self._seal_start is None and self._digest(document) != document.get("digest"):
            raise self._form.changed(self._file, "digest")
        self._strict = document
        return document

    def invalid(self, problem: str) -> SavedFileError:
        """Return the error for an invalid file."""
        return self._form.unreadable(
            self._file, f"is not a valid {self._form.noun} file: {problem}; {self._form.remedy}"
        )

    def _is_object(self) -> bool:
        """Whether it begins as the JSON that is expected does."""
        return not self._content.strip() or self._content.lstrip().startswith(b"{")

    def _unlike(self, size: str) -> SavedFileError:
        return self.invalid(f"it {size}, and is not formatted as {self._form.command} writes it")

    def _expected(self, document: object) -> dict[str, Any]:
        form = self._form
        try:
            return require_kind(document, form.kind)
        except KindError:
            text = f"is not a {form.noun} file: it has no kind {form.kind.kind!r}; make one with {form.command}"
            raise form.unreadable(self._file, text) from None
        except VersionError as error:
            raise form.unreadable(
                self._file,
                f"has format version {quote(str(error.version)[:20])}; this quotaform reads {form.kind.version}: use "
                f"the quotaform that wrote it, or {form.remedy}",
            ) from None

    def _digest(self, document: Mapping[str, Any]) -> str:
        """Return the digest of what was read; empty for what is never written (1e400, deep nesting)."""
        try:
            return document_digest({name: document[name] for name in document if name != "digest"}, self._form.lists)
        except (ValueError, RecursionError):
            return ""
