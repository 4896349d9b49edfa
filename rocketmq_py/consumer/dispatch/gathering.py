"""Batches that wait until they are full, or until their time is over.

`Gatherer` keeps the messages of a lane that do not make a full batch yet. Must not know listeners:
the dispatch that has it calls them.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from rocketmq_py.consumer.core.lane import Lane
    from rocketmq_py.message import MessageExt
    from rocketmq_py.threads import ScheduleAfter

Messages: TypeAlias = "tuple[MessageExt, ...]"


class Gatherer:
    """What waits for more, by lane. ``emit`` takes a batch whose time is over. Thread-safe.

    What waits is bounded by flow control, since its messages are in their lanes already.
    """

    def __init__(
        self, schedule_after: ScheduleAfter, emit: Callable[[Lane, Messages], object]
    ) -> None:
        self._schedule_after = schedule_after
        self._emit = emit
        self._lock = threading.Lock()
        self._held: dict[Lane, list[MessageExt]] = {}

    @property
    def lanes(self) -> int:
        """How many lanes have messages that wait."""
        return len(self._held)

    def batches(
        self, lane: Lane, messages: Sequence[MessageExt], size: int, wait_ms: int
    ) -> list[Messages]:
        """Give the batches that are full now; what is left waits ``wait_ms``, from its first on.

        With a ``wait_ms`` of 0 nothing waits, and the last batch is as full as it is.
        """
        if not wait_ms and lane not in self._held:
            return list(_cut(messages, size))
        with self._lock:
            held = self._held.pop(lane, [])
            together = [*held, *messages]
            full = len(together) - len(together) % size if wait_ms else len(together)
            rest = together[full:]
            if rest:
                kept = held if held and len(together) < size else []
                kept[:] = rest
                self._held[lane] = kept
                if kept is not held:
                    self._schedule_after(wait_ms, partial(self._over, lane, kept))
            return list(_cut(together[:full], size))

    def _over(self, lane: Lane, kept: list[MessageExt]) -> None:
        """Hand over what waits of a lane, unless it has become part of a full batch."""
        with self._lock:
            if self._held.get(lane) is not kept:
                return
            del self._held[lane]
        self._emit(lane, tuple(kept))


def _cut(messages: Sequence[MessageExt], size: int) -> Iterator[Messages]:
    for at in range(0, len(messages), size):
        yield tuple(messages[at : at + size])
