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
from datetime import timedelta
from decimal import Decimal
from functools import partial
from typing import Any

import requests

from ops.command import CommandError, RefusalError, command
from ops.keys import create_key, new_key, revoke_key
from ops.smoke_client import Auth, Authenticator, ServiceClient, api_key_auth, iam_auth, jwt_auth
from ops.smoke_purchase import LeakedMachineError, Order, buy_and_delete
from ops.target import Target, parse_target, target_parser

SCOPES = ("read", "write")
KEY_KEPT = timedelta(days=30)  # revoked: a test each hour must not fill the table


@dataclass(frozen=True)
class SmokeTest:
    service: ServiceClient
    product: str  # none: the cheapest
    order: Order | None  # none: nothing is bought
    say: Callable[[str], None]

    def run(self) -> bool:
        """Every check, also after one that failed; whether all were good."""
        good = [self._passes(name, check) for name, check in self._checks()]
        order = self.order
        if order and all(good):
            purchase = partial(buy_and_delete, self.service, self._product_name(), order, self.say)
            good.append(self._passes("purchase", purchase))
        elif order:
            self.say("skipped  purchase: nothing is bought from a service that is not well")
        self.say(f"{good.count(True)} of {len(good)} checks passed")
        return all(good)

    def _checks(self) -> Iterator[tuple[str, Callable[[], str]]]:
        yield "health", self._health
        auth = self.service.auth
        if auth.at_gateway:
            yield "table and queues", self._queues
        else:
            yield "deep health", self._deep_health
        yield f"no {auth.credential} is refused", lambda: self._refused(None)
        yield f"a wrong {auth.credential} is refused", lambda: self._refused(auth.invalid)
        yield "description of the API", self._openapi
        yield "products", lambda: f"{len(self._products())} to be had"
        yield "quote", self._quote

    def _passes(self, name: str, check: Callable[[], str]) -> bool:
        try:
            found = check()
        except LeakedMachineError:
            raise
        except (requests.RequestException, KeyError, CommandError) as error:
            self.say(f"FAILED   {name}: {error}")
            return False
        self.say(f"ok       {name}: {found}")
        return True

    def _health(self) -> str:
        answer = self.service.call_as(None, "GET", "/health")
        return str(_json(answer, 200)["status"])

    def _deep_health(self) -> str:
        answer = _json(self.service.call("GET", "/health?deep=true"), 200)
        circuits = answer["checks"].pop("circuits")
        checks = answer["checks"] | circuits
        return f"{answer['status']} ({', '.join(f'{name} {state}' for name, state in checks.items())})"

    def _queues(self) -> str:
        """Health is open where the gateway lets people in, so there is no deep one to be had."""
        answer = _json(self.service.call("GET", "/api/jobs/stats"), 200)
        return ", ".join(f"{name} {queue['depth']}" for name, queue in answer["queues"].items())

    def _refused(self, caller: Authenticator | None) -> str:
        auth = self.service.auth
        answer = _json(self.service.call_as(caller, "GET", "/api/instances"), auth.refusal_status)
        return str(answer["message"] if auth.at_gateway else answer["error"]["code"])

    def _openapi(self) -> str:
        answer = self.service.call_as(None, "GET", "/openapi.json")
        return f"{len(_json(answer, 200)['paths'])} paths"

    def _products(self) -> list[dict[str, Any]]:
        answer = _json(self.service.call("GET", "/api/products"), 200)
        found = [one for one in answer["products"] if one["available"] and "spotPricePerGpuHour" in one]
        if not found:
            raise CommandError("Novita has no product to be had on the spot market")
        return sorted(found, key=lambda one: Decimal(one["spotPricePerGpuHour"]))

    def _product_name(self) -> str:
        return self.product or str(self._products()[0]["name"])

    def _quote(self) -> str:
        wanted = {"productName": self._product_name(), "placement": "cheapest"}
        answer = _json(self.service.call("POST", "/api/quotes", wanted), 200)
        return f"{answer['productName']} in {answer['region']} for {answer['pricePerGpuHour']} USD an hour"


def _json(answer: requests.Response, wanted: int) -> Any:
    if answer.status_code != wanted:
        raise CommandError(f"answered {answer.status_code} instead of {wanted}: {answer.text[:300]}")
    return answer.json()


def read_order(environment: Mapping[str, str]) -> Order | None:
    if environment.get("SMOKE_BUY", "") in ("", "0"):
        return None
    missing = [name for name in ("SMOKE_MAX_PRICE", "SMOKE_TEMPLATE") if not environment.get(name)]
    if missing:
        raise RefusalError(f"SMOKE_BUY spends money, so {' and '.join(missing)} must be given too")
    try:
        max_price = float(environment["SMOKE_MAX_PRICE"])
    except ValueError:
        raise RefusalError("SMOKE_MAX_PRICE must be a number of USD") from None
    return Order(
        environment["SMOKE_TEMPLATE"],
        max_price,
        float(environment.get("SMOKE_SECONDS") or Order.max_wait_seconds),
    )


@contextmanager
def find_service(
    environment: Mapping[str, str], find_target: Callable[[], Target]
) -> Iterator[ServiceClient]:
    """The one that is named, or the deployed stack."""
    if url := environment.get("OSTLER_URL"):
        auth = environment.get("OSTLER_AUTH") or "keys"
        yield ServiceClient(url.rstrip("/"), _auth_from(auth, environment, find_target))
        return
    target = find_target()
    stack = target.stack()
    if stack.auth == "keys":
        with _temporary_key(target.table(stack.table_name)) as key:
            yield ServiceClient(stack.api_url, api_key_auth(key))
    else:
        yield ServiceClient(stack.api_url, _auth_from(stack.auth, environment, lambda: target))


def _auth_from(auth: str, environment: Mapping[str, str], find_target: Callable[[], Target]) -> Auth:
    def needed(name: str) -> str:
        if not environment.get(name):
            raise RefusalError(f"a service with auth={auth} needs {name}")
        return environment[name]

    if auth == "keys":
        return api_key_auth(needed("OSTLER_API_KEY"))
    if auth == "jwt":
        return jwt_auth(needed("OSTLER_TOKEN"))
    if auth == "iam":
        return iam_auth(find_target().session)
    raise RefusalError(f"OSTLER_AUTH is {auth}: must be one of keys, jwt, iam")


@contextmanager
def _temporary_key(table: Any) -> Iterator[str]:
    key = new_key()
    key_id = create_key(table, name="smoke test", scopes=SCOPES, key=key).id
    try:
        yield key
    finally:
        revoke_key(table, key_id, kept=KEY_KEPT)


@command
def main() -> int:
    arguments = target_parser("python -m ops.smoke", __doc__).parse_args()
    order = read_order(os.environ)
    with find_service(os.environ, lambda: parse_target(arguments)) as service:
        print(f"{service.url}, {'buying one machine' if order else 'only looking (SMOKE_BUY=1 buys)'}")
        test = SmokeTest(
            service, os.environ.get("SMOKE_PRODUCT", ""), order, lambda line: print(line, flush=True)
        )
        return 0 if test.run() else 1


if __name__ == "__main__":
    sys.exit(main())
