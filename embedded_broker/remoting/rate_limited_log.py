"""Rate-limited log: of the warnings that a peer can cause, at most one of a kind each second.

Answers: whether a line is written now, and how many were left out since the last one. Without this
a peer that connects again and again fills the disk that the store needs. Must not know: what lines
say. Read on: `endpoint.py` and `tcp_connection.py`, which end connections.
"""

from logging import Logger
from threading import Lock
from typing import Final

from attrs import define, field

from rocketmq_py.clock import monotonic_ns

EVERY_NS: Final = 1_000_000_000
TEXT_MAX: Final = 300
"""A line repeats what a peer has sent to so many characters."""


@define(eq=False)
class RateLimitedLog:
    """Warnings of one kind. Any thread."""

    _logger: Logger
    _lock: Lock = field(factory=Lock, init=False)
    _written_ns: int | None = field(default=None, init=False)
    _left_out: int = field(default=0, init=False)

    def warn(self, text: str) -> None:
        """Write a line, or count it for the next one."""
        now_ns = monotonic_ns()
        with self._lock:
            if self._written_ns is not None and now_ns - self._written_ns < EVERY_NS:
                self._left_out += 1
                return
            left_out, self._left_out, self._written_ns = self._left_out, 0, now_ns
        if len(text) > TEXT_MAX:
            text = f"{text[:TEXT_MAX]}..."
        if left_out:
            text += f"; {left_out} more lines like this were left out since the last one"
        self._logger.warning("%s", text)
