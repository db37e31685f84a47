r"""Client properties: the keys of Kafka's clients, Java's file format, config providers, and values with places.

| written in a file of `java.util.Properties` | read |
| --- | --- |
| `key=value`, `key: value`, `key value` | the key ends at the first `=`, `:` or white space |
| `# …`, `! …` | a comment |
| a `\` at the end of a line | the next line goes on, without its leading white space |
| `\t \n \r \f`, `\uXXXX` | that character |
| any other `\x` | `x`; so `\\` is one backslash |

`${provider:path:key}` is expanded as Kafka's config providers do (KIP-297, 421, 887 and 993). What is not there is a
problem, where Java leaves the reference as it is.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from copy import copy
from dataclasses import dataclass, field
from pathlib import Path
from re import compile as regex
from typing import Final, TypeVar

from quotaform.model import rule
from quotaform.model.errors import FileReadError
from quotaform.model.finding import Finding, Location
from quotaform.model.rule import MAX_PROBLEMS
from quotaform.model.text import nearest
from quotaform.model.variable import REFERENCE, expand
from quotaform.system.files import LEADS_OUT, OF_GIT, PROPERTIES_LIMIT, is_within, read_bytes, read_text, trusted_folder

T = TypeVar("T")

MOST_PROPERTIES: Final = 10_000
"""How many properties are read from a file; Kafka's clients have some 200 in all."""

_LINE_END: Final = regex(r"\r\n|\r|\n")
_BLANK: Final = " \t\f"
_ESCAPES: Final = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_ESCAPE: Final = regex(r"\\(?:u([0-9A-Fa-f]{4})|(.))")
_BAD_UNICODE: Final = regex(r"(?<!\\)(?:\\\\)*\\u(?![0-9A-Fa-f]{4})").search
_KEY_END: Final = regex(r"(?<!\\)(?:\\\\)*([=: \t\f])")


@dataclass(frozen=True, slots=True)
class Property:
    """One property; its value may be a secret and does not show."""

    key: str
    value: str = field(repr=False)  # the value, with the white space that may follow it
    location: Location


def parse_properties(text: str, file: str, problems: list[Finding]) -> list[Property]:
    """Return the properties of a file in their order; a key may come twice, and the last one counts.

    A line that cannot be read is added to `problems`; none holds anything of the line, which may be a secret.
    """
    found: list[Property] = []
    for count, (number, line) in enumerate(_logical_lines(text)):
        problem, location = "", Location(file, number)
        if count == MOST_PROPERTIES:
            problem = f"this file has more than {MOST_PROPERTIES:,} properties; remove those that no client uses"
            add_problem(problems, problem, location)
            break
        end = _KEY_END.search(line)
        key, rest = (line[: end.start(1)], line[end.start(1) :].lstrip(_BLANK)) if end else (line, "")
        value = rest[1:].lstrip(_BLANK) if rest[:1] in {"=", ":"} else rest
        if _BAD_UNICODE(line):
            problem = r"a \u on this line is not followed by four hexadecimal digits; write \\u for the two characters"
        else:
            try:
                found.append(Property(_unescape(key), _unescape(value), location))
            except UnicodeError:
                problem = r"a \uXXXX on this line is half of a surrogate pair"
        if problem:
            add_problem(problems, problem, location)
    return found


def _logical_lines(text: str) -> Iterator[tuple[int, str]]:
    """Yield lines with their continuations joined, and the number of the first."""
    lines = enumerate(_LINE_END.split(text), 1)
    for number, natural in lines:
        line = natural.lstrip(_BLANK)
        if not line or line[0] in "#!":
            continue
        parts = []
        # What a continued line ends with, less its last backslash, is an even number of them: each part counts alone.
        while (len(line) - len(line.rstrip("\\"))) % 2:
            parts.append(line[:-1])
            line = next(lines, (0, ""))[1].lstrip(_BLANK)
        yield number, "".join([*parts, line])


def _unescape(text: str) -> str:
    if "\\" not in text:
        return text
    plain = _ESCAPE.sub(lambda found: chr(int(found[1], 16)) if found[1] else _ESCAPES.get(found[2], found[2]), text)
    # Java's characters are UTF-16: two escapes may make one character.
    return plain.encode("utf-16", "surrogatepass").decode("utf-16")


_MOST_REFERENCES: Final = 20  # of a value; each may read a file
_PACKAGE: Final = "org.apache.kafka.common.config.provider."
_PROVIDERS: Final = {
    "env": ("EnvVarConfigProvider", "allowlist.pattern"),
    "file": ("FileConfigProvider", "allowed.paths"),
    "dir": ("DirectoryConfigProvider", "allowed.paths"),
}
_FORMS: Final = "${env:NAME}, ${file:PATH:KEY} or ${dir:PATH:FILE}"
_OUTSIDE: Final = "is outside of the repository, but these properties are not; move them out, or use ${env:NAME}"


def provider_folder(path: str | Path, repository: Path | None) -> Path | None:
    """Return the only folder whose files a client properties file may refer to; `None` for any.

    A pull request must not choose which file of the machine is read and sent to a host. It may have written whatever
    lies in the work tree of git around the repository that names the properties (`None`: the operator names them).
    """
    if repository is None:
        return None
    folder = Path(os.path.realpath(repository))
    trees = [each for each in (*reversed(folder.parents), folder) if os.path.lexists(each / ".git")]
    return repository if is_within(path, trees[0] if trees else folder) else None


_USED = """
    bootstrap.servers client.id client.dns.lookup security.protocol request.timeout.ms default.api.timeout.ms
    sasl.mechanism sasl.jaas.config sasl.client.callback.handler.class sasl.kerberos.service.name
    ssl.truststore.type ssl.truststore.location ssl.truststore.certificates ssl.truststore.password
    ssl.keystore.type ssl.keystore.location ssl.keystore.key ssl.keystore.certificate.chain ssl.keystore.password
    ssl.key.password ssl.endpoint.identification.algorithm ssl.protocol ssl.enabled.protocols ssl.cipher.suites
    config.providers
    sasl.login.callback.handler.class sasl.login.connect.timeout.ms sasl.login.read.timeout.ms
    sasl.login.retry.backoff.ms sasl.login.retry.backoff.max.ms sasl.login.refresh.window.factor
    sasl.oauthbearer.jwt.retriever.class sasl.oauthbearer.jwt.validator.class sasl.oauthbearer.token.endpoint.url
    sasl.oauthbearer.client.credentials.client.id sasl.oauthbearer.client.credentials.client.secret
    sasl.oauthbearer.scope sasl.oauthbearer.header.urlencode sasl.oauthbearer.clock.skew.seconds
    sasl.oauthbearer.sub.claim.name
    sasl.oauthbearer.assertion.algorithm sasl.oauthbearer.assertion.claim.aud sasl.oauthbearer.assertion.claim.iss
    sasl.oauthbearer.assertion.claim.sub sasl.oauthbearer.assertion.claim.exp.seconds
    sasl.oauthbearer.assertion.claim.nbf.seconds sasl.oauthbearer.assertion.claim.jti.include
    sasl.oauthbearer.assertion.file sasl.oauthbearer.assertion.template.file
    sasl.oauthbearer.assertion.private.key.file sasl.oauthbearer.assertion.private.key.passphrase
"""
USED: Final = frozenset(_USED.split())
"""Keys that are read."""

_WITHOUT_EFFECT = """
    allow auto basic batch buffer check compression connections delivery exclude fetch group heartbeat interceptor
    isolation key linger max metadata metric metrics partition partitioner receive reconnect retry schema send session
    socket transaction transactional value
"""
_IGNORED: Final = frozenset(_WITHOUT_EFFECT.split())
"""Words before the first dot of keys without effect here: tuning, metrics, producers, consumers, and other services
whose settings share the file."""

_IGNORED_PREFIXES: Final = (
    "client.rack",
    "enable.auto.commit",
    "enable.idempotence",
    "enable.metrics.push",
    "sasl.kerberos.",
    "sasl.login.refresh.",
    "sasl.oauthbearer.jwks.",
    "sasl.oauthbearer.expected.",
    "sasl.oauthbearer.scope.claim.name",
    "config.providers.",
)
"""Keys of unsupported mechanisms and of brokers, and of providers, which are read when a value names one."""

_REMEDIES: Final = {
    "bootstrap.controllers": "quotas are read and changed through brokers; give bootstrap.servers",
    "sasl.username": "it is not a key of Java clients; put the user name into sasl.jaas.config",
    "sasl.password": "it is not a key of Java clients; put the password into sasl.jaas.config",
    "enable.ssl.certificate.verification": "Java clients always check certificates; remove it",
    "sasl.mechanisms": "Java clients call it sasl.mechanism",
    "ssl.ca.location": "Java clients call it ssl.truststore.location, with ssl.truststore.type=PEM",
    "ssl.certificate.location": "Java clients have key and certificate in one file: ssl.keystore.location",
    "ssl.key.location": "Java clients have key and certificate in one file: ssl.keystore.location",
    "ssl.key-password": "Java clients call it ssl.key.password",
    "metadata.broker.list": "Java clients call it bootstrap.servers",
}

_VALUES = """
    PLAINTEXT SSL TLS SASL SASL_PLAINTEXT SASL_SSL SASL_TLS SASL-SSL
    PLAIN GSSAPI KERBEROS OAUTHBEARER AWS_MSK_IAM DIGEST-MD5 SCRAM SCRAM-SHA-1 SCRAM-SHA-256 SCRAM-SHA-512
    PEM JKS JCEKS PKCS12 P12 BCFKS DEFAULT
    TLSV1 TLSV1.0 TLSV1.1 TLSV1.2 TLSV1.3 SSLV2 SSLV3
    HTTPS NONE TRUE FALSE ENV FILE DIRECTORY
"""
_WORDS: Final = frozenset(_VALUES.split())  # well-known values in capitals, which are not secret
_NUMBER: Final = regex(r"[+-]?[0-9]{1,10}(\.[0-9]{1,6})?(ms|s|m|h)?").fullmatch
is_number: Final = regex(r"[0-9]{1,10}(\.[0-9]{1,6})?").fullmatch
_KEY: Final = regex(r"[a-z][a-z0-9.-]{0,79}").fullmatch

_WORDS_AND_DOTS: Final = regex(r"[a-z]+(?:\.[a-z]+){1,8}").fullmatch
"""What all keys of Kafka's clients are made of, and few secrets."""
_SECRETS: Final = (".jaas.config", ".password", ".keystore.key", ".secret", ".passphrase")
"""What keys end with whose values are secret."""
_FAMILIES: Final = frozenset(key.partition(".")[0] for key in USED)


def is_word(value: str) -> bool:
    """Whether a value is a number or a word of Kafka's configuration, so that it may be shown: it is no secret."""
    return all(part.strip().upper() in _WORDS for part in value.split(",")) or bool(_NUMBER(value))


def refusal(key: str) -> str:
    """Return why a key is refused and what to do.

    A key that is like none of Kafka's is not shown: it may be a secret in the wrong place, or the rest of one that
    was meant to go on over a line's end.
    """
    if remedy := _REMEDIES.get(key):
        return f"{key} is not supported: {remedy}"
    if secret := next((each for each in sorted(USED) if each.endswith(_SECRETS) and key.startswith(each)), None):
        return f"{secret} is not followed by = and a value; write {secret}=VALUE"
    if _KEY(key) and (known := nearest(key, USED, cutoff=0.85)):
        return f"{key} is not a key of Kafka clients; did you mean {known}?"
    if _WORDS_AND_DOTS(key) is None or key.partition(".")[0] not in _FAMILIES:
        return (
            "a property is not a key of Kafka clients; remove it, or end the line before it with a backslash if that"
            " continues here"
        )
    return f"{key} is not supported; remove it if the connection does not need it"


class ReportedError(Exception):
    """A problem was reported after which no more can be said of what is being read."""


class ClientProperties:
    """Returns values and collects problems; a later property overrides an earlier one with the same key.

    A variable is looked up when the value is used: a property that is not used needs no variable. No problem holds a
    value, unless it is a number or a word that stands for itself: a value may be a secret that took a wrong place.
    """

    def __init__(
        self,
        properties: Iterable[Property],
        environ: Mapping[str, str],
        *,
        source: Location,
        folder: Path | None = None,
        repository: Path | None = None,
        within: Path | None = None,
        problems: Iterable[Finding] = (),
    ) -> None:
        """Take the properties that count.

        `folder` is where files may lie that are named relatively and are not in the working folder; links must
        not lead out of `repository`, if one named the properties; `within` is the only folder whose files a
        `${...}` may name.
        """
        self.problems = list(problems)
        self.folder = folder
        self.repository = repository
        self.within = within
        self.environ = environ
        self._source = source
        self._written = {each.key: each for each in properties}
        self._values: dict[str, str | None] = {}

    @property
    def keys(self) -> list[str]:
        """All keys, in their order."""
        return list(self._written)

    def has(self, key: str) -> bool:
        """Whether a key has a value that is not empty, or one that cannot be known for a missing variable."""
        return key in self._written and self.get(key) != ""

    def get(self, key: str) -> str | None:
        """Return a value with its variables replaced; `None` for none, and for one that cannot be known.

        White space around it does not count, as in Kafka's `ConfigDef`; a `${` that names no source stays as it is.
        """
        if key not in self._written:
            return None
        if key not in self._values:
            written = self._written[key]
            text, problems = self._expand(written.value)
            for problem in problems[:MAX_PROBLEMS]:
                add_problem(self.problems, f"{key}: {problem}", written.location)
            self._values[key] = None if problems else text.strip()
        return self._values[key]

    def written(self, key: str, default: str = "") -> str:
        """Return a value as it is written, its variables not replaced."""
        return self._written[key].value.strip() if key in self._written else default

    def check_keys(self) -> None:
        """Report the keys that are neither read nor ignored."""
        for key in self._written:
            family, dot, _ = key.partition(".")
            is_ignored = (dot and family in _IGNORED) or key in ("acks", "retries") or key.startswith(_IGNORED_PREFIXES)
            is_wrong = key in _REMEDIES or not (key in USED or is_ignored)
            if is_wrong and len(self.problems) <= MAX_PROBLEMS:
                self.report(key, refusal(key))

    def render(self, key: str) -> str:
        """Return what messages call a property: with its value when that cannot be a secret."""
        value = self.written(key)
        return f"{key}={value}" if is_word(value) else f"the value of {key}"

    def number(self, key: str, default: float, least: float = 0, most: float = 2**31 - 1) -> float:
        """Return the number that a key has, a whole one if the default is; or the default, also after a report."""
        value = self.get(key)
        is_whole = isinstance(default, int)
        if value and not (is_number(value) and least <= float(value) <= most and not (is_whole and "." in value)):
            self.report(key, f"{self.render(key)} is not a number from {least} to {most}")
            return default
        return float(value) if value else default

    def inside(self, key: str, values: Mapping[str, str]) -> ClientProperties:
        """Return properties that the expanded value of a key consists of; their problems are those of the key."""
        inner = copy(self)
        inner._source = self._written[key].location
        inner._written = {name: Property(name, value, inner._source) for name, value in values.items()}
        # Kafka expands a value once; what a provider returned is no reference.
        inner._values = {name: value.strip() for name, value in values.items()}
        return inner

    def _expand(self, text: str) -> tuple[str, list[str]]:
        """Return a text with its references replaced once, and what is wrong with them: no path, key or value."""
        pieces, problems, end = list[str](), list[str](), 0
        for count, match in enumerate(REFERENCE.finditer(text)):
            alias, colon, rest = match[1].partition(":")
            if colon and not match[2] and alias in _PROVIDERS:
                problems.append("a ${... has no closing brace; add it")
            elif colon and match[2]:
                try:
                    if count >= _MOST_REFERENCES:
                        raise ValueError(f"a value has more than {_MOST_REFERENCES} references; write some as they are")
                    pieces += [text[end : match.start()], self._look_up(alias, rest)]
                    end = match.end()
                except ValueError as error:
                    problems.append(str(error))
        return "".join([*pieces, text[end:]]), problems

    def _look_up(self, alias: str, rest: str) -> str:
        provider, limit = self._provider(alias)
        if provider == "env":
            if limit is not None and self.within is not None:  # Some patterns take years to match.
                raise ValueError(
                    "allowlist.pattern cannot be used in a repository; remove it: QUOTAFORM_ENV is the list"
                )
            try:
                is_listed = limit is None or re.fullmatch(limit, rest)
            except re.error:
                raise ValueError("allowlist.pattern is not a regular expression; correct it") from None
            if not is_listed:
                raise ValueError("allowlist.pattern does not match the variable of ${env:NAME}; correct one of them")
            expansion = expand(f"${{env:{rest}}}", self.environ)
            for _, problem in expansion.problems:
                raise ValueError(problem)
            return expansion.text
        path, _, name = rest.partition(":")
        if not path or not name or (provider == "dir" and Path(name).name != name):
            raise ValueError(f"a ${{...}} has no path or no name; write {_FORMS}")
        if provider == "dir":
            return self._read_provided(f"{path}/{name}", limit).removesuffix("\n")
        values = {each.key: each.value for each in parse_properties(self._read_provided(path, limit), "", [])}
        if name not in values:
            raise ValueError("a ${file:PATH:KEY} names a key that is not in the file; correct it, or add the key")
        return values[name]

    def _provider(self, alias: str) -> tuple[str, str | None]:
        """Return the provider that an alias stands for, and what limits it."""
        listed = self.written("config.providers") or ",".join(_PROVIDERS)
        if alias not in map(str.strip, listed.split(",")):
            raise ValueError(f"a ${{...}} names a provider that is not in config.providers; list it, or write {_FORMS}")
        prefix = f"config.providers.{alias}."
        written = self.written(f"{prefix}class", _PACKAGE + _PROVIDERS.get(alias, ("",))[0])
        for provider, (java_class, parameter) in _PROVIDERS.items():
            if written == _PACKAGE + java_class:
                limit = f"{prefix}param.{parameter}"
                if any(key.startswith(f"{prefix}param.") and key != limit for key in self._written):
                    raise ValueError(f"{prefix}param.* can only be {limit}; correct the other")
                return provider, self.written(limit) if limit in self._written else None
        classes = " or ".join(java_class for java_class, _ in _PROVIDERS.values())
        raise ValueError(f"{prefix}class cannot be loaded; set it to {classes} of {_PACKAGE.strip('.')}")

    def _read_provided(self, path: str, allowed: str | None) -> str:
        why = "does not exist; correct the path, or create the file"
        for place in (Path(os.path.abspath(each)) for each in (path, (self.folder or Path()) / path)):  # noqa: PTH100 (follows links)
            if allowed and not any(place.is_relative_to(os.path.normpath(each)) for each in allowed.split(",")):
                why = "allowed.paths of its provider leaves out; correct one of them"
                continue
            try:
                return read_text(place, PROPERTIES_LIMIT, within=self.within)
            except FileReadError as error:
                if not error.is_missing:
                    is_outside = error.reason in (LEADS_OUT, OF_GIT)
                    why = _OUTSIDE if is_outside else f"cannot be read: {error.reason}; correct it"
        raise ValueError(f"a ${{...}} names a file that {why}")

    def read_file(self, key: str, value: str, limit: int, names: str) -> tuple[Path, bytes]:
        """Return the file that a value names, relative to the working folder or else to the properties file.

        `names` is what the sentence of a problem begins with, such as `ssl.truststore.location names a file`.
        """
        written = Path(value).expanduser() if value.startswith("~/") else Path(value)
        places = [written]
        if not written.is_absolute() and self.folder is not None:
            places.append(self.folder / written)
        for place in places:
            within = None if self.repository is None else trusted_folder(place, self.repository)
            try:
                return place.absolute(), read_bytes(place, limit, within=within)
            except FileReadError as error:
                if not error.is_missing:
                    raise self.refused(key, f"{names} that cannot be read: {error.reason}") from None
        nowhere = (
            "exists neither in the current directory nor next to this file" if len(places) > 1 else "does not exist"
        )
        raise self.refused(key, f"{names} that {nowhere}")

    def attempt(self, read: Callable[..., T], *arguments: object) -> T | None:
        """Return what a function reads; `None` after it raised `ReportedError`."""
        try:
            return read(self, *arguments)
        except ReportedError:
            return None

    def refused(self, key: str, message: str) -> ReportedError:
        """Add a problem with a key, and return what to raise."""
        self.report(key, message)
        return ReportedError()

    def report(self, key: str, message: str) -> None:
        """Add a problem with a key."""
        written = self._written.get(key)
        add_problem(self.problems, message, written.location if written else self._source)


def add_problem(problems: list[Finding], message: str, location: Location) -> None:
    """Add a problem with client properties; of very many the first are enough."""
    if len(problems) == MAX_PROBLEMS:
        message, location = "there are more problems; correct these first", Location(location.file)
    if len(problems) <= MAX_PROBLEMS:
        problems.append(rule.CLIENT_PROPERTIES.finding(message, location=location))
