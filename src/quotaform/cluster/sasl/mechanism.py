"""The one table of SASL mechanisms: the module of each reads its client properties."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from quotaform.cluster.client.client_properties import ClientProperties
from quotaform.cluster.sasl import kerberos, msk_iam, password
from quotaform.cluster.sasl.credentials import Credentials

Read = Callable[[ClientProperties, str], Credentials | None]
"""Returns the credentials that properties describe for a mechanism; `None` after it reported a problem."""


def _read_oauth(reader: ClientProperties, mechanism: str) -> Credentials | None:
    handler = "sasl.login.callback.handler.class"
    if (reader.get(handler) or "").startswith(msk_iam.PACKAGE):
        reader.report(
            handler, f"{handler} is not supported: for IAM set sasl.mechanism={msk_iam.MECHANISM}; {msk_iam.FORM}"
        )
        return None
    from quotaform.cluster.sasl import oauth  # needs HTTP, which takes a while to load

    return oauth.read(reader, mechanism)


MECHANISMS: Final[Mapping[str, Read]] = {
    "PLAIN": password.read,
    "SCRAM-SHA-256": password.read,
    "SCRAM-SHA-512": password.read,
    msk_iam.MECHANISM: msk_iam.read,
    "GSSAPI": kerberos.read,
    "OAUTHBEARER": _read_oauth,
}
