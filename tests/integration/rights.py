"""What a call to AWS needs, in the words of the roles, and which calls a function's role would refuse."""

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import Any

from local.paths import CLOUD_ASSEMBLY
from local.synthesis import stack_template
from ops.stack import STACK_NAME
from tests.infra.roles import Right, allowed
from tests.infra.template import NAMES, Template

# Calls that IAM knows by other names: of each item, or of the call that is not a batch.
_BY_ITEM = {
    "Put": "PutItem",
    "Update": "UpdateItem",
    "Delete": "DeleteItem",
    "ConditionCheck": "ConditionCheckItem",
    "Get": "GetItem",
}
_SECRETS = {"novita": "SecretsNovitaKey", "webhook": "SecretsWebhookMaster"}


def synthesised() -> dict[str, frozenset[Right]]:
    """What each role allows, in the template that is deployed."""
    stack_template(lambda _: None)
    template = Template(CLOUD_ASSEMBLY / f"{STACK_NAME}.template.json")
    return {name: frozenset(allowed(template, name)) for name in NAMES}


class Rights:
    """Every right that was used, and every one that was used without being there."""

    def __init__(self, roles: Mapping[str, frozenset[Right]]) -> None:
        self._roles = roles
        self.used: dict[str, set[Right]] = defaultdict(set)
        self.missing: set[tuple[str, Right]] = set()

    def use(self, handler: str, service: str, operation: str, params: Mapping[str, Any]) -> None:
        """What is done outside of every function, by a test itself, needs nobody's rights."""
        if not handler:
            return
        function = {"sweep": "reconcile"}.get(handler, handler)
        needed = set(needs(service, operation, params))
        self.used[function] |= needed
        self.missing |= {(function, right) for right in needed - self._roles[function]}


def needs(service: str, operation: str, params: Mapping[str, Any]) -> Iterator[Right]:
    if "TransactItems" in params:
        for item in params["TransactItems"]:
            for kind in item:
                yield f"{service}:{_BY_ITEM[kind]}", "Table"
    else:
        yield f"{service}:{operation.removesuffix('Batch')}", _resource(service, params)


def _resource(service: str, params: Mapping[str, Any]) -> str:
    """As a harness names its own table, queues, topic and secrets."""
    if service == "dynamodb":
        return f"Table/index/{params['IndexName']}" if "IndexName" in params else "Table"
    if service == "sqs":
        name = re.search(r"-(create|monitor|startup|webhook|dead)$", params["QueueUrl"])
        assert name, params["QueueUrl"]
        return f"Queues{name[1].capitalize()}"
    if service == "secretsmanager":
        return _SECRETS[params["SecretId"].rpartition("-")[2]]
    assert service == "sns"
    return "Topic"
