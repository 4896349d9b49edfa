"""Wiring of the escape bridge: when one is put in, waited for and taken out.

Of a broker with ``escapeNamesrvAddr``, which only delays, and of a slave that acts as master. Must
not know: what is sent, and how. Read on: ``embedded_broker/ha/escape.py``, the bridge.
"""

from collections.abc import Callable
from threading import Event
from typing import Final

from embedded_broker.clocks.timeline import Budget
from embedded_broker.ha.escape import EscapeBridge
from embedded_broker.lifecycle.parts import BrokerParts
from embedded_broker.timer.choice import wheel_of

WAIT_S: Final = 10.0
"""A jump of the clock waits so long at most for brokers that answer slowly."""
_NO_BUDGET_MS: Final = 1e12


class Escape:
    """The bridge of one broker. Made under the door; ``close`` outside.

    ``note`` lets the clock driver look again. With ``avoids_name`` nothing goes to a broker of our
    name: it would be ourselves, or the master that is away.
    """

    def __init__(
        self,
        parts: BrokerParts,
        name_servers: str,
        note: Callable[[], None],
        *,
        avoids_name: bool = False,
    ) -> None:
        self._parts = parts
        self._timers = wheel_of(parts.timers)
        self.bridge = EscapeBridge(
            door=parts.door,
            name_servers=name_servers,
            version=parts.profile.version,
            name=parts.broker_name,
            broker_id=parts.config.int("brokerId"),
            address=parts.address,
            avoids_name=avoids_name,
            put_here=parts.store.put,
            answered=note,
        )

    def open(self) -> None:
        """Let everything that is due leave by the bridge. Under the door."""
        self._timers.escape = self._parts.levels.escape = self.bridge

    def close(self, *, clean: bool) -> None:
        """End the bridge; what it has delivered is noted, if clean. Outside the door."""
        with self._parts.door:
            self._timers.delivery.is_stopping = True
            self._parts.levels.hold()
        self.bridge.close()
        if clean:
            with self._parts.door:
                self.take_answers()

    def wait(self) -> None:
        """Wait until everything due has left, while brokers take it; bounded, outside the door.

        During a jump of the clock nobody else fires what has become due meanwhile.
        """
        parts, changed = self._parts, Event()
        if parts.session.clock is parts.clock:
            return  # waits of the session cannot end during the jump
        parts.door.watch(changed)
        try:
            while self._is_leaving() and changed.wait(WAIT_S):
                changed.clear()
        finally:
            parts.door.unwatch(changed)

    def _is_leaving(self) -> bool:
        """Let go what is due and can; say whether an answer is missing."""
        door, bridge = self._parts.door, self.bridge
        with door.quiet:  # each entry that is not would wake the wait
            is_idle = not (bridge.in_flight or bridge.has_failed)
        while is_idle:
            with door:
                budget = Budget()
                self.fire(budget)
            is_idle = budget.exhausted() and not bridge.in_flight  # the rest in another turn
        with door.quiet:
            is_waiting = bool(bridge.in_flight) or self._parts.levels.is_waiting
            return is_waiting and not bridge.has_failed

    def take_answers(self) -> None:
        """Note what has been delivered, where nothing more is to leave. Under the door."""
        self.fire(Budget(_NO_BUDGET_MS))
        self._parts.levels.settle()

    def fire(self, budget: Budget) -> None:
        """Let go what is due, and take answers. Under the door."""
        now_ms = self._parts.clock.now_ms
        for source in (self._timers, self._parts.levels):
            source.fire(now_ms, horizon_ms=now_ms, budget=budget)
