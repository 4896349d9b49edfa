"""How far a stream may read now: the driver's side of a streaming read, without Spark.

Asks, waits, and tells users of queues that are missing or went back; what follows for the offsets
is calculated in ``backlog.py``. Must not know records, nor when brokers are asked. Read on:
``broker_watch.py`` for what brokers say, ``stream_offset.py`` for the offsets' form.
"""

import logging
import threading

from rocketmq_py import (
    MessageQueue,
    MQBrokerException,
    MQClientException,
    QueueAccess,
    QueueBounds,
    TopicNotExistError,
)
from rocketmq_py.clock import monotonic
from spark_connector.errors import GO_ON, RocketMQDataLossError
from spark_connector.options.positions import Positions, in_order
from spark_connector.options.read_options import ReadOptions
from spark_connector.planning.backlog import Limit, backlog_of
from spark_connector.planning.broker_watch import Watch
from spark_connector.planning.group_offsets import GroupProgress
from spark_connector.planning.start_places import Bounds, bounds_of, resolve
from spark_connector.planning.stream_offset import StreamOffset
from spark_connector.servers.access import SERVER_ERRORS, is_transient

_log = logging.getLogger("spark_connector")

SAMPLE_MESSAGES = 32


class Tracker:
    """Answers what a streaming query asks about offsets. One thread uses it."""

    def __init__(self, access: QueueAccess, options: ReadOptions) -> None:
        self._access = access
        self._options = options
        self._watch = Watch(access, options)
        self._group: GroupProgress | None = None
        if options.commit_offsets and options.group_id is not None:
            self._group = GroupProgress(access, options.group_id)
        self._done: Positions = {}
        self._missing_since: dict[MessageQueue, float] = {}
        self._told_missing: set[MessageQueue] = set()
        self._targets: dict[MessageQueue, int] | None = None
        self._initial: StreamOffset | None = None
        self._fired_at = monotonic()
        self._mean_size: float | None = None
        self._idle: tuple[StreamOffset, Bounds] | None = None

    # --- what Spark asks -------------------------------------------------------------------------

    def initial(self) -> StreamOffset:
        """Return where the stream begins: the same answer every time."""
        if self._initial is None:
            bounds = bounds_of(self._access, self._options)
            self._watch.take(bounds)
            if self._targets is not None:
                # "latest" of a run that ends is the end that it was given.
                bounds = {
                    queue: QueueBounds(one.min_offset, self._targets.get(queue, one.max_offset))
                    for queue, one in bounds.items()
                }
            options = self._options
            found = resolve(self._access, options, options.start, bounds, is_end=False)
            self._initial = StreamOffset(found, is_initial=True)
        return self._initial

    def freeze(self) -> None:
        """Fix the present ends as the targets of a run that ends when they are reached."""
        bounds = bounds_of(self._access, self._options)
        self._watch.take(bounds)
        self._targets = {queue: one.max_offset for queue, one in bounds.items()}

    def latest(self, start: StreamOffset, limit: Limit) -> StreamOffset | None:
        """Return the end of the next micro-batch, None when there is no news.

        Raises `RocketMQDataLossError` for queues that are gone too long or went backwards, and
        `MQClientException` for those that a broker has refused for too long.
        """
        self._refresh()
        if self._is_idle(start):
            return None
        self._wait_for_missing(start)
        self._ask_for_missing(start)
        backlog = backlog_of(start, self._watch.bounds, self._targets)
        for queue, (offset, one) in backlog.went_back.items():
            self._tell_went_back(queue, offset, one)
        taken = self._admitted(backlog.sizes, limit)
        if not any(taken.values()) and not start.is_initial and not backlog.reset:
            bounds = self._watch.bounds
            if not any(backlog.sizes.values()) and start.topics.keys() <= bounds.keys():
                self._idle = start, bounds
            return None
        return backlog.after(taken)

    def _is_idle(self, start: StreamOffset) -> bool:
        """Whether there was nothing to read last time, nothing is missing, and nothing changed.

        Spark asks a hundred times a second, which is too often to look at thousands of queues.
        """
        if self._idle is None:
            return False
        last, bounds = self._idle
        return start is last and bounds is self._watch.bounds

    def ends(self) -> StreamOffset | None:
        """Return the ends of all queues as last seen, None before the first look.

        Those of queues that are away are kept, so that nobody takes a lost broker for work done;
        those that the stream goes on without are left out.
        """
        seen = self._watch.last_seen
        if not seen:
            return None
        told = self._told_missing
        return StreamOffset({q: one.max_offset for q, one in seen.items() if q not in told})

    def push_group(self, done: StreamOffset) -> None:
        """Tell the brokers how far the group is; a failure is logged and tried again later.

        Only queues that are there are told of, so ask for `latest` before.
        """
        if self._group is None or done.is_initial:
            return
        self._done = done.topics
        self._group.tell(self._done, self._watch.bounds)

    def finish(self) -> None:
        """Tell what the brokers do not know of the group yet, as far as they answer soon."""
        if self._group is not None:
            self._group.finish(self._done, self._watch.bounds)

    # --- missing queues --------------------------------------------------------------------------

    def _ask_for_missing(self, start: StreamOffset) -> None:
        """Ask once more for each queue whose grace is over; raise, or log once, what stays away.

        The back-off of the watch may outlast the grace, so its last answer may be old.
        """
        away = {q: start.topics[q] for q in start.topics.keys() - self._watch.bounds.keys()}
        for queue, offset in in_order(away):
            if queue in self._watch.bounds or not self._is_missed(queue, offset):
                continue
            since = self._missing_since.setdefault(queue, self._watch.asked_at or monotonic())
            over = since + self._options.missing_queue_grace_ms / 1000
            if monotonic() < over:
                continue
            self._watch.ask_once_more(queue, over)
            self._forget_found()
            if queue not in self._watch.bounds:
                self._tell_missing(queue, offset)

    def _is_missed(self, queue: MessageQueue, offset: int) -> bool:
        """Whether the stream should have more of a queue that is away."""
        if self._targets is not None and offset >= self._targets.get(queue, offset + 1):
            return False
        if self._refusal(queue) is not None:
            return True
        return not self._is_read(queue, offset) and queue not in self._told_missing

    def _is_read(self, queue: MessageQueue, offset: int) -> bool:
        """Whether a queue that is away was read to its end, so that nothing is lost."""
        seen = self._watch.last_seen.get(queue)
        return seen is not None and offset >= seen.max_offset

    def _tell_missing(self, queue: MessageQueue, offset: int) -> None:
        grace = f"for {self._options.missing_queue_grace_ms} ms (missingQueueGraceMs)"
        refusal = self._refusal(queue)
        if refusal is not None:
            raise MQClientException(
                f"broker {queue.broker_name} has refused {grace} to tell the bounds of topic "
                f"{queue.topic}; the stream stands at {offset} of queue {queue.queue_id}; the last "
                f"answer was: {refusal}; check the credentials and what they permit, then start "
                "the query again",
                response_code=refusal.response_code,
                topic=queue.topic,
            )
        if self._is_read(queue, offset):
            return
        last = self._watch.last_failure(queue)
        text = f"{_place(queue)} has been missing {grace}; the stream stands at {offset}" + (
            "" if last is None else f"; the last failure was: {last[0]}"
        )
        if self._options.fail_on_data_loss:
            raise RocketMQDataLossError(f"{text}; {GO_ON}", topic=queue.topic)
        self._told_missing.add(queue)  # asked up to a hundred times a second
        _log.warning("%s; going on without it", text)

    def _tell_went_back(self, queue: MessageQueue, offset: int, one: QueueBounds) -> None:
        text = (
            f"data loss in {_place(queue)}: the stream stands at {offset}, available are "
            f"{one.min_offset} to {one.max_offset}: was the topic created anew?"
        )
        if self._options.fail_on_data_loss:
            raise RocketMQDataLossError(f"{text} {GO_ON}", topic=queue.topic)
        _log.warning("%s the stream goes on at %d", text, one.min_offset)

    def _refusal(self, queue: MessageQueue) -> MQBrokerException | None:
        """Return the broker's last answer if it will stay, such as that of a key without rights.

        A topic that the broker does not know is no refusal: it is gone.
        """
        error, _ = self._watch.last_failure(queue) or (None, 0.0)
        if isinstance(error, TopicNotExistError) or not isinstance(error, MQBrokerException):
            return None
        return None if is_transient(error) else error

    def _refresh(self) -> None:
        if self._watch.refresh():
            self._mean_size = None
        self._forget_found()

    def _forget_found(self) -> None:
        """Forget that queues were missing which are there again."""
        found = self._watch.bounds.keys()
        for queue in self._missing_since.keys() & found:
            del self._missing_since[queue]
        if self._told_missing:
            self._told_missing -= found

    def _wait_for_missing(self, start: StreamOffset) -> None:
        """In a run that ends, wait for queues that are away, until the grace is over."""
        if self._targets is None:
            return
        while True:
            away = [
                queue
                for queue, target in self._targets.items()
                if queue not in self._watch.bounds and start.topics.get(queue, 0) < target
            ]
            now = monotonic()
            since = [self._missing_since.setdefault(queue, now) for queue in away]
            if not any((now - one) * 1000 < self._options.missing_queue_grace_ms for one in since):
                return
            threading.Event().wait(self._options.offset_poll_interval_ms / 1000)
            self._refresh()

    # --- limits ----------------------------------------------------------------------------------

    def _admitted(self, backlog: dict[MessageQueue, int], limit: Limit) -> dict[MessageQueue, int]:
        total = sum(backlog.values())
        if limit.wants_more(total) and self._targets is None:
            waited_ms = (monotonic() - self._fired_at) * 1000
            if waited_ms < self._options.max_trigger_delay_ms:
                return dict.fromkeys(backlog, 0)
        if total:
            self._fired_at = monotonic()
        size = self._size_of_one(backlog) if limit.bytes_most is not None and total else 1.0
        return limit.admitted(backlog, size)

    def _size_of_one(self, backlog: dict[MessageQueue, int]) -> float:
        """Return the mean stored size of a message, from a sample of the fullest queue."""
        if self._mean_size is None:
            queue = max(backlog, key=lambda one: backlog[one])
            first = self._watch.bounds[queue].max_offset - backlog[queue]
            try:
                sample = self._access.pull(queue, first, SAMPLE_MESSAGES).result()
            except SERVER_ERRORS:
                return 1024.0
            if sample.found and sample.next_offset > first:
                self._mean_size = len(sample.records) / (sample.next_offset - first)
        return self._mean_size or 1024.0


def _place(queue: MessageQueue) -> str:
    return f"topic {queue.topic}, broker {queue.broker_name}, queue {queue.queue_id}"
