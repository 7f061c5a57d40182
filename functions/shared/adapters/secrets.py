"""Secrets, read when first needed and again after a while, so that a rotated one needs no redeploy."""

from collections.abc import Callable
from datetime import datetime
from typing import TYPE_CHECKING

from botocore.exceptions import BotoCoreError, ClientError

from functions.shared.log import logger

if TYPE_CHECKING:
    from mypy_boto3_secretsmanager import SecretsManagerClient


class Secrets:
    def __init__(
        self, client: "SecretsManagerClient", clock: Callable[[], datetime], trusted_seconds: float
    ) -> None:
        self._client = client
        self._clock = clock
        self._trusted_seconds = trusted_seconds
        self._held: dict[str, tuple[datetime, str]] = {}

    def read(self, secret_id: str) -> str:
        now = self._clock()
        held = self._held.get(secret_id)
        if held is None or (now - held[0]).total_seconds() >= self._trusted_seconds:
            held = (now, self._fetched(secret_id, held and held[1]))
            self._held[secret_id] = held
        return held[1]

    def _fetched(self, secret_id: str, known: str | None) -> str:
        """What is known serves on where it cannot be read: secrets change seldom, and machines bill."""
        try:
            return self._client.get_secret_value(SecretId=secret_id)["SecretString"]
        except (ClientError, BotoCoreError) as error:
            if known is None:
                raise
            logger.warning("secret not read anew", error=type(error).__name__)
            return known
