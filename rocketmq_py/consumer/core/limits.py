"""Flow control: how much a consumer may hold before it fetches more.

Limits of a queue, and limits of a topic that are divided by the queues that the consumer has now.
Facts: `DefaultMQPushConsumerImpl.pullMessage`, ``RebalancePushImpl.messageQueueChanged``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol, TypeAlias

from attrs import define

from rocketmq_py.config import UNLIMITED

if TYPE_CHECKING:
    from rocketmq_py.consumer.core.lane import Lane

MIB = 1024 * 1024

Gate: TypeAlias = "Callable[[Lane], str | None]"
"""Says why a lane cannot be fetched now; None when it can."""


class LimitSettings(Protocol):
    """The settings that bound what a consumer holds; see `PushConsumerConfig`."""

    pull_threshold_for_queue: int
    pull_threshold_size_for_queue: int
    pull_threshold_for_topic: int
    pull_threshold_size_for_topic: int


@define(eq=False, repr=False)
class QueueLimits:
    """Cached messages and bytes of one queue; ``queues`` counts those of the consumer."""

    _settings: LimitSettings
    _queues: Callable[[], int]

    def __call__(self, lane: Lane) -> str | None:
        """Say which limit the lane has reached."""
        count_max, mib_max = self.of_a_queue()
        if lane.count > count_max:
            return f"{lane.count} messages cached, pull_threshold_for_queue {count_max}"
        if lane.size // MIB > mib_max:
            return f"{lane.size} bytes cached, pull_threshold_size_for_queue {mib_max} MiB"
        return None

    def of_a_queue(self) -> tuple[int, int]:
        """Cached messages and MiB that one queue may hold now."""
        settings, queues = self._settings, self._queues()
        count, size = settings.pull_threshold_for_queue, settings.pull_threshold_size_for_queue
        if queues and settings.pull_threshold_for_topic != UNLIMITED:
            count = max(1, settings.pull_threshold_for_topic // queues)
        if queues and settings.pull_threshold_size_for_topic != UNLIMITED:
            size = max(1, settings.pull_threshold_size_for_topic // queues)
        return count, size


@define(eq=False, repr=False)
class SpanLimit:
    """Distance between the unfinished offsets of a queue; ``setting`` is the name of its bound."""

    _setting: str
    _span_max: Callable[[], int]

    def __call__(self, lane: Lane) -> str | None:
        """Say that the lane's unfinished offsets are too far apart."""
        span_max = self._span_max()
        # The span costs a lock; it cannot exceed its limit with fewer messages in between.
        if lane.count > 1 and (span := lane.max_span) > span_max:
            return f"unfinished offsets are {span} apart, {self._setting} {span_max}"
        return None


class InboxSettings(Protocol):
    """The setting that bounds what waits for a program that does not ask."""

    pull_threshold_for_all: int


class Waiting(Protocol):
    """Counts what waits to be taken."""

    @property
    def waiting(self) -> int:
        """Messages that wait."""


@define(eq=False, repr=False)
class InboxLimit:
    """Messages of all queues that wait until the program asks for them."""

    _settings: InboxSettings
    _inbox: Waiting

    def __call__(self, lane: Lane) -> str | None:
        """Say that too many wait, whatever lane they are of."""
        del lane
        waiting, most = self._inbox.waiting, self._settings.pull_threshold_for_all
        return f"{waiting} messages wait, pull_threshold_for_all {most}" if waiting > most else None


class PopLimitSettings(Protocol):
    """The settings that bound the messages of a popped queue."""

    pop_threshold_for_queue: int
    pop_threshold_bytes_for_queue: int


@define(eq=False, repr=False)
class PopLimit:
    """Popped messages of one assignment that are not acked."""

    _settings: PopLimitSettings

    def __call__(self, lane: Lane) -> str | None:
        """Say that too many messages are not acked."""
        count_max = self._settings.pop_threshold_for_queue
        if lane.count > count_max:
            return f"{lane.count} messages not acked, pop_threshold_for_queue {count_max}"
        size_max = self._settings.pop_threshold_bytes_for_queue
        if lane.size > size_max:
            return f"{lane.size} bytes not acked, pop_threshold_bytes_for_queue {size_max}"
        return None
