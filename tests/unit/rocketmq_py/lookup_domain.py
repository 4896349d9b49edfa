"""A server of HTTP on loopback that names name servers, or does what a test says."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

WAIT_S = 10.0


class LookupDomain:
    """Answers every GET with ``text`` and ``status``; `paths` has what was asked for.

    While `quiet` is set its answers do not end: each goes on byte by byte, so that no pause between
    two of them is long.
    """

    def __init__(self, text: str = "") -> None:
        self.text = text
        self.status = 200
        self.headers: dict[str, str] = {}
        self.quiet = threading.Event()
        self.paths: list[str] = []
        self._asked = threading.Condition()
        domain, ended = self, threading.Event()
        self._ended = ended

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                with domain._asked:
                    domain.paths.append(self.path)
                    domain._asked.notify_all()
                with contextlib.suppress(OSError):  # who asked may have gone
                    self._answer()

            def _answer(self) -> None:
                self.wfile.write(b"HTTP/1.0 %d of a test\r\nX-Wait: " % domain.status)
                while domain.quiet.is_set() and not ended.wait(0.01):
                    self.wfile.write(b".")
                body = domain.text.encode()
                headers = {**domain.headers, "Content-Length": str(len(body))}
                lines = "".join(f"\r\n{name}: {value}" for name, value in headers.items())
                self.wfile.write(f"{lines}\r\n\r\n".encode() + body)

            def log_message(self, *_: object) -> None:
                """Say nothing."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.address = f"127.0.0.1:{self._server.server_address[1]}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))
        self._thread.start()

    def wait_for(self, count: int) -> None:
        """Wait until it has been asked so often."""
        with self._asked:
            assert self._asked.wait_for(lambda: len(self.paths) >= count, WAIT_S)

    def close(self) -> None:
        self._ended.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(WAIT_S)


@contextlib.contextmanager
def lookup_domain(text: str = "") -> Iterator[LookupDomain]:
    made = LookupDomain(text)
    try:
        yield made
    finally:
        made.close()
