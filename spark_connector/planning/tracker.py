"""How far a stream may read now: the driver's side of a streaming read, without Spark.

Asks, waits, and tells users of queues that are missing or went back; what follows for the offsets
is calculated in ``backlog.py``. Must not know records, nor when brokers are asked. Read on:
``broker_watch.py`` for what brokers say, ``stream_offset.py`` for the offsets' form.
"""

import logging
import threading
from contextlib import suppress
from random import randrange

from attrs import evolve

from rocketmq_py import MessageQueue, QueueAccess, QueueBounds
from rocketmq_py.clock import monotonic, wall_ms
from spark_connector.errors import GO_ON, RocketMQDataLossError
from spark_connector.options.positions import Positions, in_order
from spark_connector.options.read_options import ReadOptions
from spark_connector.planning.backlog import Backlog, Limit, backlog_of
from spark_connector.planning.broker_watch import Watch
from spark_connector.planning.giving_up import for_the_grace, give_up, refused, shown
from spark_connector.planning.group_offsets import GroupProgress
from spark_connector.planning.message_sizes import MessageSizes
from spark_connector.planning.pace import Pace
from spark_connector.planning.required_queues import RequiredQueues
from spark_connector.planning.start_places import Bounds, chosen, is_subscribed, resolve
from spark_connector.planning.stream_offset import StreamOffset
from spark_connector.planning.time_places import first_at
from spark_connector.planning.whole_topics import look_once, whole_look
from spark_connector.servers.access import SERVER_ERRORS
from spark_connector.servers.asking import each_at_once

_log = logging.getLogger("spark_connector")

CLOCK_SLACK_MS = 60_000
"""How far the driver's clock may be ahead of the brokers', where no broker tells its time."""


class Tracker:
    """Answers what a streaming query asks about offsets. One thread uses it.

    `sizes` are those of the stream's messages, for whoever else wants to know.
    """

    def __init__(self, access: QueueAccess, options: ReadOptions) -> None:
        self.sizes = MessageSizes(access, options)
        self._access = access
        self._options = options
        self._watch = Watch(access, options)
        self._required = RequiredQueues(self._watch, options)
        self._group: GroupProgress | None = None
        if options.commit_offsets and options.group_id is not None:
            self._group = GroupProgress(access, options.group_id)
        self._done: Positions = {}
        self._missing_since: dict[MessageQueue, float] = {}
        self._told_missing: set[MessageQueue] = set()
        self._targets: dict[MessageQueue, int] | None = None
        self._initial: StreamOffset | None = None
        self._fired_at = monotonic()
        self._batches = 0
        self._served: dict[MessageQueue, int] = {}
        self._later: dict[MessageQueue, int] = {}
        self._is_whole = False
        self._has_told_away = False
        self._told_unsubscribed: set[str] = set()
        self._idle: tuple[StreamOffset, Bounds] | None = None
        self._known: tuple[StreamOffset, StreamOffset] | None = None
        self._pace: Pace | None = None
        if options.max_fetch_time_ms is not None:
            self._pace = Pace(options.max_fetch_time_ms / 1000)
        self._paced: StreamOffset | None = None

    # --- what Spark asks -------------------------------------------------------------------------

    def initial(self) -> StreamOffset:
        """Return where the stream begins: the same answer every time."""
        if self._initial is None:
            began = monotonic()
            bounds = self._whole({})
            if self._targets is not None:
                # "latest" of a run that ends is the end that it was given.
                bounds = {
                    queue: QueueBounds(one.min_offset, self._targets.get(queue, one.max_offset))
                    for queue, one in bounds.items()
                }
            options = self._options
            found = resolve(self._access, options, options.start, bounds, is_end=False)
            since_ms = self._since_ms(bounds, began)
            self._initial = StreamOffset(found, is_initial=True, since_ms=since_ms)
        return self._initial

    def freeze(self) -> None:
        """Fix the present ends as the targets of a run that ends when they are reached.

        Those of queues that are away are fixed when these are back.
        """
        look = look_once(self._access, self._options, is_patient=True)
        bounds = chosen(look.bounds, self._options, are_all_there=False)
        self._watch.take(bounds, look.queues)
        self._targets = {queue: one.max_offset for queue, one in bounds.items()}

    def latest(self, start: StreamOffset, limit: Limit) -> StreamOffset | None:
        """Return the end of the next micro-batch, None when there is no news.

        Raises `RocketMQDataLossError` for queues that are gone too long or went backwards, and
        `MQClientException` for those that a broker has refused for too long.
        """
        self._note_end(start)
        if self._targets is not None and not self._is_whole:
            self._whole(start.topics)
        self._refresh()
        if not self._is_idle(start):
            self._wait_for_missing(start)
            self._ask_for_missing(start)
        self._ask_for_required()
        if self._is_idle(start):
            return None
        bounds = self._bounds_after(start)
        backlog = backlog_of(self._familiar(start), bounds, self._targets)
        for queue, (offset, one) in backlog.went_back.items():
            self._tell_went_back(queue, offset, one)
        taken = self._admitted(backlog, limit)
        if not any(taken.values()) and not start.is_initial and not backlog.reset:
            seen = self._watch.bounds
            is_whole = start.topics.keys() <= seen.keys() and len(bounds) == len(seen)
            if is_whole and not any(backlog.sizes.values()):
                self._idle = start, seen
            return None
        end = backlog.after(taken)
        self._note_begin(end, sum(taken.values()))
        self._known = end, end
        return end

    def tell_away(self, start: StreamOffset) -> None:
        """Log, once in a run, which queues of ``start`` were away when `latest` was asked last."""
        if self._has_told_away:
            return
        self._has_told_away = True
        away = [
            _place(queue)
            for queue, _ in in_order(start.topics)
            if queue not in self._watch.bounds and is_subscribed(queue, self._options)
        ]
        if away:
            _log.warning(
                "queues are away: %s; the stream goes on without them until they are back",
                shown(away),
            )

    def _familiar(self, start: StreamOffset) -> StreamOffset:
        """Return an offset with the queues of the bounds: the same ones are found sooner.

        So what was read from a text costs once, not in each micro-batch from then on.
        """
        if self._known is None or self._known[0] is not start:
            names = {queue: queue for queue in self._watch.last_seen}
            topics = {names.get(queue, queue): offset for queue, offset in start.topics.items()}
            self._known = start, evolve(start, topics=topics)
        return self._known[1]

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

    # --- where queues begin ----------------------------------------------------------------------

    def _whole(self, known: Positions) -> Bounds:
        """Wait until all queues are there; of a run that ends, give each its target."""
        wanted = [queue for queue in known if is_subscribed(queue, self._options)]
        look = whole_look(self._access, self._options, wanted)
        bounds = look.bounds
        self._watch.take(bounds, look.queues)
        self._required.note_told(look.lacking(self._options))
        if self._targets is not None:
            for queue, one in bounds.items():
                self._targets.setdefault(queue, one.max_offset)
        self._told_missing.update(queue for queue in wanted if queue not in bounds)
        self._is_whole = True
        return bounds

    def _since_ms(self, bounds: Bounds, began: float) -> int | None:
        """Return the time from which on queues that are found later are read, None: all of them.

        A broker that was away at the start must not bring back what it had. By the clock of a
        broker, because the store times that it is compared with are theirs.
        """
        start = self._options.start
        if start.kind == "timestamp":
            return start.timestamp_ms
        if start.kind == "earliest" or start.otherwise != "latest":
            return None
        now_ms = wall_ms() - CLOCK_SLACK_MS
        for topic, broker in sorted({(queue.topic, queue.broker_name) for queue in bounds}):
            with suppress(*SERVER_ERRORS, ValueError):
                now_ms = self._access.broker_time_ms(topic, broker)
                break
        return now_ms - round((monotonic() - began) * 1000)

    def _bounds_after(self, start: StreamOffset) -> Bounds:
        """Return the bounds of all queues; those found later begin where the stream began."""
        bounds = self._watch.bounds
        if start.since_ms is None:
            return bounds
        later = {queue: bounds[queue] for queue in set(bounds).difference(start.topics)}
        if not later:
            return bounds
        self._find_begins(later, start.since_ms)
        bounds = dict(bounds)
        for queue, one in later.items():
            begin = self._later.get(queue)
            if begin is None:
                del bounds[queue]
            else:
                begin = min(max(begin, one.min_offset), one.max_offset)
                bounds[queue] = QueueBounds(begin, one.max_offset)
        return bounds

    def _find_begins(self, later: Bounds, since_ms: int) -> None:
        """Ask where queues that were found later begin; one that nobody tells is asked again."""
        moments: dict[str, dict[MessageQueue, int]] = {}
        for queue in later.keys() - self._later.keys():
            moments.setdefault(queue.broker_name, {})[queue] = since_ms

        def ask(broker: str) -> dict[MessageQueue, int]:
            try:
                return first_at(self._access, self._options, later, moments[broker])
            except SERVER_ERRORS:
                return {}

        for begins in each_at_once(moments, ask).values():
            self._later |= begins

    # --- missing queues --------------------------------------------------------------------------

    def _ask_for_missing(self, start: StreamOffset) -> None:
        """Ask once more for each queue whose grace is over; raise, or log once, what stays away.

        The back-off of the watch may outlast the grace, so its last answer may be old.
        """
        away = {q: start.topics[q] for q in set(start.topics).difference(self._watch.bounds)}
        for queue, offset in in_order(away):
            if queue in self._watch.bounds or not self._is_missed(queue, offset):
                continue
            since = self._missing_since.setdefault(queue, self._watch.asked_at or monotonic())
            over = since + self._options.missing_queue_grace_ms / 1000
            if monotonic() < over:
                continue
            self._watch.ask_once_more(queue.topic, queue.broker_name, over)
            self._forget_found()
            if queue not in self._watch.bounds:
                self._tell_missing(queue, offset)

    def _ask_for_required(self) -> None:
        """Look at what the options require; a run that ends has waited for it when it began."""
        if self._targets is None:
            self._required.check()
            self._forget_found()

    def _is_missed(self, queue: MessageQueue, offset: int) -> bool:
        """Whether the stream should have more of a queue that is away."""
        if not is_subscribed(queue, self._options):
            self._tell_unsubscribed(queue.topic)
            return False
        if self._targets is not None and offset >= self._targets.get(queue, offset + 1):
            return False
        if self._watch.refusal(queue.topic, queue.broker_name) is not None:
            return True
        return not self._is_read(queue, offset) and queue not in self._told_missing

    def _is_read(self, queue: MessageQueue, offset: int) -> bool:
        """Whether a queue that is away was read to its end, so that nothing is lost."""
        seen = self._watch.last_seen.get(queue)
        return seen is not None and offset >= seen.max_offset

    def _tell_unsubscribed(self, topic: str) -> None:
        if topic not in self._told_unsubscribed:
            self._told_unsubscribed.add(topic)
            _log.warning(
                "the checkpoint has queues of topic %s that are not subscribed to any more: they "
                "are read no further, and from where they stand if they are subscribed to again",
                topic,
            )

    def _tell_missing(self, queue: MessageQueue, offset: int) -> None:
        topic, broker = queue.topic, queue.broker_name
        refusal = self._watch.refusal(topic, broker)
        if refusal is not None:
            where = f"the stream stands at {offset} of queue {queue.queue_id}"
            raise refused(self._options, topic, broker, where, refusal)
        if self._is_read(queue, offset):
            return
        last = self._watch.last_failure(topic, broker)
        grace = for_the_grace(self._options)
        text = f"{_place(queue)} has been missing {grace}; the stream stands at {offset}" + (
            "" if last is None else f"; the last failure was: {last[0]}"
        )
        give_up(self._options, text, topic=topic, without="it")
        self._told_missing.add(queue)  # asked up to a hundred times a second

    def _tell_went_back(self, queue: MessageQueue, offset: int, one: QueueBounds) -> None:
        text = (
            f"data loss in {_place(queue)}: the stream stands at {offset}, available are "
            f"{one.min_offset} to {one.max_offset}: was the topic created anew?"
        )
        if self._options.fail_on_data_loss:
            raise RocketMQDataLossError(f"{text} {GO_ON}", topic=queue.topic)
        _log.warning("%s the stream goes on at %d", text, one.min_offset)

    def _refresh(self) -> None:
        self._watch.refresh()
        self._forget_found()

    def _forget_found(self) -> None:
        """Forget that queues were missing which are there again."""
        found = self._watch.bounds.keys()
        for queue in self._missing_since.keys() & found:
            del self._missing_since[queue]
        self._told_missing = {queue for queue in self._told_missing if queue not in found}

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

    def _admitted(self, backlog: Backlog, limit: Limit) -> dict[MessageQueue, int]:
        total = sum(backlog.sizes.values())
        if limit.wants_more(total) and self._targets is None:
            waited_ms = (monotonic() - self._fired_at) * 1000
            if waited_ms < self._options.max_trigger_delay_ms:
                return dict.fromkeys(backlog.sizes, 0)
        if not total:
            return backlog.sizes
        self._fired_at = monotonic()
        if limit.is_timed and self._pace is not None:
            most = self._pace.offsets_most
            limit = evolve(limit, offsets_most=min(most, limit.offsets_most or most))
        sizes = None
        if limit.bytes_most is not None:
            sizes = self.sizes.of_queues({queue: backlog.begins[queue] for queue in backlog.sizes})
        taken = limit.admitted(backlog.sizes, sizes, self._turn_of)
        self._batches += 1
        self._served |= {queue: self._batches for queue, count in taken.items() if count}
        return taken

    def _note_begin(self, end: StreamOffset, offsets: int) -> None:
        if self._pace is not None and offsets:
            self._pace.begin(offsets)
            self._paced = end

    def _note_end(self, start: StreamOffset) -> None:
        """Note that a batch is over: Spark asks for what follows its end."""
        if self._pace is not None and self._paced is not None:
            if start.topics == self._paced.topics:
                self._pace.end()
            self._paced = None

    def _turn_of(self, queue: MessageQueue) -> int:
        """Return the number of the batch that served a queue last.

        Those that none has served come first, in no order that every restart repeats.
        """
        return self._served.setdefault(queue, -randrange(1 << 30))


def _place(queue: MessageQueue) -> str:
    return f"topic {queue.topic}, broker {queue.broker_name}, queue {queue.queue_id}"
