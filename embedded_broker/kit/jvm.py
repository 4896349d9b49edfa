"""A Java program as a child process whose output is read while it runs.

Answers: what the program printed, and whether it still runs. Must not know: what the program is.
Read on: ``embedded_broker/kit/process.py``.
"""

import contextlib
import os
import shutil
import subprocess
import threading
from collections import deque
from collections.abc import Iterator, MutableSequence, Sequence
from pathlib import Path
from typing import Final, Self

from attrs import define, field

from embedded_broker.kit.backend import BackendError

END_SECONDS: Final = 20.0
SHOWN: Final = 40
GUARD: Final = ("/bin/sh", "-c", 'read -r line; kill -9 "$1"', "guard")
"""Reads until its other end is gone, which nothing but our own end brings about, and then acts."""


@define(eq=False)
class Jvm:
    """A running Java program; its lines are collected as they are printed."""

    process: subprocess.Popen[str]
    lines: MutableSequence[str] = field(factory=list)
    _changed: threading.Condition = field(factory=threading.Condition)
    _reader: threading.Thread | None = None
    _guard: subprocess.Popen[bytes] | None = None
    _at_end: bool = False

    @classmethod
    def start(
        cls,
        arguments: Sequence[str],
        *,
        env: dict[str, str] | None = None,
        cwd: Path | None = None,
        keep: int | None = None,
    ) -> Self:
        """Start ``java`` with the arguments; ``keep`` bounds the lines that are remembered.

        It does not outlive this process, however that ends.
        """
        java = shutil.which("java")
        if java is None:
            raise BackendError("no program java is on PATH: install a Java run time")
        process = subprocess.Popen(  # noqa: S603 - starts what the caller names
            [java, *arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            env={**os.environ, **(env or {})},
            cwd=cwd,
        )
        jvm = cls(process, [] if keep is None else deque(maxlen=keep))
        jvm._guard = subprocess.Popen(  # noqa: S603 - a fixed program
            [*GUARD, str(process.pid)],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,  # Ctrl-C is for us to act on
        )
        jvm._reader = threading.Thread(target=jvm._read, name="jvm-output", daemon=True)
        jvm._reader.start()
        return jvm

    def _read(self) -> None:
        for line in self.process.stdout or ():
            with self._changed:
                self.lines.append(line.rstrip("\n"))
                self._changed.notify_all()
        if self._guard is not None:
            self._guard.kill()  # another process may get the number of one that ended
        with self._changed:
            self._at_end = True
            self._changed.notify_all()

    def wait_for_line(self, part: str, timeout: float) -> str:
        """Return the first line with the part; fail with what was printed when none comes."""
        with self._changed:
            self._changed.wait_for(lambda: self._at_end or self._line_with(part), timeout)
            found = self._line_with(part)
            if found is not None:
                return found
            why = "the program ended" if self._at_end else f"not in {timeout:g} s"
        raise BackendError(f"no line with {part!r}: {why}; it printed:\n{self._last_said()}")

    def _line_with(self, part: str) -> str | None:
        return next((line for line in self.lines if part in line), None)

    def said(self) -> list[str]:
        """Copy the lines that are remembered."""
        with self._changed:
            return list(self.lines)

    def finish(self, timeout: float) -> int:
        """Wait for the end of the program and of its output; the exit status.

        Raises `BackendError` with what it printed when it still runs after so many seconds.
        """
        try:
            status = self.process.wait(timeout)
        except subprocess.TimeoutExpired as error:
            raise BackendError(
                f"the program still runs after {timeout:g} s; it printed:\n{self._last_said()}"
            ) from error
        if self._reader is not None:
            self._reader.join(10)
        return status

    def _last_said(self) -> str:
        return "\n".join(self.said()[-SHOWN:])

    def table(self, kind: str) -> list[list[str]]:
        """Split the tab-separated lines that begin with ``kind``, without that first word."""
        rows = [line.split("\t") for line in self.said()]
        return [row[1:] for row in rows if row[0] == kind]

    def end(self, *, politely: bool = True) -> None:
        """End this process, by SIGTERM and its own clean-up first if ``politely``. Idempotent."""
        if self.process.poll() is None:
            if politely:
                self.process.terminate()
                with contextlib.suppress(subprocess.TimeoutExpired):
                    self.process.wait(END_SECONDS)
            if self.process.poll() is None:
                self.process.kill()
                self.process.wait(END_SECONDS)
        if self._reader is not None:
            self._reader.join(10)
        if self.process.stdout is not None:
            self.process.stdout.close()
        if self._guard is not None and self._guard.stdin is not None:
            self._guard.kill()
            self._guard.wait(END_SECONDS)
            self._guard.stdin.close()


@contextlib.contextmanager
def running(
    arguments: Sequence[str], *, env: dict[str, str] | None = None, cwd: Path | None = None
) -> Iterator[Jvm]:
    """Run ``java`` with the arguments; on leaving the block only this process is ended."""
    jvm = Jvm.start(arguments, env=env, cwd=cwd)
    try:
        yield jvm
    finally:
        jvm.end()
