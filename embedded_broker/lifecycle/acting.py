"""Acting master: how a slave releases what is due while its master is away.

Timers and delay levels leave for other brokers, because a slave's log takes nothing but its
master's bytes. Long delays hop in memory. It ends in two steps: nothing more leaves, and when the
last answer is there the store follows again. After ``BrokerController.onMinBrokerChange`` and
``changeScheduleServiceStatus``. Must not know: who is there. Read on:
``embedded_broker/ha/synchronize.py``, which asks the name server, ``embedded_broker/ha/escape.py``
for the bridge, ``embedded_broker/namesrv/routes.py`` for the reads.
"""

from collections.abc import Callable
from typing import Final

from embedded_broker.errors import StoreError
from embedded_broker.lifecycle.escape_wiring import Escape
from embedded_broker.lifecycle.parts import BrokerParts
from embedded_broker.timer.choice import wheel_of
from embedded_broker.timer.outcomes import TimerProgress
from rocketmq_py.logs import get_logger

logger = get_logger(__name__)

MADE_WAY_MS: Final = 10_000
"""A master that has said that it comes back has so long to register."""


class ActingMaster:
    """Used under the door. ``note`` lets the clock driver look again."""

    def __init__(self, parts: BrokerParts, note: Callable[[], None]) -> None:
        self._parts = parts
        self._timers = wheel_of(parts.timers)
        self._note = note
        self.is_acting = False
        self._waits_until_ms = 0
        self._progress: TimerProgress | None = None
        self.escape = Escape(
            parts, parts.config.text("namesrvAddr"), self._answered, avoids_name=True
        )
        self.escape.open()
        self._timers.delivery.keeps_hops = True
        self._timers.delivery.is_stopping = True
        parts.levels.hold()

    def look(self, *, is_first: bool) -> None:
        """Act or follow. ``is_first``: no broker of our name has a lesser id.

        Raises ``StoreError`` when the disk does not tell what the master has released: it follows.
        """
        if not is_first:
            self._waits_until_ms = 0
            self._end()
        elif not self.is_acting and self._parts.session.now_ms >= self._waits_until_ms:
            self._timers.set_should_running_dequeue(True)
            logger.warning("slave_acts_as_master %s", self._parts.broker_name)
            self.is_acting = True
            self._timers.delivery.is_stopping = False
            self._parts.levels.go_on()
            self._note()

    def make_way(self) -> TimerProgress | None:
        """End for a master that comes back; None while the last messages are leaving."""
        self._waits_until_ms = self._parts.session.now_ms + MADE_WAY_MS
        self._end()
        if self._timers.should_running_dequeue:
            return None
        return self._progress or self._timers.progress()

    def _end(self) -> None:
        if self.is_acting:
            logger.warning("slave_makes_way %s", self._parts.broker_name)
            self.is_acting = False
            self._timers.delivery.is_stopping = True
            self._parts.levels.hold()
        self._step_down()

    def _answered(self) -> None:
        self._note()
        if not self.is_acting:
            try:
                self._step_down()
            except StoreError as error:
                # The bridge goes on with the next answer; who comes back asks once more.
                logger.warning("the slave does not make way yet: %s", error)

    def _step_down(self) -> None:
        """Follow again when no answer is missing."""
        if self.escape.bridge.in_flight or not self._timers.should_running_dequeue:
            return
        self.escape.take_answers()
        if self._timers.delivery.is_waiting:
            return  # the disk refused
        self._progress = self._timers.progress()
        self._timers.set_should_running_dequeue(False)
