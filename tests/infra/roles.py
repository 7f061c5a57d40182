"""What each function's role allows, read from a template."""

from collections.abc import Iterator
from typing import Any

from tests.infra.template import Template

Right = tuple[str, str]  # an action, and what it may be done to


def allowed(template: Template, name: str) -> Iterator[Right]:
    """Every action with every resource, the resource by the readable part of its logical id."""
    role = template.role(name)
    assert "ManagedPolicyArns" not in role
    for policy in role["Policies"]:
        for statement in policy["PolicyDocument"]["Statement"]:
            assert statement["Effect"] == "Allow"
            for action in _many(statement["Action"]):
                for resource in _many(statement["Resource"]):
                    yield action, _readable(resource)


def _many(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def _readable(resource: Any) -> str:
    """`Fn::GetAtt [QueuesCreate1234ABCD, Arn]` is QueuesCreate; an index keeps its path."""
    if isinstance(resource, str):
        return resource
    if "Fn::Join" in resource:
        return "".join(_readable(part) for part in resource["Fn::Join"][1])
    if "Ref" in resource:
        return str(resource["Ref"][:-8])
    logical, attribute = resource["Fn::GetAtt"]
    return str(logical[:-8]) + (".stream" if attribute == "StreamArn" else "")
