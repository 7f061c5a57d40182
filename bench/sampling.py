"""Where the CPU time of a process goes, by part: a timer of the process's own time looks at what is running.

A profiler that counts each call makes small functions look dear. A timer that rings every few milliseconds
costs next to nothing, and a thousand looks tell a part to one or two per cent.
"""

import signal
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from types import CodeType, FrameType

SECONDS = 0.001  # asked for; the system's clock may tick less often

DATACLASSES, VALIDATORS, CLIENTS = "making dataclasses", "making validators", "making clients of the SDK"
AWS, NOVITA, STRANGERS = "requests to AWS", "requests to Novita", "requests to strangers"
ROUTER, CHECKS, LOG = "router", "validation", "log and metrics"
RECORDS, RULES, OWN, REST = "reading and packing what is stored", "rules", "our other code", "the rest"

# The first that fits says what a frame is part of: of which file, and of which function if one is named.
_RULES = (
    ("/dataclasses.py", "_process_class", DATACLASSES),
    ("/pydantic/_internal/", "", VALIDATORS),
    ("/pydantic/plugin/", "", VALIDATORS),
    ("/pydantic/type_adapter.py", "_init_core_attrs", VALIDATORS),
    ("/pydantic/", "", CHECKS),
    ("/botocore/session.py", "create_client", CLIENTS),
    ("/botocore/", "", AWS),
    ("/boto3/", "", AWS),
    ("/functions/shared/stores/table.py", "", AWS),
    ("/functions/shared/platform/observability.py", "", LOG),
    ("/functions/shared/stores/", "", RECORDS),
    ("/bench/bare/", "_unpacked", RECORDS),
    ("/functions/shared/domain/", "", RULES),
    ("/functions/shared/novita/", "", NOVITA),
    ("/requests/", "", NOVITA),
    ("/functions/shared/outbound/", "", STRANGERS),
    ("/urllib3/poolmanager.py", "request", STRANGERS),
    ("/functions/api/bodies.py", "", CHECKS),
    ("/functions/", "", OWN),
    ("/bench/bare/", "", OWN),
    ("/aws_lambda_powertools/event_handler/openapi/", "", CHECKS),
    ("/aws_lambda_powertools/event_handler/middlewares/", "", CHECKS),
    ("/aws_lambda_powertools/event_handler/", "", ROUTER),
    ("/aws_lambda_powertools/", "", LOG),
)
# What is called from the second, though it is the first, is part of the second.
_WIDER = {(AWS, CLIENTS), (CHECKS, RECORDS), (CHECKS, NOVITA), (RULES, RECORDS)}
_MADE = (DATACLASSES, VALIDATORS, CLIENTS)  # also where a module is imported

_known: dict[CodeType, str] = {}


def part_of(frame: FrameType | None) -> str:
    """The innermost frame that says it does; a module that is being imported says it for all it runs."""
    found = ""
    while frame is not None:
        code = frame.f_code
        if code.co_name == "_find_and_load" and "importlib" in code.co_filename:
            return found if found in _MADE else f"importing {_package(frame.f_locals['name'])}"
        part = _known.get(code)
        if part is None:
            part = _known[code] = _rule(code.co_filename, code.co_name)
        if part and (not found or (found, part) in _WIDER):
            found = part
        frame = frame.f_back
    return found or REST


def _rule(file: str, function: str) -> str:
    return next((part for path, name, part in _RULES if path in file and name in ("", function)), "")


_PACKAGES = (
    "functions",
    "aws_lambda_powertools",
    "pydantic",
    "pydantic_core",
    "botocore",
    "boto3",
    "urllib3",
    "requests",
)


def _package(module: str) -> str:
    top = module.partition(".")[0]
    return top if top in _PACKAGES else "the rest"


class Sampler:
    """Counts looks by who is running and part; nobody's are not counted."""

    def __init__(self) -> None:
        self.running = ""
        self.looks: dict[str, Counter[str]] = {}

    def _look(self, _: int, frame: FrameType | None) -> None:
        if self.running:
            self.looks.setdefault(self.running, Counter())[part_of(frame)] += 1

    def shares(self, who: str) -> dict[str, float]:
        looks = self.looks.get(who, Counter())
        return {part: number / looks.total() for part, number in looks.most_common()}


@contextmanager
def sampled() -> Iterator[Sampler]:
    sampler = Sampler()
    before = signal.signal(signal.SIGPROF, sampler._look)
    signal.setitimer(signal.ITIMER_PROF, SECONDS, SECONDS)
    try:
        yield sampler
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)
