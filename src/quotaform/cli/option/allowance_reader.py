"""What `--allow RULE[=N]` says."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from quotaform.core.check.rule import RULES
from quotaform.errors import UsageError
from quotaform.model.allowance import ALLOW, Allowance
from quotaform.model.rule import FindingRule
from quotaform.model.text import did_you_mean, quote

_ALLOWED: Final = {row.id: row for row in RULES.values() if row.is_allowable}


def read_allowances(texts: Iterable[str]) -> tuple[Allowance, ...]:
    """Read the values of `--allow`.

    >>> read_allowances(["delete=8", "to-unlimited"])
    (Allowance(rule='delete', number=8), Allowance(rule='to-unlimited', number=None))

    Raises `UsageError` if one is not RULE or RULE=N, its rule is unknown or cannot be allowed, a number is missing or
    one too many, or a rule has two numbers.
    """
    found: dict[str, Allowance] = {}
    for text in texts:
        allowance = _read(text)
        first = found.setdefault(allowance.rule, allowance)
        if first != allowance:
            raise UsageError(f"{ALLOW} {allowance.rule} is given with two numbers; give the number of the plan")
    return tuple(sorted(found.values()))


def allowed_rules() -> tuple[str, ...]:
    """The rules that can be allowed, as they are given; one that takes a number ends in `=`."""
    return tuple(f"{row.id}=" if row.takes_number else row.id for row in _ALLOWED.values())


def _read(text: str) -> Allowance:
    name, separator, number = text.partition("=")
    row = _ALLOWED.get(name)
    if row is None:
        raise UsageError(_unknown_text(name))
    if not row.takes_number:
        if separator:
            raise UsageError(f"{ALLOW} {name} takes no number; write {row.override}")
        return Allowance(name)
    if not (number.isascii() and number.isdigit() and len(number) < len(str(2**53))):
        problem = f"{quote(number)} is not a number" if separator else "the number is missing"
        raise UsageError(f"{ALLOW} {name}: {problem}; write {row.override}, with the number that the plan shows")
    return Allowance(name, int(number))


def _unknown_text(name: str) -> str:
    known: FindingRule | None = RULES.get(name)
    if known is not None and known.is_blocking:
        remedy = f"{known.remedy[0].lower()}{known.remedy[1:].removesuffix('.')}"
        return f"{ALLOW} {name}: no option allows this rule; {remedy}"
    return f"{ALLOW} {quote(name)}: there is no such rule{did_you_mean(name, _ALLOWED) or '.'} The rules are " + (
        ", ".join(f"{row.id}=N" if row.takes_number else row.id for row in _ALLOWED.values())
    )
