"""Client properties: files, certificates, and that secrets stay secret; `texts-properties.txt` holds what is read."""

from __future__ import annotations

from pathlib import Path

import pytest

from quotaform.cluster.client.config import ClientConfig
from quotaform.cluster.client.reader import from_properties, load_client_config
from quotaform.cluster.client.tls import CAN_CHOOSE
from quotaform.cluster.sasl.password import Password
from quotaform.model.errors import InvalidFilesError
from quotaform.sandbox.security import Certificates

SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule"
PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
SASL = f"""
security.protocol=SASL_PLAINTEXT
sasl.mechanism=SCRAM-SHA-512
sasl.jaas.config={SCRAM} required username="alice" password="alice-secret";
"""


def load(tmp_path: Path, text: str, **environ: str) -> ClientConfig:
    path = tmp_path / "client.properties"
    path.write_text(text, encoding="utf-8")
    listed = "QUOTAFORM_PASS,QUOTAFORM_JAAS,QUOTAFORM_X,QUOTAFORM_HOST"
    return load_client_config(path, environ={"QUOTAFORM_ENV": listed, **environ})


def problems(tmp_path: Path, text: str, **environ: str) -> list[str]:
    with pytest.raises(InvalidFilesError) as caught:
        load(tmp_path, text, **environ)
    prefix = f"{tmp_path / 'client.properties'}:"
    return [f"{problem.location}: {problem.message}".removeprefix(prefix) for problem in caught.value.problems]


def login_of(config: ClientConfig) -> Password:
    assert isinstance(config.credentials, Password)
    return config.credentials


class TestKeys:
    def test_overrides_win_over_the_file(self, tmp_path: Path) -> None:
        path = tmp_path / "client.properties"
        path.write_text(f"{SASL}client.id=a\n", encoding="utf-8")
        config = load_client_config(path, overrides={"client.id": "b", "sasl.mechanism": "SCRAM-SHA-256"})
        assert (config.client_id, login_of(config).mechanism, login_of(config).username) == (
            "b",
            "SCRAM-SHA-256",
            "alice",
        )

    def test_properties_may_come_without_a_file(self) -> None:
        config = from_properties({"client.id": " x ", "bootstrap.servers": "b:1"}, environ={})
        assert config == ClientConfig(client_id="x", bootstrap_servers=("b:1",))
        with pytest.raises(InvalidFilesError, match=r"--adminclient-property: error: a given property is not"):
            from_properties({"foo": "1"}, source="--adminclient-property", environ={})


class TestTls:
    @pytest.mark.skipif(CAN_CHOOSE, reason="this Python can choose")
    def test_some_suites_of_tls_1_3_are_refused_where_python_cannot_choose_them(self, tmp_path: Path) -> None:
        text = "security.protocol=SSL\nssl.cipher.suites=TLS_AES_256_GCM_SHA384\n"
        [problem] = problems(tmp_path, text)
        assert problem == (
            "2: ssl.cipher.suites: before 3.15, Python offers all suites of TLS 1.3 or none; name"
            " TLS_AES_128_GCM_SHA256, TLS_AES_256_GCM_SHA384, TLS_CHACHA20_POLY1305_SHA256, or none"
        )


class TestSecrets:
    def test_a_secret_shows_nowhere(self, tmp_path: Path, certificates: Certificates) -> None:
        keystore = certificates.client("tenant")
        config = load(
            tmp_path,
            SASL.replace("SASL_PLAINTEXT", "SASL_SSL")
            + f"ssl.keystore.type=PEM\nssl.keystore.location={keystore}\nssl.key.password=hunter2\n",
        )
        for shown in (repr(config), str(config), f"{config}", f"{login_of(config).password}", repr(vars_of(config))):
            assert "alice-secret" not in shown
            assert "hunter2" not in shown
            assert "PRIVATE KEY" not in shown


def vars_of(config: ClientConfig) -> list[object]:
    return [getattr(config, name) for name in config.__slots__]
