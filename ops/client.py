"""How a caller shows who it is to a service, in each way that it can be deployed with (`auth`)."""

from collections.abc import Callable
from dataclasses import dataclass

import boto3
from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials
from botocore.exceptions import NoCredentialsError, NoRegionError
from requests import PreparedRequest

Caller = Callable[[PreparedRequest], PreparedRequest]


@dataclass(frozen=True)
class Access:
    proof: str
    own: Caller
    wrong: Caller
    refusal: int = 401
    at_gateway: bool = True  # it asks for proof under /api alone, and refuses in words of its own


def by_key(key: str) -> Access:
    return Access("key", _bearer(key), _bearer(f"ost_{'0' * 43}"), at_gateway=False)


def by_token(token: str) -> Access:
    return Access("token", _bearer(token), _bearer("not.a.token"))


def by_signature(credentials: Credentials, region: str) -> Access:
    forged = Credentials(credentials.access_key, "not-its-secret", credentials.token)
    return Access("signature", _signer(credentials, region), _signer(forged, region), refusal=403)


def by_own_signature() -> Access:
    """With the credentials and the region that the AWS command line would take."""
    session = boto3.Session()
    if not (credentials := session.get_credentials()):
        raise NoCredentialsError
    if not session.region_name:
        raise NoRegionError
    return by_signature(credentials, session.region_name)


def _bearer(token: str) -> Caller:
    def shown(request: PreparedRequest) -> PreparedRequest:
        request.headers["Authorization"] = f"Bearer {token}"
        return request

    return shown


def _signer(credentials: Credentials, region: str) -> Caller:
    def signed(request: PreparedRequest) -> PreparedRequest:
        to_sign = AWSRequest(request.method, request.url, data=request.body)
        SigV4Auth(credentials, "execute-api", region).add_auth(to_sign)
        request.headers.update(to_sign.headers.items())
        return request

    return signed
