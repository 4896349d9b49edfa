"""Lives of one program, each killed as with -9 a line later than the one before.

``PROGRAM FUNCTION ARGUMENTS...``. A life is a fork that runs the program's ``main``. Lines are
those of the program's own file, and are counted while the function is called for the first time;
``Class.method`` names a method. Those of context managers do not count: their beginning and end are
lines of who uses them. The N-th life is killed before the N-th line. The last one is the first that
comes to the end of the call; it ends there, as suddenly. Before each life a line is printed, and
one is read: so whoever looks on can do something in between.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from functools import wraps
from importlib import import_module
from importlib.util import module_from_spec, spec_from_file_location
from inspect import CO_GENERATOR
from itertools import count
from operator import attrgetter
from pkgutil import walk_packages
from types import FrameType, ModuleType
from typing import TYPE_CHECKING, Any

import rocketmq_py

if TYPE_CHECKING:
    from _typeshed import TraceFunction


def load(path: str) -> ModuleType:
    """Import a program from its file without running it, and what its lives would import each."""
    for one in walk_packages(rocketmq_py.__path__, "rocketmq_py."):
        if not one.name.startswith("rocketmq_py.telemetry"):
            import_module(one.name)
    spec = spec_from_file_location("program", path)
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules["program"] = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def doomed(function: Callable[..., object], path: str, last: int) -> Callable[..., object]:
    """Give a function whose first call kills this process before its line ``last``, from 1."""
    lines = 0

    def step(_: FrameType, event: str, __: Any) -> TraceFunction:
        nonlocal lines
        lines += event == "line"
        if lines == last:
            os.kill(os.getpid(), signal.SIGKILL)
        return step

    def enter(frame: FrameType, _: str, __: Any) -> TraceFunction | None:
        code = frame.f_code
        return step if code.co_filename == path and not code.co_flags & CO_GENERATOR else None

    @wraps(function)
    def call(*arguments: object) -> None:
        sys.settrace(enter)
        function(*arguments)
        os._exit(0)

    return call


def live(program: ModuleType, name: str, line: int, arguments: list[str]) -> int:
    """Run one life in a fork; gives what it ended with."""
    pid = os.fork()
    if not pid:
        owner, _, attribute = name.rpartition(".")
        holder = attrgetter(owner)(program) if owner else program
        wrapped = doomed(getattr(holder, attribute), str(program.__file__), line)
        setattr(holder, attribute, wrapped)
        program.main(*arguments)
        os._exit(1)  # the function was not called
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


if __name__ == "__main__":
    _, path, name, *arguments = sys.argv
    program = load(path)
    for line in count(1):
        print("before life", line, flush=True)
        sys.stdin.readline()
        status = live(program, name, line, arguments)
        if status != -signal.SIGKILL:
            sys.exit(status)
