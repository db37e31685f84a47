"""AWS_MSK_IAM: an identity of AWS, on Amazon MSK; README and source of aws-msk-iam-auth describe it.

The client sends the parts of a presigned query (Signature Version 4) as JSON. botocore finds credentials, assumes a
role, and refreshes what is temporary.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from os import environ
from re import compile as regex
from typing import Any, Final

from quotaform import __version__
from quotaform.cluster.client.config import Exchange
from quotaform.cluster.client.properties import ClientProperties
from quotaform.cluster.sasl.jaas import read_jaas, render_jaas
from quotaform.cluster.wire.failure import LoginError
from quotaform.cluster.wire.message import MalformedError
from quotaform.model.errors import missing_extra
from quotaform.model.server import LIST_IT, UNLISTED
from quotaform.model.text import inert

MECHANISM: Final = "AWS_MSK_IAM"
HANDLER: Final = "sasl.client.callback.handler.class"
PACKAGE: Final = "software.amazon.msk.auth.iam."
_MODULE: Final = f"{PACKAGE}IAMLoginModule"
_HANDLER: Final = f"{PACKAGE}IAMClientCallbackHandler"
FORM: Final = f"write: sasl.jaas.config={_MODULE} required;"
_OPTIONS: Final = ("awsProfileName", "awsRoleArn", "awsRoleSessionName", "awsRoleExternalId", "awsStsRegion")
_IGNORED: Final = frozenset({"awsDebugCreds", "awsMaxRetries", "awsMaxBackOffTimeMs", "awsAddDefaultProviders"})
"""Logging, retries, and whether the default chain will do instead of a profile or a role, which it never does here."""
_VERSION: Final = "2020_10_22"
_REGION: Final = regex(r"(?:^|\.)kafka(?:-serverless)?\.([a-z]+(?:-[a-z]+)+-[0-9]+)\.").search
"""The region in the name of a broker, such as b-1.demo.abc.c2.kafka.eu-west-1.amazonaws.com."""
_ERROR_CODE: Final = regex(r"[A-Za-z.]{1,60}").fullmatch
_EXPIRED: Final = """ExpiredToken ExpiredTokenException LoginRefreshRequired LoginTokenLoadError
    SSOTokenLoadError TokenRetrievalError UnauthorizedSSOTokenError"""
_NETWORK: Final = """ConnectTimeoutError ConnectionClosedError EndpointConnectionError HTTPClientError
    ProxyConnectionError ReadTimeoutError SSLError"""
_REMEDIES: Final[Mapping[str, str]] = {
    "AccessDenied": "check that the trust policy of the role and your own policy allow sts:AssumeRole",
    "NoCredentials": "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or name a profile, or run where AWS has a role",
    "NoRegion": "the host name of the broker does not contain its AWS region; set AWS_REGION",
    "ProfileNotFound": "check awsProfileName or AWS_PROFILE, and the configuration files of AWS",
    **dict.fromkeys(_EXPIRED.split(), "credentials have expired; get new ones, for example with aws sso login"),
    **dict.fromkeys(_NETWORK.split(), "AWS cannot be reached; check the network, the proxy and awsStsRegion"),
}
"""What to do about an error, by AWS's code or botocore's class."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MskIam:
    """Where credentials of AWS come from: botocore's chain, or a profile; and a role to assume with them."""

    options: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    who: str = field(default="the AWS credentials of this process", compare=False)
    mechanism: str = MECHANISM
    check: str = (
        "check that the policy allows kafka-cluster:Connect, that the credentials have not expired, and the clock of"
        " this machine"
    )

    def exchange(self, host: str) -> Exchange:
        credentials, region = _find(self, host)
        answer = json.loads((yield payload(credentials, host=host, region=region)))
        if not isinstance(answer, dict) or answer.get("version") != _VERSION:
            raise MalformedError(f"it is not an answer of {MECHANISM}")

    def java_properties(self) -> dict[str, str]:
        """Return the properties of a Java client, which needs aws-msk-iam-auth."""
        jaas = render_jaas(_MODULE, dict(self.options))
        return {"sasl.mechanism": MECHANISM, "sasl.jaas.config": jaas, HANDLER: _HANDLER}


def read(reader: ClientProperties, mechanism: str) -> MskIam:
    """Return what `sasl.jaas.config` says about credentials."""
    key = "sasl.jaas.config"
    if (reader.get("security.protocol") or "").upper() != "SASL_SSL":
        reader.report("security.protocol", f"sasl.mechanism={mechanism} needs security.protocol=SASL_SSL")
    if reader.has(HANDLER) and reader.get(HANDLER) != _HANDLER:
        reader.report(HANDLER, f"{HANDLER} of sasl.mechanism={mechanism} must be {_HANDLER}")
    options = read_jaas(reader, ("IAMLoginModule",), FORM)
    given = tuple((name, value) for name in _OPTIONS if (value := options.get(name)))
    kinds = {"awsProfileName": "the AWS profile", "awsRoleArn": "the IAM role"}
    sources = [(kinds[name], value) for name, value in given if name in kinds]
    if options.keys() - {*_OPTIONS, *_IGNORED}:
        raise reader.refused(key, f"{key} cannot be used: of its options only {', '.join(_OPTIONS)} are supported")
    if len(sources) > 1:
        raise reader.refused(
            key, f"{key} cannot be used: awsProfileName excludes awsRoleArn; write role_arn into the profile"
        )
    if not sources:
        return MskIam(options=given)
    kind, name = sources[0]
    name = inert(name) if reader.written(key) == reader.get(key) else f"of {key}"
    return MskIam(options=given, who=f"{kind} {name}")


def payload(credentials: Any, *, host: str, region: str) -> bytes:
    """Return the message that signs in to the broker on a host, valid for 15 minutes."""
    from botocore.auth import SigV4QueryAuth
    from botocore.awsrequest import AWSRequest
    from botocore.compat import parse_qsl, urlsplit

    bracketed = f"[{host}]" if ":" in host else host
    request = AWSRequest("GET", f"https://{bracketed}/", params={"Action": "kafka-cluster:Connect"})
    credentials = credentials._replace(token=credentials.token or None)  # An empty variable is no token.
    SigV4QueryAuth(credentials, "kafka-cluster", region, expires=900).add_auth(request)
    signed = {name.lower(): value for name, value in parse_qsl(urlsplit(request.url).query)}
    fields = {"version": _VERSION, "host": host, "user-agent": f"quotaform/{__version__}"}
    return json.dumps(fields | signed).encode()


_temporary: Final[dict[tuple[MskIam, str], Any]] = {}
"""Temporary credentials of this process by source and region; botocore refreshes them when they are used."""


def _find(source: MskIam, host: str) -> tuple[Any, str]:
    """Return credentials and the region of the broker on a host."""
    region = match[1] if (match := _REGION(host.lower())) else environ.get("AWS_REGION", "")
    try:
        from botocore.session import Session

        session = Session(profile=dict(source.options).get("awsProfileName"))
        region = region or session.get_config_variable("region") or ""
        credentials = _temporary.get((source, region)) or _load(source, session, region)
        frozen = credentials.get_frozen_credentials()
        if hasattr(credentials, "refresh_needed"):
            _temporary[source, region] = credentials
        return frozen, region
    except ImportError:
        raise LoginError(f"{MECHANISM} needs botocore", missing_extra("aws")) from None
    except Exception as error:
        # What they come from may be another one next time. The message of an error may hold anything.
        _temporary.pop((source, region), None)
        if isinstance(error, LoginError):
            raise
        response = getattr(error, "response", None)
        code = str(response.get("Error", {}).get("Code")) if isinstance(response, dict) else ""
        has_expired = isinstance(error, RuntimeError)  # botocore, of what it has just refreshed
        what = "ExpiredToken" if has_expired else code if _ERROR_CODE(code) else type(error).__name__
        raise _failed(source, what) from None


def _failed(source: MskIam, what: str) -> LoginError:
    remedy = _REMEDIES.get(what, "check profile, role and the AWS_* variables of this process")
    return LoginError(f"{source.who} cannot be used ({what})", remedy)


def _load(source: MskIam, session: Any, region: str) -> Any:
    import logging

    from botocore.config import Config
    from botocore.credentials import AssumeRoleCredentialFetcher, DeferredRefreshableCredentials

    if not region:
        raise _failed(source, "NoRegion")
    logging.getLogger("botocore").setLevel(logging.WARNING)  # Debugging records contain tokens.
    options = dict(source.options)
    session.set_config_variable("region", options.get("awsStsRegion") or region)
    limits = Config(connect_timeout=5, read_timeout=10, retries={"total_max_attempts": 2, "mode": "standard"})
    session.set_default_client_config(limits)
    session.register("before-send", _require_listed)
    credentials = session.get_credentials()
    if credentials is None:
        raise _failed(source, "NoCredentials")
    if "awsRoleArn" not in options:
        return credentials
    arguments = {"RoleSessionName": options.get("awsRoleSessionName", "aws-msk-iam-auth")}  # Java's default
    if external_id := options.get("awsRoleExternalId"):
        arguments["ExternalId"] = external_id
    fetcher = AssumeRoleCredentialFetcher(session.create_client, credentials, options["awsRoleArn"], arguments)
    return DeferredRefreshableCredentials(fetcher.fetch_credentials, "assume-role")


def _require_listed(request: Any, **_: object) -> None:
    """Hold a request of botocore, and the proxy for it, to the hosts that the operator lists."""
    from quotaform.http.client import Url, find_proxy

    url = Url.parse(request.url)
    for server in filter(None, (url.server, find_proxy(url)[0])):
        if not server.is_listed(environ):
            raise LoginError(f"{server}, the source of AWS credentials, {UNLISTED}", LIST_IT)
