"""What the client properties of GSSAPI say; `tests/kafka/test_kerberos.py` logs in with them."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Final

import pytest

from quotaform.cluster.client.reader import from_properties, load_client_config
from quotaform.cluster.sasl.kerberos import Kerberos
from quotaform.model.errors import InvalidFilesError

MODULE: Final = "com.sun.security.auth.module.Krb5LoginModule"
KEYTAB: Final = 'useKeyTab=true keyTab="{}" principal="alice@EXAMPLE.COM"'


def read(options: str, **more: str) -> Kerberos:
    line = {"sasl.jaas.config": f"{MODULE} required {options};", "sasl.kerberos.service.name": "kafka"}
    given = {name.replace("_", "."): value for name, value in more.items()}
    credentials = from_properties({"security.protocol": "SASL_SSL"} | line | given, environ={}).credentials
    assert isinstance(credentials, Kerberos)
    return credentials


@pytest.fixture
def keytab(tmp_path: Path) -> str:
    (tmp_path / "alice.keytab").write_bytes(b"\x05\x02")
    return str(tmp_path / "alice.keytab")


def test_a_keytab_of_a_repository_does_not_lead_out_of_it(tmp_path: Path, keytab: str) -> None:
    repository = tmp_path / "repository"
    repository.mkdir()
    (repository / "link").symlink_to(keytab)
    text = f"security.protocol=SASL_SSL\nsasl.kerberos.service.name=k\nsasl.jaas.config={MODULE} required "
    (repository / "client.properties").write_text(text + KEYTAB.format("link") + ";")
    assert load_client_config(repository / "client.properties").credentials is not None
    with pytest.raises(InvalidFilesError, match="names a keytab that cannot be read"):
        load_client_config(repository / "client.properties", repository=repository)


def test_a_java_client_would_log_in_in_the_same_way(keytab: str) -> None:
    for options in ("useTicketCache=true", f'useTicketCache=true ticketCache="a b" {KEYTAB.format(keytab)}'):
        credentials = read(options)
        java = from_properties({"security.protocol": "SASL_SSL", **credentials.java_properties()}, environ={})
        assert java.credentials == credentials
        assert pickle.loads(pickle.dumps(credentials)) == credentials  # noqa: S301 (our own)


def test_what_comes_from_a_variable_is_not_shown() -> None:
    line = f'{MODULE} required useTicketCache=true principal="${{env:QUOTAFORM_WHO}}" serviceName=kafka;'
    properties = {"security.protocol": "SASL_SSL", "sasl.jaas.config": line}
    credentials = from_properties(
        properties, environ={"QUOTAFORM_WHO": "hunter2", "QUOTAFORM_ENV": "QUOTAFORM_WHO"}
    ).credentials
    assert credentials is not None
    assert credentials.who == "the principal of sasl.jaas.config"
