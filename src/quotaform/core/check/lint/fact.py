"""What lints look at, and what they find."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import date
from typing import NamedTuple

from quotaform.core.check.lint.setting import Capacity, LintSettings
from quotaform.core.resolve.index import QuotaIndex
from quotaform.core.scope import ALL, Selection
from quotaform.model.entity import USER, Entity
from quotaform.model.entry import Cause, Desired, Entry
from quotaform.model.finding import Finding, Severity
from quotaform.model.quotas import Quotas


@dataclass(frozen=True, slots=True, kw_only=True)
class LintFacts:
    """What lints look at.

    Attributes:
        quotas: Everything that the cluster holds once that is applied; offline, what the files declare.
        settings: What quotaform.yaml says about lints.
        capacity: What a broker of the cluster can do, as far as that is declared.
        today: The day (UTC).
        concerned: The entities about which findings are wanted, and those that they come from; of other findings only
            the number is. `None` is all.
        entries: The entries that declare values.
    """

    desired: Desired
    quotas: Quotas
    settings: LintSettings
    capacity: Capacity
    today: date
    selection: Selection = ALL
    concerned: frozenset[Entity] | None = None
    entries: tuple[tuple[Entity, Entry], ...] = field(init=False, compare=False, repr=False)
    _indexes: list[QuotaIndex] = field(default_factory=list, init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        entries = [pair for pair in self.desired.items() if pair[1].cause is Cause.ENTRY]
        object.__setattr__(self, "entries", tuple(entries))

    @property
    def index(self) -> QuotaIndex:
        """Return the quotas by precedence that requests meet of the users that `asked_users` returns, or of any other.

        Most quotas are of one user that no lint asks about. It is made when it is first asked for.
        """
        if not self._indexes:
            users = self.asked_users()
            asked = {
                entity: values
                for entity, values in self.quotas.items()
                if not (parts := entity.parts) or parts[0][0] != USER or parts[0][1] in users
            }
            self._indexes.append(QuotaIndex(asked))
        return self._indexes[0]

    def asked_users(self) -> set[str | None]:
        """Return the users with a quota for one of their client-ids, and those of the brokers."""
        with_client = {entity.parts[0][1] for entity, _ in self.entries if len(entity.parts) > 1}
        return {None, *with_client, *(self.settings.broker_principals or ())}

    def concerns(self, found: Found) -> bool:
        """Whether a finding is wanted."""
        wanted = self.concerned
        return wanted is None or found.entity is None or found.entity in wanted or not wanted.isdisjoint(found.causes)


class Found(NamedTuple):
    """Something that a lint finds.

    Attributes:
        entity: What it is about; `None` for the cluster as a whole.
        make: Returns the finding; of most findings of a large repository only their number is shown.
        causes: The other entities that it comes from.
        severity: That of the finding.
    """

    entity: Entity | None
    make: Callable[[], Finding]
    causes: tuple[Entity, ...] = ()
    severity: Severity = Severity.WARNING
