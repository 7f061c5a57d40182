"""What the reasons in Novita's error bodies mean to us."""

import re
from enum import Enum, auto


class Meaning(Enum):
    CAPACITY = auto()  # this offer cannot be had now
    MONEY = auto()
    AUTHENTICATION = auto()  # our key, or the account behind it
    TOO_FAST = auto()
    MISSING = auto()  # what the call named is not there
    NO_TEMPLATE = auto()
    STATE = auto()  # not from the status it is in
    REJECTED = auto()  # anything else that would be refused again
    FAULT = auto()  # Novita's own trouble


_WORDS = {
    Meaning.CAPACITY: """INSUFFICIENT_RESOURCE MIGRATE_INSUFFICIENT_RESOURCE CREATE_INSTANCE_LIMIT
        CLUSTER_STATUS NODE_STATUS DEPENDENT_RESOURCE_STATE GPU_SPEC_USED""",
    Meaning.MONEY: """BALANCE_NOT_ENOUGH EXPIRED_OR_BALANCE_NOT_ENOUGH UNSUPPORTED_BILLING_MODE
        ORDER_NOT_FOUND SAVING_PLAN_ALREADY_EXISTS PREPAID_INSTANCE_NOT_SUPPORT_RELEASE
        CREATING_INSTANCE_NOT_SUPPORT_RENEWAL WALLET_UNSUPPORT_RECHARGE_METHOD WALLET_NOT_FOUND""",
    Meaning.AUTHENTICATION: """UNAUTHORIZED FORBIDDEN INVALID_API_KEY MISSING_API_KEY INVALID_USER_TOKEN
        GET_TOKEN_FAILED BANNED_USER""",
    Meaning.TOO_FAST: "RATE_LIMIT_EXCEEDED SEND_CODE_TOO_FAST",
    Meaning.MISSING: "RESOURCE_NOT_FOUND",
    Meaning.NO_TEMPLATE: "TEMPLATE_NOT_FOUND TEMPLATE_IS_PRIVATE",
    Meaning.STATE: "CONFLICT",
    Meaning.REJECTED: """VALIDATOR_PARAM REQUEST INVALID_COMMAND_PARAM OPERATION_LIMIT
        NETWORK_STORAGE_TOO_LARGE CUR_CLUSTER_NETWORK_STORAGE_NOT_SUPPORT NETWORK_STORAGE_IN_USE
        NETWORK_STORAGE_UNAVAILABLE NETWORK_STORAGE_NOT_FOUND INSTANCE_LOCAL_STORAGE_NOT_FOUND
        IMAGE_NOT_FOUND IMAGE_AUTH_IN_USE
        NETWORK_NOT_FOUND NETWORK_IN_USE NETWORK_MAX_LIMIT JOB_NOT_FOUND INVALID_CODE INVALID_PUBLIC_KEY
        SEND_MSG_ERROR""",
    Meaning.FAULT: "UNKNOWN",
}
MEANINGS = {word: meaning for meaning, words in _WORDS.items() for word in words.split()}
_REJECTED_FAMILIES = ("USER_", "SERVERLESS_")
_WORD = re.compile(r"[A-Z0-9_]{1,64}")


def word(given: object) -> str:
    """The reason where it is an enum word; anything else could be text, and text is not repeated."""
    return given if isinstance(given, str) and _WORD.fullmatch(given) else ""


def meaning(reason: str) -> Meaning | None:
    """None for a word that Novita has not documented: then the HTTP status decides."""
    if reason.startswith(_REJECTED_FAMILIES):
        return Meaning.REJECTED
    return MEANINGS.get(reason)
