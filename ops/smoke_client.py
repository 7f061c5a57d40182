"""The smoke test's HTTP client, for each way that a service lets callers in (the deploy option `auth`)."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import boto3
import requests
from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials
from botocore.exceptions import NoCredentialsError, NoRegionError
from requests import PreparedRequest

Authenticator = Callable[[PreparedRequest], PreparedRequest]


@dataclass(frozen=True)
class Auth:
    """How the caller authenticates, and how one that may not come in is refused."""

    credential: str  # its name: key, token or signature
    valid: Authenticator
    invalid: Authenticator
    refusal_status: int = 401
    at_gateway: bool = True  # it asks for credentials under /api alone, and refuses in words of its own


@dataclass(frozen=True)
class ServiceClient:
    url: str
    auth: Auth

    def call(self, method: str, path: str, body: Any = None) -> requests.Response:
        return self.call_as(self.auth.valid, method, path, body)

    def call_as(
        self, caller: Authenticator | None, method: str, path: str, body: Any = None
    ) -> requests.Response:
        return requests.request(method, self.url + path, json=body, auth=caller, timeout=60)


def api_key_auth(key: str) -> Auth:
    return Auth("key", _bearer(key), _bearer(f"ost_{'0' * 43}"), at_gateway=False)


def jwt_auth(token: str) -> Auth:
    return Auth("token", _bearer(token), _bearer("not.a.token"))


def iam_auth(session: boto3.Session) -> Auth:
    if not (credentials := session.get_credentials()):
        raise NoCredentialsError
    if not (region := session.region_name):
        raise NoRegionError
    forged = Credentials(credentials.access_key, "not-its-secret", credentials.token)
    return Auth("signature", _signer(credentials, region), _signer(forged, region), refusal_status=403)


def _bearer(token: str) -> Authenticator:
    def authenticate(request: PreparedRequest) -> PreparedRequest:
        request.headers["Authorization"] = f"Bearer {token}"
        return request

    return authenticate


def _signer(credentials: Credentials, region: str) -> Authenticator:
    def authenticate(request: PreparedRequest) -> PreparedRequest:
        to_sign = AWSRequest(request.method, request.url, data=request.body)
        SigV4Auth(credentials, "execute-api", region).add_auth(to_sign)
        request.headers.update(to_sign.headers.items())
        return request

    return authenticate
