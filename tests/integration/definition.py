"""The table of the real template, as CreateTable takes it."""

from typing import Any

from local.synthesis import stack_template

_WANTED = ("AttributeDefinitions", "KeySchema", "GlobalSecondaryIndexes", "BillingMode")


def table_definition() -> dict[str, Any]:
    resources = stack_template(lambda _: None)["Resources"].values()
    properties = next(one["Properties"] for one in resources if one["Type"] == "AWS::DynamoDB::Table")
    return {name: properties[name] for name in _WANTED}
