"""Stores of Java clients that are damaged or busy, and what becomes of keys; `logins-named.txt` has what is read."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from quotaform.cluster.client.config import ClientConfig
from quotaform.cluster.client.reader import from_properties
from quotaform.model.errors import InvalidFilesError, missing_extra
from quotaform.usage.topic import client_options

STORES = Path(__file__).resolve().parents[1] / "data" / "stores"
PASSWORD = "store-secret"


def load(**properties: str | Path | None) -> ClientConfig:
    """Read `ssl.*` properties; the store's password is given unless it is `None`."""
    given = {f"ssl.{key.replace('_', '.')}": str(value) for key, value in properties.items() if value is not None}
    for store in ("truststore", "keystore"):
        if f"{store}_location" in properties and f"{store}_password" not in properties:
            given[f"ssl.{store}.password"] = PASSWORD
    return from_properties({"security.protocol": "SSL", **given}, environ={})


def problem(**properties: str | Path | None) -> str:
    with pytest.raises(InvalidFilesError) as caught:
        load(**properties)
    [found] = caught.value.problems
    assert "secret" not in found.message
    assert "hunter2" not in found.message
    return found.message


class TestKeystores:
    @pytest.mark.skipif(sys.platform != "linux", reason="memfd_create is of Linux")
    @pytest.mark.parametrize(("platform", "directory"), [("linux", "absent"), ("darwin", ".")])
    def test_no_decrypted_key_stays_in_a_file(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, platform: str, directory: str
    ) -> None:
        """On Linux there is never one, so that a process that is killed leaves none."""
        monkeypatch.setattr("quotaform.cluster.client.tls.platform", platform)
        monkeypatch.setattr("tempfile.tempdir", str(tmp_path / directory))
        assert load(keystore_location=STORES / "key.p12").ssl_context() is not None
        assert not list(tmp_path.iterdir())

    @pytest.mark.parametrize("name", ["key.p12", "keys.jks"])
    def test_spark_gets_it_as_pem_and_without_a_password(self, name: str) -> None:
        config = load(
            truststore_location=STORES / "trust.jks",
            keystore_location=STORES / name,
            key_password="key-secret" if name == "keys.jks" else None,
            cipher_suites="TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384",
        )
        options = client_options(["b1:9093"], config)
        ssl = {key.removeprefix("kafka.ssl."): value for key, value in options.items() if ".ssl." in key}
        assert (ssl["truststore.type"], ssl["keystore.type"]) == ("PEM", "PEM")
        assert ssl["keystore.key"].startswith("-----BEGIN PRIVATE KEY-----\n")
        assert "key.password" not in ssl
        assert (ssl["enabled.protocols"], ssl["cipher.suites"]) == ("TLSv1.2", "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384")


class TestOtherFiles:
    @pytest.mark.parametrize("name", ["trust.jks", "trust.p12", "keys.jks", "key.p12"])
    def test_a_store_that_was_cut_or_changed_anywhere_is_refused(self, tmp_path: Path, name: str) -> None:
        whole = (STORES / name).read_bytes()
        for at in range(1, len(whole), 23):
            for spoiled in (whole[:at], whole[:at] + bytes([whole[at] ^ 0xFF]) + whole[at + 1 :]):
                (tmp_path / "store").write_bytes(spoiled)
                told = problem(truststore_location=tmp_path / "store")
                assert told.startswith("ssl.truststore.location cannot be used: ")

    @pytest.mark.parametrize("name", ["trust.jks", "trust-open.p12", "keys.jks"])
    def test_without_a_password_a_damaged_store_is_one_sentence_if_that_shows(self, tmp_path: Path, name: str) -> None:
        whole, refused = (STORES / name).read_bytes(), 0
        for at in range(1, len(whole), 23):
            for spoiled in (whole[:at], whole[:at] + b"\xff" + whole[at + 1 :]):
                (tmp_path / "store").write_bytes(spoiled)
                try:
                    load(truststore_location=tmp_path / "store", truststore_password=None)
                except InvalidFilesError as error:
                    refused += 1
                    [found] = error.problems
                    assert found.message.startswith("ssl.truststore.location cannot be used: ")
        assert refused >= len(range(1, len(whole), 23)), "each that was cut, at least"

    def test_a_store_that_would_keep_the_processor_busy_is_refused(self, tmp_path: Path) -> None:
        whole = (STORES / "trust.p12").read_bytes()
        assert whole.endswith(b"\x02\x02\x27\x10"), "10,000 iterations"
        inside = whole.replace(b"\x02\x02\x27\x10\x02\x01\x20", b"\x02\x05\x7f\xff\xff\xff\xff")
        assert inside != whole
        for busy in (whole[:-4] + b"\x02\x04\x7f\xff\xff\xff", inside):
            (tmp_path / "store").write_bytes(busy)
            told = problem(truststore_location=tmp_path / "store")
            assert told.endswith("it asks for more than 5,000,000 iterations of its password")

    def test_the_missing_extra_is_one_sentence(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setitem(sys.modules, "cryptography.hazmat.primitives.serialization", None)
        told = problem(truststore_location=STORES / "trust.p12")
        assert told.endswith(f": PKCS12 stores are read by cryptography: {missing_extra('stores')}")
        assert load(truststore_location=STORES / "trust.jks").tls is not None
