"""OAUTHBEARER: which properties mean what, where tokens come from, and that no secret is shown."""

from __future__ import annotations

import json
import pickle
import sys
from base64 import b64decode
from collections.abc import Iterator
from pathlib import Path
from time import time
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import ec, utils
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
)

from quotaform.cluster.client.config import Exchange
from quotaform.cluster.client.reader import from_properties, load_client_config
from quotaform.cluster.sasl import token_source
from quotaform.cluster.sasl.oauth import Bearer
from quotaform.cluster.wire.failure import CodeError, LoginError, RefusedError
from quotaform.http.client import Limits, send
from quotaform.http.message import Request, Response
from quotaform.model.errors import ConnectError, InvalidFilesError, QuotaformError
from quotaform.sandbox.security import Certificates
from quotaform.usage.stream.run import client_options
from tests.http_server import answer
from tests.identity_provider import CLIENTS, HANDLER, MODULE, IdentityProvider, decode, make_key, sign

pytestmark = pytest.mark.usefixtures("no_proxy")

JAAS, URL = "sasl.jaas.config", "sasl.oauthbearer.token.endpoint.url"
ASSERTION = "sasl.oauthbearer.assertion."
JWT_BEARER = "org.apache.kafka.common.security.oauthbearer.JwtBearerJwtRetriever"
QUICK = {"sasl.login.retry.backoff.ms": "1", "sasl.login.retry.backoff.max.ms": "200"}
FILE = {JAAS: f"{MODULE} required;"}


@pytest.fixture
def provider() -> Iterator[IdentityProvider]:
    with IdentityProvider() as started:
        yield started


def read(properties: dict[str, str], **environ: str) -> Bearer:
    """Return what properties say, as another process gets it."""
    given = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "OAUTHBEARER", **properties}
    credentials = pickle.loads(pickle.dumps(from_properties(given, environ=environ).credentials))  # noqa: S301
    assert isinstance(credentials, Bearer)
    shown = f"{credentials!r} {credentials.who}"
    assert not any(secret in shown for secret in CLIENTS.values())
    return credentials


def problems(properties: dict[str, str], **environ: str) -> list[str]:
    with pytest.raises(InvalidFilesError) as caught:
        read(properties, **environ)
    return [problem.message for problem in caught.value.problems]


def first_message(credentials: Bearer) -> str:
    return next(credentials.exchange("b1")).decode()


def token_of(credentials: Bearer) -> str:
    return first_message(credentials).split("\1")[1].removeprefix("auth=Bearer ")


def claims_of(token: str) -> Any:
    return decode(token.split(".")[1])


def failure(credentials: Bearer) -> str:
    """Return why there is no token, and check that it shows no secret."""
    with pytest.raises(LoginError) as caught:
        next(credentials.exchange("b1"))
    said = f"{caught.value.problem}; {caught.value.remedy}"
    assert said.isprintable()
    assert len(said) < 500
    shown = f"{said} {vars(caught.value)} {caught.value.__cause__!r}"
    assert not any(secret in shown for secret in (*CLIENTS.values(), "eyJ", "hunter2"))
    return said


class TestClientCredentials:
    def test_id_and_secret_are_sent_as_java_sends_them(self, provider: IdentityProvider) -> None:
        credentials = read(provider.client_properties(options='scope="a b"'))
        assert credentials.who == "client admin"
        assert claims_of(token_of(credentials))["sub"] == "admin"
        [request] = provider.requests
        assert request["grant_type"] == "client_credentials"
        assert request["scope"] == "a b"
        assert b64decode(request["authorization"].removeprefix("Basic ")) == b"admin:admin-idp-secret"

    def test_the_keys_of_kafka_4_1_win_over_the_options(self, provider: IdentityProvider) -> None:
        prefix = "sasl.oauthbearer.client.credentials.client."
        newer = {f"{prefix}id": "tenant", f"{prefix}secret": CLIENTS["tenant"], "sasl.oauthbearer.scope": "new"}
        credentials = read(provider.client_properties(options='scope="old"') | newer)
        assert credentials.who == "client tenant"
        assert claims_of(token_of(credentials))["sub"] == "tenant"
        assert provider.requests[0]["scope"] == "new"

    def test_id_and_secret_can_be_url_encoded(self, provider: IdentityProvider) -> None:
        properties = provider.client_properties(client="a b", secret="x:+%") | {
            "sasl.oauthbearer.header.urlencode": "true"
        }
        assert "refused to give a token" in failure(read(properties))
        sent = b64decode(provider.requests[0]["authorization"].removeprefix("Basic "))
        assert sent == b"a+b:x%3A%2B%25"

    def test_a_client_of_a_variable_is_shown_as_it_is_written(self, provider: IdentityProvider) -> None:
        properties = provider.client_properties(client="${env:QUOTAFORM_X}", secret="s")
        credentials = read(properties, QUOTAFORM_X="hunter2", QUOTAFORM_ENV="QUOTAFORM_X")
        assert credentials.who == "client ${env:QUOTAFORM_X}"
        message = failure(credentials)
        assert "refused to give a token (status 401, invalid_client: " in message

    def test_one_token_is_used_until_it_is_old(
        self, provider: IdentityProvider, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        credentials, begun = read(provider.client_properties()), time()
        first = token_of(credentials)
        monkeypatch.setattr(token_source, "time", lambda: begun + 2870)
        assert token_of(credentials) == first
        monkeypatch.setattr(token_source, "time", lambda: begun + 2890)
        token_of(credentials)
        assert len(provider.requests) == 2

    def test_the_old_token_is_used_while_there_is_no_other(
        self, provider: IdentityProvider, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        credentials, begun = read(provider.client_properties() | QUICK), time()
        first = token_of(credentials)
        provider.reply = lambda _: answer(503)
        monkeypatch.setattr(token_source, "time", lambda: begun + 3500)
        assert token_of(credentials) == first
        monkeypatch.setattr(token_source, "time", lambda: begun + 3700)
        assert "status 503" in failure(credentials)


class TestAnswersOfTheEndpoint:
    @pytest.mark.parametrize(
        ("reply", "said"),
        [
            (answer(401, {"error": "invalid_client"}), "(status 401, invalid_client)"),
            (answer(400, {"error": "invalid_scope", "error_description": "no\n::error::\x1b[31m"}), "status 400, "),
            (answer(400, {"errorCode": "E1", "errorSummary": "of Okta"}), "(status 400, E1: of Okta)"),
            (answer(403, b"<html>hunter2</html>"), "(status 403)"),
            (answer(404, b"\xff\x00"), "(status 404)"),
            (answer(400, {"error": {"a": 1}, "error_description": ["x"]}), "(status 400)"),
            (answer(400, ["error"]), "(status 400)"),
            (answer(400, {"error": "x" * 5000}), f"(status 400, {'x' * 200})"),
            (answer(400, {"error": "ey" * 400_000}), "(status 400, ***)"),
            (answer(400, {"error": "admin-idp-secret eyJhbGciOiJ9.eyJzdWIiOiJ9.abc"}), "(status 400, *** ***)"),
            (answer(200, {"token": "x"}), "gave no access_token"),
            (answer(200, b"<html>"), "answered with something that is not JSON"),
            (answer(200, {"access_token": "hunter2"}), "is not a JWT, which has three parts"),
            (answer(302, Location="https://other.example/"), "redirects to https://other.example"),
            (answer(200, b"x" * (2 << 20)), "more than"),
        ],
    )
    def test_what_cannot_be_used_is_one_sentence_and_asked_for_once(
        self, provider: IdentityProvider, reply: bytes, said: str
    ) -> None:
        provider.reply = lambda _: reply
        message = failure(read(provider.client_properties() | QUICK))
        assert said in message
        assert "the token endpoint http://localhost:" in message
        assert len(provider.requests) == 1

    @pytest.mark.parametrize("reply", [answer(500), answer(503, b"<html>"), answer(429, {"error": "slow_down"}), b""])
    def test_what_may_pass_is_asked_for_again(self, provider: IdentityProvider, reply: bytes) -> None:
        replies = iter([reply, reply])
        provider.reply = lambda _: next(replies, None)
        quick = {"sasl.login.retry.backoff.ms": "1"}
        assert claims_of(token_of(read(provider.client_properties() | quick)))["sub"] == "admin"
        assert len(provider.requests) == 3

    @pytest.mark.parametrize(("given", "seconds"), [(None, 10), ("2500", 2.5), ("2147483647", 60)])
    def test_it_is_asked_for_a_limited_time(
        self, provider: IdentityProvider, monkeypatch: pytest.MonkeyPatch, given: str | None, seconds: float
    ) -> None:
        """Properties of a repository could keep a job waiting for weeks."""
        waits: list[float] = []
        monkeypatch.setattr(token_source, "sleep", waits.append)
        monkeypatch.setattr(token_source, "monotonic", lambda: sum(waits))
        provider.reply = lambda _: answer(500)
        longest = {"sasl.login.retry.backoff.max.ms": given} if given else {}
        message = failure(read(provider.client_properties() | longest))
        assert message.endswith("failed (status 500); try again later")
        assert seconds / 4 < sum(waits) < seconds
        assert len(provider.requests) == len(waits) + 1

    @pytest.mark.parametrize(
        ("limits", "connect", "total"),
        [({}, 10, 30), ({"connect": "0", "read": "0"}, 10, 30), ({"connect": "2000", "read": "3000"}, 2, 5)],
    )
    def test_no_time_limit_is_that_of_every_request(
        self,
        provider: IdentityProvider,
        monkeypatch: pytest.MonkeyPatch,
        limits: dict[str, str],
        connect: float,
        total: float,
    ) -> None:
        used: list[Limits] = []

        def watched(request: Request, limits: Limits, **more: Any) -> Response:
            used.append(limits)
            return send(request, limits, **more)

        monkeypatch.setattr(token_source, "send", watched)
        given = {f"sasl.login.{name}.timeout.ms": value for name, value in limits.items()}
        assert token_of(read(provider.client_properties() | given))
        assert [(each.connect, each.total) for each in used] == [(connect, total)]

    def test_an_endpoint_that_is_not_there_is_named(self, provider: IdentityProvider) -> None:
        properties = provider.client_properties() | QUICK | {URL: "http://127.0.0.1:1/secret-path"}
        message = failure(read(properties))
        assert "the token endpoint http://127.0.0.1:1 cannot be reached: the connection was refused" in message
        assert "secret-path" not in message


def test_a_token_endpoint_that_is_not_listed_is_not_asked(
    provider: IdentityProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("QUOTAFORM_ALLOWED_HOSTS", "kafka.example")
    credentials = read(provider.client_properties() | QUICK)
    assert "is not listed in QUOTAFORM_ALLOWED_HOSTS, so nothing is sent to it" in failure(credentials)
    assert not provider.requests
    with pytest.raises(ConnectError, match="QUOTAFORM_ALLOWED_HOSTS"):
        credentials.java_properties()


class TestTls:
    def test_the_options_of_the_login_module_say_what_is_trusted(self, certificates: Certificates) -> None:
        with IdentityProvider(tls=(str(certificates.server), str(certificates.server))) as provider:
            trust = f'ssl.truststore.type="PEM" ssl.truststore.location="{certificates.authority}"'
            assert claims_of(token_of(read(provider.client_properties(options=trust))))["sub"] == "admin"
            # Those outside of them are for the broker, as in Java.
            outside = {"ssl.truststore.type": "PEM", "ssl.truststore.location": str(certificates.authority)}
            message = failure(read(provider.client_properties() | outside | QUICK))
            assert "has a certificate that is not trusted" in message
            assert message.endswith("give the CA that issued it with ssl.truststore.location in sasl.jaas.config")

    def test_an_option_is_expanded_once(self, tmp_path: Path, certificates: Certificates) -> None:
        """What a variable held was expanded again, without the allowed.paths of the properties."""
        store = tmp_path / "${dir:x:y}.pem"
        store.write_bytes(certificates.authority.read_bytes())
        trust = 'ssl.truststore.type="PEM" ssl.truststore.location="${env:QUOTAFORM_X}"'
        login = f'{MODULE} required clientId="a" clientSecret="b" {trust};'
        credentials = read(
            {URL: "https://idp.example/", JAAS: login}, QUOTAFORM_X=str(store), QUOTAFORM_ENV="QUOTAFORM_X"
        )
        assert isinstance(credentials.source, token_source.Endpoint)
        assert credentials.source.tls.ca is not None

    def test_a_store_that_is_not_there_is_a_problem_of_the_line(self, tmp_path: Path) -> None:
        path = tmp_path / "client.properties"
        path.write_text(
            f"security.protocol=SASL_PLAINTEXT\nsasl.mechanism=OAUTHBEARER\n{URL}=https://idp.example/\n"
            f'{JAAS}={MODULE} required clientId="a" clientSecret="b" ssl.truststore.type="PEM"'
            ' ssl.truststore.location="none.pem";\n',
            encoding="utf-8",
        )
        with pytest.raises(InvalidFilesError) as caught:
            load_client_config(path)
        [problem] = caught.value.problems
        assert str(problem.location) == f"{path}:4"


class TestTokens:
    @pytest.mark.parametrize(
        ("claims", "said"),
        [
            ({"sub": None}, "it has no claim sub (sasl.oauthbearer.sub.claim.name)"),
            ({"sub": "  "}, "it has no claim sub"),
            ({"exp": None}, "it has no claim exp"),
            ({"exp": "soon"}, "it has no claim exp"),
            ({"exp": 1e300}, "it has no claim exp"),
            ({"exp": 1_000_000_000}, "it expired at 2001-09-09 01:46:40 UTC"),
        ],
    )
    def test_what_java_requires_is_required(self, tmp_path: Path, claims: dict[str, Any], said: str) -> None:
        path = tmp_path / "token"
        path.write_text(sign({"sub": "a", "exp": time() + 60, **claims}))
        message = failure(read(FILE | {URL: path.as_uri()}))
        assert said in message
        assert message.startswith(f"the file of {URL} gave a token that cannot be used: ")

    def test_the_user_may_be_another_claim(self, tmp_path: Path) -> None:
        path = tmp_path / "token"
        path.write_text(sign({"user": "a", "exp": time() + 60}))
        names = {"sasl.oauthbearer.sub.claim.name": "user", "sasl.oauthbearer.scope.claim.name": "scp"}
        assert token_of(read(FILE | names | {URL: path.as_uri()})) == path.read_text()

    @pytest.mark.parametrize("text", ["", "a.b", "a.b.c.d", "a.b.c d", "a.!.c", "a.W10.c", "a.bm8.c", "ä.ö.ü", "{}"])
    def test_what_is_no_token_is_not_sent(self, tmp_path: Path, text: str) -> None:
        path = tmp_path / "token"
        path.write_text(text, encoding="utf-8")
        assert "gave a token that cannot be used" in failure(read(FILE | {URL: path.as_uri()}))

    def test_a_token_that_has_just_expired_is_left_to_the_broker(self, tmp_path: Path) -> None:
        path = tmp_path / "token"
        path.write_text(sign({"sub": "a", "exp": time() - 100}))
        skew = {"sasl.oauthbearer.clock.skew.seconds": "3600"}
        assert token_of(read(FILE | skew | {URL: path.as_uri()})) == path.read_text()


class TestFile:
    def test_it_is_read_each_time(self, tmp_path: Path) -> None:
        path = tmp_path / "a token"
        tokens = [sign({"sub": name, "exp": time() + 60}) for name in "ab"]
        path.write_text(f"{tokens[0]}\n")
        credentials = read(FILE | {URL: path.as_uri()})
        assert credentials.who == f"the token of {URL}"
        assert token_of(credentials) == tokens[0]
        path.write_text(tokens[1])
        assert token_of(credentials) == tokens[1]
        path.unlink()
        assert failure(credentials).startswith(f"the file of {URL} cannot be read: ")

    @pytest.mark.parametrize("name", ["none", "x" * 5000, "a%00b", ""])
    def test_a_file_that_cannot_be_read_is_a_problem_of_the_properties(self, tmp_path: Path, name: str) -> None:
        [problem] = problems(FILE | {URL: f"file://{tmp_path}/{name}"})
        assert problem.startswith(f"the file of {URL} cannot be read: ")

    def test_a_file_of_the_repository_wins_over_one_of_the_current_directory_that_may_not_be_read(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A file of the same name in the current directory, outside of the repository, was refused instead."""
        token = sign({"sub": "a", "exp": time() + 60})
        (tmp_path / "token").write_text(sign({"sub": "b", "exp": time() + 60}))
        repository = tmp_path / "repository"
        repository.mkdir()
        (repository / "token").write_text(token)
        path = repository / "client.properties"
        path.write_text(
            f"security.protocol=SASL_PLAINTEXT\nsasl.mechanism=OAUTHBEARER\n{JAAS}={FILE[JAAS]}\n{URL}=file:token\n"
        )
        monkeypatch.chdir(tmp_path)
        credentials = load_client_config(
            Path("repository/client.properties"), repository=Path("repository")
        ).credentials
        assert isinstance(credentials, Bearer)
        assert token_of(credentials) == token
        operators = load_client_config(path).credentials
        assert isinstance(operators, Bearer)
        monkeypatch.chdir("/")
        assert token_of(credentials) == token
        assert claims_of(token_of(operators))["sub"] == "b"
        assert operators.java_properties()[URL] == (tmp_path / "token").as_uri()

    def test_properties_in_a_repository_name_no_file_outside_of_it(self, tmp_path: Path) -> None:
        token = sign({"sub": "a", "exp": time() + 60})
        (tmp_path / "token").write_text(token)
        repository = tmp_path / "repository"
        repository.mkdir()
        (repository / "token").symlink_to(tmp_path / "token")
        for name in (tmp_path / "token", repository / "token"):
            path = repository / "client.properties"
            path.write_text(
                "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=OAUTHBEARER\n"
                f"{JAAS}={FILE[JAAS]}\n{URL}=file://{name}\n"
            )
            with pytest.raises(InvalidFilesError) as caught:
                load_client_config(path, repository=repository)
            [problem] = caught.value.problems
            assert problem.message.startswith(f"the file of {URL} is outside of the repository of these properties")

    @pytest.mark.parametrize(
        ("key", "value"),
        [
            (f"{ASSERTION}file", ".git/config"),
            (f"{ASSERTION}private.key.file", "link"),
            (URL, "file:.git/config"),
            ("ssl.truststore.location", ".git/config"),
        ],
    )
    def test_properties_in_a_repository_name_nothing_of_git(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, key: str, value: str
    ) -> None:
        """The configuration of a clone, with the token of a CI job, went to the token endpoint as an assertion."""
        (tmp_path / ".git").mkdir()
        (tmp_path / ".git" / "config").write_text("extraheader = hunter2")
        (tmp_path / "link").symlink_to(".git/config")
        monkeypatch.chdir(tmp_path)
        given = {URL: "https://idp.example/", f"{ASSERTION}claim.iss": "a", "ssl.truststore.type": "PEM", key: value}
        path = tmp_path / "client.properties"
        path.write_text(
            f"security.protocol=SASL_SSL\nsasl.mechanism=OAUTHBEARER\n{JAAS}={FILE[JAAS]}\n"
            + "".join(f"{name}={each}\n" for name, each in given.items())
        )
        with pytest.raises(InvalidFilesError, match=r"it is part of \.git, which may contain a token") as caught:
            load_client_config(path, repository=tmp_path)
        assert "hunter2" not in str(caught.value)


class TestCommand:
    def test_its_output_is_the_token(self, tmp_path: Path) -> None:
        token = sign({"sub": "a", "exp": time() + 60})
        (tmp_path / "token").write_text(f"{token}\n")
        program = "import sys; print(open(sys.argv[1]).read())"
        handler = {
            "sasl.login.callback.handler.class": "io.strimzi.kafka.oauth.client.JaasClientOauthLoginCallbackHandler"
        }
        command = f"'{sys.executable}' -c '{program}' '{tmp_path}/token'"
        credentials = read(FILE | handler, QUOTAFORM_TOKEN_COMMAND=command)
        assert credentials.who == "the token of QUOTAFORM_TOKEN_COMMAND"
        assert token_of(credentials) == token
        with pytest.raises(QuotaformError, match="QUOTAFORM_TOKEN_COMMAND"):
            credentials.java_properties()

    @pytest.mark.parametrize(
        ("program", "said"),
        [
            ("import sys; sys.exit(3)", "failed (exit code 3); run it by hand"),
            ("import sys; print(1, 2); sys.exit('log in\\n::error::hunter2')", "failed (exit code 1); run it by hand"),
            ("pass", "gave a token that cannot be used: it is empty; check what issues it"),
            ("print('a' * 100000)", "gave a token that cannot be used"),
        ],
    )
    def test_what_it_says_when_it_fails_is_in_no_message(
        self, program: str, said: str, capfd: pytest.CaptureFixture[str]
    ) -> None:
        """Messages are pasted into tickets, and its standard error had a password in it."""
        command = f"'{sys.executable}' -c \"{program}\" hunter2"
        message = failure(read(FILE, QUOTAFORM_TOKEN_COMMAND=command))
        assert message.startswith("the command of QUOTAFORM_TOKEN_COMMAND")
        assert said in message
        assert "hunter2" not in message
        assert ("hunter2" in capfd.readouterr().err) == ("hunter2" in program)

    def test_it_has_a_limited_time(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(token_source, "_COMMAND_SECONDS", 0.1)
        credentials = read(FILE, QUOTAFORM_TOKEN_COMMAND="/bin/sleep 30")
        assert "did not end within 0.1 s" in failure(credentials)

    def test_it_runs_no_module_of_the_current_directory(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
    ) -> None:
        """`python3 -m idp_token` ran a module of that name in the checkout."""
        (tmp_path / "idp_token.py").write_text(f"print({sign({'sub': 'a', 'exp': time() + 60})!r})")
        monkeypatch.chdir(tmp_path)
        monkeypatch.delenv("PYTHONPATH", raising=False)
        command = f"'{sys.executable}' -m idp_token"
        assert "failed (exit code 1)" in failure(read(FILE, QUOTAFORM_TOKEN_COMMAND=command))
        assert "No module named" in capfd.readouterr().err

    @pytest.mark.parametrize("command", ["'", "no-such-command-at-all", ""])
    def test_one_that_is_none_is_a_problem(self, command: str) -> None:
        assert len(problems(FILE, QUOTAFORM_TOKEN_COMMAND=command)) == 1


@pytest.mark.parametrize("command", ["./token", "bin/token", "token"])
def test_a_relative_command_or_one_in_the_repository_is_not_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    for place in (tmp_path / "token", tmp_path / "bin" / "token"):
        place.parent.mkdir(exist_ok=True)
        place.write_text("#!/bin/sh\n")
        place.chmod(0o755)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", f".:{tmp_path / 'bin'}:/usr/bin")
    path = tmp_path / "client.properties"
    path.write_text(f"security.protocol=SASL_PLAINTEXT\nsasl.mechanism=OAUTHBEARER\n{JAAS}={FILE[JAAS]}\n")
    with pytest.raises(InvalidFilesError) as caught:
        load_client_config(
            path,
            repository=tmp_path,
            environ={"QUOTAFORM_TOKEN_COMMAND": command, "QUOTAFORM_ALLOWED_HOSTS": "b1"},
        )
    [problem] = caught.value.problems
    assert "QUOTAFORM_TOKEN_COMMAND names no command" in problem.message


def test_the_token_of_a_command_goes_to_no_server_that_only_a_repository_names(tmp_path: Path) -> None:
    """A pull request that changed `bootstrap.servers` got the operator's token, which others can use."""
    path, repository = tmp_path / "repository" / "client.properties", tmp_path / "repository"
    repository.mkdir()
    path.write_text(f"security.protocol=SASL_PLAINTEXT\nsasl.mechanism=OAUTHBEARER\n{JAAS}={FILE[JAAS]}\n")
    environ = {"QUOTAFORM_TOKEN_COMMAND": f"'{sys.executable}'"}
    with pytest.raises(InvalidFilesError) as caught:
        load_client_config(path, repository=repository, environ=environ)
    [problem] = caught.value.problems
    assert problem.message == (
        "the token of QUOTAFORM_TOKEN_COMMAND would be sent to the servers that this repository names; list their hosts"
        " in QUOTAFORM_ALLOWED_HOSTS, or keep these properties outside of it"
    )
    assert str(problem.location) == f"{path}:3"
    listed = environ | {"QUOTAFORM_ALLOWED_HOSTS": "b1"}
    assert load_client_config(path, repository=repository, environ=listed).credentials
    assert load_client_config(path, environ=environ).credentials
    outside = path.rename(tmp_path / "client.properties")
    assert load_client_config(outside, repository=repository, environ=environ).credentials


class TestUnsecured:
    def test_a_subject_is_enough(self) -> None:
        login = f'{MODULE} required unsecuredLoginStringClaim_sub="alice" unsecuredLoginExtension_traceId="1";'
        credentials = read({JAAS: login})
        assert credentials.who == "user alice"
        token = token_of(credentials)
        assert decode(token.split(".")[0]) == {"alg": "none"}
        assert token.endswith(".")
        claims = claims_of(token)
        assert claims["sub"] == "alice"
        assert 3500 < claims["exp"] - time() < 3700
        assert "\1traceId=1\1" in first_message(credentials)
        assert "sasl.login.callback.handler.class" not in credentials.java_properties()


class TestExtensions:
    def test_they_follow_the_token(self, provider: IdentityProvider) -> None:
        message = first_message(read(provider.client_properties(options='extension_a="1 = 2" extension_B="x"')))
        token = message.split("\1")[1]
        assert message == f"n,,\1{token}\1a=1 = 2\1B=x\1\1"


def pem(key: Any, passphrase: bytes | None = None) -> bytes:
    encryption = BestAvailableEncryption(passphrase) if passphrase else NoEncryption()
    return bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, encryption))


class TestAssertions:
    def signed(self, provider: IdentityProvider, key: Path, **more: str) -> dict[str, str]:
        claims = {"claim.iss": "admin", "claim.sub": "admin", "claim.aud": "https://idp.example"}
        given = {
            "private.key.file": str(key),
            **claims,
            **{name.replace("_", "."): value for name, value in more.items()},
        }
        return FILE | {URL: provider.token_url} | {f"{ASSERTION}{name}": value for name, value in given.items()}

    @pytest.mark.parametrize("passphrase", [None, "key-hunter2"])
    def test_one_can_be_the_grant(self, provider: IdentityProvider, tmp_path: Path, passphrase: str | None) -> None:
        key = tmp_path / "key.pem"
        key.write_bytes(pem(make_key(), passphrase.encode() if passphrase else None))
        template = tmp_path / "template.json"
        template.write_text('{"header": {"kid": "k1"}, "payload": {"aud": "other", "x": [1]}}')
        more = {"private_key_passphrase": passphrase} if passphrase else {}
        properties = self.signed(provider, key, template_file=str(template), claim_jti_include="true", **more)
        credentials = read(properties | {"sasl.oauthbearer.jwt.retriever.class": JWT_BEARER})
        assert claims_of(token_of(credentials))["sub"] == "admin"
        [request] = provider.requests
        assert request["grant_type"] == "urn:ietf:params:oauth:grant-type:jwt-bearer"
        header, payload = (decode(part) for part in request["assertion"].split(".")[:2])
        assert header == {"alg": "RS256", "typ": "JWT", "kid": "k1"}
        assert (payload["iss"], payload["aud"], payload["x"]) == ("admin", "other", [1])
        assert payload["exp"] - payload["iat"] == 300
        assert payload["iat"] - payload["nbf"] == 60
        assert len(payload["jti"]) == 36

    def test_one_can_show_who_the_client_is(self, provider: IdentityProvider, tmp_path: Path) -> None:
        key = tmp_path / "key.pem"
        key.write_bytes(pem(make_key()))
        assert token_of(read(self.signed(provider, key)))
        [request] = provider.requests
        assert request["grant_type"] == "client_credentials"
        assert request["client_assertion_type"] == "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"
        assert request["authorization"] == ""

    def test_one_of_a_file_is_sent_as_it_is(self, provider: IdentityProvider, tmp_path: Path) -> None:
        path = tmp_path / "assertion"
        path.write_text(sign({"sub": "tenant"}))
        properties = FILE | {URL: provider.token_url, f"{ASSERTION}file": str(path)}
        assert claims_of(token_of(read(properties)))["sub"] == "tenant"
        assert provider.requests[0]["client_assertion"] == path.read_text()

    def test_es256_signs_with_two_numbers(self, provider: IdentityProvider, tmp_path: Path) -> None:
        private = ec.generate_private_key(ec.SECP256R1())
        key = tmp_path / "key.pem"
        key.write_bytes(pem(private))
        provider.reply = lambda _: answer(400, {"error": "invalid_grant"})
        message = failure(read(self.signed(provider, key, algorithm="ES256")))
        assert "invalid_grant" in message
        assert "check the assertion and its key" in message
        content, _, signature = provider.requests[0]["client_assertion"].rpartition(".")
        raw = b64decode(signature + "==", altchars=b"-_")
        assert len(raw) == 64
        numbers = (int.from_bytes(raw[:32], "big"), int.from_bytes(raw[32:], "big"))
        private.public_key().verify(utils.encode_dss_signature(*numbers), content.encode(), ec.ECDSA(SHA256()))

    @pytest.mark.parametrize(
        ("content", "more", "said"),
        [
            (b"no key", {}, "cannot be used"),
            (b"", {"private_key_passphrase": "wrong"}, "cannot be used"),
            (b"", {"algorithm": "ES256"}, "does not fit ES256"),
        ],
    )
    def test_a_key_that_cannot_be_used_is_one_sentence(
        self, provider: IdentityProvider, tmp_path: Path, content: bytes, more: dict[str, str], said: str
    ) -> None:
        key = tmp_path / "key.pem"
        key.write_bytes(content or pem(make_key()))
        message = failure(read(self.signed(provider, key, **more)))
        assert f"{ASSERTION}private.key.file " in message
        assert said in message
        assert not provider.requests

    def test_without_its_extra_the_sentence_names_it(
        self, provider: IdentityProvider, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setitem(sys.modules, "cryptography.exceptions", None)
        key = tmp_path / "key.pem"
        key.write_bytes(pem(make_key()))
        message = failure(read(self.signed(provider, key)))
        assert "without its extra oauth; add it in quotaform's checkout with pip install '.[oauth]'" in message

    def test_what_is_missing_or_wrong_is_a_problem(self, provider: IdentityProvider, tmp_path: Path) -> None:
        retriever = {"sasl.oauthbearer.jwt.retriever.class": JWT_BEARER}
        [problem] = problems(FILE | retriever | {URL: provider.token_url})
        assert problem.startswith(f"{ASSERTION}private.key.file is missing")
        key, template = tmp_path / "key.pem", tmp_path / "template.json"
        key.write_bytes(pem(make_key()))
        wrong = {"algorithm": "none", "claim_exp_seconds": "1s", "template_file": str(template)}
        found = problems(self.signed(provider, key, **wrong))
        assert len(found) == 3
        for name in ("algorithm", "template.file", "claim.exp.seconds"):
            assert any(f"{ASSERTION}{name}" in each for each in found)

    @pytest.mark.parametrize("content", ["[]", "{", '{"header": 1}', '{"payload": []}'])
    def test_a_template_that_cannot_be_used_is_one_sentence(
        self, provider: IdentityProvider, tmp_path: Path, content: str
    ) -> None:
        key, template = tmp_path / "key.pem", tmp_path / "template.json"
        key.write_bytes(pem(make_key()))
        template.write_text(content)
        message = failure(read(self.signed(provider, key, template_file=str(template))))
        assert message.startswith(f"{ASSERTION}template.file cannot be used; write ")


class TestProperties:
    @pytest.mark.parametrize("name", [HANDLER, HANDLER.replace("OAuthBearerLogin", "secured.OAuthBearerLogin")])
    def test_the_handlers_of_kafka_are_taken(self, provider: IdentityProvider, name: str) -> None:
        assert read(provider.client_properties() | {"sasl.login.callback.handler.class": name})

    def test_a_number_of_very_many_digits_is_none(self, provider: IdentityProvider) -> None:
        """Python reads no number of so many digits."""
        [problem] = problems(provider.client_properties() | {"sasl.login.read.timeout.ms": "9" * 5000})
        assert "sasl.login.read.timeout.ms" in problem

    def test_a_java_client_gets_what_was_read(self, provider: IdentityProvider) -> None:
        properties = provider.client_properties(secret="${env:QUOTAFORM_X}")
        java = read(properties, QUOTAFORM_X="x-secret", QUOTAFORM_ENV="QUOTAFORM_X").java_properties()
        assert java["sasl.login.callback.handler.class"] == HANDLER
        assert 'clientSecret="x-secret"' in java[JAAS]
        assert java.keys() == properties.keys() | {"sasl.mechanism"}

    def test_the_keys_of_kafka_4_1_are_written_into_the_options_for_sparks_connector(self) -> None:
        """Its client of Kafka 3.9 does not know them, and found no clientId."""
        prefix = "sasl.oauthbearer.client.credentials.client."
        newer = {f"{prefix}id": "new", f"{prefix}secret": 'a"b', "sasl.oauthbearer.scope": "s"}
        login = f'{MODULE} required clientId="old" extension_a="1";'
        given = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "OAUTHBEARER", URL: "https://idp.example/"}
        options = client_options(["b1:9092"], from_properties(given | newer | {JAAS: login}))
        assert options[f"kafka.{JAAS}"] == (
            rf'{MODULE} required clientId="new" extension_a="1" clientSecret="a\"b" scope="s";'
        )

    def test_assertions_are_refused_for_sparks_connector(self, tmp_path: Path) -> None:
        path = tmp_path / "assertion"
        path.write_text(sign({"sub": "a"}))
        given = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "OAUTHBEARER", URL: "https://idp.example/"}
        config = from_properties(given | FILE | {f"{ASSERTION}file": str(path)})
        with pytest.raises(QuotaformError, match=r"^Spark's connector has no sasl\.oauthbearer\.assertion\.\*; give"):
            client_options(["b1:9092"], config)


class TestExchange:
    def refused(self, exchange: Exchange) -> str:
        with pytest.raises(RefusedError) as caught:
            exchange.throw(CodeError(58))
        return caught.value.said

    @pytest.mark.parametrize(
        ("challenge", "said"),
        [
            (b'{"status":"invalid_token","scope":"x"}', '"invalid_token"'),
            (b'{"status":["\x1b"]}', '"{'),
            (b"\xff\n::error::" + b"x" * 1000, '"\ufffd\\n::error::'),
            (b"[]", '"[]"'),
        ],
    )
    def test_a_refusal_carries_what_the_broker_said_and_ends_the_token(
        self, provider: IdentityProvider, challenge: bytes, said: str
    ) -> None:
        credentials = read(provider.client_properties())
        exchange = credentials.exchange("b1")
        next(exchange)
        assert exchange.send(challenge) == b"\1"
        found = self.refused(exchange)
        assert found.startswith(said)
        assert found.isprintable()
        assert len(found) < 200
        assert first_message(credentials)
        assert len(provider.requests) == 2

    def test_a_broker_cannot_make_the_token_known_or_take_back_what_it_said(self, provider: IdentityProvider) -> None:
        exchange = read(provider.client_properties()).exchange("b1")
        token = next(exchange).decode().split("\1")[1].removeprefix("auth=Bearer ")
        exchange.send(f'{{"status": "no {token}"}}'.encode())
        with pytest.raises(RefusedError) as caught:
            exchange.send(b"")
        assert caught.value.said == '"no ***"'

    @pytest.mark.parametrize(
        ("said", "shown"),
        [
            ("{token}", "***"),
            ("bad {start}... and {middle}!", "bad ***... and ***!"),
            ("{payload}", "***"),
            ("lkc-hunter2 of hunter2!", "*** of hunter2!"),
            ("!{end}", "!***"),
            ("no lkc", "no lkc"),
        ],
    )
    def test_neither_a_piece_of_a_token_nor_an_extension_is_shown(
        self, provider: IdentityProvider, said: str, shown: str
    ) -> None:
        """The half of a token that a broker repeated, or an extension, was printed, by doctor as well."""
        exchange = read(provider.client_properties(options='extension_id="lkc-hunter2"')).exchange("b1")
        token = next(exchange).decode().split("\1")[1].removeprefix("auth=Bearer ")
        parts = {"start": token[:50], "middle": token[70:78], "payload": token.split(".")[1], "end": token[-9:]}
        exchange.send(json.dumps({"status": said.format(token=token, **parts)}).encode())
        assert self.refused(exchange) == f'"{shown}"'

    def test_an_empty_answer_is_consent(self, provider: IdentityProvider) -> None:
        credentials = read(provider.client_properties())
        exchange = credentials.exchange("b1")
        next(exchange)
        with pytest.raises(StopIteration):
            exchange.send(b"")
        assert first_message(credentials)
        assert len(provider.requests) == 1

    def test_a_broker_that_says_nothing_more_is_believed(self, provider: IdentityProvider) -> None:
        exchange = read(provider.client_properties()).exchange("b1")
        next(exchange)
        assert self.refused(exchange) == ""
