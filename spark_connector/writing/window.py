"""What of one task is under way to the brokers: how much at once, in which order, and until when.

Requests of one lane (a fixed queue) go one after the other, so that rows keep their order. Single
rows that may go to any queue leave in groups, many with one write. What is to be sent again rests
first, while the others go on. Must not know why a request failed, nor what rows are. Read on:
``sending.py`` judges the answers, ``queue_choice.py`` knows the queues.
"""

from collections import defaultdict, deque
from collections.abc import Iterator
from heapq import heappop, heappush
from itertools import count
from threading import Event

from rocketmq_py import MessageQueue, PreparedMessage, QueueAccess, RocketMQError, SendOutcome
from rocketmq_py.clock import monotonic
from spark_connector.options.write_options import WriteOptions
from spark_connector.writing.queue_choice import QueueChoice
from spark_connector.writing.requests import Request

BATCHES_IN_FLIGHT = 2
BATCHES_WAITING = 16

Answered = tuple[Request, SendOutcome]


class _Inbox:
    """Answers as they come, on any thread, for one that waits: it is woken once for many.

    To wake it for each costs more than all that is done with an answer.
    """

    def __init__(self) -> None:
        self._answers: deque[Answered] = deque()
        self._enough = Event()
        self._wanted = 0  # 0: nobody waits

    def put(self, answered: Answered) -> None:
        self._answers.append(answered)
        if 0 < self._wanted <= len(self._answers):
            self._wanted = 0
            self._enough.set()

    def get(self, wanted: int, timeout: float | None) -> Answered | None:
        """Return the first answer, at the latest when there are so many; None: none in time."""
        answers = self._answers
        if not answers:
            self._enough.clear()
            self._wanted = wanted
            if len(answers) < wanted:  # else whoever put the last one did not see who waits
                self._enough.wait(timeout)
            self._wanted = 0
        return answers.popleft() if answers else None


class Window:
    """Carries requests to the brokers and their answers back. One thread uses it.

    What `put` and `drain` give has left the window. To say what becomes of it, call `go_on` for
    what is stored and `rest` for what is sent again before taking the next one.
    """

    def __init__(self, access: QueueAccess, queues: QueueChoice, options: WriteOptions) -> None:
        self._access = access
        self._queues = queues
        self._options = options
        self._lanes: dict[MessageQueue, deque[Request]] = defaultdict(deque)
        self._answered = _Inbox()
        self._group: list[Request] = []
        self._resting: list[tuple[float, int, Request]] = []  # by when they are sent again
        self._rests = count()
        self._in_flight = 0  # those that rest count, too
        self._bytes_in_flight = 0
        self._bytes_behind = 0  # behind others of their lane

    def put(self, request: Request) -> Iterator[Answered]:
        """Send a request when there is room; give what is answered while it waits for that."""
        if self._is_full(len(request.body)):
            # What goes in groups waits until there is room for a group.
            most = self._options.max_in_flight // 2 if request.goes_in_groups else 1 << 31
            while self._is_full(len(request.body)) or self._in_flight > most:
                yield self._next_answer(max(1, self._in_flight - most))
        if request.lane is not None:
            lane = self._lanes[request.lane]
            lane.append(request)
            if len(lane) > 1:  # goes out when its forerunner is stored
                self._bytes_behind += len(request.body)
                while self._in_flight and self._is_crowded(lane):
                    yield self._next_answer()
                return
        self._start(request)

    def drain(self) -> Iterator[Answered]:
        """Give the answers until there is none to come.

        Every send ends within its time-out, and every rest is bounded: so is this.
        """
        while self._in_flight:
            yield self._next_answer()

    def flush(self) -> None:
        """Send the group that is being gathered, with one write for each topic and broker."""
        group, self._group = self._group, []
        by_topic: dict[str, list[Request]] = defaultdict(list)
        for request in group:
            by_topic[request.topic].append(request)
        for some in by_topic.values():
            self._send(some)

    def go_on(self, request: Request) -> None:
        """Send the next request of the lane of one that is stored."""
        if request.lane is None:
            return
        lane = self._lanes[request.lane]
        lane.popleft()
        if lane:
            self._bytes_behind -= len(lane[0].body)
            self._start(lane[0])

    def rest(self, request: Request, until: float) -> None:
        """Keep a request that has failed as one in flight, and send it again at a moment."""
        self._count(request, 1)
        heappush(self._resting, (until, next(self._rests), request))

    def forget_resting(self) -> None:
        """Send nothing again."""
        for _, _, request in self._resting:
            self._count(request, -1)
        self._resting.clear()

    # --- room ------------------------------------------------------------------------------------

    def _count(self, request: Request, by: int) -> None:
        self._in_flight += by
        self._bytes_in_flight += by * len(request.body)

    def _is_full(self, size: int) -> bool:
        """Whether to wait for an answer first.

        Bytes count too: what a slow broker has not read yet would time out and be sent again.
        """
        if self._in_flight >= self._options.max_in_flight:
            return True
        most = BATCHES_IN_FLIGHT * self._options.batch_bytes
        return self._in_flight > 0 and self._bytes_in_flight + size > most

    def _is_crowded(self, lane: deque[Request]) -> bool:
        """Whether too many requests, or too many bytes, wait for their forerunners."""
        most = BATCHES_WAITING * self._options.batch_bytes
        return len(lane) > self._options.max_in_flight or self._bytes_behind > most

    # --- to the brokers and back -----------------------------------------------------------------

    def _start(self, request: Request) -> None:
        self._count(request, 1)
        self._launch(request)

    def _launch(self, request: Request) -> None:
        request.sent_at = monotonic()
        if not request.attempt:
            request.first_at = request.sent_at
        if request.goes_in_groups:
            self._group.append(request)  # sent before anybody waits for an answer
        else:
            self._send([request])

    def _send(self, requests: list[Request]) -> None:
        """Send requests of one topic."""

        def told(number: int, outcome: SendOutcome) -> None:
            self._answered.put((requests[number], outcome))

        try:
            prepared = self._prepared(requests)
        except RocketMQError as error:
            for number in range(len(requests)):
                told(number, SendOutcome(None, error))
        else:
            self._access.send_many(prepared, told, timeout_ms=self._options.send_timeout_ms)

    def _prepared(self, requests: list[Request]) -> list[PreparedMessage]:
        """Give each of the queues in turn some neighbours, and a repeated request its own."""
        topic = requests[0].topic
        size = -(-len(requests) // len(self._queues.queues_of(topic)))
        queue: MessageQueue | None = None
        prepared = []
        for number, one in enumerate(requests):
            if one.lane is not None:
                queue = one.lane
            elif queue is None or number % size == 0 or one.attempt:
                queue = self._queues.next_queue(topic, one.queue)
            one.queue = queue
            body = bytes(one.body)
            prepared.append(
                PreparedMessage(queue, body, one.properties, one.flag, one.sys_flag, one.batch)
            )
        return prepared

    def _next_answer(self, wanted: int = 1) -> Answered:
        """Wait for an answer, which there must be; meanwhile send again what has rested.

        ``wanted``: so many must come anyway before anything else can be done. Those that rest
        are none of them.
        """
        while True:
            rest_s = None
            if self._resting:
                now = monotonic()
                while self._resting and self._resting[0][0] <= now:
                    self._launch(heappop(self._resting)[2])
                rest_s = max(0.0, self._resting[0][0] - now) if self._resting else None
            if self._group:
                self.flush()
            coming = max(1, min(wanted, self._in_flight - len(self._resting)))
            answered = self._answered.get(coming, rest_s)
            if answered is None:
                continue  # something has rested long enough
            self._count(answered[0], -1)
            return answered
