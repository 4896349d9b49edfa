"""Closes connections that have been idle for too long.

Answers: when a connection is idle, as the original's server counts: no whole frame has come and
none was sent for `serverChannelMaxIdleTimeSeconds` of session time. One look is planned for all
connections of an address, at the time when the one that was used least recently would be too old.
Must not know: sockets, requests. Read on: ``endpoint.py``, which notes uses.
"""

from collections.abc import Collection
from typing import Final, Protocol

from attrs import define, field

from embedded_broker.clocks.session import Session, SessionTimer
from embedded_broker.door import Door
from embedded_broker.settings.config import BrokerConfig
from rocketmq_py.logs import get_logger

logger = get_logger(__name__)

OPTION: Final = "serverChannelMaxIdleTimeSeconds"


def most_idle_ms(config: BrokerConfig) -> int:
    """Give how long a connection may be idle, in milliseconds; 0 is for ever."""
    return config.int(OPTION) * 1000


class Used(Protocol):
    """A connection, as far as its use goes."""

    is_stream: bool
    """Whether it has a socket; a client of this process may be idle for ever."""
    used_ms: int
    """Session time of the last whole frame, either way."""

    def close(self) -> None:
        """End it."""


@define(eq=False)
class IdleConnections:
    """The watch over the connections of one address. Under the door."""

    _door: Door
    _connections: Collection[Used]
    most_ms: int
    _look: SessionTimer | None = field(default=None, init=False)

    def has_come(self, connection: Used, session: Session) -> None:
        """Note a new connection."""
        connection.used_ms = session.now_ms
        if self._look is None:
            self._plan(session)

    def begin_anew(self, session: Session) -> None:
        """Go on in the time of another broker, whose clock may be behind."""
        if self._look is not None:
            self._look.cancel()
        for connection in self._connections:
            connection.used_ms = min(connection.used_ms, session.now_ms)
        self._plan(session)

    def _plan(self, session: Session, used_since_ms: int = 0) -> None:
        """Look when the connection that was used least recently would be too old.

        Those that were not used since then are being closed.
        """
        all_used = (one.used_ms for one in self._connections if one.is_stream)
        used = [one for one in all_used if one >= used_since_ms]
        self._look = None
        if used and self.most_ms:
            due_ms = min(used) + self.most_ms
            self._look = session.at(due_ms, lambda: self._end_idle(session), "idle connections")

    def _end_idle(self, session: Session) -> None:
        used_since_ms = session.now_ms - self.most_ms + 1
        for connection in list(self._connections):
            if connection.is_stream and connection.used_ms < used_since_ms:
                seconds = self.most_ms // 1000
                logger.info("closing %r: idle for %d s (%s)", connection, seconds, OPTION)
                self._door.after(connection.close)
        self._plan(session, used_since_ms)
