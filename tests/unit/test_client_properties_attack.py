"""Client properties that somebody made to find out a secret, to crash the reader or to keep it busy."""

from __future__ import annotations

from pathlib import Path
from time import process_time

import pytest

from quotaform.cluster.client.config import ClientConfig
from quotaform.cluster.client.properties import USED
from quotaform.cluster.client.reader import load_client_config
from quotaform.model.errors import InvalidFilesError
from quotaform.sandbox.security import Certificates

pytestmark = pytest.mark.exhaustive

SECRET = "hunter2"
JAAS = f'org.apache.kafka.common.security.plain.PlainLoginModule required username="u" password="{SECRET}";'
SASL = f"security.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\nsasl.jaas.config={JAAS}\n"
STORE = "security.protocol=SSL\nssl.truststore.type=PEM\n"


def load(folder: Path, text: str | bytes) -> ClientConfig:
    path = folder / "client.properties"
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return load_client_config(path, environ={"QUOTAFORM_X": SECRET})


def refused(folder: Path, text: str | bytes) -> str:
    with pytest.raises(InvalidFilesError) as caught:
        load(folder, text)
    return str(caught.value)


def told(folder: Path, text: str | bytes) -> str:
    """Return what is printed of properties that may be right or wrong."""
    try:
        return repr(load(folder, text))
    except InvalidFilesError as error:
        return str(error)


def test_a_line_that_swallows_the_next_does_not_print_it(tmp_path: Path) -> None:
    """A line that ends with a backslash goes on: `security.protocol=SSL \\` printed the password of the next line."""
    for key in USED:
        assert SECRET not in refused(tmp_path, f"{key}=SASL_PLAINTEXT \\\nsasl.jaas.config={JAAS}\nfoo=\n")
        assert SECRET not in refused(tmp_path, f"{key} \\\n{JAAS}\nfoo=\n")


@pytest.mark.parametrize("base", [SASL, STORE, "security.protocol=SASL_SSL\n", ""])
@pytest.mark.parametrize(
    "value",
    [SECRET, f"https://me:{SECRET}@b1:9092", f"me:{SECRET}@b1", f"PLAIN,{SECRET}", f"{SECRET}:1x", f"/{SECRET}/ca.pem"],
)
def test_a_value_is_never_repeated_whatever_its_key(tmp_path: Path, base: str, value: str) -> None:
    """A password where another value belongs was printed with what was wrong about it."""
    for key in (*USED, "sasl.password", "sasl.mechanims", "ssl.hunter", "foo", "a.b", ""):
        text = f"{base}{key}={value}\nsasl.mechanism=nope\n"
        shown = told(tmp_path, text)
        if key not in {"client.id", "bootstrap.servers"}:
            assert SECRET not in shown, key
        assert SECRET not in told(tmp_path, f"{text}foo=\n"), key
        assert SECRET not in told(tmp_path, f"{text.replace(SECRET, '${env:QUOTAFORM_X}')}foo=\n"), key


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
        SASL + "sasl.jaas.config=" + "/*\\n" * 200_000,
        SASL + "sasl.jaas.config=" + "a" * 400_000,
        SASL + 'sasl.jaas.config="' + "\\\\" * 200_000,
        SASL + "sasl.jaas.config=x.PlainLoginModule required " + 'a="b" ' * 60_000 + ";",
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


def test_what_is_around_certificates_may_be_in_any_language(tmp_path: Path, certificates: Certificates) -> None:
    """A comment in Greek in a PEM file ended as an internal error."""
    pem = certificates.authority.read_text(encoding="utf-8")
    (tmp_path / "ca.pem").write_text(f"# Αρχή Πιστοποίησης\n{pem}\nτέλος\n", encoding="utf-8")
    config = load(tmp_path, f"{STORE}ssl.truststore.location={tmp_path}/ca.pem\n")
    assert config.ssl_context() is not None
    assert load(tmp_path, f"{STORE}ssl.truststore.location={certificates.authority}\n") == config


@pytest.mark.parametrize("secret", [SECRET, "12345678", f"{SECRET},12345678", f"{SECRET}\n{SECRET}"])
@pytest.mark.parametrize("base", [SASL, STORE, ""])
def test_what_was_expanded_is_on_no_screen(tmp_path: Path, base: str, secret: str) -> None:
    """A number that a variable held in the place of a TLS version was shown."""
    (tmp_path / "secret").write_text(secret)
    for key in sorted(USED - {"client.id"}):
        shown = told(tmp_path, f"{base}{key}=${{dir:{tmp_path}:secret}}\nfoo=\n")
        assert not any(part in shown for part in (SECRET, "12345678")), key
