"""What all SASL mechanisms have in common; `quotaform.cluster.sasl.mechanism` lists them."""

from __future__ import annotations

from collections.abc import Generator
from typing import Protocol

Exchange = Generator[bytes, bytes, None]
"""One run of a mechanism on the side of the client, which touches no connection to the broker.

It yields tokens for the broker and is sent the broker's answers; when it returns, both sides are satisfied. It raises
`LoginError` when there is nothing to authenticate with, and `UnprovenError` when an answer is not what the mechanism
prescribes; any other error counts as the latter. A refusal of the broker is thrown into it as a `CodeError`, which it
may replace by a `RefusedError`.
"""


class Credentials(Protocol):
    """What a client authenticates with. Can be pickled: a task on another machine connects with it, too.

    No member but `exchange` and `java_properties` shows a secret, or the value of a variable.
    """

    @property
    def mechanism(self) -> str:
        """The mechanism, as the broker is asked for it."""

    @property
    def who(self) -> str:
        """What messages call the client, such as `user alice`."""

    @property
    def check(self) -> str:
        """What to check if a broker does not accept the client; ends the sentence of an error."""

    def exchange(self, host: str) -> Exchange:
        """Begin to authenticate to the broker on a host."""

    def java_properties(self) -> dict[str, str]:
        """Return the `sasl.*` properties of a Java client that authenticates in the same way; with the secrets."""
