"""Puts of one delay level that are not answered yet, in the order of its queue.

Answers: may a level put its next message although the last one is not durable, how far has it
surely come, and when is a put that failed made again. Must not know: due times, offsets on disk,
clocks. After `asyncDeliver`, `HandlePutResultTask` and `PutResultProcess` of
`org.apache.rocketmq.broker.schedule.ScheduleMessageService`: answers are taken in the order of
the queue, so the level's offset moves past a message only when all before it are stored.

Read on: `service.py`, which owns the offsets and waits between two looks.
"""

from collections import deque
from collections.abc import Callable
from typing import Final

from attrs import define, field

from embedded_broker.store.put_values import PutResult
from embedded_broker.timer.delivery import LatePut

LOOK_EVERY_MS: Final = 10
"""`DELAY_FOR_A_SLEEP`: how often answers are looked for."""
_RESEND_STEP_MS: Final = 100
_RESEND_MOST_MS: Final = 60_000


@define(slots=True)
class Flight:
    """One message that was put; `answer` is None when it was gone before it could be repeated."""

    queue_offset: int
    offset_py: int
    answer: PutResult | LatePut | None
    resends: int = 0

    @property
    def result(self) -> PutResult | None:
        """The answer, None while there is none."""
        answer = self.answer
        return answer.result if isinstance(answer, LatePut) else answer


@define(eq=False, repr=False, kw_only=True)
class UnansweredPuts:
    """The unanswered puts of one level, in the order of its queue.

    `is_durable(log_end)` says whether what was put up to there counts as stored; `put_again`
    gives the answer to one more put of a message, None when the message cannot be read any more.
    """

    _is_durable: Callable[[int], bool]
    _put_again: Callable[[int], PutResult | LatePut | None]
    _flights: deque[Flight] = field(factory=deque, init=False)

    def __len__(self) -> int:
        return len(self._flights)

    def add(self, flight: Flight) -> None:
        """Take a put whose answer is not acted upon yet."""
        self._flights.append(flight)

    def has_room(self, *, pending_limit: int, resends_limit: int) -> bool:
        """Say whether the level may put on: not too many unanswered, and the first not stuck."""
        flights = self._flights
        if len(flights) > pending_limit:
            return False
        return not flights or flights[0].resends <= resends_limit

    def settle(self) -> int | None:
        """Take the answers from the head on; gives the queue offset behind the last one stored."""
        behind: int | None = None
        flights = self._flights
        while flights and self._is_stored(flights[0]):
            behind = flights.popleft().queue_offset + 1
        return behind

    def wait_ms(self) -> int | None:
        """Give the time until the next look, longer after each failure; None with nothing here."""
        if not self._flights:
            return None
        head = self._flights[0]
        if not self._has_failed(head):
            return LOOK_EVERY_MS
        return min((head.resends + 1) * _RESEND_STEP_MS, _RESEND_MOST_MS)

    def repeat(self, *, resends_limit: int) -> int | None:
        """Put the head again if it failed; gives the offset behind it when it is given up."""
        head = self._flights[0] if self._flights else None
        if head is None or not self._has_failed(head):
            return None
        head.resends += 1
        head.answer = self._put_again(head.offset_py)
        if head.answer is None and head.resends > 2 * resends_limit:
            return self._flights.popleft().queue_offset + 1
        return None

    def _is_stored(self, flight: Flight) -> bool:
        result = flight.result
        if result is None or not result.ok:
            return False
        return self._is_durable(result.commit_log_offset + result.size)

    @staticmethod
    def _has_failed(flight: Flight) -> bool:
        if flight.answer is None:
            return True
        result = flight.result
        return result is not None and not result.ok
