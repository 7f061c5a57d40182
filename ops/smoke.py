"""`make smoke`: does a deployed service work? It only looks, and buys one machine only if told to.

The deployed stack is asked where it is and whom it lets in, which is shown by

auth=keys             a key that is made for the time that this takes
auth=jwt              OSTLER_TOKEN=…, with the scope read, and write for buying
auth=iam              your AWS credentials, which sign each request

OSTLER_URL=…          any other service: with OSTLER_API_KEY, or with OSTLER_AUTH=jwt or iam as above
SMOKE_BUY=1           also buys the cheapest machine, waits until it runs, and gives it back
SMOKE_MAX_PRICE=0.30  needed for that: USD for a GPU and hour, and no more
SMOKE_TEMPLATE=107672 needed for that: the template to start
SMOKE_PRODUCT=…       the product to ask for, instead of the cheapest that is to be had
"""

import os
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from decimal import Decimal
from functools import partial
from typing import Any

import boto3
import requests

from local.problems import RefusalError, StartError
from ops import keys as api_keys
from ops.client import Access, Caller, by_key, by_own_signature, by_token
from ops.command import command
from ops.smoke_purchase import MachineLeftError, Order, Service, round_trip
from ops.stack import Deployed

SCOPES = ("read", "write")


@dataclass(frozen=True)
class Smoke:
    service: Service
    product: str  # none: the cheapest
    order: Order | None  # none: nothing is bought
    say: Callable[[str], None]

    def run(self) -> bool:
        """Every check, also after one that failed; whether all were good."""
        good = [self._passed(name, check) for name, check in self._checks()]
        order = self.order
        if order and all(good):
            bought = partial(round_trip, self.service, self._chosen(), order, self.say)
            good.append(self._passed("round trip", bought))
        elif order:
            self.say("skipped  round trip: nothing is bought from a service that is not well")
        self.say(f"{good.count(True)} of {len(good)} checks passed")
        return all(good)

    def _checks(self) -> Iterator[tuple[str, Callable[[], str]]]:
        yield "health", self._health
        access = self.service.access
        if access.at_gateway:
            yield "table and queues", self._queues
        else:
            yield "deep health", self._deep_health
        yield f"no {access.proof} is refused", lambda: self._refused(None)
        yield f"a wrong {access.proof} is refused", lambda: self._refused(access.wrong)
        yield "description of the API", self._description
        yield "products", lambda: f"{len(self._products())} to be had"
        yield "quote", self._quote

    def _passed(self, name: str, check: Callable[[], str]) -> bool:
        try:
            found = check()
        except MachineLeftError:
            raise
        except (requests.RequestException, KeyError, StartError) as problem:
            self.say(f"FAILED   {name}: {problem}")
            return False
        self.say(f"ok       {name}: {found}")
        return True

    def _health(self) -> str:
        answer = self.service.call_as(None, "GET", "/health")
        return _told(answer, 200)["status"]  # type: ignore[no-any-return]

    def _deep_health(self) -> str:
        told = _told(self.service.call("GET", "/health?deep=true"), 200)
        circuits = told["checks"].pop("circuits")
        checks = told["checks"] | circuits
        return f"{told['status']} ({', '.join(f'{name} {state}' for name, state in checks.items())})"

    def _queues(self) -> str:
        """Health is open where the gateway lets people in, so there is no deep one to be had."""
        told = _told(self.service.call("GET", "/api/jobs/stats"), 200)
        return ", ".join(f"{name} {queue['depth']}" for name, queue in told["queues"].items())

    def _refused(self, caller: Caller | None) -> str:
        access = self.service.access
        told = _told(self.service.call_as(caller, "GET", "/api/instances"), access.refusal)
        return str(told["message"] if access.at_gateway else told["error"]["code"])

    def _description(self) -> str:
        answer = self.service.call_as(None, "GET", "/openapi.json")
        return f"{len(_told(answer, 200)['paths'])} paths"

    def _products(self) -> list[dict[str, Any]]:
        told = _told(self.service.call("GET", "/api/products"), 200)
        found = [one for one in told["products"] if one["available"] and "spotPricePerGpuHour" in one]
        if not found:
            raise StartError("Novita has no product to be had on the spot market")
        return sorted(found, key=lambda one: Decimal(one["spotPricePerGpuHour"]))

    def _chosen(self) -> str:
        return self.product or str(self._products()[0]["name"])

    def _quote(self) -> str:
        wanted = {"productName": self._chosen(), "placement": "cheapest"}
        told = _told(self.service.call("POST", "/api/quotes", wanted), 200)
        return f"{told['productName']} in {told['region']} for {told['pricePerGpuHour']} USD an hour"


def _told(answer: requests.Response, wanted: int) -> Any:
    if answer.status_code != wanted:
        raise StartError(f"answered {answer.status_code} instead of {wanted}: {answer.text[:300]}")
    return answer.json()


def read_order(environment: Mapping[str, str]) -> Order | None:
    if environment.get("SMOKE_BUY", "") in ("", "0"):
        return None
    missing = [name for name in ("SMOKE_MAX_PRICE", "SMOKE_TEMPLATE") if not environment.get(name)]
    if missing:
        raise RefusalError(f"SMOKE_BUY spends money, so {' and '.join(missing)} must be given too")
    try:
        most = float(environment["SMOKE_MAX_PRICE"])
    except ValueError:
        raise RefusalError("SMOKE_MAX_PRICE must be a number of USD") from None
    return Order(
        environment["SMOKE_TEMPLATE"], most, float(environment.get("SMOKE_SECONDS") or Order.patience_seconds)
    )


@contextmanager
def found_service(environment: Mapping[str, str]) -> Iterator[Service]:
    """The one that is named, or the deployed stack."""
    if url := environment.get("OSTLER_URL"):
        auth = environment.get("OSTLER_AUTH") or "keys"
        yield Service(url.rstrip("/"), _given_access(auth, environment))
        return
    deployed = Deployed.read(boto3.client("cloudformation"))
    if deployed.auth == "keys":
        with _key_for_a_while(deployed.table_name) as key:
            yield Service(deployed.api_url, by_key(key))
    else:
        yield Service(deployed.api_url, _given_access(deployed.auth, environment))


def _given_access(auth: str, environment: Mapping[str, str]) -> Access:
    def needed(name: str) -> str:
        if not environment.get(name):
            raise RefusalError(f"a service with auth={auth} needs {name}")
        return environment[name]

    if auth == "keys":
        return by_key(needed("OSTLER_API_KEY"))
    if auth == "jwt":
        return by_token(needed("OSTLER_TOKEN"))
    if auth == "iam":
        return by_own_signature()
    raise RefusalError(f"OSTLER_AUTH is {auth}: must be one of keys, jwt, iam")


@contextmanager
def _key_for_a_while(table_name: str) -> Iterator[str]:
    table = boto3.resource("dynamodb").Table(table_name)
    made = api_keys.new_key()
    key_id = api_keys.make(table, name="smoke test", scopes=SCOPES, key=made).id
    try:
        yield made
    finally:
        api_keys.revoke(table, key_id)


@command
def main() -> int:
    order = read_order(os.environ)
    with found_service(os.environ) as service:
        print(f"{service.url}, {'buying one machine' if order else 'only looking (SMOKE_BUY=1 buys)'}")
        smoke = Smoke(
            service, os.environ.get("SMOKE_PRODUCT", ""), order, lambda line: print(line, flush=True)
        )
        return 0 if smoke.run() else 1


if __name__ == "__main__":
    sys.exit(main())
