"""One process of a function: `process.py <module> <result>`, with its events on standard input.

With a third argument it also says where its time went (`sampling.py`). Like Lambda's runtime it runs by
itself, with hardly anything imported that the function does not import.
"""

import json
import sys
import time
from importlib import import_module
from typing import Any


class Context:
    function_name = "function"
    memory_limit_in_mb = 1024
    invoked_function_arn = "arn:aws:lambda:us-east-1:000000000000:function:function"
    aws_request_id = "request"

    def get_remaining_time_in_millis(self) -> int:
        return 29_000


def main() -> None:
    _, module, result, *parts = sys.argv
    events: list[Any] = json.load(sys.stdin)
    began, looks = 0.0, {}
    if parts:
        with import_module("sampling").sampled() as sampler:
            sampler.running, began = "it", time.process_time()
            spent, answers = run(module, events)
        looks = sampler.looks["it"]
    else:
        spent, answers = run(module, events)
    with open("/proc/self/status") as file:  # noqa: PTH123  # pathlib is an import of its own
        (memory,) = (int(line.split()[1]) for line in file if line.startswith("VmHWM"))
    with open(result, "w") as file:  # noqa: PTH123  # the same
        told = {"began": began, "spent": spent, "memory": memory, "answer": answers[-1], "looks": looks}
        json.dump(told, file)


def run(module: str, events: list[Any]) -> tuple[list[float], list[Any]]:
    """Import it, and let it answer; `spent` is from the start of the process."""
    handler = import_module(module).handler
    spent, answers = [time.process_time()], []
    for event in events:
        answers.append(handler(event, Context()))
        spent.append(time.process_time())
    return spent, answers


if __name__ == "__main__":
    main()
