"""How the rows of one task reach the brokers: spread, in batches, many in flight, none forgotten.

Rows without a fixed queue go to all queues in turn, as batches of one queue; delayed and compressed
rows go alone, because a broker ignores delays inside a batch. Rows with a fixed queue or a sharding
key keep their order: one request at a time per queue. What fails for now is sent again after a
pause, while the others go on. `Sender.finish` returns only when every request is answered. Must not
know Spark. Read on: ``queue_choice.py`` for queues, ``send_errors.py`` for what is tried again,
``invalid_rows.py`` for invalid rows.
"""

from __future__ import annotations

import logging
from collections import defaultdict, deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import suppress
from heapq import heappop, heappush
from itertools import count
from queue import Empty, SimpleQueue
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from attrs import define, field

from rocketmq_py import (
    MessageIds,
    MessageQueue,
    NoRouteError,
    PreparedMessage,
    QueueAccess,
    RawMessages,
    RawSend,
    RemotingException,
    RocketMQError,
    SendOutcome,
)
from rocketmq_py.clock import monotonic, wall_ms
from spark_connector.errors import InvalidRowError, WeaklyStoredError
from spark_connector.options.write_options import WriteOptions
from spark_connector.servers.access import is_transient
from spark_connector.servers.task_log import Progress
from spark_connector.writing.encoding import Encoded, Encoder, batch_bodies
from spark_connector.writing.invalid_rows import redirected
from spark_connector.writing.queue_choice import Spread
from spark_connector.writing.row_answers import Answers
from spark_connector.writing.send_errors import (
    Patience,
    explained,
    given_up,
    is_permanent,
    plain,
    weakness_of,
)

try:
    import numpy as np
except ImportError:  # `Encoder` says what is missing
    np = None

__all__ = ["Report", "Sender"]

_log = logging.getLogger("spark_connector")

RETRY_PREFIX = "%RETRY%"
SHOWN_PROBLEMS = 3
BATCHES_IN_FLIGHT = 2
BATCHES_WAITING = 16


@define
class Report:
    """What one task did: rows stored and left out, and the error that repeating cannot help."""

    stored: int = 0
    skipped: int = 0
    redirected: int = 0
    failure: RocketMQError | None = None


@define
class _Request:
    """One send of some rows of a batch: to any queue, or to the one that ``lane`` names."""

    topic: str
    body: bytes | memoryview
    rows: Sequence[int]
    lane: MessageQueue | None = None
    properties: str = ""
    flag: int = 0
    sys_flag: int = 0
    batch: bool = False
    attempt: int = 0
    first_at: float | None = None
    sent_at: float = 0.0
    queue: MessageQueue | None = None
    redirected: bool = False
    future: Future[RawSend] | SendOutcome | None = field(default=None, repr=False)


class Sender:
    """Sends the Arrow batches of one task. One thread uses it, once.

    ``fixed_queues``: the queues of topics that sharding keys are spread over, the same for every
    task of the write. ``planned``: the name server answered when the write was planned, and knew
    the option ``topic``, if given. ``dedupe``: beginning of generated DEDUPE_ID values, None for
    none. ``answers`` is told about every row; its user settles each batch before the next one.
    """

    def __init__(
        self,
        access: QueueAccess,
        options: WriteOptions,
        meanings: dict[str, str],
        *,
        fixed_queues: dict[str, tuple[MessageQueue, ...]] | None = None,
        planned: bool = False,
        dedupe: str | None = None,
        answers: Answers | None = None,
    ) -> None:
        self._answers = answers
        self._access = access
        self._options = options
        self._ids = MessageIds()
        self._meanings = meanings
        self._encoder = Encoder(options, meanings, self._ids)
        self._patience = Patience.of(options)
        expected = options.topic if planned else None
        self._spread = Spread(access, self._patience, fixed_queues or {}, planned, expected)
        self._dedupe = dedupe
        self._lanes: dict[MessageQueue, deque[_Request]] = defaultdict(deque)
        self._answered: SimpleQueue[_Request] = SimpleQueue()
        self._waiting: list[_Request] = []
        self._resting: list[tuple[float, int, _Request]] = []  # in flight, until their next try
        self._rests = count()
        self._in_flight = 0
        self._bytes_in_flight = 0
        self._bytes_behind = 0  # behind others of their lane
        self._rows_seen = 0
        self._transient: Exception | None = None
        self._is_told = False
        self._progress = Progress("writing", "rows not answered yet", options.progress_interval_ms)
        self.report = Report()

    # --- a batch ---------------------------------------------------------------------------------

    def send(self, batch: pa.RecordBatch) -> bool:
        """Check all rows of a batch, then send them; False when the task should stop.

        Raises the error of a server that did not take a message, tries included. Of rows that
        fail for now some may still rest when this returns.
        """
        if self.report.failure is not None:
            return False
        encoded = self._encoder.encode(
            batch, wall_ms(), dedupe=self._dedupe, first_row=self._rows_seen
        )
        self._rows_seen += batch.num_rows
        if self._answers is not None:
            self._answers.begin(encoded)
        topics = [one for one in pc.unique(encoded.topics).to_pylist() if one is not None]
        try:
            for topic in topics:
                if RawMessages.topic_problem(topic) is None:
                    self._spread.queues_of(topic)
            lanes = self._spread.lanes_of(encoded)
            if encoded.problems and self._options.on_invalid_row == "topic":
                self._spread.queues_of(self._options.invalid_row_topic or "")
        except NoRouteError as error:
            self.report.failure = plain(error)
            self._drain()
            return False
        if encoded.problems and not self._handle_problems(batch, encoded):
            self._drain()
            return self._settled()
        good = np.ones(len(encoded), bool)
        good[list(encoded.problems)] = False
        for topic in topics:
            mine = pc.fill_null(pc.equal(encoded.topics, topic), fill_value=False)
            mine = mine.to_numpy(zero_copy_only=False)
            rows = np.flatnonzero(mine & good)
            for lane, some in _by_lane(rows, lanes):
                for request in self._requests(encoded, topic, some, lane):
                    self._submit(request)
                    if self._has_ended:
                        self._drain()
                        return self._settled()
        self._send_waiting()
        return True

    def finish(self) -> Report:
        """Wait until every request is answered; raise what kept one from being stored."""
        self.settle()
        return self.report

    def settle(self) -> bool:
        """Wait for all answers, as `finish` does; False when the task should stop."""
        self._drain()
        return self._settled()

    @property
    def _has_ended(self) -> bool:
        """Whether something failed that is not tried again: what is in flight is waited for."""
        return self._transient is not None or self.report.failure is not None

    def _settled(self) -> bool:
        if self._transient is not None:
            raise self._transient
        return self.report.failure is None

    # --- requests --------------------------------------------------------------------------------

    def _requests(
        self, encoded: Encoded, topic: str, rows: Any, lane: MessageQueue | None
    ) -> Iterator[_Request]:
        """Give the requests of some rows of one topic, in the order of the rows for a lane."""
        options = self._options
        alone = encoded.alone[rows].copy()
        if options.compression != "none":
            lengths = pc.binary_length(encoded.bodies.take(pa.array(rows)))
            alone |= lengths.to_numpy(zero_copy_only=False) > options.compress_over
        if not options.batch_send or topic.startswith(RETRY_PREFIX):
            alone[:] = True
        groups = _runs(rows, alone) if lane is not None else _halves(rows, alone)
        spread = 1 if lane is not None else len(self._spread.queues_of(topic))
        for some, is_alone in groups:
            if is_alone:
                yield from self._singles(encoded, topic, some, lane)
                continue
            for numbers, body in batch_bodies(encoded, some, options.batch_bytes, spread):
                yield _Request(topic, body, numbers, lane, batch=True)

    def _singles(
        self, encoded: Encoded, topic: str, rows: Any, lane: MessageQueue | None
    ) -> Iterator[_Request]:
        """Give a request for each row."""
        options = self._options
        taken = pa.array(rows)
        bodies = encoded.bodies.take(taken).to_pylist()
        texts = encoded.properties.take(taken).cast(pa.string()).to_pylist()
        flags = encoded.flags[rows].tolist()
        for row, body, text, flag in zip(rows.tolist(), bodies, texts, flags, strict=True):
            sys_flag = 0
            if options.compression != "none" and len(body) > options.compress_over:
                body, sys_flag = RawMessages.compressed(body, options.compression)  # noqa: PLW2901
            yield _Request(topic, body, (row,), lane, text, flag, sys_flag)

    def _submit(self, request: _Request) -> None:
        if self._is_full(len(request.body)):
            # What goes alone leaves in groups: so many answers are taken that there is one again.
            most = self._options.max_in_flight // 2 if _goes_in_groups(request) else 1 << 31
            while self._is_full(len(request.body)) or self._in_flight > most:
                self._take_answer()
                if self._has_ended:
                    return
        if request.lane is not None:
            lane = self._lanes[request.lane]
            lane.append(request)
            if len(lane) > 1:
                self._bytes_behind += len(request.body)
                self._wait_behind(lane)
                return  # goes out when its forerunner is stored
        self._start(request)

    def _wait_behind(self, lane: deque[_Request]) -> None:
        """Take answers while too many requests, or too many bytes, wait for their forerunners."""
        most = BATCHES_WAITING * self._options.batch_bytes
        while (self._in_flight and not self._has_ended) and (
            len(lane) > self._options.max_in_flight or self._bytes_behind > most
        ):
            self._take_answer()

    def _is_full(self, size: int) -> bool:
        """Whether to wait for an answer first.

        Bytes count too: what a slow broker has not read yet would time out and be sent again.
        """
        if self._in_flight >= self._options.max_in_flight:
            return True
        most = BATCHES_IN_FLIGHT * self._options.batch_bytes
        return self._in_flight > 0 and self._bytes_in_flight + size > most

    def _start(self, request: _Request) -> None:
        self._in_flight += 1
        self._bytes_in_flight += len(request.body)
        self._launch(request)

    def _launch(self, request: _Request) -> None:
        request.sent_at = monotonic()
        if request.first_at is None:
            request.first_at = request.sent_at
        if _goes_in_groups(request):
            self._waiting.append(request)  # sent before anybody waits for an answer
            return
        try:
            queue = request.lane or self._spread.next_queue(request.topic, request.queue)
            request.queue = queue
            request.future = self._access.send(
                queue,
                bytes(request.body),
                properties=request.properties,
                flag=request.flag,
                sys_flag=request.sys_flag,
                batch=request.batch,
                timeout_ms=self._options.send_timeout_ms,
            )
        except RocketMQError as error:
            request.future = SendOutcome(None, error)
            self._answered.put(request)
        else:
            request.future.add_done_callback(lambda _done: self._answered.put(request))

    def _send_waiting(self) -> None:
        """Send what goes alone, many with one write, a part of each topic's to each queue."""
        waiting, self._waiting = self._waiting, []
        by_topic: dict[str, list[_Request]] = defaultdict(list)
        for request in waiting:
            by_topic[request.topic].append(request)
        for topic, some in by_topic.items():
            told = _answering(some, self._answered)
            try:
                prepared = self._prepared(topic, some)
            except RocketMQError as error:
                for number in range(len(some)):
                    told(number, SendOutcome(None, error))
            else:
                self._access.send_many(prepared, told, timeout_ms=self._options.send_timeout_ms)

    def _prepared(self, topic: str, requests: list[_Request]) -> list[PreparedMessage]:
        """Give each of the queues in turn some neighbours, and a repeated request its own."""
        size = -(-len(requests) // len(self._spread.queues_of(topic)))
        queue: MessageQueue | None = None
        prepared = []
        for number, request in enumerate(requests):
            if queue is None or number % size == 0 or request.attempt:
                queue = self._spread.next_queue(topic, request.queue)
            request.queue = queue
            body = bytes(request.body)
            prepared.append(
                PreparedMessage(queue, body, request.properties, request.flag, request.sys_flag)
            )
        return prepared

    def _take_answer(self) -> None:
        """Take one answer, which there must be: go on with its lane, let it rest, or note why not.

        Every future ends within its time-out, and every rest is bounded: so is this.
        """
        request = self._next_answer()
        self._in_flight -= 1
        self._bytes_in_flight -= len(request.body)
        error = _failure_of(request, accept_stored=self._options.accept_status == "stored")
        if error is None:
            self.report.stored += len(request.rows)
            self.report.redirected += len(request.rows) if request.redirected else 0
            if self._answers is not None and request.future is not None:
                stored = request.future.result()
                self._answers.stored(request.rows, stored, redirected=request.redirected)
            left = self._rows_seen - self.report.skipped - self.report.stored
            self._progress.add(len(request.rows), left)
            self._next_in_lane(request)
        elif is_permanent(error):
            if isinstance(error, WeaklyStoredError):
                self.report.stored += len(request.rows)
            why = explained(error, request.topic, len(request.rows), request.properties)
            self.report.failure = self.report.failure or plain(why)
            self._drop_resting()
        elif not self._has_ended:
            self._try_again(request, error)

    def _next_answer(self) -> _Request:
        """Wait for an answer; meanwhile send again what has rested long enough."""
        while True:
            now = monotonic()
            while self._resting and self._resting[0][0] <= now:
                self._launch(heappop(self._resting)[2])
            if self._waiting:
                self._send_waiting()
            rest_s = max(0.0, self._resting[0][0] - now) if self._resting else None
            with suppress(Empty):
                return self._answered.get(timeout=rest_s)

    def _try_again(self, request: _Request, error: Exception) -> None:
        """Let a request rest, still as one in flight; without patience left the task has failed.

        What one broker did not take goes to another one without a rest, ``sendRetries`` times.
        """
        now = monotonic()
        first_at = now if request.first_at is None else request.first_at
        request.attempt += 1
        again = self._patience.next_try(
            request.attempt, first_at, request.sent_at, now, lasting=is_transient(error)
        )
        if again is None:
            what = f"topic {request.topic}, queue {request.queue}"
            self._transient = given_up(what, request.topic, request.attempt, now - first_at, error)
            self._drop_resting()
            return
        if request.attempt == self._options.send_retries + 1 and not self._is_told:
            self._is_told = True
            _log.warning("topic %s: not stored yet, trying again: %s", request.topic, error)
        if isinstance(error, RemotingException):
            self._spread.look_again(request.topic)  # the broker may have moved
            is_free = request.lane is None and self._spread.has_several_brokers(request.topic)
            if is_free and request.attempt <= self._options.send_retries:
                again = now
        self._in_flight += 1
        self._bytes_in_flight += len(request.body)
        heappush(self._resting, (again, next(self._rests), request))

    def _drop_resting(self) -> None:
        """Forget what would be sent again: the task has failed."""
        for _, _, request in self._resting:
            self._in_flight -= 1
            self._bytes_in_flight -= len(request.body)
        self._resting.clear()

    def _next_in_lane(self, request: _Request) -> None:
        if request.lane is None:
            return
        lane = self._lanes[request.lane]
        lane.popleft()
        if lane and not self._has_ended:
            self._bytes_behind -= len(lane[0].body)
            self._start(lane[0])

    def _drain(self) -> None:
        if self._has_ended:
            self._drop_resting()
        while self._in_flight:
            self._take_answer()

    # --- invalid rows ----------------------------------------------------------------------------

    def _handle_problems(self, batch: pa.RecordBatch, encoded: Encoded) -> bool:
        """Do with invalid rows what ``onInvalidRow`` says; False: stop, no good row is sent."""
        problems = encoded.problems
        rows = sorted(problems)
        if self._options.on_invalid_row == "fail":
            shown = "; ".join(f"row {row}: {problems[row]}" for row in rows[:SHOWN_PROBLEMS])
            self.report.failure = InvalidRowError(
                f"{len(rows)} of {len(encoded)} rows cannot be messages ({shown}); none of this "
                "Arrow batch was sent; onInvalidRow=skip leaves such rows out",
                row=rows[0],
            )
            return False
        if self._options.on_invalid_row == "skip":
            self.report.skipped += len(rows)
            shown = problems[rows[0]]
            _log.warning("%d invalid rows skipped, the first one: %s", len(rows), shown)
            return True
        topic = self._options.invalid_row_topic or ""
        for row, body, properties in redirected(batch, self._meanings, encoded, self._ids):
            self._submit(_Request(topic, body, (row,), properties=properties, redirected=True))
            if self._has_ended:
                return False
        return True


def _goes_in_groups(request: _Request) -> bool:
    return request.lane is None and not request.batch


def _answering(
    requests: list[_Request], answered: SimpleQueue[_Request]
) -> Callable[[int, SendOutcome], None]:
    """Give what hands requests back, each with its outcome."""

    def told(number: int, outcome: SendOutcome) -> None:
        request = requests[number]
        request.future = outcome
        answered.put(request)

    return told


def _failure_of(request: _Request, *, accept_stored: bool) -> Exception | None:
    if request.future is None:
        return None
    error = request.future.exception()
    if error is not None:
        return error if isinstance(error, Exception) else RuntimeError(str(error))
    return None if accept_stored else weakness_of(request.future.result())


def _by_lane(
    rows: Any, lanes: dict[int, MessageQueue]
) -> Iterator[tuple[MessageQueue | None, Any]]:
    """Give the rows without a fixed queue, then those of each fixed queue, in their order."""
    if not lanes:
        if len(rows):
            yield None, rows
        return
    grouped: dict[MessageQueue | None, list[int]] = defaultdict(list)
    for row in rows.tolist():
        grouped[lanes.get(row)].append(row)
    for lane, some in grouped.items():
        yield lane, np.array(some, np.int64)


def _halves(rows: Any, alone: Any) -> Iterator[tuple[Any, bool]]:
    for is_alone in (False, True):
        some = rows[alone == is_alone]
        if len(some):
            yield some, is_alone


def _runs(rows: Any, alone: Any) -> Iterator[tuple[Any, bool]]:
    """Cut rows where they change between alone and not, so that order is kept."""
    edges = np.flatnonzero(np.diff(alone.astype(np.int8))) + 1
    for some, kinds in zip(np.split(rows, edges), np.split(alone, edges), strict=True):
        if len(some):
            yield some, bool(kinds[0])
