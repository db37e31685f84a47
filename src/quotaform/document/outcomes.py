"""The results of many clusters as one JSON document."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from json import dumps

from quotaform.core.outcome import ClusterOutcome
from quotaform.errors import QuotaformError
from quotaform.model.document_kind import OUTCOMES


def outcome_lines(outcomes: Iterable[ClusterOutcome[Iterator[str]]]) -> Iterator[str]:
    """Yield the document in pieces. `outcomes` is the document of each cluster, as text in pieces."""
    yield f'{{\n  "format_version": {dumps(OUTCOMES.version)},\n  "kind": {dumps(OUTCOMES.kind)},\n  "outcomes": ['
    separator = "\n"
    for outcome in outcomes:
        yield f'{separator}{{"cluster": {dumps(outcome.cluster)}, "error": {_error(outcome.error)}, "result": '
        if outcome.error is None:
            yield from outcome.require()
        else:
            yield "null\n"
        yield "}"
        separator = ",\n"
    yield "\n  ]\n}\n"


def _error(error: QuotaformError | None) -> str:
    return dumps(None if error is None else {"exit_code": error.exit_code, "message": str(error)})
