"""TLS on a connection that is open already.

Answers: how the bytes of a socket become those of its peer and back. Runs on the loop's thread; a
handshake takes no thread, and ends with its connection when it takes too long. Must not know:
frames, requests. Read on: ``embedded_broker/settings/tls.py`` for certificates,
``tcp_connection.py``, which reads and writes by it.
"""

from collections.abc import Callable
from contextlib import suppress
from functools import partial
from ssl import MemoryBIO, SSLContext, SSLError, SSLObject, SSLWantReadError
from typing import Final

from embedded_broker.remoting.socket_transport import SocketTransport

HANDSHAKE_S = 10.0
"""A peer that has said hello has so long to end its handshake."""
READ_SIZE: Final = 65_536


class TlsTransport:
    """What a connection writes to instead of its socket's transport.

    ``receive`` takes what the socket brings and gives what it means; ``has_ended`` is true once the
    peer has said goodbye behind that. ``fail`` is told why the connection cannot go on.
    """

    __slots__ = (
        "_fail",
        "_incoming",
        "_is_ready",
        "_limit",
        "_outgoing",
        "_secure",
        "_transport",
        "has_ended",
    )

    def __init__(
        self, transport: SocketTransport, context: SSLContext, fail: Callable[[str], None]
    ) -> None:
        self._transport = transport
        self._incoming = MemoryBIO()
        self._outgoing = MemoryBIO()
        self._secure: SSLObject = context.wrap_bio(self._incoming, self._outgoing, server_side=True)
        self._is_ready = self.has_ended = False
        self._fail = fail
        told = partial(fail, f"its TLS handshake took more than {HANDSHAKE_S} s")
        self._limit = transport.call_later(HANDSHAKE_S, told)

    def receive(self, data: bytes) -> bytes:
        """Give what came in so far; nothing during the handshake."""
        self._incoming.write(data)
        found: list[bytes] = []
        try:
            if not self._is_ready:
                self._secure.do_handshake()
                self._is_ready = True
                self._limit.cancel()
            while part := self._secure.read(READ_SIZE):
                found.append(part)
            self.has_ended = True
        except SSLWantReadError:
            pass
        except SSLError as error:
            self._flush()  # the alert that says so
            self._fail(f"TLS fails: {error.reason or error}")
            return b""
        self._flush()
        return b"".join(found)

    def write(self, data: bytes | memoryview) -> None:
        """Write what only the peer can read. Nobody was asked anything before the handshake."""
        if not self._is_ready or self._transport.is_closing():
            return
        rest = memoryview(data)
        while rest:
            rest = rest[self._secure.write(rest) :]
        self._flush()

    def writelines(self, parts: list[bytes]) -> None:
        """Write several one behind the other."""
        self.write(b"".join(parts))

    def _flush(self) -> None:
        if self._outgoing.pending and not self._transport.is_closing():
            self._transport.write(self._outgoing.read())

    def forget(self) -> None:
        """Let go of everything: the connection is lost, but may be remembered for long."""
        self._limit.cancel()
        del self._secure, self._incoming, self._outgoing, self._fail

    def close(self) -> None:
        """Say goodbye, and close after what is buffered has been written."""
        if self._is_ready and not self._transport.is_closing():
            with suppress(SSLError):  # the peer's own goodbye is not waited for
                self._secure.unwrap()
            self._flush()
        self._transport.close()

    # -- as the transport below ---------------------------------------------------------------

    def abort(self) -> None:
        """Close at once."""
        self._transport.abort()

    def is_closing(self) -> bool:
        """Say whether nothing can be written any more."""
        return self._transport.is_closing()

    def get_write_buffer_size(self) -> int:
        """Give the bytes that the socket has not taken."""
        return self._transport.get_write_buffer_size()

    def pause_reading(self) -> None:
        """Let the peer wait."""
        self._transport.pause_reading()

    def resume_reading(self) -> None:
        """Let the peer go on."""
        self._transport.resume_reading()

    def reset_on_close(self) -> None:
        """Let the kernel send a reset when the socket closes."""
        self._transport.reset_on_close()
