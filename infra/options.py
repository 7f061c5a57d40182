"""What can be chosen at deploy time: read from CDK context, checked, and named when wrong."""

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from aws_cdk import RemovalPolicy
from aws_cdk.aws_logs import RetentionDays

AUTH_MODES = ("keys", "iam", "jwt")
EDGES = ("none", "cloudfront")
WATCHES = ("off", "alarms", "full")
STAGE = re.compile(r"[a-z][a-z0-9]{0,15}")
LOG_LEVELS = ("DEBUG", "INFO", "WARNING", "ERROR")
DEFAULTS = {
    "stage": "prod",
    "firstDeploy": False,
    "ephemeral": False,
    "MAX_RETRY_ATTEMPTS": 3,
    "MAX_CONCURRENT_JOBS": 10,
    "logRetention": "ONE_MONTH",
    "throttleBurst": 100,
    "throttleRate": 50,
    "auth": "keys",
    "reserveReconcile": 0,
    "edge": "none",
    "watch": "alarms",
    "edgeRateLimit": 1000,
}
SETTING_NAME = re.compile(r"[A-Z][A-Z0-9]*(_[A-Z0-9]+)*")

# Lambda keeps these names for itself, and a deploy that sets one is refused halfway.
RESERVED_PREFIXES = ("AWS_", "LAMBDA_")


class ContextError(ValueError):
    """A context value that cannot be used; its text begins with the value's name."""

    def __init__(self, name: str, given: object, wanted: str) -> None:
        super().__init__(f"context {name} is {given!r}: {wanted}")


@dataclass(frozen=True, kw_only=True)
class Options:
    stage: str
    ephemeral: bool
    first_deploy: bool
    log_retention: RetentionDays
    max_retry_attempts: int
    max_concurrent_jobs: int
    throttle_burst: int
    throttle_rate: int
    reserve_reconcile: int
    edge: str
    watch: str
    edge_rate_limit: int
    domain_name: str
    certificate_arn: str
    subscriber_accounts: tuple[str, ...]
    auth: str
    jwt_issuer: str
    jwt_audience: tuple[str, ...]
    cors_origins: tuple[str, ...]
    local_api_id: str
    alarm_email: str
    log_level: str
    settings: Mapping[str, str]

    @classmethod
    def read(cls, chosen: Callable[[str], Any]) -> "Options":
        """`chosen` gives what was chosen under a name, or None; what was chosen for the stage comes first."""
        stage = _stage("stage", chosen("stage") or DEFAULTS["stage"])
        of_stage = _object("stages", _object("stages", chosen("stages")).get(stage))

        def context(name: str) -> Any:
            value = of_stage.get(name, chosen(name))
            return DEFAULTS.get(name) if value is None else value

        settings = _settings(context("settings"))
        auth = _one_of("auth", context("auth"), AUTH_MODES)
        # These are also settings of the functions: given there, the queues follow them.
        retries = settings.get("MAX_RETRY_ATTEMPTS", context("MAX_RETRY_ATTEMPTS"))
        jobs = settings.get("MAX_CONCURRENT_JOBS", context("MAX_CONCURRENT_JOBS"))
        return cls(
            stage=stage,
            first_deploy=_flag("firstDeploy", context("firstDeploy")),
            ephemeral=_flag("ephemeral", context("ephemeral")),
            log_retention=_retention("logRetention", context("logRetention")),
            max_retry_attempts=_whole("MAX_RETRY_ATTEMPTS", retries, 0, 10),
            # 2 and 1000 are the bounds that Lambda sets for an event source.
            max_concurrent_jobs=_whole("MAX_CONCURRENT_JOBS", jobs, 2, 1000),
            throttle_burst=_whole("throttleBurst", context("throttleBurst"), 1, 5000),
            throttle_rate=_whole("throttleRate", context("throttleRate"), 1, 10000),
            reserve_reconcile=_whole("reserveReconcile", context("reserveReconcile"), 0, 10),
            edge=_edge(context("edge"), auth),
            watch=_one_of("watch", context("watch"), WATCHES),
            # 10 is the least that WAF takes.
            edge_rate_limit=_whole("edgeRateLimit", context("edgeRateLimit"), 10, 2_000_000_000),
            domain_name=_domain("domainName", context("domainName"), context("certificateArn")),
            certificate_arn=_certificate(
                "certificateArn", context("certificateArn"), context("domainName"), context("edge")
            ),
            subscriber_accounts=_accounts("subscriberAccounts", context("subscriberAccounts")),
            auth=auth,
            jwt_issuer=_address("jwtIssuer", context("jwtIssuer")) if auth == "jwt" else "",
            jwt_audience=_some("jwtAudience", context("jwtAudience")) if auth == "jwt" else (),
            cors_origins=_names("corsOrigins", context("corsOrigins")),
            alarm_email=_email("alarmEmail", context("alarmEmail")),
            local_api_id=_hex("localApiId", context("localApiId")),
            log_level=_one_of("settings.LOG_LEVEL", settings.get("LOG_LEVEL", "INFO"), LOG_LEVELS),
            settings=settings,
        )

    @property
    def name(self) -> str:
        """Of the deployment, and of its stack: what is there for one stage is named after nobody else's."""
        return "Ostler" if self.stage == DEFAULTS["stage"] else f"Ostler-{self.stage}"

    @property
    def watch_name(self) -> str:
        return self.name.replace("Ostler", "OstlerWatch", 1)

    @property
    def edge_name(self) -> str:
        return self.name.replace("Ostler", "OstlerEdge", 1)

    @property
    def service(self) -> str:
        """Its name in logs and metrics."""
        return self.name.lower()

    @property
    def removal(self) -> RemovalPolicy:
        """What becomes of data when the stack goes: it stays, except after a first deploy that failed."""
        return RemovalPolicy.DESTROY if self.ephemeral else RemovalPolicy.RETAIN_ON_UPDATE_OR_DELETE

    @property
    def protected(self) -> bool:
        """Neither the stack nor the table can be deleted by one call. Not yet in the first deploy, since one
        that failed could not be cleared away; `make deploy` protects both when it went well."""
        return not self.ephemeral and not self.first_deploy


def _flag(name: str, given: object) -> bool:
    return _one_of(name, str(given).lower(), ("true", "false")) == "true"


def _whole(name: str, given: object, low: int, high: int) -> int:
    wanted = f"must be a whole number from {low} to {high}"
    try:
        number = int(str(given))
    except ValueError:
        raise ContextError(name, given, wanted) from None
    if not low <= number <= high:
        raise ContextError(name, given, wanted)
    return number


def _one_of(name: str, given: object, choices: tuple[str, ...]) -> str:
    if given not in choices:
        raise ContextError(name, given, f"must be one of {', '.join(choices)}")
    return str(given)


def _retention(name: str, given: object) -> RetentionDays:
    return RetentionDays[_one_of(name, given, tuple(RetentionDays.__members__))]


def _address(name: str, given: object) -> str:
    if not isinstance(given, str) or not given.startswith("https://"):
        raise ContextError(name, given, "must be an https address, since auth is jwt")
    return given


def _names(name: str, given: object) -> tuple[str, ...]:
    """A list, or a string with commas, as `cdk -c` can only give strings."""
    parts = given.split(",") if isinstance(given, str) else given or []
    if not isinstance(parts, list) or not all(isinstance(part, str) for part in parts):
        raise ContextError(name, given, "must be a list of strings, or one string with commas")
    return tuple(part.strip() for part in parts if part.strip())


def _some(name: str, given: object) -> tuple[str, ...]:
    names = _names(name, given)
    if not names:
        raise ContextError(name, given, "must name at least one, since auth is jwt")
    return names


def _email(name: str, given: object) -> str:
    if given and not (isinstance(given, str) and re.fullmatch(r"[^@\s]+@[^@\s]+", given)):
        raise ContextError(name, given, "must be an e-mail address")
    return str(given or "")


def _hex(name: str, given: object) -> str:
    if given and not (isinstance(given, str) and re.fullmatch(r"[0-9a-f]{8}", given)):
        raise ContextError(name, given, "must be 8 hexadecimal characters")
    return str(given or "")


def _edge(given: object, auth: str) -> str:
    edge = _one_of("edge", given, EDGES)
    if edge != "none" and auth == "iam":
        raise ContextError(
            "edge", given, "cannot be with auth=iam, whose signatures name the API's own address"
        )
    return edge


def _domain(name: str, given: object, certificate: object) -> str:
    if given and not (isinstance(given, str) and re.fullmatch(r"([a-z0-9-]+\.)+[a-z]+", given)):
        raise ContextError(name, given, "must be the name of a domain")
    if given and not certificate:
        raise ContextError(name, given, "needs certificateArn, the certificate of that domain")
    return str(given or "")


def _certificate(name: str, given: object, domain: object, edge: object) -> str:
    where = "us-east-1" if edge == "cloudfront" else "[a-z0-9-]+"
    if given and not re.fullmatch(rf"arn:[a-z-]+:acm:{where}:[0-9]+:certificate/.+", str(given)):
        wanted = "must be the ARN of a certificate in ACM"
        raise ContextError(name, given, f"{wanted}, in us-east-1" if edge == "cloudfront" else wanted)
    if given and not domain:
        raise ContextError(name, given, "needs domainName, the domain that it is for")
    return str(given or "")


def _accounts(name: str, given: object) -> tuple[str, ...]:
    accounts = _names(name, given)
    if not all(re.fullmatch(r"[0-9]{12}", account) for account in accounts):
        raise ContextError(name, given, "must be ids of AWS accounts, of 12 digits each")
    return accounts


def _stage(name: str, given: object) -> str:
    if not isinstance(given, str) or not STAGE.fullmatch(given):
        raise ContextError(name, given, "must be 1 to 16 of a-z and 0-9, with a letter first")
    return given


def _settings(given: object) -> dict[str, str]:
    return {name: _setting(name, value) for name, value in _object("settings", given).items()}


def _object(name: str, given: object) -> dict[str, Any]:
    try:
        entries = json.loads(given) if isinstance(given, str) else given or {}
    except ValueError:
        raise ContextError(name, given, "must be a JSON object") from None
    if not isinstance(entries, dict):
        raise ContextError(name, given, "must be a JSON object")
    return entries


def _setting(name: str, value: object) -> str:
    if not SETTING_NAME.fullmatch(name):
        raise ContextError(f"settings.{name}", value, "a setting's name must be UPPER_SNAKE_CASE")
    if name.startswith(RESERVED_PREFIXES):
        raise ContextError(f"settings.{name}", value, "names that begin so belong to Lambda")
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise ContextError(f"settings.{name}", value, "must be a string or a number")
    return str(value)
