"""What of one task is under way to the brokers: how much at once, in which order, and until when.

Requests of one lane (a fixed queue) go one after the other, so that rows keep their order. What is
to be sent again rests first, while the others go on. Must not know why a request failed, nor what
rows are. Read on: ``sending.py`` judges the answers, ``queue_choice.py`` knows the queues.
"""

from collections import defaultdict, deque
from collections.abc import Iterator
from heapq import heappop, heappush
from itertools import count
from queue import Empty, SimpleQueue

from rocketmq_py import MessageQueue, RocketMQError
from rocketmq_py.clock import monotonic
from rocketmq_py.raw import QueueAccess, RunOutcome, SendRun
from spark_connector.options.write_options import WriteOptions
from spark_connector.writing.queue_choice import QueueChoice
from spark_connector.writing.requests import Request

BATCHES_IN_FLIGHT = 8
BATCHES_WAITING = 16

Answered = tuple[Request, RunOutcome]


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
        self._answered: SimpleQueue[Answered] = SimpleQueue()
        self._resting: list[tuple[float, int, Request]] = []  # by when they are sent again
        self._rests = count()
        self._in_flight = 0  # messages; those that rest count, too
        self._bytes_in_flight = 0
        self._bytes_behind = 0  # behind others of their lane

    def put(self, request: Request) -> Iterator[Answered]:
        """Send a request when there is room; give what is answered while it waits for that."""
        while self._is_full(request):
            yield self._next_answer()
        if request.lane is not None:
            lane = self._lanes[request.lane]
            lane.append(request)
            if len(lane) > 1:  # goes out when its forerunner is stored
                self._bytes_behind += request.size
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

    def go_on(self, request: Request) -> None:
        """Send the next request of the lane of one that is stored."""
        if request.lane is None:
            return
        lane = self._lanes[request.lane]
        lane.popleft()
        if lane:
            self._bytes_behind -= lane[0].size
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
        self._in_flight += by * len(request)
        self._bytes_in_flight += by * request.size

    def _is_full(self, request: Request) -> bool:
        """Whether to wait for an answer before sending this.

        Bytes count too: what a slow broker has not read yet would time out and be sent again.
        """
        if not self._in_flight:
            return False
        most = BATCHES_IN_FLIGHT * self._options.batch_bytes
        return (
            self._in_flight + len(request) > self._options.max_in_flight
            or self._bytes_in_flight + request.size > most
        )

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

        def told(outcome: RunOutcome) -> None:
            self._answered.put((request, outcome))

        queue = request.lane
        try:
            if queue is None:
                queue = self._queues.next_queue(request.topic, request.queue)
        except RocketMQError as error:
            nowhere = MessageQueue(request.topic, "", -1)
            told(RunOutcome.failed(nowhere, len(request), error))
            return
        request.queue = queue
        run = SendRun(
            queue,
            request.bodies,
            request.properties,
            request.flag,
            request.sys_flag,
            request.batch,
            self._options.delay_policy,
            is_judged=self._options.delay_policy == "strict",  # the encoder has refused the rest
        )
        self._access.send_run(run, told, timeout_ms=self._options.send_timeout_ms)

    def _next_answer(self) -> Answered:
        """Wait for an answer, which there must be; meanwhile send again what has rested."""
        while True:
            rest_s = None
            if self._resting:
                now = monotonic()
                while self._resting and self._resting[0][0] <= now:
                    self._launch(heappop(self._resting)[2])
                rest_s = max(0.0, self._resting[0][0] - now) if self._resting else None
            try:
                answered = self._answered.get(timeout=rest_s)
            except Empty:
                continue  # something has rested long enough
            self._count(answered[0], -1)
            return answered
