"""How far a stream may read now: the driver's side of a streaming read, without Spark.

Keeps the bounds of all queues for a short while (Spark asks up to a hundred times a second),
notices new and missing queues, splits limits, and writes offsets that survive what Spark forgets:
it stores no first offset and asks for it twice, so the first real offset carries the lower bounds
itself. Must not know records. Read on: ``positions.py`` for the offsets' form.
"""

from __future__ import annotations

import logging
import threading

from rocketmq_py import (
    MessageQueue,
    MQBrokerException,
    MQClientException,
    NoRouteError,
    QueueAccess,
    QueueBounds,
    RemotingException,
    RocketMQError,
    TopicNotExistError,
)
from rocketmq_py.clock import monotonic
from spark_connector.access import is_transient
from spark_connector.admission import share
from spark_connector.errors import GO_ON, RocketMQDataLossError
from spark_connector.group_offsets import store_group_offset
from spark_connector.options import ReadOptions
from spark_connector.positions import Positions, StreamOffset, look, places, put
from spark_connector.starting import Bounds, bounds_of, find_topics, resolve

__all__ = ["Limit", "Tracker"]

_log = logging.getLogger("spark_connector")

IDLE_POLL_MOST_S = 1.0
BACK_OFF_MOST_S = 30.0
SAMPLE_MESSAGES = 32
_FAILURES = (RemotingException, MQBrokerException, MQClientException)


class Limit:
    """What one micro-batch may take: offsets, bytes, and how few are not worth one (None: any)."""

    __slots__ = ("bytes_most", "offsets_least", "offsets_most")

    def __init__(
        self,
        offsets_most: int | None = None,
        bytes_most: int | None = None,
        offsets_least: int | None = None,
    ) -> None:
        self.offsets_most = offsets_most
        self.bytes_most = bytes_most
        self.offsets_least = offsets_least


_Place = tuple[str, str]
"""Topic and broker; no topic means whatever is asked of the broker, no broker the topic's route."""


class _BackOff:
    """What failed and is left alone for a while, longer each time, and how it failed last."""

    def __init__(self) -> None:
        self._failed: dict[_Place, tuple[RocketMQError, float, float]] = {}

    def holds(self, place: _Place) -> bool:
        """Whether the place is not to be asked yet."""
        if place not in self._failed:
            return False
        _, at, pause = self._failed[place]
        return monotonic() < at + pause

    def failed(self, place: _Place, error: RocketMQError) -> None:
        """Leave the place alone, for twice as long as the last time."""
        _, _, pause = self._failed.get(place, (None, 0.0, 0.5))
        self._failed[place] = error, monotonic(), min(2 * pause, BACK_OFF_MOST_S)

    def clear(self, place: _Place) -> None:
        """Ask the place again: it has answered."""
        self._failed.pop(place, None)

    def last(self, place: _Place) -> tuple[RocketMQError, float] | None:
        """Return how the place failed and when it was asked last, None when it answered."""
        return self._failed[place][:2] if place in self._failed else None


class Tracker:
    """Answers what a streaming query asks about offsets. One thread uses it."""

    def __init__(self, access: QueueAccess, options: ReadOptions) -> None:
        self._access = access
        self._options = options
        self._bounds: Bounds = {}
        self._last_seen: Bounds = {}
        self._brokers: dict[str, list[str]] = {}
        self._asked_at: float | None = None
        self._routes_at: float | None = None
        self._wait_s = options.poll_interval_ms / 1000
        self._missing_since: dict[MessageQueue, float] = {}
        self._told_missing: set[MessageQueue] = set()
        self._away = _BackOff()
        self._refusing = _BackOff()
        assigned = options.subscription.assigned
        self._assigned: set[MessageQueue] | None = None
        if assigned is not None:
            self._assigned = {
                MessageQueue(topic, broker, queue) for topic, broker, queue, _ in places(assigned)
            }
        self._targets: dict[MessageQueue, int] | None = None
        self._initial: StreamOffset | None = None
        self._fired_at = monotonic()
        self._pushed: dict[MessageQueue, int] = {}
        self._mean_size: float | None = None

    # --- what Spark asks -------------------------------------------------------------------------

    def initial(self) -> StreamOffset:
        """Return where the stream begins: the same answer every time."""
        if self._initial is None:
            bounds = bounds_of(self._access, self._options)
            self._take(bounds)
            if self._targets is not None:
                # "latest" of a run that ends is the end that it was given.
                bounds = {
                    queue: QueueBounds(one.min_offset, self._targets.get(queue, one.max_offset))
                    for queue, one in bounds.items()
                }
            options = self._options
            found = resolve(self._access, options, options.start, bounds, is_end=False)
            topics: Positions = {}
            for queue, offset in found.items():
                put(topics, queue.topic, queue.broker_name, queue.queue_id, offset)
            self._initial = StreamOffset(topics, is_initial=True)
        return self._initial

    def freeze(self) -> None:
        """Fix the present ends as the targets of a run that ends when they are reached."""
        bounds = bounds_of(self._access, self._options)
        self._take(bounds)
        self._targets = {queue: one.max_offset for queue, one in bounds.items()}

    def latest(self, start: StreamOffset, limit: Limit) -> StreamOffset | None:
        """Return the end of the next micro-batch, None when there is no news.

        Raises `RocketMQDataLossError` for queues that are gone too long or went backwards, and
        `MQClientException` for those that a broker has refused for too long.
        """
        self._refresh()
        self._wait_for_missing(start)
        lower: Positions = {}
        reset: Positions = {}
        begins: dict[MessageQueue, int] = {}
        ends: dict[MessageQueue, int] = {}
        for topic, broker, queue_id, offset in places(start.topics):
            queue = MessageQueue(topic, broker, queue_id)
            begin, end = self._known_queue(queue, offset)
            begins[queue], ends[queue] = begin, end
            if start.is_initial:
                put(lower, topic, broker, queue_id, offset)
            if begin < offset:
                put(reset, topic, broker, queue_id, begin)
        for queue, one in sorted(self._bounds.items()):
            if queue not in begins and self._end_of(queue, one) > one.min_offset:
                begins[queue], ends[queue] = one.min_offset, self._end_of(queue, one)
                put(lower, queue.topic, queue.broker_name, queue.queue_id, one.min_offset)
        taken = self._admitted({q: ends[q] - begins[q] for q in begins}, limit)
        if not any(taken.values()) and not start.is_initial and not reset:
            return None
        topics: Positions = {}
        for queue, begin in begins.items():
            put(topics, queue.topic, queue.broker_name, queue.queue_id, begin + taken[queue])
        return StreamOffset(topics, lower=lower, reset=reset)

    def ends(self) -> StreamOffset | None:
        """Return the ends of all queues as last seen, None before the first look."""
        if not self._bounds:
            return None
        topics: Positions = {}
        for queue, one in self._bounds.items():
            put(topics, queue.topic, queue.broker_name, queue.queue_id, one.max_offset)
        return StreamOffset(topics)

    def push_group(self, done: StreamOffset) -> None:
        """Tell the brokers how far the group is; a failure is logged and tried again later."""
        group = self._options.group
        if not self._options.commit_offsets or group is None or done.is_initial:
            return
        for topic, broker, queue_id, offset in places(done.topics):
            queue = MessageQueue(topic, broker, queue_id)
            known = self._pushed.get(queue) == offset or queue not in self._bounds
            if known or self._refusing.holds(("", broker)):
                continue
            try:
                store_group_offset(self._access, group, queue, offset)
            except _FAILURES as error:
                self._refusing.failed(("", broker), error)
                _log.warning(
                    "offset of group %s was not stored at broker %s: %s", group, broker, error
                )
                continue
            self._refusing.clear(("", broker))
            self._pushed[queue] = offset

    # --- queues ----------------------------------------------------------------------------------

    def _end_of(self, queue: MessageQueue, one: QueueBounds) -> int:
        if self._targets is None:
            return one.max_offset
        return self._targets.get(queue, one.min_offset)

    def _known_queue(self, queue: MessageQueue, offset: int) -> tuple[int, int]:
        """Return where a known queue goes on and may end now."""
        one = self._bounds.get(queue) or self._missing(queue, offset)
        if one is None:
            return offset, offset
        if one.max_offset < offset:
            text = (
                f"data loss in topic {queue.topic}, broker {queue.broker_name}, queue "
                f"{queue.queue_id}: the stream stands at {offset}, available are "
                f"{one.min_offset} to {one.max_offset}: was the topic made anew?"
            )
            if self._options.fail_on_data_loss:
                raise RocketMQDataLossError(f"{text} {GO_ON}", topic=queue.topic)
            _log.warning("%s the stream goes on at %d", text, one.min_offset)
            return one.min_offset, max(one.min_offset, one.max_offset)
        return offset, max(offset, self._end_of(queue, one))

    def _missing(self, queue: MessageQueue, offset: int) -> QueueBounds | None:
        """Return None while a missing queue is waited for, its bounds when it has just come back.

        Once the grace is over it is asked for once more, as the back-off may outlast the grace.
        """
        seen = self._last_seen.get(queue)
        is_done = seen is not None and offset >= seen.max_offset  # read to its end: nothing is lost
        target = None if self._targets is None else self._targets.get(queue)
        if target is not None and offset >= target:
            return None  # this run wants no more of it
        refusal = self._refusal(queue)
        if refusal is None and (is_done or queue in self._told_missing):
            return None
        since = self._missing_since.setdefault(queue, self._asked_at or monotonic())
        over = since + self._options.grace_ms / 1000
        if monotonic() < over:
            return None
        self._ask_once_more(queue, over)
        if queue in self._bounds:
            return self._bounds[queue]
        refusal = self._refusal(queue)
        if refusal is not None:
            raise self._refused_too_long(queue, offset, refusal)
        if is_done:
            return None
        last = self._last_failure(queue)
        text = (
            f"topic {queue.topic}, broker {queue.broker_name}, queue {queue.queue_id} has been "
            f"missing for {self._options.grace_ms} ms (missingQueueGraceMs); the stream stands at "
            f"{offset}" + ("" if last is None else f"; the last failure was: {last[0]}")
        )
        if self._options.fail_on_data_loss:
            raise RocketMQDataLossError(f"{text}; {GO_ON}", topic=queue.topic)
        self._told_missing.add(queue)  # asked up to a hundred times a second
        _log.warning("%s; going on without it", text)
        return None

    def _last_failure(self, queue: MessageQueue) -> tuple[RocketMQError, float] | None:
        """Return why a queue is missing and since when that is known, None when nobody said."""
        topic, broker = queue.topic, queue.broker_name
        last = self._away.last
        return last((topic, "")) or last(("", broker)) or last((topic, broker))

    def _refusal(self, queue: MessageQueue) -> MQBrokerException | None:
        """Return the broker's last answer if it will stay, such as that of a key without rights.

        A topic that the broker does not know is no refusal: it is gone.
        """
        error, _ = self._last_failure(queue) or (None, 0.0)
        if isinstance(error, TopicNotExistError) or not isinstance(error, MQBrokerException):
            return None
        return None if is_transient(error) else error

    def _refused_too_long(
        self, queue: MessageQueue, offset: int, refusal: MQBrokerException
    ) -> MQClientException:
        return MQClientException(
            f"broker {queue.broker_name} has refused for {self._options.grace_ms} ms "
            f"(missingQueueGraceMs) to tell the bounds of topic {queue.topic}; the stream stands "
            f"at {offset} of queue {queue.queue_id}; the last answer was: {refusal}; check the "
            "credentials and what they permit, then start the query again",
            response_code=refusal.response_code,
            topic=queue.topic,
        )

    def _ask_once_more(self, queue: MessageQueue, over: float) -> None:
        """Ask for a queue's route and bounds unless both were asked for since a moment."""
        if self._routes_at is None or self._routes_at < over:
            self._find_brokers()
        last = self._last_failure(queue)
        is_known = queue.broker_name in self._brokers.get(queue.topic, ())
        if is_known and (last is None or last[1] < over):
            found = self._wanted(self._asked(queue.topic, queue.broker_name))
            if found:
                self._take(self._bounds | found)

    def _wait_for_missing(self, start: StreamOffset) -> None:
        """In a run that ends, wait for queues that are away, until the grace is over."""
        if self._targets is None:
            return
        while True:
            away = [
                queue
                for queue, target in self._targets.items()
                if queue not in self._bounds
                and (look(start.topics, queue.topic, queue.broker_name, queue.queue_id) or 0)
                < target
            ]
            now = monotonic()
            since = [self._missing_since.setdefault(queue, now) for queue in away]
            if not any((now - one) * 1000 < self._options.grace_ms for one in since):
                return
            threading.Event().wait(self._options.poll_interval_ms / 1000)
            self._refresh()

    # --- limits ----------------------------------------------------------------------------------

    def _admitted(self, backlog: dict[MessageQueue, int], limit: Limit) -> dict[MessageQueue, int]:
        total = sum(backlog.values())
        least = limit.offsets_least
        if least is not None and total < least and self._targets is None:
            waited_ms = (monotonic() - self._fired_at) * 1000
            if waited_ms < self._options.max_trigger_delay_ms:
                return dict.fromkeys(backlog, 0)
        if total:
            self._fired_at = monotonic()
        most = limit.offsets_most
        if limit.bytes_most is not None and total:
            by_size = max(1, int(limit.bytes_most / self._size_of_one(backlog)))
            most = by_size if most is None else min(most, by_size)
        return backlog if most is None else share(backlog, most)

    def _size_of_one(self, backlog: dict[MessageQueue, int]) -> float:
        """Return the mean stored size of a message, from a sample of the fullest queue."""
        if self._mean_size is None:
            queue = max(backlog, key=lambda one: backlog[one])
            first = self._bounds[queue].max_offset - backlog[queue]
            try:
                sample = self._access.pull(queue, first, SAMPLE_MESSAGES).result()
            except _FAILURES:
                return 1024.0
            if sample.found and sample.next_offset > first:
                self._mean_size = len(sample.records) / (sample.next_offset - first)
        return self._mean_size or 1024.0

    # --- asking ----------------------------------------------------------------------------------

    def _take(self, bounds: Bounds) -> None:
        self._bounds = bounds
        self._last_seen |= bounds
        for queue in bounds:
            self._missing_since.pop(queue, None)
        self._told_missing -= bounds.keys()
        self._asked_at = monotonic()

    def _refresh(self) -> None:
        """Ask the brokers again when the last answer is old, less often while nothing changes."""
        now = monotonic()
        if self._asked_at is not None and now - self._asked_at < self._wait_s:
            return
        if self._routes_at is None or (now - self._routes_at) * 1000 >= (
            self._options.route_refresh_ms
        ):
            self._find_brokers()
        found: Bounds = {}
        for topic, brokers in self._brokers.items():
            for broker in brokers:
                found |= self._ask(topic, broker)
        found = self._wanted(found)
        least = self._options.poll_interval_ms / 1000
        is_idle = found == self._bounds
        self._wait_s = min(self._wait_s * 2, max(IDLE_POLL_MOST_S, least)) if is_idle else least
        self._mean_size = self._mean_size if is_idle else None
        self._take(found)

    def _wanted(self, found: Bounds) -> Bounds:
        """Keep the queues that ``assign`` names; one that is away now is missing, not wrong."""
        if self._assigned is None:
            return found
        return {queue: one for queue, one in found.items() if queue in self._assigned}

    def _find_brokers(self) -> None:
        self._routes_at = monotonic()
        try:
            # Known queues do not wait for the name server: what is new is found at the next look.
            topics = find_topics(self._access, self._options, is_patient=not self._brokers)
        except _FAILURES as error:
            _log.warning("topics cannot be listed, going on with the known ones: %s", error)
            return
        for topic in topics:
            try:
                self._access.read_queues(topic)
                brokers = self._access.broker_names(topic)
            except NoRouteError as error:
                self._brokers.pop(topic, None)  # its queues are missing now
                self._away.failed((topic, ""), error)
            except _FAILURES as error:
                _log.warning("route of topic %s: %s", topic, error)
            else:
                for gone in set(self._brokers.get(topic, ())).difference(brokers):
                    self._away.clear((topic, gone))  # what it said is out of date
                self._brokers[topic] = brokers
                self._away.clear((topic, ""))

    def _ask(self, topic: str, broker: str) -> Bounds:
        """Ask one broker unless it, or what it says about the topic, is left alone for a while."""
        if self._away.holds(("", broker)) or self._away.holds((topic, broker)):
            return {}
        return self._asked(topic, broker)

    def _asked(self, topic: str, broker: str) -> Bounds:
        """Ask one broker now; without an answer the topic's queues there are missing.

        A broker that is silent or busy is so for all topics, one that refuses only for this one.
        """
        try:
            found = self._access.bounds_at(topic, broker)
        except _FAILURES as error:
            if is_transient(error):
                self._away.failed(("", broker), error)
            else:
                self._away.clear(("", broker))
                self._away.failed((topic, broker), error)
            _log.warning("broker %s does not tell the bounds of %s: %s", broker, topic, error)
            return {}
        self._away.clear(("", broker))
        self._away.clear((topic, broker))
        return found
