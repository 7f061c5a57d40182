"""Runs a module as a program that does not outlive its parent, the process that started it.

The parent holds the other end of a pipe. However it ends, the pipe closes, and the whole process group
goes: the program and everything the program started.
"""

import os
import runpy
import signal
import sys
import threading


def main() -> None:
    pipe, _state_dir, module, *arguments = sys.argv[1:]
    threading.Thread(target=_exit_when_closed, args=(int(pipe),), daemon=True).start()
    sys.argv = [module, *arguments]
    runpy.run_module(module, run_name="__main__", alter_sys=True)


def _exit_when_closed(pipe: int) -> None:
    os.read(pipe, 1)  # nobody writes, so this returns when the other end is closed
    os.killpg(os.getpgrp(), signal.SIGKILL)


if __name__ == "__main__":
    main()
