"""The IAM policies to copy for callers with auth=iam: they say of every route what its scope says."""

import json
from pathlib import Path

import pytest
from ministack.core.iam_evaluator import EvalContext, evaluate, parse_policy_document

from functions.api.auth import scope_for
from tests.integration.routes import routes

POLICIES = Path(__file__).parents[2] / "docs" / "policies"
GUARDED = [route for route in routes() if route[1].startswith("/api/")]
HEADS = [("HEAD", path) for method, path in GUARDED if method == "GET"]
SCOPES = {"caller-read": {"read"}, "caller-write": {"read", "write"}}


def text_of(policy: str, **given: str) -> str:
    text = (POLICIES / f"{policy}.json").read_text()
    for name, value in given.items():
        text = text.replace(f"<{name}>", value)
    assert "<" not in text
    return text


@pytest.mark.parametrize(("method", "path"), [*GUARDED, *HEADS])
@pytest.mark.parametrize("policy", SCOPES)
def test_a_caller_may_call_what_the_scope_allows_and_nothing_else(
    policy: str, method: str, path: str
) -> None:
    document = text_of(policy, region="eu-west-1", account="123456789012", api="api1")
    request = EvalContext(
        principal_arn="caller",
        principal_type="User",
        principal_account="123456789012",
        action="execute-api:Invoke",
        resource_arn=f"arn:aws:execute-api:eu-west-1:123456789012:api1/$default/{method}{path}",
        region="eu-west-1",
    )

    said = evaluate(request, [parse_policy_document(document)]).decision

    needed = scope_for(method.replace("HEAD", "GET"), path)  # HEAD is answered as GET is
    assert (said == "Allow") is (needed in SCOPES[policy])


@pytest.mark.parametrize("policy", sorted(path.stem for path in POLICIES.glob("*.json")))
def test_every_policy_is_a_document_that_iam_reads(policy: str) -> None:
    document = json.loads((POLICIES / f"{policy}.json").read_text())

    assert document["Version"] == "2012-10-17"
    assert all(statement["Effect"] in ("Allow", "Deny") for statement in document["Statement"])
