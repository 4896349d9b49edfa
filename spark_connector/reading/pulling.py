"""How the bytes of a range of offsets are fetched, in order, and what counts as a loss.

Several pulls are in flight: the first one goes alone and shows how many messages the broker gives
at once, the next ones ask for that many each, and what a pull leaves of its part is asked for
again. Later pulls correct how many that is. Must not know Arrow or Spark. Source of the answers'
meaning: ``PullAPIWrapper`` and ``PullMessageProcessor`` of the original.
"""

import logging
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeout
from contextlib import suppress
from functools import partial
from itertools import pairwise, zip_longest
from socket import gethostname
from typing import Any

from attrs import frozen

from rocketmq_py import MessageQueue, MQClientException, RemotingCommandException, RemotingException
from rocketmq_py.clock import monotonic
from rocketmq_py.raw import PulledRun, QueueAccess, RawPull
from spark_connector.errors import GO_ON, RocketMQDataLossError
from spark_connector.options.read_options import ReadOptions
from spark_connector.planning.queue_ranges import QueueRange
from spark_connector.servers.access import SERVER_ERRORS, is_transient

_log = logging.getLogger("spark_connector")

TRY_AGAIN_S = 0.1
MASTER = 0
SMALL_PULLS = 32
"""Of pulls that bring few messages at most so many times ``prefetch`` are in flight,"""
STEADY_AFTER = 16
"""once so many in turn brought as many: before that, most of them would be too small or large."""
WIDEN_AFTER = 4
"""After so many parts one is twice as wide, to see whether pulls bring more than is asked for;"""
WIDEN_AFTER_MOST = 256
"""each time that they do not, after twice as many, up to so many."""
FRAME_BYTES = 16 << 20
"""A longer answer ends the connection, as it does in the original's client;"""
GOOD_FRAME_BYTES = FRAME_BYTES * 3 // 4
"""so after one as many messages are asked for as had so many bytes."""
NOTHING_HERE = 20
"""The answer's code when the broker went through its queue and had no message to give."""


@frozen
class Piece:
    """Stored records back to back, the offsets they cover, and the queue's end at that time.

    The records stand as pulls brought them: to copy them once is enough, where they are decoded.
    """

    pulled: list[bytes]
    start: int
    next_offset: int
    max_offset: int

    @property
    def size(self) -> int:
        """How many bytes the records have."""
        return sum(map(len, self.pulled))

    @property
    def records(self) -> bytes:
        """The records in one piece."""
        return b"".join(self.pulled)


def is_dense(options: ReadOptions) -> bool:
    """Whether every offset must bring a message, because no filter leaves any out."""
    return options.expression_type == "TAG" and options.expression == "*"


class Losses:
    """The offsets of one range that are gone: an error at once, or one warning at the end."""

    def __init__(self, options: ReadOptions, wanted: QueueRange) -> None:
        self._options = options
        self._range = wanted
        self._first = wanted.until
        self._past = wanted.start
        self._count = 0
        self._available = ""

    def add(self, start: int, past: int, available: str) -> None:
        """Take offsets that were not taken before; raises `RocketMQDataLossError` when told to."""
        if self._options.fail_on_data_loss:
            lost(self._options, self._range, start, past, available)
        self._first, self._past = min(self._first, start), max(self._past, past)
        self._count += past - start
        self._available = available

    def tell(self) -> None:
        """Log all of them together, if there are any."""
        if self._count:
            one, first, past = self._range, self._first, self._past
            lost(self._options, one, first, past, self._available, count=self._count)


@frozen
class _Asked:
    """A pull in flight: for how many messages, and to which broker, which says what it means."""

    answer: Future[RawPull]
    broker_id: int
    count: int


@frozen
class _Together:
    """Pulls that left together, each for the part between two edges and for so many messages."""

    edges: list[int]
    answers: Future[PulledRun]
    broker_id: int
    count: int


class PullLimit:
    """How many messages one pull may ask a broker for: fewer while its answers are too long.

    A broker may be told to give more than its frames can carry. The ranges of a task share one.
    """

    def __init__(self, usual: int) -> None:
        self.now = usual
        self._usual = usual

    def is_too_long(self, error: BaseException, count: int) -> bool:
        """Whether a pull for so many failed by the length of an answer; then fewer are asked for.

        All pulls of a connection fail together, so it may have been the answer of another one.
        """
        cause = error.__cause__
        if not isinstance(cause, RemotingCommandException) or count <= 1:
            return False
        length = getattr(cause, "value", None)
        if getattr(cause, "field", None) != "length" or not isinstance(length, int):
            return False
        if length < FRAME_BYTES // 2:  # no length at all
            return False
        self.now = min(self.now, max(1, count * GOOD_FRAME_BYTES // max(length, FRAME_BYTES)))
        return True

    def had_room(self, count: int, size: int) -> None:
        """Ask for more again when a whole answer was far from too long."""
        if count >= self.now < self._usual and size * 4 < GOOD_FRAME_BYTES:
            self.now = min(2 * self.now, self._usual)


class _Width:
    """How many offsets the next part has: as many as one pull brings, up to `most`.

    A broker's limit is a number of messages or of bytes, so it moves with the size of the
    messages. A pull that brings less than it was asked for shows it; one that brings all of it
    shows nothing, so now and then one part is twice as wide. With a steady limit that part takes
    two full pulls, which is no pull more. Two parts are looked at, as a large message alone says
    little about the next ones.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._now = most
        self._pause = self._parts_left = WIDEN_AFTER
        self._tried: int | None = None
        self._brought = 0
        self._same = 0

    @property
    def steady(self) -> int:
        """How many offsets parts have had for a while; the most there are while that changes."""
        return self._now if self._same >= STEADY_AFTER else self._most

    def of_part(self, start: int) -> int:
        """Return how wide the part is that begins at an offset; called once for each."""
        if self._now >= self._most or self._tried is not None:
            return self._now
        if self._parts_left:
            self._parts_left -= 1
            return self._now
        self._tried = start
        return 2 * self._now

    def learn(self, start: int, brought: int, *, is_short: bool) -> None:
        """Take the largest answer of the part at `start`; short: one was less than asked for."""
        before = self._now
        if brought:
            least = self._brought if is_short else before
            # Under a filter one answer can cover more offsets than were asked for.
            self._now = min(max(brought, least), self._most)
            self._brought = brought
        self._same = self._same + 1 if self._now == before else 0
        if start == self._tried:
            self._tried = None
            is_wider = self._now > before
            self._pause = WIDEN_AFTER if is_wider else min(2 * self._pause, WIDEN_AFTER_MOST)
            self._parts_left = self._pause if is_short else 0

    def brought_all(self, edges: Sequence[int]) -> None:
        """Take parts of one width, between edges, each of which one pull has brought whole."""
        self.learn(edges[0], edges[1] - edges[0], is_short=False)
        self._same += len(edges) - 2


class RangePuller:
    """Reads one range once: `pieces` gives its records in the order of their offsets."""

    def __init__(
        self,
        access: QueueAccess,
        options: ReadOptions,
        wanted: QueueRange,
        losses: Losses | None = None,
        limit: PullLimit | None = None,
    ) -> None:
        self._access = access
        self._options = options
        self._range = wanted
        self._queue = MessageQueue(wanted.topic, wanted.broker_name, wanted.queue_id)
        self._broker_id = MASTER
        self._width = _Width(options.pull_batch_size)
        self._limit = limit or PullLimit(options.pull_batch_size)
        self._reached = wanted.start
        self._address = wanted.address
        self._progress_at = monotonic()
        self._losses = losses or Losses(options, wanted)
        self._lost_until = wanted.start
        self._first: tuple[int, _Asked] | None = None
        self._next_width = 0
        self._pull_size = 1

    def start(self) -> None:
        """Send the first pull already; `pieces` goes on with its answer."""
        wanted = self._range
        past = min(wanted.start + self._width.of_part(wanted.start), wanted.until)
        self._first = past, self._ask(wanted.start, past)

    def pieces(self) -> Iterator[Piece]:
        """Give the records; raises `RocketMQDataLossError`, or what the last pull ran into.

        The caller that stops early leaves the answers of what is in flight unread.
        """
        wanted = self._range
        if not len(wanted):
            return
        if self._first is None:
            self.start()
        first, self._first = self._first, None
        self._progress_at = monotonic()
        if first is not None:
            yield from self._part(wanted.start, *first)
        flying: deque[_Together] = deque()
        in_flight, next_part = 0, self._reached
        while flying or next_part < wanted.until:
            most = self._in_flight_most()
            # Several leave together: to write and to wake up for each one costs more than a pull.
            # But not all: the broker shall be at work while the caller is.
            half = max(1, most // 2)
            enough = in_flight + max(0, most - in_flight) // half * half
            while next_part < wanted.until and in_flight < enough:
                edges = self._next_parts(next_part, min(half, enough - in_flight))
                flying.append(self._ask_together(edges))
                in_flight += len(edges) - 1
                next_part = edges[-1]
            together = flying.popleft()
            in_flight -= len(together.edges) - 1
            yield from self._parts(together)

    def _next_parts(self, start: int, most: int) -> list[int]:
        """Return the edges of the parts that leave together next, which have one width."""
        until = self._range.until
        width, self._next_width = self._next_width or self._width_at(start), 0
        edges = [start, start + width]
        while edges[-1] < until and len(edges) <= most:
            following = self._width_at(edges[-1])
            if following != width:
                self._next_width = following
                break
            edges.append(edges[-1] + width)
        return edges

    def _width_at(self, start: int) -> int:
        return min(self._width.of_part(start), self._range.until - start)

    def _in_flight_most(self) -> int:
        """Return how many pulls may be in flight: more where the broker gives few messages each.

        All together they bring no more messages than ``prefetch`` whole pulls, and where these are
        long about as many bytes as are decoded at once.
        """
        options = self._options
        times = options.pull_batch_size // max(1, self._width.steady)
        most = options.prefetch * max(1, min(SMALL_PULLS, times))
        return min(most, max(options.prefetch, options.arrow_batch_bytes // self._pull_size))

    def _ask(self, start: int, past: int) -> _Asked:
        """Send one pull for a part, or what is left of it."""
        count = min(past - start, self._limit.now)
        try:
            answer = self._access.pull(self._queue, start, count, **self._terms())
        except SERVER_ERRORS as error:
            answer = _failed(error)
        return _Asked(answer, self._broker_id, count)

    def _ask_together(self, edges: list[int]) -> "_Together":
        """Send a pull for each part between two edges, all of them with one write."""
        count = min(edges[1] - edges[0], self._limit.now)
        try:
            answers = self._access.pull_run(self._queue, edges[:-1], count, **self._terms())
        except SERVER_ERRORS as error:
            answers = _failed(error)
        return _Together(edges, answers, self._broker_id, count)

    def _terms(self) -> dict[str, Any]:
        """Return what all pulls have in common."""
        options, broker_id = self._options, self._broker_id
        return {
            "expression": options.expression,
            "expression_type": options.expression_type,
            "broker_id": broker_id,
            "address": self._address if broker_id == MASTER else None,
            "timeout_ms": options.pull_timeout_ms,
            **({"group": options.group_id} if options.group_id else {}),
        }

    def _parts(self, together: "_Together") -> Iterator[Piece]:
        """Give the records of parts that left together: at once if all came as expected."""
        edges, count = together.edges, together.count
        try:
            pulled = together.answers.result(self._options.pull_timeout_ms / 1000 + 1)
        except (*SERVER_ERRORS, FutureTimeout) as error:
            answers = [_failed(error)]  # what has not left is asked for again by its part
        else:
            whole = pulled.records(edges[-1])
            if whole is not None:
                last = pulled.answer(len(pulled) - 1)
                self._note_suggestion(last)
                self._reached = edges[-1]
                covered = min(max(edges[0], self._lost_until), edges[-1])
                piece = Piece(whole, covered, edges[-1], last.max_offset)
                self._had(count, piece.size // len(whole))
                yield piece
                self._progress_at = monotonic()
                self._width.brought_all(edges)
                return
            answers = [_settled(partial(pulled.answer, at)) for at in range(len(pulled))]
        for (start, past), answer in zip_longest(pairwise(edges), answers):
            asked = None if answer is None else _Asked(answer, together.broker_id, count)
            yield from self._part(start, past, asked)

    def _part(self, start: int, past: int, asked: _Asked | None) -> Iterator[Piece]:
        """Give the records of [start, past); the first pull may be in flight already.

        The very first part ends with its first answer, which tells how much one pull brings.
        """
        part, brought, is_short = start, 0, False
        while start < past:
            asked = asked or self._ask(start, past)
            try:
                answer = asked.answer.result(self._options.pull_timeout_ms / 1000 + 1)
            except (*SERVER_ERRORS, FutureTimeout) as error:
                if not self._limit.is_too_long(error, asked.count):
                    self._wait_or_raise(error)
                asked = None
                continue
            begin, start = start, self._after(answer, start, past, asked.broker_id)
            count, asked = asked.count, None
            if answer.found and start > begin:
                records = answer.records
                if answer.next_offset > past:
                    records = before(records, past)
                # Offsets that an earlier part told to be lost are not missed once more.
                covered = min(max(begin, self._lost_until), start)
                yield Piece([records], covered, start, answer.max_offset)
                # What the consumer took its time for is no waiting for the broker.
                self._progress_at = monotonic()
                brought = max(brought, start - begin)
                is_short |= start < min(past, begin + count)
                self._had(count, len(records))
            self._reached = start
            if begin == self._range.start and start > begin:
                break
        self._width.learn(part, brought, is_short=is_short)

    def _after(self, answer: RawPull, start: int, past: int, broker_id: int) -> int:
        """Return the offset to go on at; raises when messages are lost and that matters."""
        goes_on = answer.next_offset > start and not answer.moved
        # Without a filter nothing can fail to match: an answer without records skips lost ones.
        skips = goes_on and not answer.found and is_dense(self._options)
        if answer.found or (goes_on and not skips):
            self._note_suggestion(answer)
            if goes_on:
                self._progress_at = monotonic()
                return min(answer.next_offset, past)
        if broker_id != MASTER:
            # A slave may lag behind, or not have the queue yet: only the master can tell.
            self._broker_id = MASTER
            return start
        if start < answer.min_offset:
            self._progress_at = monotonic()
            return self._lose(answer, start, past, answer.min_offset)
        if skips and answer.code == NOTHING_HERE:
            self._progress_at = monotonic()
            return self._lose(answer, start, past, answer.next_offset)
        # The queue does not reach so far, or not yet to be read: it may be about to.
        if (monotonic() - self._progress_at) * 1000 < self._options.pull_deadline_ms:
            threading.Event().wait(TRY_AGAIN_S)
            return start
        return self._lose(answer, start, past, answer.next_offset if skips else self._range.until)

    def _had(self, count: int, size: int) -> None:
        """Note how many bytes came for so many messages."""
        self._pull_size = max(1, size)
        self._limit.had_room(count, size)

    def _note_suggestion(self, answer: RawPull) -> None:
        if self._options.read_from_slave:
            self._broker_id = answer.suggested_broker_id

    def _lose(self, answer: RawPull, start: int, past: int, lost_until: int) -> int:
        """Note a loss, once for all parts that it reaches into; return where this part goes on."""
        lost_until = min(lost_until, self._range.until)
        if lost_until > self._lost_until:
            available = f"{answer.min_offset} to {answer.max_offset}"
            self._losses.add(max(start, self._lost_until), lost_until, available)
            self._lost_until = lost_until
        return min(lost_until, past)

    def _wait_or_raise(self, error: Exception) -> None:
        waited_ms = (monotonic() - self._progress_at) * 1000
        transient = isinstance(error, FutureTimeout) or is_transient(error)
        if not transient:
            error.add_note(f"This happened while reading {self._range}.")
            raise error from None
        if waited_ms >= self._options.pull_deadline_ms:
            raise MQClientException(
                f"{self._range} cannot be read from {gethostname()}: {error}",
                topic=self._range.topic,
            ) from None
        _log.info("pull failed, trying again: %s: %s", self._range, error)
        self._broker_id, self._address = MASTER, None
        with suppress(RemotingException, MQClientException):
            self._access.read_queues(self._range.topic)  # the broker may have moved
        threading.Event().wait(TRY_AGAIN_S)


def _failed(error: BaseException) -> Future[Any]:
    future: Future[Any] = Future()
    future.set_exception(error)
    return future


def _settled(call: Callable[[], RawPull]) -> Future[RawPull]:
    """Return a future of what a call returns or raises."""
    future: Future[RawPull] = Future()
    try:
        future.set_result(call())
    except Exception as error:  # noqa: BLE001 - it belongs to whoever asks for the result
        future.set_exception(error)
    return future


def before(records: bytes, past: int) -> bytes:
    """Return the records of smaller queue offsets.

    Under a filter a broker goes on until it has as many messages as were asked for, beyond the
    part that was meant; the next part brings those again.
    """
    at = 0
    while at < len(records) and int.from_bytes(records[at + 20 : at + 28]) < past:
        at += int.from_bytes(records[at : at + 4])
    return records[:at]


def count_of(records: bytes) -> int:
    """Return how many records there are."""
    at = count = 0
    while at < len(records):
        at += max(1, int.from_bytes(records[at : at + 4]))
        count += 1
    return count


def lost(
    options: ReadOptions,
    one: QueueRange,
    start: int,
    past: int,
    available: str,
    *,
    count: int | None = None,
) -> None:
    """Raise the error of lost offsets, or log it once when the user said to go on.

    ``count`` tells how many of [start, past) are lost, if not all.
    """
    text = (
        f"data loss in topic {one.topic}, broker {one.broker_name}, queue {one.queue_id}: "
        f"offsets {start} to {past} were wanted, available are {available}"
    )
    if options.fail_on_data_loss:
        raise RocketMQDataLossError(f"{text}; {GO_ON}", topic=one.topic)
    _log.warning("%s; %d offsets skipped", text, past - start if count is None else count)
