"""Connections of the HTTP face: how many there are, and how long one may be silent.

Answers: what silent, slow and greedy peers cost: a connection of at most ``CONNECTIONS_MAX`` for at
most ``SILENT_S`` seconds in which it asks for nothing, sends a part, or leaves an answer unread.
uvicorn alone bounds only the time between two requests. Must not know: what is asked for.
Read on: ``server.py``.
"""

import asyncio
import logging
from typing import Final

from uvicorn.protocols.http.h11_impl import H11Protocol

from rocketmq_py.logs import shielded

CONNECTIONS_MAX: Final = 64
SILENT_S: Final = 30
_errors: Final = shielded(
    logging.Logger("embedded_broker.control", logging.ERROR)  # noqa: LOG001 - its own level
)
"""For what is wrong here. uvicorn warns of each odd request, also of the one with which the client
of the JDK asks for HTTP/2, and its own loggers belong to the program around us."""
_errors.parent = logging.getLogger("embedded_broker.control")


class BoundedConnection(H11Protocol):
    """One connection; it is ended when there are too many, or when nothing comes."""

    _silence: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:
        """Begin, or end at once when there are too many."""
        self.logger, self.access_log = _errors, False
        super().connection_made(transport)
        if len(self.connections) > CONNECTIONS_MAX:
            transport.abort()
        else:
            self._watch()

    def connection_lost(self, exc: Exception | None) -> None:
        """End."""
        self._stop_watching()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Take bytes; a request that is complete ends the silence."""
        super().data_received(data)
        self._watch()

    def timeout_keep_alive_handler(self) -> None:
        """End an idle connection, also one whose peer leaves the last answer unread."""
        self.transport.abort()

    def _watch(self) -> None:
        if self._is_asking:
            self._stop_watching()
        elif self._silence is None:
            self._silence = self.loop.call_later(SILENT_S, self._end_if_silent)

    def _end_if_silent(self) -> None:
        self._silence = None
        if not self._is_asking:
            self.transport.abort()

    def _stop_watching(self) -> None:
        silence, self._silence = self._silence, None
        if silence is not None:
            silence.cancel()

    @property
    def _is_asking(self) -> bool:
        """Whether a request has arrived that is not answered yet."""
        return self.cycle is not None and not self.cycle.response_complete
