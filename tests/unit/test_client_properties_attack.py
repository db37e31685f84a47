"""Client properties that somebody made to find out a secret, to crash the reader or to keep it busy."""

from __future__ import annotations

from pathlib import Path
from time import process_time

import pytest

from quotaform.cluster.client.config import ClientConfig
from quotaform.cluster.client.properties import USED, refusal
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


def test_a_number_of_very_many_digits_is_a_problem(tmp_path: Path) -> None:
    """5 million digits, which Python does not turn into a number, ended as an internal error."""
    assert "request.timeout.ms" in refused(tmp_path, f"request.timeout.ms={'9' * 1_000_000}\n")


def test_what_is_around_certificates_may_be_in_any_language(tmp_path: Path, certificates: Certificates) -> None:
    """A comment in Greek in a PEM file ended as an internal error."""
    pem = certificates.authority.read_text(encoding="utf-8")
    (tmp_path / "ca.pem").write_text(f"# Αρχή Πιστοποίησης\n{pem}\nτέλος\n", encoding="utf-8")
    config = load(tmp_path, f"{STORE}ssl.truststore.location={tmp_path}/ca.pem\n")
    assert config.ssl_context() is not None
    assert load(tmp_path, f"{STORE}ssl.truststore.location={certificates.authority}\n") == config


@pytest.mark.parametrize(
    "pem",
    [
        "-----BEGIN CERTIFICATE-----\nΑ\n-----END CERTIFICATE-----\n",
        "-----BEGIN CERTIFICATE-----\n\0\n-----END CERTIFICATE-----\n",
        "-----END CERTIFICATE-----\n-----BEGIN CERTIFICATE-----\n",
        "-----BEGIN PRIVATE KEY-----\n-----BEGIN CERTIFICATE-----\nx\n-----END CERTIFICATE-----\n",
        "",
        "\ud800",
    ],
)
def test_a_store_that_holds_no_certificate_is_a_problem(tmp_path: Path, pem: str) -> None:
    """Non-ASCII text in a certificate ended as an internal error."""
    (tmp_path / "ca.pem").write_bytes(pem.encode("utf-8", "surrogatepass"))
    told = refused(tmp_path, f"{STORE}ssl.truststore.location={tmp_path}/ca.pem\n")
    assert "ssl.truststore.location" in told
    (tmp_path / "ca.pem").rename(tmp_path / "key.pem")
    text = f"security.protocol=SSL\nssl.keystore.type=PEM\nssl.keystore.location={tmp_path}/key.pem\n"
    assert "ssl.keystore.location" in refused(tmp_path, f"{text}ssl.key.password={SECRET}\n")


@pytest.mark.parametrize("content", [b"\xff\xfe", b"\0" * 1000, b"\xed\xa0\x80=x", b"client.id=\xff", b"\x85=\n"])
def test_bytes_that_are_no_text_are_read_as_java_reads_them_or_refused(tmp_path: Path, content: bytes) -> None:
    assert "client.properties" in told(tmp_path, content) or load(tmp_path, content).client_id in {None, "ÿ"}


def test_a_link_in_a_repository_leads_to_no_store_elsewhere(tmp_path: Path, certificates: Certificates) -> None:
    """A pull request could have any file of the machine read by properties that name a link."""
    (tmp_path / "repository").mkdir()
    (tmp_path / "repository" / "ca.pem").symlink_to(certificates.authority)
    path = tmp_path / "repository" / "client.properties"
    path.write_text(f"{STORE}ssl.truststore.location=ca.pem\n")
    with pytest.raises(InvalidFilesError, match="a link leads out of the directory"):
        load_client_config(path, repository=path.parent)
    assert load_client_config(path).tls is not None


@pytest.mark.parametrize(
    "reference",
    [
        "${dir:$/secrets:password}",
        "${file:$/secrets/keys:password}",
        "${file:../../secrets/keys:password}",
        "${file:/proc/self/root$/secrets/keys:password}",
        "${file:link:password}",
        "${dir:folder:password}",
        "${file:$/secrets/nothing:password}",
        "${dir:/proc/self:environ}",
        "${dir:.git:token}",
        "${file:$/clone/quotas/sub/.git/token:password}",
    ],
)
@pytest.mark.parametrize("named", ["client.properties", "../client.properties", "/proc/self/root$/way", "$/way"])
def test_a_pull_request_chooses_no_file_whose_content_is_sent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, reference: str, named: str
) -> None:
    """The properties are in the clone, whatever the repository calls them; nothing tells which other files exist."""
    repository = tmp_path / "clone" / "quotas"
    for folder in ("sub/.git", ".git", "../.git", "../../secrets"):
        (repository / folder).mkdir(parents=True)
        for name in ("password", "keys", "token"):
            (repository / folder / name).write_text(f"password={SECRET}")
    (repository / "link").symlink_to(tmp_path / "secrets" / "keys")
    (repository / "folder").symlink_to(tmp_path / "secrets")
    path = (repository / named.replace("$", str(tmp_path))).resolve()
    path = repository / "client.properties" if path.name == "way" else path
    path.write_text(f"client.id={reference.replace('$/', f'{tmp_path}/')}\n")
    (tmp_path / "way").symlink_to(path)
    monkeypatch.chdir(repository)
    place = repository / named.replace("$", str(tmp_path))
    with pytest.raises(InvalidFilesError) as caught:
        load_client_config(place, repository=repository)
    assert "client.id: a ${...} names a file that is outside of the repository" in str(caught.value)
    assert SECRET not in str(caught.value)


def test_the_operators_properties_may_name_any_file_and_those_of_a_repository_its_own(tmp_path: Path) -> None:
    for folder in ("repository", "etc"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "keys").write_text(f"k={folder}")
        (tmp_path / folder / "client.properties").write_text("client.id=${file:keys:k}")
    repository, etc = tmp_path / "repository", tmp_path / "etc" / "client.properties"
    (repository / "own").symlink_to("keys")
    (repository / "own.properties").write_text(f"client.id=${{dir:{repository}:own}}")
    assert load_client_config(etc, repository=repository).client_id == "etc"
    assert load_client_config(repository / "client.properties", repository=repository).client_id == "repository"
    assert load_client_config(repository / "own.properties", repository=repository).client_id == "k=repository"
    (repository / "own.properties").write_text(f"client.id=${{file:{tmp_path}/etc/keys:k}}")
    assert load_client_config(repository / "own.properties").client_id == "etc"


def test_no_pattern_of_a_repository_is_matched(tmp_path: Path) -> None:
    """`(A+)+B` takes years, and the operator's list of variables says already which may be read."""
    path = tmp_path / "client.properties"
    path.write_text("config.providers.env.param.allowlist.pattern=(A+)+B\nclient.id=${env:" + "A" * 100 + "}\n")
    with pytest.raises(InvalidFilesError, match=r"allowlist\.pattern cannot be used in a repository"):
        load_client_config(path, repository=tmp_path, environ={"QUOTAFORM_ENV": "A" * 100})


@pytest.mark.parametrize("secret", [SECRET, "12345678", f"{SECRET},12345678", f"{SECRET}\n{SECRET}"])
@pytest.mark.parametrize("base", [SASL, STORE, ""])
def test_what_was_expanded_is_on_no_screen(tmp_path: Path, base: str, secret: str) -> None:
    """A number that a variable held in the place of a TLS version was shown."""
    (tmp_path / "secret").write_text(secret)
    for key in sorted(USED - {"client.id"}):
        shown = told(tmp_path, f"{base}{key}=${{dir:{tmp_path}:secret}}\nfoo=\n")
        assert not any(part in shown for part in (SECRET, "12345678")), key


def test_a_secret_without_its_equals_sign_is_not_shown() -> None:
    """A line `ssl.key.passwordVALUE`, its `=` forgotten, was shown as a key that is not supported."""
    text = refusal("ssl.key.passwordhunter2", is_line=True)
    assert text == "ssl.key.password is not followed by = and a value; write ssl.key.password=VALUE"
