"""One process of a function: `process.py <module> <result>`, with its events on standard input.

Like Lambda's runtime it runs by itself, with hardly anything imported that the function does not import.
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
    _, module, result = sys.argv
    events: list[Any] = json.load(sys.stdin)
    handler = import_module(module).handler
    spent = [time.process_time()]  # from the start of the process
    answers = []
    for event in events:
        answers.append(handler(event, Context()))
        spent.append(time.process_time())
    with open("/proc/self/status") as file:  # noqa: PTH123  # pathlib is an import of its own
        (memory,) = (int(line.split()[1]) for line in file if line.startswith("VmHWM"))
    with open(result, "w") as file:  # noqa: PTH123  # the same
        json.dump({"spent": spent, "memory": memory, "answer": answers[-1]}, file)


if __name__ == "__main__":
    main()
