"""A cluster for which nothing could be made, as a comment that takes the place of an earlier one."""

from __future__ import annotations

from typing import Final

from quotaform.errors import QuotaformError
from quotaform.model.entity import spell_name
from quotaform.views.finding.problem import Place, unchanged_place
from quotaform.views.markdown import code, fenced, link
from quotaform.views.plan.plan_markdown import MARKER, comment_marker

_LONGEST: Final = 20_000
_KINDS: Final = {"drift": "drift"}
_TITLES: Final = {"plan": "plan", "drift": "drift", "receipt": "apply"}


def render_failure_markdown(
    cluster: str,
    *,
    error: QuotaformError,
    subject: str = "plan",
    root: str = "quotas.d",
    run_url: str | None = None,
    place: Place = unchanged_place,
) -> str:
    """Return why there is no result for a cluster. `subject` is what could not be made."""
    text = error.text_of(cluster)
    shown = text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"
    run = link("run", run_url)
    return (
        f"{comment_marker(_KINDS.get(subject, MARKER), cluster, root, place)}\n"
        f"### Kafka quota {_TITLES.get(subject, subject)} for {code(spell_name(cluster), 100)}: failed\n\n"
        f"{fenced(shown)}\n{f'<sub>{run}</sub>' if run else ''}\n"
    )
