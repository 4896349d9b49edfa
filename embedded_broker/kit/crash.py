"""Crash of a broker at a chosen request.

Answers: ``@pytest.mark.rocketmq_crash(after=..., nth=...)``. The broker handles the request, the
answer is lost, it ends as by ``kill -9`` and starts again. So a client that waits for the answer
never learns whether its request was carried out. Must not know: pytest. Read on:
``embedded_broker/remoting/request_faults.py``.
"""

from inspect import signature
from threading import Event, Thread
from typing import Any, Final

from embedded_broker.api.broker import EmbeddedBroker
from embedded_broker.errors import BrokerStateError
from rocketmq_py.errors import ConfigError

LOOK_AGAIN_S: Final = 0.5
END_S: Final = 30.0
"""How long a restart under way may take."""


class CrashPlan:
    """One crash that is to come. ``crashes`` counts whether it came."""

    def __init__(
        self,
        broker: EmbeddedBroker,
        after: int | str,
        *,
        nth: int = 1,
        topic: str | None = None,
        group: str | None = None,
        lose_unsynced: bool = False,
        restart: bool = True,
    ) -> None:
        self.fault = broker.faults.on(after, nth=nth, topic=topic, group=group).drop_response()
        self.crashes = 0
        self._told = f"rocketmq_crash(after={after!r}, nth={nth})"
        self._broker = broker
        self._loses = lose_unsynced
        self._restart = restart
        self._changed = Event()
        self._over = False
        self._thread = Thread(target=self._watch, name="rocketmq-crash", daemon=True)
        broker.watch(self._changed)
        self._thread.start()

    def __repr__(self) -> str:
        return self._told

    def end(self) -> None:
        """Let the broker live from now on; idempotent."""
        self._over = True
        self._changed.set()
        self._thread.join(END_S)

    def _watch(self) -> None:
        while not self.fault.hits:
            if self._over:
                self._broker.unwatch(self._changed)
                return
            self._changed.wait(LOOK_AGAIN_S)
            self._changed.clear()
        self._broker.unwatch(self._changed)
        self.fault.end()
        if self._loses:
            self._broker.faults.disk.lose_unsynced()
        try:
            if self._restart:
                self._broker.restart(crash=True)
            else:
                self._broker.crash()
        except BrokerStateError:  # the test has ended it before
            return
        self.crashes += 1


def crash_plans(
    broker: EmbeddedBroker, marks: list[tuple[tuple[Any, ...], dict[str, Any]]]
) -> list[CrashPlan]:  # Any: arguments of a mark, which is checked here
    """Make a plan of each mark; ``ConfigError`` for what no mark can ask for."""
    plans: list[CrashPlan] = []
    try:
        for args, keywords in marks:
            _check(args, keywords)
            plans.append(CrashPlan(broker, *args, **keywords))
    except BaseException:
        for plan in plans:
            plan.end()
        raise
    return plans


def _check(args: tuple[Any, ...], keywords: dict[str, Any]) -> None:  # Any: as above
    takes = signature(CrashPlan.__init__)
    try:
        takes.bind(None, None, *args, **keywords)
    except TypeError as error:
        known = ", ".join(list(takes.parameters)[2:])
        wanted = f'of {known}, as in @pytest.mark.rocketmq_crash(after="SEND_MESSAGE_V2", nth=2)'
        raise ConfigError("@pytest.mark.rocketmq_crash", str(error), wanted) from None
