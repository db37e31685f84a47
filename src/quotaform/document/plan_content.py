"""The JSON of a plan file: read line by line when it is laid out as quotaform writes it, and whole when it is not."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from functools import partial
from json import JSONDecodeError, loads
from typing import Any, Final

from quotaform.document.envelope import KindError, VersionError, document_digest, require_kind, seal_start
from quotaform.document.json_text import (
    MOST_VALUES,
    ConstantError,
    has_too_many_values,
    refuse_constant,
    refuse_repeated,
)
from quotaform.document.line_layout import LayoutError, read_lines
from quotaform.errors import PlanFileChangedError, PlanFileError
from quotaform.files import MIB, size_text
from quotaform.model.document_kind import PLAN
from quotaform.model.text import quote

WHOLE_LIMIT: Final = 64 * MIB
"""The most bytes that are read as a whole, because they are not laid out line by line."""

_strictly = partial(loads, object_pairs_hook=refuse_repeated, parse_constant=refuse_constant)


class PlanContent:
    """The content of a plan file."""

    def __init__(self, content: bytes, file: str, lists: Collection[str]) -> None:
        """Note what is read.

        Args:
            content: The content.
            file: The name of the file, for messages.
            lists: The fields with a line per item.
        """
        self._content, self._file, self._lists = content, file, lists
        self._strict: Mapping[str, Any] | None = None
        self._seal_start = seal_start(content)

    def document(self) -> Mapping[str, Any]:
        """Return the document; a list with a line per item may be an `ItemLines`.

        Raises:
            PlanFileError: It is cut off, not a plan, or of an unknown major version.
            PlanFileChangedError: It was changed after it was written.
            RepeatedNameError: It has another layout, and a name comes twice in one object.
        """
        if self._seal_start is None:
            return self.whole()
        try:
            return self._plan(read_lines(self._content))
        except LayoutError:
            return self.whole()

    def strict_document(self) -> Mapping[str, Any]:
        """Return what was read once more, now looking for names that come twice if that was not done.

        Raises:
            RepeatedNameError: A name comes twice in one object; raised as late as its line is read.
            ConstantError: A number is none of JSON, likewise.
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

        Raises:
            PlanFileError: It is cut off, not a plan, or of an unknown major version.
            PlanFileChangedError: It was changed after it was written.
            RepeatedNameError: A name comes twice in one object.
        """
        if len(self._content) > WHOLE_LIMIT:
            raise self._unlike(f"is larger than {size_text(WHOLE_LIMIT)}")
        if has_too_many_values(self._content):
            raise self._unlike(f"holds more than {MOST_VALUES:,} values")
        try:
            document = _strictly(self._content)
        except ConstantError:
            raise PlanFileChangedError(self._file, "digest") from None
        except (ValueError, RecursionError) as error:
            where = f" at line {error.lineno}" if isinstance(error, JSONDecodeError) else ""
            raise self.invalid(f"its JSON is truncated or invalid{where}") from error
        document = self._plan(document)
        if self._seal_start is None and self._digest(document) != document.get("digest"):
            raise PlanFileChangedError(self._file, "digest")
        self._strict = document
        return document

    def invalid(self, problem: str) -> PlanFileError:
        """Return the error that refuses it."""
        return PlanFileError(self._file, f"is not a valid plan file: {problem}; make a new plan")

    def _unlike(self, size: str) -> PlanFileError:
        return self.invalid(f"it {size}, and its lines are not those that quotaform plan --out writes")

    def _plan(self, document: object) -> dict[str, Any]:
        try:
            return require_kind(document, PLAN)
        except KindError:
            text = f"is not a plan file: it has no kind {PLAN.kind!r}; make one with quotaform plan --out"
            raise PlanFileError(self._file, text) from None
        except VersionError as error:
            raise PlanFileError(
                self._file,
                f"has format version {quote(str(error.version)[:20])}; this quotaform reads {PLAN.version}: use the "
                "quotaform that wrote it, or make a new plan",
            ) from None

    def _digest(self, document: Mapping[str, Any]) -> str:
        """Return the digest of what was read; empty for what is never written (1e400, deep nesting)."""
        try:
            return document_digest({name: document[name] for name in document if name != "digest"}, self._lists)
        except (ValueError, RecursionError):
            return ""
