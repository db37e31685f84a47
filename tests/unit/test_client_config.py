"""Client properties files: Java's format, what is understood, what is refused, and that secrets stay secret."""

from __future__ import annotations

import pickle
import subprocess
from pathlib import Path
from ssl import TLSVersion

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


def password_of(config: ClientConfig) -> str:
    return login_of(config).password.reveal()


class TestFormat:
    @pytest.mark.parametrize(
        "line",
        [
            "client.id=tool",
            "client.id = tool  ",
            "client.id:tool",
            "client.id : tool",
            "client.id tool",
            "\t client.id\ttool",
            "client.id \\\n   tool",
            "client\\\n.id=to\\\r\n\tol",
            "cl\\ient\\.id=tool",
            "client.id=\\u0074ool",
            "# client.id=no\n! client.id=no\nclient.id=tool",
            "client.id=no\nclient.id=tool",
            "\ufeffclient.id=tool",
            "client.id=tool\r# end\r",
            "client.id=tool\\",
        ],
    )
    def test_every_spelling_of_java_properties_is_read(self, tmp_path: Path, line: str) -> None:
        assert load(tmp_path, line).client_id == "tool"

    @pytest.mark.parametrize(
        ("written", "read"),
        [
            (r"a\=b\:c\ d", "a=b:c d"),
            (r"a=b", "a=b"),
            (r"\\", "\\"),
            (r"tab\there", "tab\there"),
            (r"\u00e9\uD83D\uDE00", "é😀"),
            ("é😀", "é😀"),
            (r"x\qy", "xqy"),
        ],
    )
    def test_escapes_are_those_of_java(self, tmp_path: Path, written: str, read: str) -> None:
        assert load(tmp_path, f"client.id={written}").client_id == read

    def test_a_file_that_is_no_utf_8_is_read_as_latin_1(self, tmp_path: Path) -> None:
        path = tmp_path / "client.properties"
        path.write_bytes(b"client.id=caf\xe9")
        assert load_client_config(path).client_id == "café"

    def test_a_bad_escape_is_told_with_its_line_and_without_its_text(self, tmp_path: Path) -> None:
        assert problems(tmp_path, "\n\nsasl.jaas.config=hunter\\u12x2\nclient.id=\\ud800") == [
            r"3: a \u on this line is not followed by four hexadecimal digits; write \\u for the two characters",
            r"4: a \uXXXX on this line is half of a surrogate pair",
        ]

    def test_a_missing_file_is_named(self, tmp_path: Path) -> None:
        with pytest.raises(InvalidFilesError, match=r"nope\.properties: error: there is no such file"):
            load_client_config(tmp_path / "nope.properties")
        with pytest.raises(InvalidFilesError, match="it cannot be read: Is a directory"):
            load_client_config(tmp_path)

    def test_an_empty_file_means_what_it_means_to_java(self, tmp_path: Path) -> None:
        assert load(tmp_path, "# nothing\n\n") == ClientConfig()


class TestKeys:
    @pytest.mark.parametrize("written", ["", " ", ",", "${env:SERVERS}"])
    def test_empty_bootstrap_servers_are_an_error(self, tmp_path: Path, written: str) -> None:
        """The credentials were bound to no server then, in silence."""
        path = tmp_path / "client.properties"
        path.write_text(f"bootstrap.servers={written}\n")
        with pytest.raises(
            InvalidFilesError, match=r"client\.properties:1: error: bootstrap\.servers is not host:port"
        ):
            load_client_config(path, environ={"QUOTAFORM_ENV": "SERVERS", "SERVERS": ""})

    def test_what_a_client_needs_is_understood(self, tmp_path: Path) -> None:
        config = load(
            tmp_path,
            "bootstrap.servers=b1:9092, [::1]:9093\nclient.id=x\nrequest.timeout.ms=5000\n"
            "default.api.timeout.ms=7000\nsecurity.protocol=plaintext\n",
        )
        assert config == ClientConfig(
            bootstrap_servers=("b1:9092", "[::1]:9093"), client_id="x", request_timeout=5.0, api_timeout=7.0
        )

    def test_a_file_that_is_shared_with_other_programs_is_accepted(self, tmp_path: Path) -> None:
        text = (
            "client.dns.lookup=use_all_dns_ips\nsession.timeout.ms=45000\nacks=all\nretries=5\n"
            "schema.registry.url=https://x\nbasic.auth.user.info=a:b\ngroup.id=g\nsasl.kerberos.service.name=kafka\n"
        )
        assert load(tmp_path, text) == ClientConfig()

    def test_every_unknown_key_is_named_with_its_line_and_a_remedy(self, tmp_path: Path) -> None:
        text = (
            "boostrap.servers=b:1\nssl.cypher.suites=X\nsasl.username=bob\nsasl.password=hunter2\n"
            "sasl.login.class=x.Y\nssl.ca.location=ca\nclient.new.thing=1\n"
            "security.providers=a\nbootstrap.controllers=c:1\n"
        )
        assert problems(tmp_path, text) == [
            "1: boostrap.servers is not a key of Kafka clients; did you mean bootstrap.servers?",
            "2: ssl.cypher.suites is not a key of Kafka clients; did you mean ssl.cipher.suites?",
            "3: sasl.username is not supported: it is not a key of Java clients; put the user name into"
            " sasl.jaas.config",
            "4: sasl.password is not supported: it is not a key of Java clients; put the password into"
            " sasl.jaas.config",
            "5: sasl.login.class names a Java class, which quotaform cannot load; remove it",
            "6: ssl.ca.location is not supported: Java clients call it ssl.truststore.location, with"
            " ssl.truststore.type=PEM",
            "7: client.new.thing is not supported; remove it if the connection does not need it",
            "8: security.providers names a Java class, which quotaform cannot load; remove it",
            "9: bootstrap.controllers is not supported: quotas are read and changed through brokers; give"
            " bootstrap.servers",
        ]

    @pytest.mark.parametrize(
        ("line", "message"),
        [
            ("security.protocol=TLS", "security.protocol=TLS is not supported; set it to PLAINTEXT, SSL, "),
            ("request.timeout.ms=30s", "request.timeout.ms=30s is not a number of milliseconds above 0"),
            ("request.timeout.ms=0", "request.timeout.ms=0 is not a number of milliseconds above 0"),
            ("bootstrap.servers=b1", "bootstrap.servers is not host:port, as in broker-1:9092"),
        ],
    )
    def test_a_bad_value_is_refused(self, tmp_path: Path, line: str, message: str) -> None:
        [problem] = problems(tmp_path, f"client.id=x\n{line}")
        assert problem.startswith(f"2: {message}")

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


class TestSasl:
    @pytest.mark.parametrize("module", [SCRAM, PLAIN, f"kafkashaded.{PLAIN}"])
    @pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"])
    def test_user_and_password_are_read(self, tmp_path: Path, module: str, mechanism: str) -> None:
        text = SASL.replace(SCRAM, module).replace("SCRAM-SHA-512", mechanism)
        config = load(tmp_path, text)
        assert (config.security_protocol, login_of(config).mechanism) == ("SASL_PLAINTEXT", mechanism)
        assert (login_of(config).username, password_of(config)) == ("alice", "alice-secret")

    @pytest.mark.parametrize(
        ("options", "user", "password"),
        [
            ("username=alice password='s=;\"'", "alice", 's=;"'),
            (r"username=\"a\" password=\"p\"", "a", "p"),
            (r'username="a" password="p\\"q\\\\r"', "a", 'p"q\\r'),
            (r'username="a" password="\\101\\tx"', "a", "A\tx"),
            ('username="a b" \\\n    password="x//y#!"', "a b", "x//y#!"),
            ('/* who */ username = "a" // rest', "a", None),
            ('username="a" password="x\\\\\\ny"', "a", "x\ny"),
            ('serviceName="kafka" username="é" password="ß"', "é", "ß"),
        ],
    )
    def test_options_are_read_as_java_reads_them(
        self, tmp_path: Path, options: str, user: str, password: str | None
    ) -> None:
        text = SASL.replace('username="alice" password="alice-secret"', options)
        if password is None:
            assert "does not end with a semicolon" in problems(tmp_path, text)[0]
        else:
            config = load(tmp_path, text)
            assert (login_of(config).username, password_of(config)) == (user, password)

    @pytest.mark.parametrize(
        ("line", "message"),
        [
            ("", "sasl.jaas.config is missing"),
            (f'{SCRAM} required username="a" password="hunter2"', "does not end with a semicolon"),
            (f'{SCRAM} required username="a" password="hunter2;', "it cannot be read; put values in double quotes"),
            (f"{SCRAM} required username=a password=123hunter2;", "put values in double quotes"),
            (f'{SCRAM} username="a" password="hunter2";', "not followed by a control flag such as required"),
            (f'{SCRAM} required password="hunter2";', "it has no username"),
            (f'{SCRAM} required username="a" passwd="hunter2";', "it has no password"),
            (f'{SCRAM} required username="hunter2" password="";', "it has no password"),
            (f'{SCRAM} required username="a" password "hunter2";', 'an option in it is not name="value"'),
            (f'{SCRAM} required username="a" password=;', 'an option in it is not name="value"'),
            (
                f'{SCRAM} required username="a" password="hunter2" tokenauth="true";',
                "delegation tokens (tokenauth) need sasl.mechanism=SCRAM",
            ),
            (
                'com.sun.security.auth.module.Krb5LoginModule required x="hunter2";',
                "login module is not PlainLoginModule or ScramLoginModule",
            ),
            ('"hunter2"', "not followed by a control flag such as required"),
            (
                f'KafkaClient {{ {SCRAM} required password="hunter2"; }};',
                "it is an entry of a JAAS file; leave out its",
            ),
            (f'{SCRAM} required password="hunter2"; {PLAIN} required a=b;', "it has more than one login module"),
            (f"{SCRAM} required username=a password=/hunter2;", "semicolon; a value with a slash needs double quotes"),
            ("=hunter2", "does not begin with a login module"),
        ],
    )
    def test_a_malformed_line_is_explained_and_not_shown(self, tmp_path: Path, line: str, message: str) -> None:
        [problem] = problems(tmp_path, f"security.protocol=SASL_SSL\nsasl.mechanism=PLAIN\nsasl.jaas.config={line}\n")
        assert message in problem
        assert "hunter2" not in problem
        assert "PASSWORD" in problem or "tokenauth" in problem

    def test_a_line_that_was_meant_to_go_on_does_not_show_its_rest(self, tmp_path: Path) -> None:
        text = f'security.protocol=SASL_SSL\nsasl.mechanism=PLAIN\nsasl.jaas.config={PLAIN} required\n"hun.ter2" ;\n'
        first, second = problems(tmp_path, text)
        assert first.startswith("3: sasl.jaas.config cannot be used: it does not end with a semicolon")
        assert second.startswith("4: this line does not begin with a key of Kafka clients")
        assert "hun" not in first + second

    def test_other_mechanisms_are_refused(self, tmp_path: Path) -> None:
        [problem] = problems(tmp_path, SASL.replace("SCRAM-SHA-512", "DIGEST-MD5"))
        assert problem.startswith("3: sasl.mechanism=DIGEST-MD5 is not supported; set it to PLAIN, SCRAM-SHA-256, ")

    def test_a_missing_mechanism_is_javas_gssapi(self, tmp_path: Path) -> None:
        [problem] = problems(tmp_path, SASL.replace("sasl.mechanism=SCRAM-SHA-512\n", ""))
        assert problem.startswith(
            "3: sasl.jaas.config cannot be used: its login module is not Krb5LoginModule; sasl.mechanism is missing and"
            " means GSSAPI (Kerberos): set it, or write: sasl.jaas.config=com.sun.security.auth.module.Krb5LoginModule"
        )

    def test_a_forgotten_protocol_does_not_send_in_the_clear(self, tmp_path: Path) -> None:
        [problem] = problems(tmp_path, SASL.replace("security.protocol=SASL_PLAINTEXT\n", ""))
        assert "sasl.jaas.config has no effect, because security.protocol is missing and means PLAINTEXT" in problem

    def test_leftovers_beside_a_chosen_protocol_are_passed_over_as_in_java(self, tmp_path: Path) -> None:
        assert load(tmp_path, SASL.replace("SASL_PLAINTEXT", "PLAINTEXT")) == ClientConfig()


class TestVariables:
    def test_variables_are_expanded_in_values(self, tmp_path: Path) -> None:
        text = SASL.replace("alice-secret", "${env:QUOTAFORM_PASS}").replace("alice", "${env:WHO}-x")
        config = load(tmp_path, text, QUOTAFORM_PASS="s${env:NO}", WHO="bob", QUOTAFORM_ENV="WHO,QUOTAFORM_PASS")
        assert (login_of(config).username, password_of(config)) == ("bob-x", "s${env:NO}")
        assert login_of(config).who == "user ${env:WHO}-x"

    def test_a_whole_line_may_be_a_variable(self, tmp_path: Path) -> None:
        jaas = f'{PLAIN} required username="u" password="p\\"q";'
        text = "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\nsasl.jaas.config=${env:QUOTAFORM_JAAS}"
        config = load(tmp_path, text, QUOTAFORM_JAAS=jaas)
        assert (password_of(config), login_of(config).who) == ('p"q', "user of sasl.jaas.config")

    def test_javas_own_declaration_of_the_provider_is_accepted(self, tmp_path: Path) -> None:
        text = (
            "config.providers=env\nclient.id=${env:QUOTAFORM_X}\n"
            "config.providers.env.class=org.apache.kafka.common.config.provider.EnvVarConfigProvider\n"
        )
        assert load(tmp_path, text, QUOTAFORM_X="y").client_id == "y"

    def test_a_missing_variable_is_named_with_its_line(self, tmp_path: Path) -> None:
        text = SASL.replace("alice-secret", "${env:QUOTAFORM_PASS}") + "client.id=${env:ALSO}\n"
        assert problems(tmp_path, text) == [
            "4: sasl.jaas.config: the environment variable QUOTAFORM_PASS is not set; set it",
            "5: client.id: the environment variable ALSO may not be read; the operator must list it in QUOTAFORM_ENV: "
            "set the environment variable QUOTAFORM_ENV=ALSO (names separated by commas)",
        ]

    def test_what_is_not_used_needs_no_variable(self, tmp_path: Path) -> None:
        """A variable of another program's key, or of a store that the protocol has no use for, had to be set."""
        text = "basic.auth.user.info=${env:QUOTAFORM_A}\nssl.key.password=${env:QUOTAFORM_B}\nretries=${env:HOME}\n"
        assert load(tmp_path, text) == ClientConfig()

    def test_servers_of_a_variable_show_as_they_are_written(self, tmp_path: Path) -> None:
        config = load(tmp_path, "bootstrap.servers=${env:QUOTAFORM_HOST}:9092\n", QUOTAFORM_HOST="b1")
        assert config.bootstrap_servers == (("b1", 9092),)
        assert "b1" not in repr(config)

    @pytest.mark.parametrize(
        ("reference", "value"),
        [
            ("${file:$/keys.properties:password}", "p=1"),
            ("a-${file:$/keys.properties:a:b}-${env:QUOTAFORM_X}", "a-é-y"),
            ("${file:keys.properties:password}", "p=1"),
            ("${dir:$/mount:password}", "s3cret two"),
            ("${dir:mount:password}${HOME}", "s3cret two${HOME}"),
            ("${dir:$/mount:nested}", "${env:QUOTAFORM_X}"),
        ],
    )
    def test_files_are_read_as_kafkas_providers_read_them(self, tmp_path: Path, reference: str, value: str) -> None:
        """The mount is that of a Kubernetes secret, whose last line end is no part of a password."""
        (tmp_path / "keys.properties").write_text("password=old\npassword : p\\=1\na\\:b=\\u00e9\n# x=\nbad=\\u1\n")
        data = tmp_path / "mount" / "..2026"
        data.mkdir(parents=True)
        (data / "password").write_text("s3cret two\n")
        (data / "nested").write_text("${env:QUOTAFORM_X}")
        (data.parent / "..data").symlink_to(data.name)
        for name in ("password", "nested"):
            (data.parent / name).symlink_to(f"..data/{name}")
        config = load(tmp_path, f"client.id={reference.replace('$/', f'{tmp_path}/')}", QUOTAFORM_X="y")
        assert config.client_id == value

    def test_user_password_and_servers_may_be_in_files(self, tmp_path: Path) -> None:
        (tmp_path / "keys").write_text("user=bob\nservers=b1:9092,b2:9092")
        (tmp_path / "password").write_text("hunter2\n")
        text = SASL.replace("alice-secret", f"${{dir:{tmp_path}:password}}").replace("alice", "${file:keys:user}")
        config = load(tmp_path, f"{text}bootstrap.servers=${{file:keys:servers}}\n")
        assert (login_of(config).username, password_of(config)) == ("bob", "hunter2")
        assert config.bootstrap_servers == (("b1", 9092), ("b2", 9092))
        assert login_of(config).who == "user ${file:keys:user}"
        assert "b1" not in repr(config)
        assert "hunter2" not in repr(config)

    def test_a_certificate_of_a_mounted_secret_is_trusted(self, tmp_path: Path, certificates: Certificates) -> None:
        store = f"${{dir:{certificates.authority.parent}:{certificates.authority.name}}}"
        text = f"security.protocol=SSL\nssl.truststore.type=PEM\nssl.truststore.certificates={store}\n"
        context = load(tmp_path, text).ssl_context()
        assert context is not None
        assert len(context.get_ca_certs()) == 1

    def test_providers_have_the_names_that_the_properties_give_them(self, tmp_path: Path) -> None:
        (tmp_path / "a").write_text("k=v")
        classes = {"f": "FileConfigProvider", "d": "DirectoryConfigProvider", "e": "EnvVarConfigProvider"}
        text = "config.providers=f, d,e,vault,env\nconfig.providers.vault.class=com.example.Vault\n" + "".join(
            f"config.providers.{name}.class=org.apache.kafka.common.config.provider.{java_class}\n"
            for name, java_class in classes.items()
        )
        reference = f"${{f:{tmp_path}/a:k}}|${{d:{tmp_path}:a}}|${{e:QUOTAFORM_X}}|${{env:QUOTAFORM_X}}"
        assert load(tmp_path, f"{text}client.id={reference}", QUOTAFORM_X="x").client_id == "v|k=v|x|x"
        for name in ("file", "vault", "x"):
            assert problems(tmp_path, f"{text}client.id=${{{name}:{tmp_path}/a:k}}") == [
                "6: client.id: config.providers.vault.class cannot be loaded; set it to EnvVarConfigProvider or"
                " FileConfigProvider or DirectoryConfigProvider of org.apache.kafka.common.config.provider"
                if name == "vault"
                else "6: client.id: a ${...} names a provider that is not in config.providers; list it, or write"
                " ${env:NAME}, ${file:PATH:KEY} or ${dir:PATH:FILE}"
            ]

    def test_a_provider_reads_only_what_its_parameters_allow(self, tmp_path: Path) -> None:
        for name in ("in", "out"):
            (tmp_path / name).mkdir()
            (tmp_path / name / "a").write_text("k=v")
        paths, pattern = "config.providers.file.param.allowed.paths", "config.providers.env.param.allowlist.pattern"
        text = f"{paths}=/nowhere,{tmp_path}/in/../in\n{pattern}=QUOTAFORM_[W-X]|Q\n"
        client_id = f"client.id=${{file:{tmp_path}/%s/a:k}}${{env:%s}}\n"
        given = {"QUOTAFORM_X": "x", "QUOTAFORM_PASS": "hunter2"}
        assert load(tmp_path, text + client_id % ("in", "QUOTAFORM_X"), **given).client_id == "vx"
        assert load(tmp_path, f"{text}client.id=${{dir:{tmp_path}/out:a}}").client_id == "k=v"
        assert problems(tmp_path, text + client_id % ("in/../out", "QUOTAFORM_PASS"), **given) == [
            "3: client.id: a ${...} names a file that allowed.paths of its provider leaves out; correct one of them",
            "3: client.id: allowlist.pattern does not match the variable of ${env:NAME}; correct one of them",
        ]
        misspelled = text.replace("allowed.paths", "allowed.path").replace("|Q", "|(")
        assert problems(tmp_path, misspelled + client_id % ("out", "QUOTAFORM_X"), **given) == [
            "3: client.id: allowlist.pattern is not a regular expression; correct it",
            "3: client.id: config.providers.file.param.* can only be config.providers.file.param.allowed.paths; correct"
            " the other",
        ]

    @pytest.mark.parametrize(
        ("reference", "problem"),
        [
            (
                "${file:/no/hunter2:key}",
                "a ${...} names a file that does not exist; correct the path, or create the file",
            ),
            ("${dir:$:hunter2}", "a ${...} names a file that does not exist; correct the path, or create the file"),
            ("${dir:$:.}", "a ${...} has no path or no name; write"),
            ("${dir:$:..}", "a ${...} names a file that cannot be read: Is a directory; correct it"),
            ("${dir:$:../hunter2}", "a ${...} has no path or no name; write"),
            (
                "${dir:hunter2}",
                "a ${...} has no path or no name; write ${env:NAME}, ${file:PATH:KEY} or ${dir:PATH:FILE}",
            ),
            ("${file:hunter2}", "a ${...} has no path or no name; write"),
            # It was sent as the password.
            ("${file:$/keys.properties:hunter2", "a ${... has no closing brace; add it"),
            ("${file:$/keys:}", "a ${...} has no path or no name; write"),
            ("${file:$/keys:hunter2}", "a ${file:PATH:KEY} names a key that is not in the file; correct it, or add"),
            ("${file:/dev/null:x}", "a ${...} names a file that cannot be read: it is a device, not a regular file;"),
            ("${file:$/a\\u0000b:x}", "a ${...} names a file that cannot be read: its name contains a NUL character;"),
            ("${dir:$:large}", "a ${...} names a file that cannot be read: it is larger than 1 MiB; correct it"),
            ("${dir:$:binary}", "a ${...} names a file that cannot be read: it is not UTF-8 text; correct it"),
            ("${env:a b}", "the name in ${env:…} is not that of an environment variable; correct it"),
            ("${vault:hunter2}", "a ${...} names a provider that is not in config.providers; list it, or write"),
            ("${file:$/keys:k}" * 21, "a value has more than 20 references; write some as they are"),
        ],
    )
    def test_what_cannot_be_expanded_says_why_and_shows_nothing(
        self, tmp_path: Path, reference: str, problem: str
    ) -> None:
        (tmp_path / "keys").write_text("k=hunter2\nhunter2.x=1")
        (tmp_path / "large").write_bytes(b"hunter2 " * (1 << 17) + b"x")
        (tmp_path / "binary").write_bytes(b"hunter2\xff")
        [found] = problems(
            tmp_path, f"\nclient.id={reference.replace('$/', f'{tmp_path}/').replace('$:', f'{tmp_path}:')}"
        )
        assert found.startswith(f"2: client.id: {problem}")
        assert "hunter2" not in found


class TestTls:
    def test_a_truststore_and_a_keystore_in_pem_are_read(self, tmp_path: Path, certificates: Certificates) -> None:
        config = load(
            tmp_path,
            f"security.protocol=SSL\nssl.truststore.type=PEM\nssl.truststore.location={certificates.authority}\n"
            f"ssl.keystore.type=PEM\nssl.keystore.location={certificates.client('tenant').keystore}\n",
        )
        context = config.ssl_context()
        assert config.has_certificate
        assert context is not None
        assert context.check_hostname
        assert len(context.get_ca_certs()) == 1
        assert context.minimum_version is TLSVersion.TLSv1_2

    def test_without_a_truststore_the_systems_authorities_are_trusted(self, tmp_path: Path) -> None:
        config = load(tmp_path, "security.protocol=SSL\n")
        assert not config.has_certificate
        assert config.ssl_context() is not None

    def test_pem_texts_may_stand_in_the_file_itself(self, tmp_path: Path, certificates: Certificates) -> None:
        tenant = certificates.client("tenant")

        def inline(path: Path, end: str) -> str:
            return path.read_text(encoding="utf-8").strip().replace("\n", end)

        config = load(
            tmp_path,
            "security.protocol=SSL\nssl.truststore.type=PEM\nssl.keystore.type=PEM\n"
            f"ssl.truststore.certificates={inline(certificates.authority, ' ')}\n"
            f"ssl.keystore.key={inline(tenant.key, chr(92) + 'n')}\n"
            f"ssl.keystore.certificate.chain={inline(tenant.certificate, ' ' + chr(92) + chr(10) + '  ')}\n",
        )
        assert config.ssl_context() is not None
        assert config.has_certificate

    def test_an_encrypted_key_needs_its_password(self, tmp_path: Path, certificates: Certificates) -> None:
        tenant = certificates.client("tenant")
        key = tmp_path / "encrypted.key"
        command = f"openssl pkcs8 -topk8 -in {tenant.key} -out {key} -passout pass:open-sesame"
        subprocess.run(command.split(), check=True, capture_output=True)
        (tmp_path / "client.pem").write_text(key.read_text() + tenant.certificate.read_text())
        text = "security.protocol=SSL\nssl.keystore.type=PEM\nssl.keystore.location=client.pem\n"
        assert load(tmp_path, f"{text}ssl.key.password=open-sesame\n").has_certificate
        inline = "".join(
            f"ssl.keystore.{name}={path.read_text().strip().replace(chr(10), ' ')}\n"
            for name, path in (("key", key), ("certificate.chain", tenant.certificate))
        )
        inline = f"security.protocol=SSL\nssl.keystore.type=PEM\n{inline}"
        assert load(tmp_path, f"{inline}ssl.key.password=open-sesame\n").has_certificate
        [wrong] = problems(tmp_path, f"{inline}ssl.key.password=hunter2\n")
        assert wrong.startswith("3: ssl.keystore.key cannot be used: the private key cannot be decrypted")
        [missing] = problems(tmp_path, text)
        assert missing.endswith("the private key is encrypted; give its password with ssl.key.password")
        [wrong] = problems(tmp_path, f"{text}ssl.key.password=hunter2\n")
        assert wrong.endswith("the private key cannot be decrypted with ssl.key.password")

    def test_a_relative_path_is_looked_up_in_the_working_folder_and_then_beside_the_file(
        self, tmp_path: Path, certificates: Certificates, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        text = "security.protocol=SSL\nssl.truststore.type=PEM\nssl.truststore.location=pem/ca.pem\n"
        monkeypatch.chdir(certificates.authority.parent.parent)
        assert load(tmp_path, text).tls is not None
        monkeypatch.chdir("/")
        assert problems(tmp_path, text) == [
            "3: ssl.truststore.location names a file that exists neither in the current directory nor next to this file"
        ]
        (tmp_path / "pem").mkdir()
        (tmp_path / "pem" / "ca.pem").write_bytes(certificates.authority.read_bytes())
        assert load(tmp_path, text).tls is not None

    @pytest.mark.parametrize(
        ("lines", "message"),
        [
            (
                "ssl.truststore.location=/no/t.jks",
                "2: ssl.truststore.location names a file that does not exist",
            ),
            (
                "ssl.truststore.type=BCFKS\nssl.truststore.location=t",
                "2: ssl.truststore.type=BCFKS is not supported; set it to PEM, PKCS12 or JKS, or convert the store:",
            ),
            (
                "ssl.truststore.certificates=x",
                "2: ssl.truststore.certificates requires ssl.truststore.type=PEM",
            ),
            (
                "ssl.keystore.type=PKCS12\nssl.keystore.key=hunter2\nssl.keystore.certificate.chain=x",
                "3: ssl.keystore.key requires ssl.keystore.type=PEM",
            ),
            (
                "ssl.truststore.type=PEM\nssl.truststore.location=/no/ca",
                "3: ssl.truststore.location names a file that does not exist",
            ),
            (
                "ssl.keystore.type=PEM\nssl.keystore.key=hunter2",
                "3: ssl.keystore.key requires ssl.keystore.certificate.chain",
            ),
            (
                "ssl.keystore.type=PEM\nssl.keystore.key=hunter2\nssl.keystore.certificate.chain=x",
                "3: ssl.keystore.key cannot be used: it does not contain a PEM private key",
            ),
            (
                "ssl.truststore.type=PEM\nssl.truststore.certificates=x",
                "3: ssl.truststore.certificates cannot be used: it contains no readable PEM",
            ),
            (
                "ssl.truststore.type=PEM\nssl.truststore.certificates=x\nssl.truststore.password=hunter2",
                "4: ssl.truststore.password cannot be used with ssl.truststore.type=PEM; remove it",
            ),
            (
                "ssl.truststore.type=PEM\nssl.truststore.certificates=x\nssl.truststore.location=/dev/null",
                "3: ssl.truststore.certificates and ssl.truststore.location exclude each other",
            ),
            (
                "ssl.endpoint.identification.algorithm=x",
                "2: the value of ssl.endpoint.identification.algorithm is unknown",
            ),
            (
                "ssl.enabled.protocols=TLSv1.1,TLSv1.2",
                "2: ssl.enabled.protocols contains TLSv1.1; supported are TLSv1.2",
            ),
            ("ssl.protocol=SSLv3", "2: ssl.protocol=SSLv3 is not supported; use TLSv1.2 or TLSv1.3"),
            (
                "ssl.cipher.suites=TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384,TLS_RSA_WITH_NULL_SHA256",
                "2: ssl.cipher.suites contains TLS_RSA_WITH_NULL_SHA256, which cannot be offered; give names of",
            ),
            ("ssl.cipher.suites=hunter2", "2: ssl.cipher.suites contains an unknown name, which cannot be offered"),
            (
                "ssl.enabled.protocols=TLSv1.3\nssl.cipher.suites=TLS_RSA_WITH_AES_128_CBC_SHA",
                "3: ssl.cipher.suites names no suite of the TLS versions that are enabled",
            ),
            ("client.dns.lookup=hunter2", "2: the value of client.dns.lookup is not supported; set it to use_all"),
            (
                "ssl.protocol=TLSv1.2\nssl.enabled.protocols=TLSv1.3",
                "3: ssl.enabled.protocols and ssl.protocol have no version in common",
            ),
        ],
    )
    def test_what_cannot_work_is_refused_with_its_line(self, tmp_path: Path, lines: str, message: str) -> None:
        [problem] = problems(tmp_path, f"security.protocol=SSL\n{lines}\n")
        assert problem.startswith(message)
        assert "hunter2" not in problem

    def test_a_key_that_is_not_the_certificates_is_refused(self, tmp_path: Path, certificates: Certificates) -> None:
        tenant, admin = certificates.client("tenant"), certificates.client("quota-admin")
        (tmp_path / "client.pem").write_text(tenant.key.read_text() + admin.certificate.read_text())
        [problem] = problems(
            tmp_path, "security.protocol=SSL\nssl.keystore.type=PEM\nssl.keystore.location=client.pem\n"
        )
        assert problem.endswith("the private key does not belong to the first certificate")

    def test_host_names_and_versions_can_be_chosen(self, tmp_path: Path) -> None:
        config = load(
            tmp_path,
            "security.protocol=SSL\nssl.endpoint.identification.algorithm=\nssl.enabled.protocols=TLSv1.3\n",
        )
        context = config.ssl_context()
        assert context is not None
        assert not context.check_hostname
        assert context.minimum_version is TLSVersion.TLSv1_3

    def test_cipher_suites_have_javas_names_and_decide_which_versions_are_offered(self, tmp_path: Path) -> None:
        def offered(suites: str) -> tuple[list[str], TLSVersion, TLSVersion]:
            context = load(tmp_path, f"security.protocol=SSL\nssl.cipher.suites={suites}\n").ssl_context()
            assert context is not None
            older = [each["name"] for each in context.get_ciphers() if each["protocol"] != "TLSv1.3"]
            return older, context.minimum_version, context.maximum_version

        older = "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384, TLS_DHE_RSA_WITH_AES_128_CBC_SHA256"
        names = ["ECDHE-ECDSA-AES256-GCM-SHA384", "DHE-RSA-AES128-SHA256"]
        newer = "TLS_AES_256_GCM_SHA384,TLS_AES_128_GCM_SHA256,TLS_CHACHA20_POLY1305_SHA256"
        assert offered(older) == (names, TLSVersion.TLSv1_2, TLSVersion.TLSv1_2)
        assert offered(f"{older},{newer}") == (names, TLSVersion.TLSv1_2, TLSVersion.TLSv1_3)
        assert offered(newer)[1:] == (TLSVersion.TLSv1_3, TLSVersion.TLSv1_3)

    @pytest.mark.skipif(CAN_CHOOSE, reason="this Python can choose")
    def test_some_suites_of_tls_1_3_are_refused_where_python_cannot_choose_them(self, tmp_path: Path) -> None:
        text = "security.protocol=SSL\nssl.cipher.suites=TLS_AES_256_GCM_SHA384\n"
        [problem] = problems(tmp_path, text)
        assert problem == (
            "2: ssl.cipher.suites: before 3.15, Python offers all suites of TLS 1.3 or none; name"
            " TLS_AES_128_GCM_SHA256, TLS_AES_256_GCM_SHA384, TLS_CHACHA20_POLY1305_SHA256, or none"
        )

    def test_no_temporary_file_is_left(
        self, tmp_path: Path, certificates: Certificates, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        temporary = tmp_path / "temporary"
        temporary.mkdir()
        monkeypatch.setattr("tempfile.tempdir", str(temporary))
        config = load(
            tmp_path,
            "security.protocol=SSL\nssl.keystore.type=PEM\n"
            f"ssl.keystore.location={certificates.client('tenant').keystore}\n",
        )
        assert config.ssl_context() is not None
        assert list(temporary.iterdir()) == []


class TestSecrets:
    def test_a_secret_shows_nowhere(self, tmp_path: Path, certificates: Certificates) -> None:
        keystore = certificates.client("tenant").keystore
        config = load(
            tmp_path,
            SASL.replace("SASL_PLAINTEXT", "SASL_SSL")
            + f"ssl.keystore.type=PEM\nssl.keystore.location={keystore}\nssl.key.password=hunter2\n",
        )
        for shown in (repr(config), str(config), f"{config}", f"{login_of(config).password}", repr(vars_of(config))):
            assert "alice-secret" not in shown
            assert "hunter2" not in shown
            assert "PRIVATE KEY" not in shown

    def test_a_config_can_be_sent_to_another_machine(self, tmp_path: Path) -> None:
        config = load(tmp_path, SASL)
        assert pickle.loads(pickle.dumps(config)) == config  # noqa: S301 (our own)

    def test_all_problems_of_a_file_are_told_at_once(self, tmp_path: Path) -> None:
        text = "ssl.cipher.suites=A\nsecurity.protocol=SASL_SSL\nsasl.mechanism=NO\nrequest.timeout.ms=x\nnope\n"
        assert len(problems(tmp_path, text)) == 4


def vars_of(config: ClientConfig) -> list[object]:
    return [getattr(config, name) for name in config.__slots__]
