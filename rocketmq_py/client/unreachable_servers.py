"""Which servers do not answer: told once a minute for each, and once when it answers again.

A broker that is away makes every connect, pull, heartbeat and offset fail again and again. They all
report here; each failure by itself is a line at DEBUG. Must not know what was asked. Read on:
``../consumer/core/intake.py`` and ``instance.py``, which report most.
"""

import threading
from collections.abc import Callable

from attrs import define

from rocketmq_py.clock import monotonic
from rocketmq_py.errors import (
    MQBrokerException,
    MQClientException,
    RemotingException,
    RocketMQError,
)
from rocketmq_py.logs import get_logger

_log = get_logger(__name__)

TOLD_EVERY_S = 60.0
REMEMBERED_MAX = 1_024


@define
class _Absence:
    since: float
    told: float
    failures: int = 1


class UnreachableServers:
    """What is away for one client. Every call is safe from any thread.

    True when something is: who makes many calls need not report an answer while nothing is.
    """

    def __init__(self, now: Callable[[], float] = monotonic) -> None:
        self._now = now
        self._lock = threading.Lock()
        self._away: dict[str, _Absence] = {}
        self._troubles: dict[str, float] = {}
        self._closed = False

    def __bool__(self) -> bool:
        return bool(self._away)

    def failed(self, broker: str, what: str, error: BaseException | None) -> None:
        """Report that ``what`` failed; ``broker`` names it when the error has no address."""
        if isinstance(error, RocketMQError) and error.address:
            broker = error.address
        _log.debug("%s failed broker=%s: %s", what, broker, error)
        if self._closed:
            return
        if not isinstance(error, RemotingException):
            self._tell_trouble(broker, what, error)
            return
        now = self._now()
        with self._lock:
            absence = self._away.get(broker)
            if absence is None:
                if len(self._away) >= REMEMBERED_MAX:
                    self._away.clear()
                self._away[broker] = _Absence(now, now)
            else:
                absence.failures += 1
                if now - absence.told < TOLD_EVERY_S:
                    return
                absence.told = now
        if absence is None:
            _log.warning("server %s does not answer: %s: %s", broker, what, error)
        else:
            _log.warning(
                "server %s does not answer for %.0f s now, %d calls failed, the last one was %s: "
                "%s",
                broker,
                now - absence.since,
                absence.failures,
                what,
                error,
            )

    def close(self) -> None:
        """Tell nothing any more: the client ends, and what fails now fails because of that."""
        self._closed = True

    def answered(self, broker: str | None) -> None:
        """Report an answer of a broker, of whatever kind."""
        if broker not in self._away:
            return
        with self._lock:
            absence = self._away.pop(broker, None)
        if absence is not None:
            _log.warning(
                "server %s answers again after %.1f s, %d calls had failed",
                broker,
                self._now() - absence.since,
                absence.failures,
            )

    def _tell_trouble(self, broker: str, what: str, error: BaseException | None) -> None:
        """Tell once a minute of what a broker refuses, or answers without sense."""
        key = what
        if isinstance(error, (MQBrokerException, MQClientException)):  # equal for all its queues
            key = f"{broker} {error.response_code}"
        if isinstance(error, MQBrokerException):
            self.answered(broker)
        now = self._now()
        with self._lock:
            told = self._troubles.get(key)
            if told is not None and now - told < TOLD_EVERY_S:
                return
            if len(self._troubles) >= REMEMBERED_MAX:
                self._troubles.clear()
            self._troubles[key] = now
        _log.warning("server %s: %s failed (told once a minute): %s", broker, what, error)
