"""The functions: one shared asset, and for each its own environment, role and log group."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from aws_cdk import Acknowledgment, Duration, Validations
from aws_cdk import aws_iam as iam
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_logs as logs
from constructs import Construct

from infra.budgets import BUDGETS, Budget
from infra.options import Options
from infra.rights import Rights, allow

WHY_THIS_RUNTIME = "Wheels, compiled files and tests are for 3.13; a newer runtime is a change of its own."

# Lambda drops lines below its own level before they are stored, so it has to follow the functions' setting;
# but never above INFO, which it takes metrics for, as these have no level. Functions keep quiet themselves.
LOG_LEVELS = {"DEBUG": lambda_.ApplicationLogLevel.DEBUG}

# Who waits sends a delayed message to its own queue. Lambda takes the sixteenth link of such a chain for a
# runaway and drops it into the dead-letter queue, unless told that the chain is meant; ours end by deadlines.
CHAINED = {"create", "monitor", "startup", "webhook", "dead_letters"}


class Functions(Construct):
    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        asset: Path,
        environments: Mapping[str, Mapping[str, str]],
        rights: Rights,
        options: Options,
    ) -> None:
        super().__init__(scope, construct_id)
        self._code = lambda_.Code.from_asset(str(asset))
        self._environments = environments
        self._options = options
        self.by_name = {name: self._function(name, budget, rights[name]) for name, budget in BUDGETS.items()}

    def _function(self, name: str, budget: Budget, may: Sequence[iam.PolicyStatement]) -> lambda_.Function:
        scope = Construct(self, name.title().replace("_", ""))
        log_group = logs.LogGroup(
            scope, "Logs", retention=self._options.log_retention, removal_policy=self._options.removal
        )
        write_logs = allow("logs", "CreateLogStream PutLogEvents", log_group.log_group_arn)
        function = lambda_.Function(
            scope,
            "Function",
            description=f"Ostler: {name}",
            runtime=lambda_.Runtime.PYTHON_3_13,
            architecture=lambda_.Architecture.ARM_64,
            code=self._code,
            handler=f"functions.{name}.handler.handler",
            timeout=Duration.seconds(budget.timeout_seconds),
            memory_size=budget.memory_mb,
            environment=dict(self._environments[name]),
            # Inside the role, rights exist as soon as it does: event sources are checked against them.
            role=iam.Role(
                scope,
                "Role",
                assumed_by=iam.ServicePrincipal("lambda.amazonaws.com"),
                inline_policies={"Rights": iam.PolicyDocument(statements=[*may, write_logs])},
            ),
            reserved_concurrent_executions=self._reserved(name),
            recursive_loop=lambda_.RecursiveLoop.ALLOW if name in CHAINED else None,
            log_group=log_group,
            logging_format=lambda_.LoggingFormat.JSON,
            application_log_level_v2=LOG_LEVELS.get(
                self._options.log_level, lambda_.ApplicationLogLevel.INFO
            ),
        )
        Validations.of(function).acknowledge(Acknowledgment(id="AwsSolutions-L1", reason=WHY_THIS_RUNTIME))
        return function

    def _reserved(self, name: str) -> int | None:
        """The sweep alone, and only if asked: a new account has none to give."""
        return self._options.reserve_reconcile or None if name == "reconcile" else None
