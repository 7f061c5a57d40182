"""The deep health check: do the table, the queues and Novita's circuits answer now?"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from botocore.exceptions import BotoCoreError, ClientError

from functions.shared.domain.errors import Unavailable
from functions.shared.platform.observability import logger

if TYPE_CHECKING:
    from functions.shared.platform.aws import QueueDepths
    from functions.shared.stores.circuits import Circuits
    from functions.shared.stores.table import Table


@dataclass(frozen=True)
class CheckDependencies:
    table: Table
    queue_depths: QueueDepths
    circuits: Circuits

    def __call__(self) -> dict[str, str]:
        """Each circuit's state; Unavailable names whichever of the rest does not answer."""
        failed = [
            name for name, ask in (("table", self._table), ("queues", self._queues)) if not _answers(ask)
        ]
        if failed:
            raise Unavailable(f"No answer from: {', '.join(failed)}", failed)
        return {report.name: str(report.state) for report in self.circuits.states()}

    def _table(self) -> None:
        self.table.get("deployment", "deployment")

    def _queues(self) -> None:
        for queue in self.queue_depths.queues:
            self.queue_depths.of(queue)


def _answers(ask: Callable[[], None]) -> bool:
    try:
        ask()
    except (ClientError, BotoCoreError) as error:
        logger.error("dependency does not answer", error=type(error).__name__)
        return False
    return True
