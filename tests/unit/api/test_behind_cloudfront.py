"""Behind CloudFront: who comes around it is refused, and strangers are told apart by their own address."""

from collections.abc import Iterator
from typing import Any
from uuid import uuid4

import boto3
import pytest

from tests.unit.api.api import Api

SECRET = "known to CloudFront alone"


@pytest.fixture
def edged(api: Api) -> Iterator[Api]:
    secrets = boto3.client("secretsmanager")
    name = secrets.create_secret(Name=f"origin-{uuid4().hex}", SecretString=SECRET)["Name"]
    api.restart(ORIGIN_SECRET_ID=name, REQUESTS_PER_STRANGER="30")
    yield api
    api.restart()


def ask(api: Api, path: str = "/api/circuits", **headers: Any) -> int:
    return api.call("GET", path, headers=headers).status


@pytest.mark.parametrize("path", ["/api/circuits", "/health", "/docs", "/openapi.json", "/nothing"])
@pytest.mark.parametrize("shown", [None, "", "a guess", SECRET + "x", SECRET[:-1], "\ud800"])
def test_who_comes_around_it_is_refused_everywhere(edged: Api, path: str, shown: str | None) -> None:
    headers = {} if shown is None else {"X-Origin-Verify": shown}

    answer = edged.call("GET", path, headers=headers)

    assert (answer.status, answer.body["error"]["code"]) == (403, "FORBIDDEN")
    assert SECRET not in answer.text


def test_who_comes_through_it_is_answered(edged: Api) -> None:
    assert ask(edged, **{"X-Origin-Verify": SECRET}) == 200
    assert ask(edged, "/health", **{"X-Origin-Verify": SECRET, "Authorization": None}) == 200


def test_strangers_are_told_apart_by_the_address_that_cloudfront_saw(edged: Api) -> None:
    def knock(forwarded: str) -> int:
        wrong = {"Authorization": f"Bearer ost_{'a' * 43}", "X-Forwarded-For": forwarded}
        return ask(edged, **{"X-Origin-Verify": SECRET, **wrong})

    answers = [knock(f"{number}.2.3.4, 192.0.2.1, 203.0.113.9") for number in range(20)]

    assert answers[-1] == 429, "what the caller says of itself does not count"
    assert knock("192.0.2.2, 203.0.113.9") == 401
