"""A function's role as a principal: what IAM would say to a call of its own, by the emulator's evaluator.

It covers actions, resources, effects and the condition on leading keys, which is all that our roles have.
Resources are the readable parts of logical ids; what AWS puts into `dynamodb:LeadingKeys` is given here.
"""

import json
from typing import Any

from ministack.core.iam_evaluator import EvalContext, evaluate, parse_policy_document

from tests.infra.roles import readable, statements
from tests.infra.template import Template


def may(template: Template, function: str, action: str, *keys: str, resource: str = "Table") -> bool:
    """Whether the function may do this to the items that have these partition keys."""
    request = EvalContext(
        principal_arn=function,
        principal_type="AssumedRole",
        principal_account="000000000000",
        action=action,
        resource_arn=resource,
        region="us-east-1",
        service_context={"dynamodb:leadingkeys": list(keys)},
    )
    said = evaluate(request, [parse_policy_document(json.dumps(_policy(template, function)))])
    return bool(said.decision == "Allow")


def _policy(template: Template, function: str) -> dict[str, Any]:
    return {"Statement": [_by_name(one) for one in statements(template, function)]}


def _by_name(statement: dict[str, Any]) -> dict[str, Any]:
    resources = statement["Resource"]
    many = resources if isinstance(resources, list) else [resources]
    return {**statement, "Resource": [readable(one) for one in many]}
