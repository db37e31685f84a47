"""An `--allow` option: a rule that the operator lifts for one plan."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Self

ALLOW: Final = "--allow"
"""The option that gives one."""


@dataclass(frozen=True, slots=True, order=True)
class Allowance:
    """A rule that is allowed for one plan, recorded in it and covered by its id.

    Attributes:
        rule: The id of the rule.
        number: Up to how much, for a rule that counts; `None` for any.

    >>> print(Allowance("to-unlimited"), Allowance("delete", 12))
    to-unlimited delete=12
    """

    rule: str
    number: int | None = None

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
        return f"{ALLOW} {self}"

    def __str__(self) -> str:
        return self.rule if self.number is None else f"{self.rule}={self.number}"
