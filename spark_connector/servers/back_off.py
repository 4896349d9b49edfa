"""How the planner waits for no server that is slow: work in background, and who is left alone.

A call of `QueueAccess` that gives a future needs no thread. What asks in several steps has one:
whoever begins it keeps its future, and begins no second one before the first has ended. The
threads end with their work. Must not know what is asked. Read on: ``planning/broker_watch.py``,
``planning/group_offsets.py``.
"""

import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeVar

from rocketmq_py import MQClientException, RocketMQError
from rocketmq_py.clock import monotonic

PATIENCE_S = 1.0
"""How long a call to a server that answered last time is waited for."""
RECHECK_S = 0.02
"""The same for one that did not; its answer is found at the next look."""
BACK_OFF_MOST_S = 30.0

TopicBroker = tuple[str, str]
"""Topic and broker; no topic means whatever is asked of the broker, no broker the topic's route."""

_T = TypeVar("_T")


def in_background(work: Callable[[], _T]) -> Future[_T]:
    """Do something that ends by itself on a thread that keeps no process alive."""
    result: Future[_T] = Future()

    def run() -> None:
        try:
            value = work()
        except BaseException as error:  # noqa: BLE001 - every failure belongs to whoever waits
            result.set_exception(error)
        else:
            result.set_result(value)

    try:
        threading.Thread(target=run, name="rocketmq-planner", daemon=True).start()
    except RuntimeError as error:  # the system has none left: asked again as after any failure
        result.set_exception(MQClientException(f"no thread can be started to ask: {error}"))
    return result


class BackOff:
    """What failed and is left alone for a while, longer each time, and how it failed last."""

    def __init__(self) -> None:
        self._failed: dict[TopicBroker, tuple[RocketMQError, float, float]] = {}

    def holds(self, place: TopicBroker) -> bool:
        """Whether the place is not to be asked yet."""
        if place not in self._failed:
            return False
        _, at, pause = self._failed[place]
        return monotonic() < at + pause

    def failed(self, place: TopicBroker, error: RocketMQError, at: float) -> None:
        """Leave the place, which failed ``at``, alone for twice as long as the last time."""
        _, _, pause = self._failed.get(place, (None, 0.0, 0.5))
        self._failed[place] = error, at, min(2 * pause, BACK_OFF_MOST_S)

    def clear(self, place: TopicBroker) -> None:
        """Ask the place again: it has answered."""
        self._failed.pop(place, None)

    def last(self, place: TopicBroker) -> tuple[RocketMQError, float] | None:
        """Return how the place failed and when it was asked last, None when it answered."""
        return self._failed[place][:2] if place in self._failed else None
