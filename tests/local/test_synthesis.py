"""The template that runs locally."""

import json
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from local import synthesis


def test_what_is_chosen_for_the_account_is_not_taken_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given: dict[str, str] = {}

    def run(command: Sequence[str], *, env: Mapping[str, str], **_: Any) -> subprocess.CompletedProcess[str]:
        given.update(env)
        return subprocess.CompletedProcess(command, 0)

    monkeypatch.setattr(subprocess, "run", run)
    monkeypatch.setattr(synthesis, "CLOUD_ASSEMBLY", tmp_path / "out")

    synthesis._synthesise()

    assert json.loads(given["CDK_CONTEXT_JSON"]) == {}
