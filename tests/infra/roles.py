"""What each function's role allows, read from a template."""

from collections.abc import Iterator
from typing import Any

from tests.infra.template import Template

Right = tuple[str, str]  # an action, and what it may be done to


def allowed(template: Template, name: str) -> Iterator[Right]:
    """Every action with every resource, the resource by the readable part of its logical id."""
    for statement in statements(template, name):
        if statement["Effect"] == "Allow":
            for action in _many(statement["Action"]):
                for resource in _many(statement["Resource"]):
                    yield action, readable(resource)


def statements(template: Template, name: str) -> Iterator[dict[str, Any]]:
    role = template.role(name)
    assert "ManagedPolicyArns" not in role
    for policy in role["Policies"]:
        yield from policy["PolicyDocument"]["Statement"]


def _many(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def readable(resource: Any) -> str:
    """`Fn::GetAtt [QueuesCreate1234ABCD, Arn]` is QueuesCreate; an index keeps its path."""
    if isinstance(resource, str):
        return resource
    if "Fn::Join" in resource:
        return "".join(readable(part) for part in resource["Fn::Join"][1])
    if "Ref" in resource:
        return str(resource["Ref"][:-8])
    logical, attribute = resource["Fn::GetAtt"]
    return str(logical[:-8]) + (".stream" if attribute == "StreamArn" else "")
