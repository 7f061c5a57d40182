"""Completion in each shell, with the names of instances, and silence where the service does not answer."""

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from local.paths import ROOT
from tests.client.small_server import Said, SmallServer

FOUND: dict[str, Any] = {
    "instances": [
        {"name": "first", "status": "running"},
        {"name": "fine", "status": "stopped"},
        {"name": "former", "status": "terminated"},
        {"name": "other", "status": "ready"},
    ]
}


def environment(folder: Path, url: str) -> dict[str, str]:
    """An `ostler` on the path, as pip would put it there."""
    program = folder / "ostler"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m ostler.cli.main "$@"\n')
    program.chmod(0o755)
    return {
        "PATH": f"{folder}:{os.environ['PATH']}",
        "PYTHONPATH": str(ROOT / "client/src"),
        "OSTLER_URL": url,
        "OSTLER_API_KEY": "ost_test",
        "OSTLER_CONFIG": "/nonexistent",
        "HOME": str(folder),
    }


def run(*command: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=False)


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_each_shell_has_its_script(shell: str, tmp_path: Path, server: SmallServer) -> None:
    made = run("ostler", "completion", shell, **environment(tmp_path, server.url))

    assert made.returncode == 0, made.stderr
    assert "_OSTLER_COMPLETE" in made.stdout
    if interpreter := shutil.which(shell):
        assert run(interpreter, "-n", "-c", made.stdout, PATH=os.environ["PATH"]).returncode == 0


def test_bash_completes_names_of_living_instances(tmp_path: Path, server: SmallServer) -> None:
    server.otherwise = lambda _: Said(200, FOUND)
    script = (
        'eval "$(ostler completion bash)"; COMP_WORDS=(ostler show f); COMP_CWORD=2;'
        ' _ostler_completion ostler; printf "%s\\n" "${COMPREPLY[@]}"'
    )

    done = run("bash", "-c", script, **environment(tmp_path, server.url))

    assert sorted(done.stdout.split()) == ["fine", "first"]


@pytest.mark.parametrize(
    ("shell", "asking", "names"),
    [
        ("zsh", {"COMP_WORDS": "ostler show f", "COMP_CWORD": "2"}, ["plain\nfirst\n_", "plain\nfine\n_"]),
        ("fish", {"COMP_WORDS": "ostler show f", "COMP_CWORD": "f"}, ["plain,first", "plain,fine"]),
    ],
)
def test_zsh_and_fish_are_told_the_names_too(
    tmp_path: Path, server: SmallServer, shell: str, asking: dict[str, str], names: list[str]
) -> None:
    """In the form that the script of each shell reads; neither needs to be installed for that."""
    server.otherwise = lambda _: Said(200, FOUND)

    done = run("ostler", **environment(tmp_path, server.url), **asking, _OSTLER_COMPLETE=f"{shell}_complete")

    assert [one for one in names if one in done.stdout] == names, done.stdout
    assert "former" not in done.stdout
    assert "other" not in done.stdout


def test_bash_is_given_names_as_one_would_type_them(tmp_path: Path, server: SmallServer) -> None:
    """It puts them on the line as they come: a space would make two names of one, a `;` a command."""
    names = ["two words", "a;touch x", "$(touch x)", "naïve-1.0/2", "*", "back\\slash", "it's"]
    server.otherwise = lambda _: Said(
        200, {"instances": [{"name": name, "status": "running"} for name in names]}
    )
    script = (
        'eval "$(ostler completion bash)"; COMP_WORDS=(ostler rm ""); COMP_CWORD=2;'
        ' _ostler_completion ostler; eval "typed=(${COMPREPLY[*]})"; printf "%s\\n" "${typed[@]}"'
    )

    done = run("bash", "-c", script, **environment(tmp_path, server.url))

    assert done.stdout.splitlines() == names, done.stderr


def test_completion_is_silent_where_nobody_answers(tmp_path: Path) -> None:
    asking = {"_OSTLER_COMPLETE": "bash_complete", "COMP_WORDS": "ostler show f", "COMP_CWORD": "2"}

    done = run("ostler", **environment(tmp_path, "http://127.0.0.1:9"), **asking)

    assert (done.stdout.strip(), done.stderr) == ("", "")
