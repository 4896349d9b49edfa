"""Which pulls wait for a message, and when they are run again.

RocketMQ's PullRequestHoldService without its thread: a pull that found nothing is parked under
topic and queue. It leaves when a message whose tag it wants arrives, when its time is up on the
session clock (to the millisecond; the original looks every 5 s), or when its connection ends. A
parked pull runs exactly once more, and then it is answered whatever it finds.

Arrivals only mark a pull; it is run at the end of the door entry in which they happened. So a
batch, or a burst of timers, is one answer and not one message. This module knows no message
format; `remoting/handlers/consume/pull_message.py` runs the pulls.
"""

import logging
from collections.abc import Callable
from typing import Final

from attrs import define

from embedded_broker.clocks.timeline import SessionTimer
from embedded_broker.core.broker_core import BrokerCore
from embedded_broker.remoting.endpoint import Request
from embedded_broker.store.message_store import Arrival
from embedded_broker.tables.peer import Peer
from rocketmq_py.protocol.codes import ResponseCode
from rocketmq_py.protocol.headers.pull import PullMessageRequestHeader

logger = logging.getLogger(__name__)

PARKED_MAX: Final = 100_000
"""Most pulls that wait at one time; more are answered at once, as if nothing had been asked to
wait. Far above what queues times clients of a test cluster need."""


@define(slots=True, eq=False)
class ParkedPull:
    """One waiting pull. `codes` are the tag hashes that wake it; None: every message does."""

    request: Request
    header: PullMessageRequestHeader
    codes: frozenset[int] | None
    timer: SessionTimer | None = None


class ParkedPulls:
    """The waiting pulls of one broker, by topic and queue. Used under the door.

    `run_again` is called with every pull that leaves by arrival or expiry, once.
    """

    def __init__(self, core: BrokerCore, run_again: Callable[[ParkedPull], None]) -> None:
        self._core = core
        self._run_again = run_again
        self._parked: dict[tuple[str, int], dict[ParkedPull, None]] = {}
        self._by_connection: dict[Peer, set[ParkedPull]] = {}
        self._woken: list[ParkedPull] = []
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def waiting(self, topic: str, queue_id: int) -> int:
        """Count the pulls that wait for a queue."""
        return len(self._parked.get((topic, queue_id), ()))

    def is_parked(self, group: str, topic: str, queue_id: int) -> bool:
        """Say whether a pull of a group waits for a queue."""
        return any(
            pull.header.consumer_group == group for pull in self._parked.get((topic, queue_id), ())
        )

    def park(self, pull: ParkedPull, wait_ms: int) -> bool:
        """Keep a pull for at most `wait_ms` of session time; false when there is no room."""
        if self._count >= PARKED_MAX:
            return False
        header = pull.header
        self._parked.setdefault((header.topic, header.queue_id), {})[pull] = None
        self._by_connection.setdefault(pull.request.connection, set()).add(pull)
        self._count += 1
        pull.timer = self._core.session.at(
            self._core.session_clock.now_ms + wait_ms, lambda: self._expire(pull), "long poll"
        )
        return True

    def on_arrival(self, arrival: Arrival) -> None:
        """Mark the pulls that want the message that just became visible."""
        if not self._parked:
            return
        waiting = self._parked.get((arrival.topic, arrival.queue_id))
        if not waiting:
            return
        code = arrival.tags_code
        for pull in list(waiting):
            codes = pull.codes
            if arrival.queue_offset >= pull.header.queue_offset and (
                codes is None or code in codes
            ):
                self._leave(pull)
                self._woken.append(pull)

    def run_woken(self) -> None:
        """Run every marked pull; called at the end of each door entry."""
        while self._woken:
            woken, self._woken = self._woken, []
            for pull in woken:
                self._run(pull)

    def wake(self, group: str, topic: str, queue_id: int) -> None:
        """Mark the pulls of a group that wait for a queue: something else than a message came."""
        for pull in list(self._parked.get((topic, queue_id), ())):
            if pull.header.consumer_group == group:
                self._leave(pull)
                self._woken.append(pull)

    def drain(self) -> list[ParkedPull]:
        """Take every waiting pull out, unanswered."""
        waiting = [pull for pulls in self._parked.values() for pull in pulls]
        for pull in waiting:
            self._leave(pull)
        return waiting

    def forget(self, connection: Peer) -> None:
        """Drop the pulls of a connection that has ended; nothing is answered."""
        for pull in list(self._by_connection.get(connection, ())):
            self._leave(pull)

    def _expire(self, pull: ParkedPull) -> None:
        self._leave(pull)
        self._run(pull)

    def _run(self, pull: ParkedPull) -> None:
        request = pull.request
        if request.connection.closed:
            return
        try:
            self._run_again(pull)
        except Exception as error:
            # Whoever happens to leave the door must not suffer; the puller hears of it.
            logger.exception("a parked pull of %s failed", pull.header.topic)
            remark = f"{type(error).__name__}: {error}"
            self._core.endpoint.answer(
                request, request.command.answer(ResponseCode.SYSTEM_ERROR, remark)
            )

    def _leave(self, pull: ParkedPull) -> None:
        key = (pull.header.topic, pull.header.queue_id)
        waiting = self._parked.get(key)
        if waiting is None or pull not in waiting:
            return
        del waiting[pull]
        if not waiting:
            del self._parked[key]
        connection = pull.request.connection
        own = self._by_connection[connection]
        own.discard(pull)
        if not own:
            del self._by_connection[connection]
        self._count -= 1
        if pull.timer is not None:
            pull.timer.cancel()
