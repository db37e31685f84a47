"""Client properties: files, stores, certificates, that secrets stay secret, and properties made by an attacker.

`texts-properties.txt` and `logins-named.txt` hold what is read.
"""

from __future__ import annotations

import sys
from itertools import product
from pathlib import Path
from time import process_time

import pytest

from quotaform.cluster.client.config import ClientConfig
from quotaform.cluster.client.properties import USED
from quotaform.cluster.client.reader import from_properties, load_client_config
from quotaform.cluster.client.tls import CAN_CHOOSE
from quotaform.cluster.sasl.password import Password
from quotaform.model.errors import InvalidFilesError, missing_extra
from quotaform.usage.stream import client_options

SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule"
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
        with pytest.raises(InvalidFilesError, match=r"--adminclient-property: error: a property is not"):
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
    def test_a_secret_shows_nowhere(self, tmp_path: Path, certificates: Path) -> None:
        keystore = certificates / "tenant.pem"
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
    return [getattr(config, name) for name in config.__struct_fields__]


SECRET = "hunter2"
JAAS = f'org.apache.kafka.common.security.plain.PlainLoginModule required username="u" password="{SECRET}";'
PLAIN_LOGIN = f"security.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\nsasl.jaas.config={JAAS}\n"
STORE = "security.protocol=SSL\nssl.truststore.type=PEM\n"


def load_file(folder: Path, text: str | bytes) -> ClientConfig:
    path = folder / "client.properties"
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return load_client_config(path, environ={"QUOTAFORM_X": SECRET})


def refused(folder: Path, text: str | bytes) -> str:
    with pytest.raises(InvalidFilesError) as caught:
        load_file(folder, text)
    return str(caught.value)


def told(folder: Path, text: str | bytes) -> str:
    """Return what is printed of properties that may be right or wrong."""
    try:
        return repr(load_file(folder, text))
    except InvalidFilesError as error:
        return str(error)


VARIABLE = "${env:QUOTAFORM_X}"
VALUES = (
    *(SECRET, f"https://me:{SECRET}@b1:9092", f"me:{SECRET}@b1", f"PLAIN,{SECRET}", f"{SECRET}:1x"),
    *(f"/{SECRET}/ca.pem", "12345678", f"{SECRET},12345678", f"{SECRET}\n{SECRET}"),
)


@pytest.mark.exhaustive
@pytest.mark.parametrize("base", [PLAIN_LOGIN, STORE, "security.protocol=SASL_SSL\n", ""])
@pytest.mark.parametrize("value", VALUES)
def test_a_value_is_never_repeated_whatever_its_key(tmp_path: Path, base: str, value: str) -> None:
    """A password where another value belongs was printed with what was wrong about it.

    So were a number that a variable held, and the line after one that ends with a backslash.
    """
    (tmp_path / "secret").write_text(value)
    for key in (*USED, "sasl.password", "sasl.mechanims", "ssl.hunter", "foo", "a.b", ""):
        texts = [f"{key}=${{dir:{tmp_path}:secret}}\n", f"{key}=SASL_PLAINTEXT \\\nsasl.jaas.config={JAAS}\n"]
        if SECRET in value and "\n" not in value:
            texts += [f"{key}={each}\nsasl.mechanism=nope\n" for each in (value, value.replace(SECRET, VARIABLE))]
        ends = ["foo=\n"] if key in {"client.id", "bootstrap.servers"} else ["", "foo=\n"]
        for text, end in product(texts, ends):
            shown = told(tmp_path, base + text + end)
            assert not any(part in shown for part in (SECRET, "12345678")), text


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    "text",
    [
        "client.id=" + "${" * 200_000,
        "client.id=" + "${env:" * 100_000,
        "client.id=" + "${file:/etc/hostname:x}" * 40_000,
        "client.id=" + "\\\n" * 300_000,
        "client.id=" + "a\\\n" * 300_000,
        "client.id=" + "\\" * 400_001,
        "client.id=" + "\\u" * 200_000,
        "\n".join(f"k{number}=v" for number in range(200_000)),
        "\n".join("\\u" for _ in range(200_000)),
        "=\n" * 300_000,
        PLAIN_LOGIN + "sasl.jaas.config=" + "/*\\n" * 200_000,
        PLAIN_LOGIN + "sasl.jaas.config=" + "a" * 400_000,
        PLAIN_LOGIN + 'sasl.jaas.config="' + "\\\\" * 200_000,
        PLAIN_LOGIN + "sasl.jaas.config=x.PlainLoginModule required " + 'a="b" ' * 60_000 + ";",
        STORE + "ssl.truststore.certificates=" + "-----BEGIN CERTIFICATE-----" * 50_000,
        STORE + "ssl.truststore.certificates=" + "-----BEGIN X-----a-----END X-----" * 40_000,
        STORE + "ssl.truststore.certificates=-----BEGIN " + "A" * 400_000,
        "ssl.enabled.protocols=" + "," * 400_000,
        "ssl.enabled.protocols=" + "a," * 200_000,
        "bootstrap.servers=" + "a:1," * 100_000,
        "request.timeout.ms=" + "9" * 1_000_000,
    ],
    ids=lambda text: text[-60:-40] + str(len(text)),
)
def test_reading_takes_time_in_proportion(tmp_path: Path, text: str) -> None:
    """400 KB of `${`, 300,000 continued lines or 50,000 PEM headers took over 15 s."""
    start = process_time()
    shown = told(tmp_path, text)
    assert process_time() - start < 20
    assert len(shown) < 50_000 or text.startswith(("client.id", "bootstrap.servers"))


@pytest.mark.exhaustive
def test_what_is_around_certificates_may_be_in_any_language(tmp_path: Path, certificates: Path) -> None:
    """A comment in Greek in a PEM file ended as an internal error."""
    pem = (certificates / "ca.pem").read_text(encoding="utf-8")
    (tmp_path / "ca.pem").write_text(f"# Αρχή Πιστοποίησης\n{pem}\nτέλος\n", encoding="utf-8")
    config = load_file(tmp_path, f"{STORE}ssl.truststore.location={tmp_path}/ca.pem\n")
    assert config.tls
    config.tls.context()
    assert load_file(tmp_path, f"{STORE}ssl.truststore.location={certificates}/ca.pem\n") == config


STORES = Path(__file__).resolve().parents[1] / "data" / "stores"
PASSWORD = "store-secret"


def load_stores(**properties: str | Path | None) -> ClientConfig:
    """Read `ssl.*` properties; the store's password is given unless it is `None`."""
    given = {f"ssl.{key.replace('_', '.')}": str(value) for key, value in properties.items() if value is not None}
    for store in ("truststore", "keystore"):
        if f"{store}_location" in properties and f"{store}_password" not in properties:
            given[f"ssl.{store}.password"] = PASSWORD
    return from_properties({"security.protocol": "SSL", **given}, environ={})


def problem(**properties: str | Path | None) -> str:
    with pytest.raises(InvalidFilesError) as caught:
        load_stores(**properties)
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
        tls = load_stores(keystore_location=STORES / "key.p12").tls
        assert tls is not None
        assert tls.context()
        assert not list(tmp_path.iterdir())

    @pytest.mark.parametrize("name", ["key.p12", "keys.jks"])
    def test_spark_gets_it_as_pem_and_without_a_password(self, name: str) -> None:
        config = load_stores(
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
                    load_stores(truststore_location=tmp_path / "store", truststore_password=None)
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
        assert load_stores(truststore_location=STORES / "trust.jks").tls is not None
