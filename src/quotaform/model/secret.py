"""A secret value that is never printed."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, repr=False)
class Secret:
    """A text that is printed as stars in messages, logs, tracebacks and `repr`.

    >>> password = Secret("hunter2")
    >>> f"{password} {password!r}", password.reveal()
    ("*** Secret('***')", 'hunter2')
    """

    _text: str = field()

    def reveal(self) -> str:
        """Return the text itself, only to send it over the network."""
        return self._text

    def __str__(self) -> str:
        return "***"

    def __repr__(self) -> str:
        return "Secret('***')"
