"""What is read of client properties, and what is sent to log in with them, or why it is not, in the form of `table`.

`texts-properties.txt` has what is read or said, `logins-*.txt` what is sent. Every secret that a case holds is looked
for in what is shown.
"""

from __future__ import annotations

import json
import logging
import os
import pickle
import subprocess
import sys
from ast import literal_eval
from base64 import b64decode
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path
from re import Match, sub
from tempfile import TemporaryDirectory
from time import time
from typing import Any, Final
from urllib.parse import parse_qs

import pytest
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, generate_private_key
from cryptography.hazmat.primitives.serialization import BestAvailableEncryption, Encoding, NoEncryption, PrivateFormat

from quotaform.cli.command.scram import read_mechanisms, read_password_file, read_password_variable, read_users
from quotaform.cluster.client.config import ClientConfig, Exchange
from quotaform.cluster.client.reader import from_properties, load_client_config
from quotaform.cluster.client.tls import Tls
from quotaform.cluster.sasl import msk_iam, token_source
from quotaform.cluster.sasl.kerberos import Kerberos
from quotaform.cluster.sasl.msk_iam import MskIam
from quotaform.cluster.sasl.oauth import Bearer
from quotaform.cluster.sasl.password import Password
from quotaform.cluster.wire.failure import AttemptError, LoginError, code_error
from quotaform.cluster.wire.message import MalformedError
from quotaform.http.client import HttpRequest, Response, Transport
from quotaform.model.errors import InvalidFilesError, QuotaformError, UsageError
from quotaform.model.server import parse_servers
from quotaform.model.text import Secret
from quotaform.system.clock import Clock
from quotaform.usage.stream import client_options
from tests.golden.conftest import FOLDER, Golden
from tests.golden.table import Lines, Text, check_told, tables_of, told
from tests.http_server import HttpServer, Received, answer
from tests.identity_provider import CLIENTS, HANDLER, MODULE, IdentityProvider, decode, make_key, sign

STORES: Final = Path(__file__).resolve().parents[1] / "data" / "stores"
Patch = pytest.MonkeyPatch
JWT_BEARER: Final = "org.apache.kafka.common.security.oauthbearer.JwtBearerJwtRetriever"
ROLE: Final = "arn:aws:iam::123456789012:role/quotas"
AWS_SECRET, AWS_TOKEN = "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY", "c4nary/Session+Token=="
SECRETS: Final = (*CLIENTS.values(), "eyJ", "hunter2", AWS_SECRET, AWS_TOKEN)
STS_WORDS: Final = "c4nary words"
"""What STS says of an error: botocore logs it, and no message has it."""


def failure_of(error: LoginError) -> str:
    """Return what an error says, and check that it shows no secret."""
    said = f"{error.problem}; {error.remedy}"
    assert len(said) < 500
    assert not any(secret in f"{said} {vars(error)} {error.__cause__!r}" for secret in (*SECRETS, STS_WORDS))
    return said


def content_of(written: str) -> bytes:
    """Return the content of a file: a text, or a token (`jwt`) or a private key (`key`)."""
    kind, _, more = written.partition(" ")
    if kind == "jwt":
        return jwt_of(more).encode()
    if kind != "key":
        content = literal_eval(written)
        return content if isinstance(content, bytes) else str(content).encode("utf-8", "surrogatepass")
    curve, _, passphrase = more.partition(" ")
    key = generate_private_key(SECP256R1()) if curve == "ec" else make_key()
    encryption = BestAvailableEncryption(passphrase.encode()) if passphrase else NoEncryption()
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, encryption)


def jwt_of(written: str) -> str:
    """Return a token with these claims, `exp` in seconds from now if it is small."""
    claims = {"exp": 60, **json.loads(written)}
    if isinstance(claims["exp"], int) and claims["exp"] < 10_000:
        claims["exp"] += time()
    return sign(claims)


def request_text(request: dict[str, str]) -> str:
    """Return the fields of a request for a token, with times that do not depend on today."""
    shown = {name: value for name, value in sorted(request.items()) if value}
    for name in {"assertion", "client_assertion"} & shown.keys():
        header, claims = (decode(part) for part in shown[name].split(".")[:2])
        if "iat" in claims:
            claims |= {"exp": claims["exp"] - claims["iat"], "nbf": claims["nbf"] - claims.pop("iat")}
        signature = b64decode(shown[name].rpartition(".")[2] + "==", altchars=b"-_")
        claims = {name: len(value) if name == "jti" else value for name, value in claims.items() if name != "exp"} | {
            "exp": round(claims["exp"]) if claims["exp"] < 10_000 else "then"
        }
        shown[name] = f"{json.dumps(header)} {json.dumps(claims)} signed with {len(signature)} bytes"
    if "authorization" in shown:
        shown["authorization"] = b64decode(shown["authorization"].removeprefix("Basic ")).decode()
    return "asked: " + "; ".join(f"{name} {value}" for name, value in shown.items())


def reply_of(written: str) -> bytes:
    """Return an answer of the endpoint: a status with JSON, the literal of bytes or `Header: value`; `cut` is none."""
    status, _, more = written.partition(" ")
    if status == "cut":
        return b""
    if more.startswith("b"):
        return answer(int(status), literal_eval(more))
    if more[:1].isupper():
        name, value = more.split(": ")
        return answer(int(status), **{name: value})
    return answer(int(status), json.loads(more)) if more else answer(int(status))


def of_oauth(text: Text) -> Iterator[str]:
    """Yield what the endpoint is asked for, what the broker is sent, and what is said of its answer.

    Beside properties and variables (upper case), `reply` is an answer of the endpoint, `file NAME` a file, `broker` an
    answer of the broker, and `java` asks for the properties of a client in Java. `<x 5>` stands for `xxxxx`. `lacks` is
    a module that is not installed, `patience` is how long a command may take. `again FILE CONTENT` asks for a token
    again, after the file was written or, without a content, removed. `limits` tells how long a request may take.
    """
    lines = sub(r"<(\w+) (\d+)>", lambda said: said[1] * int(said[2]), str(text)).splitlines()
    with TemporaryDirectory() as folder, IdentityProvider() as provider, Patch.context() as patch:
        patch.setattr(token_source, "_kept", {})
        patch.setattr(Clock, "sleep", lambda self, seconds: None)
        words = {"MODULE": MODULE, "HANDLER": HANDLER, "IDP": provider.token_url, "FOLDER": folder, "JWT": JWT_BEARER}

        def spelled(said: str) -> str:
            for value in (provider.token_url, provider.token_url.removesuffix("/token")):
                said = said.replace(value, "IDP")
            return said.replace(folder, "FOLDER")

        used, send_once = list[Transport](), Transport.send_once

        def watched(transport: Transport, request: HttpRequest) -> Response:
            used.append(transport)
            return send_once(transport, request)

        patch.setattr(Transport, "send_once", watched)
        given = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "OAUTHBEARER"}
        environ, replies, challenges = dict[str, str](), list[bytes](), list[str]()
        for line in lines:
            kind, _, more = line.partition(" ")
            name, _, value = line.partition("=")
            if kind == "reply":
                replies.append(reply_of(more))
            elif kind == "file":
                name, _, content = more.partition(" ")
                Path(folder, name).write_bytes(content_of(content))
            elif kind in ("broker", "again"):
                challenges.append(line)
            elif kind == "lacks":
                patch.setitem(sys.modules, more, None)
            elif kind == "patience":
                patch.setattr(token_source, "_COMMAND_SECONDS", float(more))
            elif name.isupper():
                environ[name] = value.replace("FOLDER", folder)
                patch.setenv(name, environ[name])
            elif name not in ("java", "limits"):
                for word, stands_for in words.items():
                    value = value.replace(word, stands_for)
                given[name] = value
        left = iter(replies)
        provider.reply = lambda _: next(left, None)
        try:
            config = from_properties(given, environ=environ)
        except InvalidFilesError as error:
            yield from (spelled(problem.message) for problem in error.problems)
            return
        credentials = pickle.loads(pickle.dumps(config.credentials))  # noqa: S301
        assert isinstance(credentials, Bearer)
        assert not any(secret in f"{credentials!r} {credentials.who}" for secret in SECRETS)
        yield f"{credentials.who}:"
        if "java" in lines:
            try:
                options = client_options(["b1:9092"], config)
                yield from (spelled(f"{name.removeprefix('kafka.')}={options[name]}") for name in sorted(options))
            except QuotaformError as error:
                yield spelled(str(error))
            return
        is_asked_first = not challenges or challenges[0].startswith("again")
        for event in ["", *challenges] if is_asked_first else challenges:
            kind, _, challenge = event.partition(" ")
            if kind == "again":
                name, _, content = challenge.partition(" ")
                path, challenge = Path(folder, name), ""
                path.write_bytes(content_of(content)) if content else path.unlink()
            exchange = credentials.exchange("b1")
            try:
                sent = next(exchange).decode()
            except LoginError as error:
                sent = spelled(failure_of(error))
            yield from map(request_text, provider.requests)
            if "limits" in lines:
                yield from (f"{each.connect:g} s to connect, {each.total:g} s in all" for each in used)
            provider.requests.clear()
            token = sent.partition("auth=Bearer ")[2].partition("\1")[0]
            if not challenge:
                claims = decode(token.split(".")[1]) if token else {}
                yield sent.replace(token or "\1", f"TOKEN OF {claims.get('sub', claims.get('user'))}").replace(
                    "\1", "|"
                )
                continue
            yield f"broker says {refusal_of(exchange, challenge, token) or 'nothing'}"


def refusal_of(exchange: Any, challenge: str, token: str) -> str:
    """Return what is shown of the answer of a broker, which may repeat the token or parts of it."""
    parts = {"token": token, "start": token[:50], "middle": token[70:78], "payload": token.split(".")[1]}
    said = literal_eval(challenge)
    for name, part in {**parts, "end": token[-9:]}.items():
        said = said.replace(f"<{name}>".encode(), part.encode())
    if said:
        assert exchange.send(said) == b"\1"
    with pytest.raises(AttemptError) as caught:
        exchange.throw(code_error(58))
    assert len(caught.value.more) < 220
    return caught.value.more


def write_file(folder: str, written: str) -> None:
    name, _, content = written.partition(" ")
    Path(folder, name).write_text(literal_eval(content))


def aws_answer(asked: Received, said: str) -> bytes:
    """Return keys for so many seconds, or an error, as STS or a container gives them."""
    if asked.target == "/keys":
        until = (datetime.now(UTC) + timedelta(seconds=int(said))).isoformat()
        keys = {"AccessKeyId": "ASIATEMPORARY", "SecretAccessKey": AWS_SECRET, "Token": AWS_TOKEN, "Expiration": until}
        return answer(200, keys)
    action = parse_qs(asked.body.decode())["Action"][0]
    if not said.isdigit():
        body = f"<ErrorResponse><Error><Code>{said}</Code><Message>{STS_WORDS}</Message></Error></ErrorResponse>"
        return answer(403, body.encode(), Content_Type="text/xml")
    until = (datetime.now(UTC) + timedelta(seconds=int(said))).strftime("%Y-%m-%dT%H:%M:%SZ")
    return answer(
        200,
        f"""<{action}Response xmlns="https://sts.example/doc/2011-06-15/"><{action}Result><Credentials>
        <AccessKeyId>ASIATEMPORARY</AccessKeyId><SecretAccessKey>{AWS_SECRET}</SecretAccessKey>
        <SessionToken>{AWS_TOKEN}</SessionToken><Expiration>{until}</Expiration></Credentials></{action}Result>
        </{action}Response>""".encode(),
        Content_Type="text/xml",
    )


@cache
def aws_tables(folders: str | None) -> object:
    """Return what botocore reads of its services for each session, a megabyte of JSON, read once."""
    from botocore.loaders import create_loader

    return create_loader(folders)


def of_msk(text: Text) -> Iterator[str]:
    """Yield whose signature brokers are sent, and for which region, and what STS is asked for.

    Variables are those of the process. `options` are those of the login module, `file NAME` is a file, `sts` answers
    with keys for some seconds or with an error, and `host` is a broker, asked once if there is none. `broker` is what
    it answers. `later NAME` is a file that is there after the first host, `container` gives keys for some seconds, and
    `lacks` is a module that is not installed.
    """
    given = defaultdict[str, list[str]](list)
    with TemporaryDirectory() as folder, Patch.context() as patch:
        for name in [*os.environ]:
            if name.startswith("AWS_") or name.lower().endswith("_proxy") or name == "QUOTAFORM_ALLOWED_HOSTS":
                patch.delenv(name)
        patch.setattr(msk_iam, "_temporary", {})
        patch.setattr("botocore.session.create_loader", aws_tables)
        words = {"AWS_EC2_METADATA_DISABLED": "true", "AWS_CONFIG_FILE": f"{folder}/config"}
        words["AWS_SHARED_CREDENTIALS_FILE"] = f"{folder}/credentials"
        written = str(text).replace("<role>", ROLE).replace("<secret>", AWS_SECRET).replace("<token>", AWS_TOKEN)
        for line in written.replace("<folder>", folder).splitlines():
            kind, _, more = line.partition(" ")
            if kind == "lacks":
                patch.setitem(sys.modules, more, None)
            elif kind == "file":
                write_file(folder, more)
            elif kind in ("options", "sts", "host", "broker", "container", "later"):
                given[kind].append(more)
            else:
                name, _, value = line.partition("=")
                words[name] = value
        said, contained, options = ("".join(given[kind]) for kind in ("sts", "container", "options"))
        with HttpServer(lambda asked: aws_answer(asked, contained or said)) as sts:
            if said:
                words["AWS_ENDPOINT_URL_STS"] = sts.url
            if contained:
                words["AWS_CONTAINER_CREDENTIALS_FULL_URI"] = f"{sts.url}/keys"
            for name, value in words.items():
                patch.setenv(name, value)
            line = f"software.amazon.msk.auth.iam.IAMLoginModule required {options};"
            properties = {"security.protocol": "SASL_SSL", "sasl.mechanism": "AWS_MSK_IAM", "sasl.jaas.config": line}
            source = from_properties(properties, environ=words).credentials
            assert isinstance(source, MskIam)
            assert pickle.loads(pickle.dumps(source)) == source  # noqa: S301
            if "${" not in line:
                java = {"security.protocol": "SASL_SSL", **source.java_properties()}
                assert from_properties(java, environ={}).credentials == source
            for host in given["host"] or ["b-1.demo.abc.c2.kafka.eu-west-1.amazonaws.com"]:
                try:
                    sent = json.loads(next(exchange := source.exchange(host)))
                except LoginError as error:
                    yield failure_of(error).replace(str(sts.port), "PORT")
                else:
                    key, _, region, *_ = sent["x-amz-credential"].split("/")
                    yield f"{key} in {region}{' with a session' if 'x-amz-security-token' in sent else ''}"
                    age = datetime.now(UTC) - datetime.strptime(sent["x-amz-date"], "%Y%m%dT%H%M%S%z")
                    assert timedelta(0) <= age < timedelta(minutes=5)
                    assert not any(
                        secret in f"{source!r} {source.who} {source.check} {exchange!r}" for secret in SECRETS
                    )
                    yield from (answered(exchange, source, each) for each in given["broker"])
                while given["later"]:
                    write_file(folder, given["later"].pop())
            for asked in sts.received:
                if contained:
                    yield "asked the container"
                    continue
                form = {name: value for name, (value,) in parse_qs(asked.body.decode()).items()}
                region = asked.headers.get("authorization", "///").split("/")[2]
                more = ", ".join(f"{name} {form[name]}" for name in sorted(form.keys() - {"Version", "Action"}))
                more = sub(r"botocore-session-\d+", "SESSION", more)
                yield f"asked for {form['Action']}{f' in {region}' if region else ''}: {more}"


def answered(exchange: Exchange, source: MskIam, reply: str) -> str:
    """Return what becomes of an answer, or what is said of `58`, by which a broker refuses."""
    if reply == "58":
        return f"{source.who}; {source.check}"
    try:
        exchange.send(literal_eval(reply))
    except StopIteration:
        return "accepted"
    except (MalformedError, ValueError) as error:
        return f"{type(error).__name__}: {error}"
    return "not accepted"


def read_of(config: ClientConfig) -> Iterator[str]:
    """Yield what was read of properties that name files; the command has gone elsewhere meanwhile."""
    os.chdir("/")
    if config.client_id:
        yield f"client id {config.client_id}"
    if config.tls is not None:
        yield from certificates_of(config, config.tls)
    if config.credentials is not None:
        yield config.credentials.who
    if isinstance(config.credentials, Kerberos):
        java = config.credentials.java_properties()
        again = from_properties({"security.protocol": config.security_protocol, **java}, environ={}).credentials
        assert isinstance(again, Kerberos)
        assert again.java_properties() == java
        assert pickle.loads(pickle.dumps(config.credentials)) == config.credentials  # noqa: S301
    if isinstance(config.credentials, Bearer) and isinstance(config.credentials.source, token_source.SecretFile):
        token = next(config.credentials.exchange("b1")).decode().partition("auth=Bearer ")[2]
        yield f"the token of {decode(token.split('.')[1])['sub']}"
        yield f"in Java {config.credentials.java_properties()['sasl.oauthbearer.token.endpoint.url']}"


def certificates_of(config: ClientConfig, tls: Tls) -> Iterator[str]:
    """Yield who is trusted, and what is shown to a broker that asks for a certificate."""
    assert pickle.loads(pickle.dumps(config)) == config  # noqa: S301
    context = tls.context()  # key and certificate belong to each other
    subjects = (dict(part[0] for part in each["subject"])["commonName"] for each in context.get_ca_certs())  # type: ignore[misc]
    if tls.ca:
        yield f"trusts {', '.join(sorted(subjects)) or 'nobody'} by {tls.ca.count('BEGIN CERTIFICATE')} certificates"
    if tls.key_store is not None:
        pem = tls.key_store.reveal()
        assert "PRIVATE" not in repr(config)
        yield f"shows {pem.count('BEGIN CERTIFICATE')} certificates of {pem.count('BEGIN PRIVATE KEY')} key"


def of_named(text: Text) -> Iterator[str]:
    """Yield what is read of client properties that name files: `read PATH` are those of the operator.

    `within REPOSITORY PATH` are those that a repository names. `file`, `store`, `link` and `command` make files in
    FOLDER, and `cd` is where quotaform runs. Variables are those of the process, too.
    """
    environ = dict[str, str]()
    with TemporaryDirectory() as folder, Patch.context() as patch:
        at = Path(folder)
        written = str(text).replace("FOLDER", folder).replace("MODULE", MODULE).replace("PYTHON", sys.executable)
        for line in written.splitlines():
            word, _, rest = line.partition(" ")
            name, _, more = rest.partition(" ")
            patch.chdir(at)
            if word in ("read", "within"):
                yield from (said.replace(folder, "FOLDER") for said in told_of(rest, word == "within", environ))
            elif word == "cd":
                at = Path(folder, rest)
            elif word in ("file", "store", "link", "command"):
                path = Path(folder, name)
                path.parent.mkdir(parents=True, exist_ok=True)
                if word == "link":
                    path.symlink_to(more)
                else:
                    content = (STORES / more).read_bytes() if word == "store" else content_of(more or "'#!/bin/sh'")
                    path.write_bytes(content)
                    path.chmod(0o755 if word == "command" else 0o644)
            else:
                name, _, value = line.partition("=")
                environ[name] = value
                patch.setenv(name, value)


def told_of(asked: str, is_named_by_repository: bool, environ: Mapping[str, str]) -> Iterator[str]:
    repository, _, path = asked.rpartition(" ")
    within = Path(repository) if is_named_by_repository else None
    try:
        found = load_client_config(path, repository=within, environ=environ)
        said = [f"{asked}: {', '.join(read_of(found))}"]
    except InvalidFilesError as error:
        said = [f"{problem.location}: {problem.message}" for problem in error.problems]
    assert not any(secret in "".join(said) for secret in ("hunter2", "store-secret"))
    yield from said


def of_password(text: Text) -> Iterator[str]:
    """Yield the password of a file with this content, and that of a variable, or why it is none."""
    content = text if isinstance(text, bytes) else text.rstrip("\n").encode()
    with TemporaryDirectory() as folder, Patch.context() as patch:
        path = Path(folder, "hunter3")
        path.write_bytes(content)
        readers: dict[str, Callable[[], Secret]] = {"file": lambda: read_password_file(path)}
        if b"\0" not in content and len(content) < 1000:
            patch.setitem(os.environ, "PW", content.decode(errors="surrogateescape"))
            readers["variable"] = lambda: read_password_variable("PW")
        for name, read in readers.items():
            try:
                yield f"{name}: {read().reveal()!r}"
            except UsageError as error:
                if any(secret in str(error) for secret in (*SECRETS, path.name)):
                    raise
                yield f"{name}: {error}"


def of_credentials(text: Text) -> Iterator[str]:
    """Yield the users or the mechanisms that a command line means; `<x 5>` stands for `xxxxx`."""
    kind, *words = sub(r"<(\w+) (\d+)>", lambda said: said[1] * int(said[2]), str(text)).split()
    yield f"{read_users(words) if kind == 'users' else [*map(str, read_mechanisms(words))]}"


TABLES = tables_of(globals())


@pytest.mark.parametrize("name", TABLES)
def test_this_is_sent_to_log_in_or_refused_in_these_words(
    golden: Golden, monkeypatch: Patch, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str], name: str
) -> None:
    monkeypatch.setenv("no_proxy", "*")
    with caplog.at_level(logging.DEBUG):
        check_told(golden, f"logins-{name}.txt", TABLES[name])
    shown = caplog.text + capfd.readouterr().out
    assert [secret for secret in SECRETS if secret in shown] == []


ENVIRONMENT = {
    "QUOTAFORM_ENV": "QUOTAFORM_PASS,QUOTAFORM_JAAS,QUOTAFORM_X,QUOTAFORM_HOST,WHO,SERVERS,UNSET",
    "QUOTAFORM_PASS": "s${env:NO}",
    "QUOTAFORM_JAAS": 'org.apache.kafka.common.security.plain.PlainLoginModule required username="u" password="p\\"q";',
    "QUOTAFORM_X": "y",
    "QUOTAFORM_HOST": "b1",
    "WHO": "bob",
    "SERVERS": "",
}
KEYS = "password=old\npassword : p\\=1\na\\:b=\\u00e9\n# x=\nbad=\\u1\nuser=bob\nservers=b1:9092,b2:9092\nk=hunter2\n"


@pytest.fixture
def folder(tmp_path: Path, certificates: Path) -> Path:
    """Files that properties refer to; the mount is that of a Kubernetes secret."""
    tenant, other = certificates / "tenant.pem", certificates / "quota-admin.pem"
    key, chain = tenant.with_suffix(".key"), tenant.with_suffix(".crt").read_text()
    command = f"openssl pkcs8 -topk8 -in {key} -out {tmp_path}/encrypted.key -passout pass:open-sesame"
    subprocess.run(command.split(), check=True, capture_output=True)
    encrypted = (tmp_path / "encrypted.key").read_text()
    stores = {
        "ca": (certificates / "ca.pem").read_text(), "tenant": tenant.read_text(),
        "key": key.read_text(), "chain": chain,
        "mixed": key.read_text() + other.with_suffix(".crt").read_text(),
        "encrypted": encrypted + chain,
    }  # fmt: skip
    for name, text in stores.items():
        (tmp_path / f"{name}.pem").write_text(text)
    texts = {"keys": KEYS, "keys.properties": KEYS, "password": "s3cret\n", "a": "k=v", "in/a": "k=v", "out/a": "k=v"}
    for name, text in texts.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    (tmp_path / "large").write_bytes(b"hunter2 " * (1 << 17) + b"x")
    (tmp_path / "binary").write_bytes(b"hunter2\xff")
    data = tmp_path / "mount" / "..2026"
    data.mkdir(parents=True)
    (data / "password").write_text("s3cret two\n")
    (data / "nested").write_text("${env:QUOTAFORM_X}")
    (data.parent / "..data").symlink_to(data.name)
    for name in ("password", "nested"):
        (data.parent / name).symlink_to(f"..data/{name}")
    return tmp_path


def test_client_properties_are_read_or_refused_in_these_words(folder: Path, golden: Golden) -> None:
    """`FOLDER` is that of the files that a file may refer to, beside which it lies; `STORES` has stores of Java.

    `INLINE:FILE` is the text of a file on one line, with spaces or, as `INLINE_ESCAPED`, with escapes for line ends.
    """
    path = folder / "client.properties"

    def inline(found: Match[str]) -> str:
        return (folder / found[2]).read_text().strip().replace("\n", "\\n" if found[1] else " ")

    def of_properties(text: Text) -> Lines:
        written = sub(r"INLINE(_ESCAPED)?:([\w.]+)", inline, str(text))
        path.write_bytes(written.replace("FOLDER", str(folder)).replace("STORES", str(STORES)).encode())
        try:
            config = load_client_config(path, environ=ENVIRONMENT)
        except InvalidFilesError as error:
            said = [f"{problem.location}: {problem.message}".removeprefix(f"{path}:") for problem in error.problems]
            assert "hunter2" not in str(said)
            return [each.replace(str(folder), "FOLDER") for each in said]
        assert "hunter2" not in f"{config!r} {config}"
        return [each.replace(str(folder), "FOLDER") for each in differing(config)]

    file = "texts-properties.txt"
    written = (FOLDER / file).read_text(encoding="utf-8")
    golden(file, "\n".join(told(written, of_properties)).lstrip("\n") + "\n")


def differing(config: ClientConfig) -> Iterator[str]:
    """Yield the fields that are not the default, with the password."""
    default = ClientConfig()
    for name in ClientConfig.__struct_fields__:
        value = getattr(config, name)
        if isinstance(value, Password):
            yield f"{value.mechanism} {value.username!r} {value.password.reveal()!r}, shown as {value.who}"
        elif name == "bootstrap_servers" and value:
            yield f"{name} {value!r}, which are {[(server.host, server.port) for server in parse_servers(value)]}"
        elif name == "tls" and value is not None:
            yield tls_of(config)
        elif value != getattr(default, name):
            yield f"{name} {value!r}"


def tls_of(config: ClientConfig) -> str:
    """Return what is trusted, shown and offered."""
    assert config.tls is not None
    context = config.tls.context()
    trusted = f"{len(context.get_ca_certs())} authorities" if config.tls and config.tls.ca is not None else "the system"
    ciphers = [each["name"] for each in context.get_ciphers() if each["protocol"] != "TLSv1.3"]
    said = [
        f"tls trusts {trusted}",
        f"{context.minimum_version.name} to {context.maximum_version.name}",
        "shows a certificate" * (config.tls.key_store is not None),
        "" if context.check_hostname else "checks no host",
        " ".join(ciphers if any("_WITH_" in each for each in config.tls.ciphers) else []),
    ]
    return ", ".join(filter(None, said))
