"""How many files somebody has to open to follow a create, or one step of the monitor.

Counted are the files of functions/ in which at least one function's body ran, from the first request of cold
functions on; what a module does at import is not. The sweep, which is no part of a create, does not run.
"""

import json
import re
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

from functions.shared.domain.instance.status import Status
from tests.integration.harness import Harness

WALKTHROUGH = Path(__file__).parents[2] / "docs" / "walkthrough.md"


@contextmanager
def traced() -> Iterator[set[str]]:
    files: set[str] = set()

    def note(frame: FrameType, event: str, _: Any) -> None:
        _, inside, path = frame.f_code.co_filename.rpartition("/functions/")
        if event == "call" and inside and frame.f_code.co_name != "<module>":
            files.add(path)

    threading.setprofile(note)
    sys.setprofile(note)
    try:
        yield files
    finally:
        sys.setprofile(None)
        threading.setprofile(None)


def test_a_create_from_the_request_to_the_delivered_webhook_is_at_most_66_files(harness: Harness) -> None:
    harness.restart()

    with traced() as files:
        instance_id = harness.create(webhookUrl=harness.simulator.inbox_url("traced"))
        harness.deliver()
        while harness.record(instance_id).status is not Status.RUNNING:
            harness.advance(15)
            harness.deliver_delayed()
        while harness.deliver():
            pass

    told = [json.loads(message["body"])["type"] for message in harness.simulator.inbox("traced")]
    assert told == ["instance.creating", "instance.starting", "instance.running"]
    assert len(files) <= 66, sorted(files)
    named = set(re.findall(r"^\d+\. `([\w/]+\.py)`", WALKTHROUGH.read_text(), flags=re.MULTILINE))
    assert files == named, "docs/walkthrough.md names every file that is entered, and no other"


def test_one_step_of_the_monitor_is_at_most_41_files(harness: Harness) -> None:
    instance_id = harness.create()
    while harness.deliver():
        pass
    harness.advance(40)
    harness.restart()

    with traced() as files:
        harness.deliver_delayed()

    assert harness.record(instance_id).status is Status.RUNNING
    assert "monitor/handler.py" in files
    assert len(files) <= 41, sorted(files)
