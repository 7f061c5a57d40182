"""What AWS says when it takes no call: as its services word it, so that the SDK reads it as it would."""

import json

Said = tuple[int, dict[str, str], bytes]

_TABLE = "com.amazonaws.dynamodb.v20120810#"
_XML = "<ErrorResponse><Error><Type>Sender</Type><Code>{}</Code><Message>{}</Message></Error></ErrorResponse>"


def throttled(service: str, items: int, *, cancelled: bool) -> Said:
    """A transaction of so many items may also be cancelled for the throttling of one."""
    if service == "sqs":
        return _json(403, "com.amazonaws.sqs#RequestThrottled", "Request is throttled.")
    if service != "dynamodb":
        return 400, {"Content-Type": "text/xml"}, _XML.format("Throttling", "Rate exceeded").encode()
    if not items:
        return _json(400, f"{_TABLE}ProvisionedThroughputExceededException", "The level is exceeded.")
    if not cancelled:
        return _json(400, f"{_TABLE}ThrottlingException", "Rate of requests exceeds the allowed throughput.")
    reasons = [{"Code": "ThrottlingError", "Message": "Throughput exceeds the current capacity."}]
    reasons += [{"Code": "None"} for _ in range(items - 1)]
    codes = ", ".join(reason["Code"] for reason in reasons)
    body = {
        "__type": f"{_TABLE}TransactionCanceledException",
        "Message": f"Transaction cancelled, please refer cancellation reasons for specific reasons [{codes}]",
        "CancellationReasons": reasons,
    }
    return 400, {"Content-Type": "application/x-amz-json-1.0"}, json.dumps(body).encode()


def refused(service: str) -> Said:
    if service == "sqs":
        return _json(503, "com.amazonaws.sqs#ServiceUnavailable", "The service is unavailable.")
    if service == "dynamodb":
        return _json(500, f"{_TABLE}InternalServerError", "The request could not be processed.")
    return 503, {"Content-Type": "text/xml"}, _XML.format("ServiceUnavailable", "Try again").encode()


def _json(status: int, code: str, message: str) -> Said:
    headers = {"Content-Type": "application/x-amz-json-1.0"}
    return status, headers, json.dumps({"__type": code, "message": message}).encode()
