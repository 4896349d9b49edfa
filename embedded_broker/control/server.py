"""Server of the control face: its port, its thread, its end.

Answers: where the operations can be asked for. It belongs to brokers, starts and ends with them,
and stays while they crash, restart or are paused. Must not know: operations. Read on: ``app.py``;
``embedded_broker/api/extra_servers.py`` for how a broker gets one. Needs the extra ``control``.
"""

import asyncio
import socket
from collections.abc import Callable, Sequence
from threading import Event, Thread
from typing import Final

import uvicorn

from embedded_broker.api.broker import EmbeddedBroker
from embedded_broker.control.app import make_app
from embedded_broker.control.connections import SILENT_S, BoundedConnection
from embedded_broker.control.thread_calls import ThreadCalls
from embedded_broker.errors import BrokerStateError
from embedded_broker.remoting.server import listen
from embedded_broker.tables.peer import is_loopback
from rocketmq_py.errors import ConfigError

HEADERS_MAX: Final = 32 * 1024
"""Bytes of a request's first lines."""
TOKEN_MIN: Final = 16
END_S: Final = 2
"""Seconds that answers under way have at the end."""
CALLS_S: Final = 0.5
"""Seconds that calls have then. A wait ends when the brokers do, which is after this."""


class ControlServer:
    """Serves the HTTP face of some brokers until ``close``.

    ``host`` other than loopback needs a ``token``, which every request then has to carry.
    """

    def __init__(
        self,
        brokers: Callable[[], Sequence[EmbeddedBroker]],
        *,
        host: str = "127.0.0.1",
        port: int = 0,
        token: str | None = None,
    ) -> None:
        if token is not None and (len(token) < TOKEN_MIN or not token.isascii()):
            told = f"<{len(token)} characters>"  # never the token itself
            raise ConfigError("control_token", told, f"at least {TOKEN_MIN} ASCII characters")
        if not is_loopback(host) and token is None:
            raise ConfigError("control_token", None, f"needed where other hosts reach {host}")
        self._brokers = brokers
        self._host = host
        self._port = port
        self._token = token
        self._server: uvicorn.Server | None = None
        self._thread: Thread | None = None
        self._calls = ThreadCalls()
        self._closing = Event()

    def __repr__(self) -> str:
        return f"<control {self.url if self._thread else 'not running'}>"

    @property
    def url(self) -> str:
        """Where it is, such as ``http://127.0.0.1:9880``; it keeps its port over restarts."""
        host = f"[{self._host}]" if ":" in self._host else self._host
        return f"http://{host}:{self._port}"

    def start(self) -> None:
        """Listen, and return when requests are answered; does nothing while it runs."""
        if self._thread is not None:
            return
        listener = listen(self._host, self._port)
        self._port = int(listener.getsockname()[1])
        self._closing.clear()
        app = make_app(self._brokers, token=self._token, calls=self._calls, closing=self._closing)
        config = uvicorn.Config(
            app,
            http=BoundedConnection,
            loop="asyncio",
            ws="none",
            lifespan="off",
            log_config=None,
            proxy_headers=False,  # the peer of the socket is who asks
            server_header=False,
            timeout_keep_alive=SILENT_S,
            timeout_graceful_shutdown=END_S,
            h11_max_incomplete_event_size=HEADERS_MAX,
        )
        server = self._server = uvicorn.Server(config)
        # Who connects from here on waits in the listener's queue: it is answered in any case.
        self._thread = Thread(
            target=_serve, args=(server, listener), name="embedded-broker-control", daemon=True
        )
        self._thread.start()

    def close(self) -> None:
        """End every connection and wait in bounded time for what is under way; idempotent."""
        server, thread = self._server, self._thread
        self._server = self._thread = None
        if server is None or thread is None:
            return
        self._closing.set()
        self._calls.give_up(BrokerStateError("the broker is being closed"))
        server.should_exit = True
        thread.join(2 * END_S)
        self._calls.join(CALLS_S)


def _serve(server: uvicorn.Server, listener: socket.socket) -> None:
    try:
        asyncio.run(server.serve(sockets=[listener]))
    finally:
        listener.close()
