"""A finding: what is wrong and where, how severe, and what lifts it: an allowance or an approval."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import date
from enum import StrEnum
from functools import lru_cache
from typing import Annotated, Final, Literal, Self

from msgspec import Meta, Struct
from msgspec.structs import force_setattr

from quotaform.model.entity import Entity, parse_address, spell_name, try_address
from quotaform.model.quota_key import QUOTA_KEYS
from quotaform.model.records.record import Address, Count, Double, KeyDoubles, Record, about, written
from quotaform.model.scope import escape_glob
from quotaform.model.text import inert, option_of, printable
from quotaform.model.units import render_value, spell_value


class Location(Struct, frozen=True, order=True, gc=False):
    """A location in the files.

    >>> str(Location("quotas.d/orders.yaml", 12, 3))
    'quotas.d/orders.yaml:12:3'
    >>> str(Location("quotas.d/orders.yaml"))
    'quotas.d/orders.yaml'
    """

    file: Annotated[str, about("The path, as given.", "quotas.d/teams.yaml")]
    line: Annotated[Count, about("The line, from 1 on; 0 means the file as a whole.")] = 0
    column: Annotated[Count, about("The column, from 1 on; 0 means the line as a whole.")] = 0

    def __str__(self) -> str:
        file = _shown_path(self.file)
        if not self.line:
            return file
        return f"{file}:{self.line}:{self.column}" if self.column else f"{file}:{self.line}"


@lru_cache(maxsize=4096)
def _shown_path(path: str) -> str:
    # A relative path that GitHub Actions would take for a command, as a problem begins its line with it.
    return printable(f"./{path}" if path.lstrip().startswith("::") else path)


class Allowance(Struct, frozen=True, order=True):
    """The smallest allowance that allows it (--allow RULE or RULE=N).

    One that is given for a plan is recorded in it, and covered by its id.

    >>> print(Allowance("to-unlimited"), Allowance("delete", 12))
    to-unlimited delete=12
    """

    rule: Annotated[str, about("The id of the rule.", min_length=1)]
    number: Annotated[Count | None, about("The number, for a rule that counts.")] = None

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read RULE or RULE=N; raises `ValueError` for anything else.

        >>> Allowance.parse("delete=12")
        Allowance(rule='delete', number=12)
        """
        rule, separator, number = text.partition("=")
        if not rule or (separator and not (number.isascii() and number.isdigit())):
            raise ValueError(f"{text!r} is not RULE or RULE=N")
        return cls(rule, int(number) if separator else None)

    def covers(self, needed: Allowance) -> bool:
        """Whether this allowance includes another one.

        >>> Allowance("delete", 8).covers(Allowance("delete", 7)), Allowance("delete").covers(Allowance("delete", 7))
        (True, False)
        """
        if self.rule != needed.rule or self.number is None or needed.number is None:
            return self == needed
        return self.number >= needed.number

    @property
    def option(self) -> str:
        """The option that gives it."""
        return f"{option_of('allow')} {self}"

    def __str__(self) -> str:
        return self.rule if self.number is None else f"{self.rule}={self.number}"


class Severity(StrEnum):
    """The severity of a finding: an error stops the command, a warning and a note do not."""

    ERROR = "error"
    WARNING = "warning"
    NOTE = "note"


RULE_IDS: Final[list[str]] = []
"""The ids of all rules, as `quotaform.model.rule` has them."""


class Finding(Record, omit_defaults=True):
    """A finding about a file, an entity or a plan."""

    rule: Annotated[
        str, Meta(description="The id of its rule; docs/rules.md lists them.", examples=RULE_IDS, min_length=1)
    ]
    severity: Annotated[Severity, about("The severity; only errors stop the command.")] = written(
        default=Severity.ERROR
    )
    blocking: Annotated[bool, about("Whether it prevents a plan from being applied.")] = written(default=False)
    address: Annotated[str | None, about("The address of the entity, or null.")] = written(default=None)
    key: Annotated[str | None, about("The quota key, or null.")] = written(default=None)
    message: Annotated[str, about("The problem and its remedy.")]
    override: Annotated[str | None, about("What allows it, or null: an option, or an approval.")] = written(
        default=None
    )
    allowance: Annotated[Allowance | None, about("Omitted if no allowance lifts it.")] = None
    value: Annotated[
        Double | None, about("The value or effective limit that an approval may be for; omitted if none.")
    ] = None
    allowed_by: Annotated[
        str | None,
        about("The option or the approval that allows it; omitted otherwise.", Allowance("delete", 8).option),
    ] = None
    location: Annotated[Location | None, about("A location in the files, or null.")] = written(default=None)

    def __post_init__(self) -> None:
        # Texts quote what files and clusters hold, or come from a plan file.
        for name in ("rule", "message", "address", "override", "allowed_by"):
            text = getattr(self, name)
            if text is not None and printable(text) is not text:
                force_setattr(self, name, printable(text))

    def __str__(self) -> str:
        where = f"{self.location}: " if self.location else ""
        return f"{where}{self.severity}: {self.message} [{self.rule}]"


_SEVERITY_ORDER = {Severity.ERROR: 0, Severity.WARNING: 1, Severity.NOTE: 2}
_NOWHERE = Location("")


def by_place(findings: Iterable[Finding]) -> list[Finding]:
    """Sort findings in files: by file, line and column, in whatever order they were found."""

    return sorted(findings, key=lambda each: (each.location or _NOWHERE, each.rule, each.message))


def by_severity(findings: Iterable[Finding]) -> list[Finding]:
    """Sort findings about a cluster: blocking findings, errors, warnings, notes; each by rule, address and key.

    Findings without an entity come first, in the order in which they were found.
    """

    def order(finding: Finding) -> tuple[bool, int, bool, str, str, str]:
        severity = not finding.blocking, _SEVERITY_ORDER[finding.severity]
        if finding.address is None:
            return *severity, False, "", "", ""
        return *severity, True, finding.rule, finding.address, finding.key or ""

    return sorted(findings, key=order)


APPROVALS_NAME: Final = "approvals.yaml"
"""The file of approvals, next to quotaform.yaml."""

MOST_DAYS: Final = 30
"""The limit on the days until an approval expires."""

MOST_APPROVALS: Final = 1000
"""The limit on the approvals in the file."""


CHANGE: Final = "change"
"""The default action of an approval: the entity is created or updated."""

DELETE: Final = "delete"
"""The other action of an approval: the entity is deleted."""


class Approval(Record, omit_defaults=True):
    """An approval for one rule and one entity, or the entities that a pattern matches."""

    rule: Annotated[str, about("The rule that would block.")]
    address: Address
    cluster: Annotated[str | None, about("The cluster that it is for, or a glob; omitted if it is for any.")] = None
    reason: Annotated[str, about("The reason.")]
    approver: Annotated[str, about("The person who approved it.")]
    expires: Annotated[date, about("The day (UTC) on which it expires.", "2026-12-31")]
    action: Annotated[
        Literal["delete"] | None, about("The approved action if the entity is deleted; omitted otherwise.")
    ] = None
    to: Annotated[KeyDoubles | None, about("The approved keys and values; omitted if the approval is for any.")] = None
    new: Annotated[
        bool | None,
        about("Whether it is new or changed compared with the base; omitted if not, or without a base."),
    ] = None

    def __hash__(self) -> int:
        return hash((self.rule, self.address, self.expires))  # A mapping such as `to` has no hash.

    @property
    def entity(self) -> Entity:
        """The entity; its names may be globs. Raises `ValueError` if the address of a saved file is invalid."""
        return parse_address(self.address)

    @property
    def values(self) -> list[tuple[str, float]]:
        """The only keys that it is for, each with the only value that may be the outcome; any if empty."""
        return sorted((self.to or {}).items())

    def __str__(self) -> str:
        bound = f", {self.bound}" if self.bound else ""
        return f"approval of {inert(self.approver)}, until {self.expires}{bound}"

    @property
    def target(self) -> str:
        """What it is for: an address, and the cluster if it names one."""
        return f"{self.address}{'' if self.cluster is None else f' on {spell_name(self.cluster)}'}"

    @property
    def bound(self) -> str:
        """What it is for only, in words; empty if for any change."""
        if self.action is not None:
            return "to delete it"
        values = (f"{inert(key)} {render_value(QUOTA_KEYS.get(key), value)}" for key, value in self.values)
        return f"for {', '.join(values)}" if self.to else ""


def escaped_address(address: str) -> str:
    """Return the address by which an approval is for this entity alone, whatever its names look like.

    >>> escaped_address('user="svc-*"')
    'user="svc-[*]"'
    """
    entity = try_address(address)
    if entity is None:
        return address
    return Entity({kind: name and escape_glob(name) for kind, name in entity.parts}).address


def bound_values(findings: Iterable[Finding]) -> str:
    """Return what `to` of an approval of findings about one entity must be; empty if that cannot be written.

    >>> bound_values([Finding(rule="change-factor", message="", key="producer_byte_rate", value=1048576.0)])
    '{producer_byte_rate: 1MiB/s}'
    """
    found: dict[str, str] = {}
    for finding in findings:
        key = QUOTA_KEYS.get(finding.key or "")
        text = None if key is None or finding.value is None else spell_value(key, finding.value)
        if key is None or text is None or found.get(key.name, text) != text:
            return ""
        found[key.name] = text
    return f"{{{', '.join(f'{key}: {text}' for key, text in sorted(found.items()))}}}" if found else ""
