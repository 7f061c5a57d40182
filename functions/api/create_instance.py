"""Accepting a create: look up what can be known now, store the instance, hint that it is due."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from dataclasses import dataclass
from datetime import datetime, timedelta

from functions.api.responses import stamp
from functions.shared.adapters.answers import Answer, Answers, Question
from functions.shared.adapters.instances import Instances
from functions.shared.adapters.table import ConditionFailed
from functions.shared.advance import Advance
from functions.shared.catalog import Catalog
from functions.shared.domain.commands import begin_create
from functions.shared.domain.decision import Policy
from functions.shared.domain.errors import NovitaForNow
from functions.shared.domain.ids import new_instance_id
from functions.shared.domain.instance import Spec
from functions.shared.log import correlation_id, logger

_USUAL_BOOT = timedelta(minutes=4)


@dataclass(frozen=True)
class CreateInstance:
    instances: Instances
    answers: Answers
    advance: Advance
    catalog: Catalog
    policy: Policy
    clock: Callable[[], datetime]
    lookup_seconds: float

    def __call__(
        self, *, name: str, spec: Spec, webhook_url: str | None, actor: str, asked: Question | None
    ) -> Answer:
        if asked and (before := self.answers.find(asked)):
            return before
        region, message = self._looked_up(spec)
        now = self.clock()
        decision = begin_create(
            instance_id=new_instance_id(now),
            name=name,
            spec=spec,
            webhook_url=webhook_url,
            actor=actor,
            correlation_id=correlation_id(),
            now=now,
            policy=self.policy,
        )
        body = {
            "instanceId": decision.record.id,
            "status": decision.record.status.value,
            "message": message,
            "estimatedReadyTime": stamp(now + _USUAL_BOOT),
        } | ({"region": region} if region else {})
        given = Answer(201, body, f"/api/instances/{decision.record.id}")
        try:
            record = self.instances.add(decision, [self.answers.write(asked, given)] if asked else [])
        except ConditionFailed:
            # The same key came twice at the same moment, and the other request was first.
            before = self.answers.find(asked) if asked else None
            if before is None:
                raise
            return before
        logger.info("instance accepted", instance_id=record.id)
        self.advance.nudge(record, now)
        return given

    def _looked_up(self, spec: Spec) -> tuple[str | None, str]:
        """Both look-ups at once. A definite no is raised; no answer from Novita is no error."""
        with ThreadPoolExecutor(2) as pool:
            template = pool.submit(
                copy_context().run, self.catalog.template, spec.template_id, self.lookup_seconds
            )
            choice = pool.submit(copy_context().run, self.catalog.quote, spec, self.lookup_seconds)
        try:
            region = choice.result().offers[0].region
            template.result()
        except NovitaForNow as error:
            # The other look-up may have a definite no all the same.
            for other in (template, choice):
                if other.exception() and not isinstance(other.exception(), NovitaForNow):
                    other.result()
            logger.info("accepted unchecked", code=error.code)
            return (
                spec.region,
                f"Accepted; Novita could not be asked yet ({error.code}), so the purchase decides",
            )
        return region, "Accepted; a machine is being bought"
