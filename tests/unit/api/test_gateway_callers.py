"""`auth=jwt` and `auth=iam`: the gateway has checked who calls, and says so in the event."""

from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from tests.unit.api.api import Answer, Api, create_body

ARN = "arn:aws:sts::123456789012:assumed-role/Deploy/alice@example.com"
# As API Gateway hands it on, payload format 2.0.
SIGNED = {
    "iam": {
        "accessKey": "ASIAEXAMPLE",
        "accountId": "123456789012",
        "callerId": "AROAEXAMPLE:alice@example.com",
        "cognitoIdentity": None,
        "principalOrgId": "o-example",
        "userArn": ARN,
        "userId": "AROAEXAMPLE:alice@example.com",
    }
}


def token(**claims: Any) -> dict[str, Any]:
    issued = {
        "aud": "ostler",
        "exp": "1794800000",
        "iat": "1794796400",
        "iss": "https://issuer.example",
        "sub": "alice",
    }
    return {"jwt": {"claims": {**issued, **claims}, "scopes": None}}


@pytest.fixture
def jwt(api: Api) -> Iterator[Api]:
    api.restart(AUTH="jwt")
    yield api
    api.restart()


@pytest.fixture
def iam(api: Api) -> Iterator[Api]:
    api.restart(AUTH="iam")
    yield api
    api.restart()


def ask(api: Api, authorizer: Mapping[str, Any] | None, method: str = "GET") -> Answer:
    """Whatever is in the Authorization header is the gateway's business."""
    headers = {"Authorization": "Bearer what.the.gateway.checked"}
    body = create_body() if method == "POST" else None
    return api.call(method, "/api/instances", body, headers=headers, authorizer=authorizer)


def actor(api: Api, answer: Answer) -> str:
    assert answer.status == 201, answer.text
    identity = SIGNED | token(scope="admin")
    events = api.call("GET", f"{answer.headers['Location']}/events", authorizer=identity)
    return str(events.body["events"][0]["actor"])


@pytest.mark.parametrize(
    ("scope", "statuses"),
    [
        ("read", (200, 403, 403)),
        ("write", (200, 201, 403)),
        ("admin", (200, 201, 200)),
        ("openid profile write", (200, 201, 403)),
        ("ostler/read", (200, 403, 403)),
        ("ostler:write", (200, 201, 403)),
        (["openid", "write"], (200, 201, 403)),
        ("[openid write]", (200, 201, 403)),
        ("[admin]", (200, 201, 200)),
    ],
)
def test_a_tokens_scopes_say_what_its_caller_may(jwt: Api, scope: Any, statuses: tuple[int, ...]) -> None:
    identity = token(scope=scope)

    read, write = ask(jwt, identity), ask(jwt, identity, "POST")
    admin = jwt.call("POST", "/api/cache/clear", authorizer=identity)

    assert (read.status, write.status, admin.status) == statuses


@pytest.mark.parametrize(
    "scope",
    ["", None, "openid", "Read", "READ", "readonly", "write,read", 7, {"read": True}, ["openid", 7], []],
)
def test_a_token_without_a_scope_of_ours_may_nothing(jwt: Api, scope: Any) -> None:
    answer = ask(jwt, token(scope=scope))

    assert (answer.status, answer.code) == (403, "FORBIDDEN")


@pytest.mark.parametrize(
    "scope", ["billing/admin", "billing:admin", "ostler/billing/admin", "admin/x", "/admin"]
)
def test_a_scope_of_another_service_says_nothing_here(jwt: Api, scope: str) -> None:
    assert ask(jwt, token(scope=scope)).status == 403


def test_the_issuers_name_for_this_service_can_be_set(jwt: Api) -> None:
    jwt.restart(AUTH="jwt", JWT_SCOPE_PREFIX="https://gpus.example")

    assert ask(jwt, token(scope="https://gpus.example/read")).status == 200
    assert ask(jwt, token(scope="ostler/read")).status == 403


@pytest.mark.parametrize("subject", [None, "", 7, ["alice"], "x" * 256])
def test_a_token_that_names_nobody_is_refused(jwt: Api, subject: Any) -> None:
    answer = ask(jwt, token(scope="admin", sub=subject))

    assert (answer.status, answer.code) == (401, "UNAUTHORIZED")


def test_whoever_iam_lets_through_may_what_the_route_does(iam: Api) -> None:
    assert ask(iam, SIGNED).status == 200
    assert ask(iam, SIGNED, "POST").status == 201
    assert iam.call("POST", "/api/cache/clear", authorizer=SIGNED).status == 200


@pytest.mark.parametrize("arn", [None, "", 7])
def test_a_signature_of_nobody_is_refused(iam: Api, arn: Any) -> None:
    assert ask(iam, {"iam": {**SIGNED["iam"], "userArn": arn}}).status == 401


def test_the_history_names_who_it_was(api: Api) -> None:
    api.restart(AUTH="jwt")
    by_token = actor(api, ask(api, token(scope="write"), "POST"))
    api.restart(AUTH="iam")
    by_signature = actor(api, ask(api, SIGNED, "POST"))
    api.restart()
    by_key = actor(api, api.post(create_body()))

    assert (by_token, by_signature) == ("jwt:alice", f"iam:{ARN}")
    assert by_key.startswith("key_")


def test_an_idempotency_key_belongs_to_the_caller_who_used_it(jwt: Api) -> None:
    def create(subject: str, **body: Any) -> Answer:
        headers = {"Idempotency-Key": "the-same"}
        return jwt.post(create_body(**body), headers=headers, authorizer=token(scope="write", sub=subject))

    first, again, other = create("alice"), create("alice"), create("bob", name="another")

    assert (first.status, again.text) == (201, first.text)
    assert other.status == 201
    assert other.body["instanceId"] != first.body["instanceId"]
    assert create("alice", name="another").code == "IDEMPOTENCY_KEY_REUSED"


@pytest.mark.parametrize("mode", ["jwt", "iam"])
@pytest.mark.parametrize(
    "authorizer",
    [
        None,
        {},
        {"jwt": None},
        {"jwt": {}},
        {"jwt": {"claims": None}},
        {"jwt": "x"},
        {"iam": None},
        {"lambda": {}},
    ],
)
def test_without_the_gateways_word_nobody_is_let_in(api: Api, mode: str, authorizer: Any) -> None:
    api.restart(AUTH=mode)

    answer = api.call("GET", "/api/instances", authorizer=authorizer)  # with a key that would be valid
    api.restart()

    assert (answer.status, answer.code) == (401, "UNAUTHORIZED")
    assert answer.headers["WWW-Authenticate"]


@pytest.mark.parametrize("mode", ["jwt", "iam"])
@pytest.mark.parametrize(
    "path",
    [
        *("/api", "/api/", "/API/instances", "//api/instances", "/api//instances", "/api%2Finstances"),
        *("/x", "/health/", "/docs/x", "/health%2F..%2Fapi%2Finstances", "/docs/../api/instances"),
    ],
)
def test_a_path_that_slipped_past_the_authorizer_is_refused(api: Api, mode: str, path: str) -> None:
    api.restart(AUTH=mode)

    answer = api.call("GET", path)
    api.restart()

    assert (answer.status, answer.code) == (401, "UNAUTHORIZED")


@pytest.mark.parametrize("mode", ["jwt", "iam"])
@pytest.mark.parametrize("path", ["/health", "/docs", "/openapi.json"])
@pytest.mark.parametrize("presented", [None, "Bearer x"])
def test_health_and_docs_stay_open(api: Api, mode: str, path: str, presented: str | None) -> None:
    api.restart(AUTH=mode)

    answer = api.call("GET", path, headers={"Authorization": presented})
    api.restart()

    assert answer.status == 200


def test_one_kind_of_word_is_not_taken_for_the_other(api: Api) -> None:
    api.restart(AUTH="jwt")
    assert ask(api, SIGNED).status == 401
    api.restart(AUTH="iam")
    assert ask(api, token(scope="admin")).status == 401
    api.restart()


@pytest.mark.parametrize("authorizer", [SIGNED, token(scope="admin")])
def test_with_keys_only_a_key_counts(api: Api, authorizer: dict[str, Any]) -> None:
    assert ask(api, authorizer).status == 401
    assert api.call("GET", "/api/instances", scope="read", authorizer=authorizer).status == 200
    assert api.post(create_body(), scope="read", authorizer=authorizer).status == 403
