"""The JSON of `quotaform validate`."""

from __future__ import annotations

from quotaform.core.result import Validation
from quotaform.document.envelope import envelope, indented
from quotaform.document.field import dump_finding
from quotaform.model.document_kind import VALIDATION


def dump_validation(validation: Validation) -> str:
    """Return a validation as JSON."""
    fields = {
        "valid": validation.is_valid,
        "directory": validation.directory,
        "files": validation.files,
        "entities": [{"cluster": name, "count": count} for name, count in validation.entities.items()],
        "problems": [dump_finding(problem) for problem in validation.problems],
    }
    return indented(envelope(VALIDATION, fields))
