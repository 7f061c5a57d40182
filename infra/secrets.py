"""The two secrets. CloudFormation makes them and never carries their values."""

from aws_cdk import Acknowledgment, RemovalPolicy, Validations
from aws_cdk import aws_secretsmanager as secretsmanager
from constructs import Construct

ROTATION_RULE = "AwsSolutions-SMG4"


class Secrets(Construct):
    """Changing how a value is generated makes CloudFormation generate it anew, over what was put there."""

    def __init__(self, scope: Construct, construct_id: str, *, removal: RemovalPolicy) -> None:
        super().__init__(scope, construct_id)
        novita = secretsmanager.Secret(
            self,
            "NovitaKey",
            description="Novita API key. Put it here after the first deploy; until then it is a placeholder.",
            removal_policy=removal,
        )
        webhook = secretsmanager.Secret(
            self,
            "WebhookMaster",
            description="Webhook signatures are derived from these: current, and previous while rotating.",
            generate_secret_string=secretsmanager.SecretStringGenerator(
                secret_string_template='{"previous": ""}',  # noqa: S106  # no secret in it
                generate_string_key="current",
                password_length=64,
                exclude_punctuation=True,
            ),
            removal_policy=removal,
        )
        _not_rotated_by_itself(
            novita, "Novita issues its keys by hand; a new value is read without a redeploy."
        )
        _not_rotated_by_itself(
            webhook, "Receivers must learn the next secret before it is used: a person rotates it."
        )
        self.novita_arn = novita.secret_arn
        self.webhook_arn = webhook.secret_arn


def _not_rotated_by_itself(secret: secretsmanager.Secret, reason: str) -> None:
    Validations.of(secret).acknowledge(Acknowledgment(id=ROTATION_RULE, reason=reason))
