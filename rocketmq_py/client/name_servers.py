"""Which name servers a client asks: those of ``namesrv_addr``, or those that a domain names.

A domain is a server of HTTP that answers with a list of addresses (``TopAddressing`` of the
original). It is asked at the start, every two minutes, and when somebody needs a name server and
none is known; never when addresses are given. Whoever needs it waits for a future, so no event loop
does. Bounds: one question at a time, `LOOK_MS` for whoever waits, `ANSWER_MAX` bytes, no proxy, no
redirection. Must not know what name servers are asked.
"""

from __future__ import annotations

import random
import socket
import threading
from collections.abc import Callable
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Final, Protocol

from rocketmq_py.clock import monotonic
from rocketmq_py.config import (
    NAMESRV_ADDR_VARIABLE,
    ClientConfig,
    lookup_address,
    split_addresses,
    split_host_port,
)
from rocketmq_py.errors import ConfigError, NameServerUnavailableError
from rocketmq_py.logs import get_logger
from rocketmq_py.protocol.codes import ResponseCode

if TYPE_CHECKING:
    from http.client import HTTPConnection

_log = get_logger(__name__)

LOOK_EVERY_MS: Final = 120_000
LOOK_MS: Final = 3_000
"""How long the answer of a domain may take."""
ANSWER_MAX: Final = 65_536
AGAIN_AFTER_S: Final = 1.0
"""A domain that has just failed is not asked within so long."""
NAME_THEM: Final = (
    f"set namesrv_addr='host:9876', or the environment variable {NAMESRV_ADDR_VARIABLE}"
)
_OK: Final = 200

Addresses = tuple[str, ...]


class Means(Protocol):
    """What the client instance lends: threads that may wait, and a timer."""

    def submit_background(self, task: Callable[..., object], *args: object) -> bool:
        """Run what may wait for a server; False: full or closed."""

    def schedule_after(self, delay_ms: float, task: Callable[[], object]) -> object:
        """Run something once on the timer thread; it must not block."""


class NameServers:
    """The name servers of one client instance. Every call is safe from any thread."""

    def __init__(self, config: ClientConfig, means: Means) -> None:
        self._means = means
        self._lock = threading.Lock()
        self.addresses: Addresses = _in_any_order(config.name_servers)
        """Those that are known now."""
        self.domain = "" if self.addresses else lookup_address(config)
        """Where they are asked for; "": they are given, or there is no domain."""
        self._answer: Future[Addresses] | None = None  # of the last question to the domain
        self._is_asking = False
        self._again_at = 0.0
        self._socket: socket.socket | None = None
        self._closed = False

    def set(self, addresses: str) -> None:
        """Use others from now on, as the program says; a domain is not asked any more."""
        with self._lock:
            self.domain = ""
            self.addresses = _in_any_order(split_addresses(addresses))

    def known(self, topic: str | None = None) -> Future[Addresses]:
        """Give those that are known, or else what the domain will answer.

        The future has at least one, or `NameServerUnavailableError`, which names the ``topic``.
        """
        answer: Future[Addresses] = Future()
        with self._lock:
            if self.addresses:
                answer.set_result(self.addresses)
                return answer
            if self.domain:
                return self._asked()
        answer.set_exception(_unavailable(f"no name server address: {NAME_THEM}", topic))
        return answer

    def look(self) -> None:
        """Ask the domain in background which ones there are now."""
        with self._lock:
            if self.domain:
                self._asked()

    def close(self) -> None:
        """Ask no more; whoever waits for an answer is told so. Idempotent."""
        with self._lock:
            self._closed = True
            answer = self._answer
        if answer is not None:
            self._end(answer, "the client is shut down")

    def _asked(self) -> Future[Addresses]:
        """Give what becomes of a question to the domain, under the lock."""
        answer, domain = self._answer, self.domain
        if answer is not None and (self._is_asking or monotonic() < self._again_at):
            return answer
        answer = self._answer = Future()
        answer.set_running_or_notify_cancel()  # nobody may cancel it for all others
        self._is_asking = not self._closed and self._means.submit_background(
            self._ask, domain, answer
        )
        if self._is_asking:
            too_late = f"{domain} has not answered within {LOOK_MS} ms"
            self._means.schedule_after(LOOK_MS, partial(self._end, answer, too_late))
        else:
            answer.set_exception(_unavailable("the client is shut down, or asks too much"))
        return answer

    def _end(self, answer: Future[Addresses], reason: str) -> None:
        """Give up a question that has no answer yet, and the connection that it waits for."""
        with suppress(InvalidStateError):
            answer.set_exception(_unavailable(reason))
            connection = self._socket
            if connection is not None:
                with suppress(OSError):
                    connection.shutdown(socket.SHUT_RDWR)

    def _ask(self, domain: str, answer: Future[Addresses]) -> None:
        """Ask the domain, on a thread that may wait; later answers count for the next ones."""
        found: Addresses = ()
        problem: NameServerUnavailableError | None = None
        try:
            found = _in_any_order(_addresses_in(domain, self._read(domain)))
        except NameServerUnavailableError as error:
            problem = error
        except Exception as error:  # noqa: BLE001 - somebody waits for an outcome
            problem = _no_answer(domain, f"{type(error).__name__}: {error}")
        with self._lock:
            self._is_asking, self._socket = False, None
            self._again_at = monotonic() + AGAIN_AFTER_S if problem is not None else 0.0
            is_wanted = self.domain == domain and not self._closed
            if problem is None and is_wanted and set(found) != set(self.addresses):
                self.addresses = found
                _log.info("name servers of %s: %s", domain, ";".join(found))
        with suppress(InvalidStateError):
            if problem is None:
                answer.set_result(found)
            else:
                answer.set_exception(problem)
        if problem is not None and is_wanted:
            kept = f"; still used: {';'.join(self.addresses)}" if self.addresses else ""
            _log.warning("name servers cannot be looked up: %s%s", problem, kept)

    def _read(self, domain: str) -> bytes:
        """Get what the domain says; its connection ends with the time for it."""
        from http.client import HTTPException

        connection, path = _connection(domain)
        try:
            connection.connect()
            with self._lock:
                if self._closed:
                    raise _unavailable("the client is shut down")
                self._socket = connection.sock
            connection.request("GET", path)
            with connection.getresponse() as answer:  # of less than all, it keeps the socket open
                body = answer.read(ANSWER_MAX + 1)
        except (OSError, ValueError, HTTPException) as error:
            raise _no_answer(domain, str(error) or type(error).__name__) from error
        finally:
            connection.close()
        if answer.status != _OK:
            raise _no_answer(domain, f"it answered {answer.status} {answer.reason}")
        if len(body) > ANSWER_MAX:
            raise _no_answer(domain, f"its answer has more than {ANSWER_MAX} bytes")
        return body


def _connection(domain: str) -> tuple[HTTPConnection, str]:
    """Make the connection for an address of `lookup_address`, and give the path to ask for.

    By `http.client`, not `urllib.request`: that would ask proxies and follow redirections.
    """
    from http.client import HTTPConnection, HTTPSConnection  # only for those who use it

    scheme, _, rest = domain.partition("://")
    host, _, path = rest.partition("/")
    kind = HTTPSConnection if scheme == "https" else HTTPConnection
    return kind(host, timeout=LOOK_MS / 1000), f"/{path}"


def _addresses_in(domain: str, body: bytes) -> Addresses:
    """Read the first line of an answer: ``host:port;host:port``."""
    lines = body.decode("utf-8", "replace").strip().splitlines()
    first = lines[0] if lines else ""
    found = split_addresses(first)
    for address in found:
        try:
            split_host_port(address)
        except ConfigError as error:
            problem = f"it answered {first[:80]!r}, which is no list of host:port;host:port"
            raise _no_answer(domain, problem) from error
    if not found:
        raise _no_answer(domain, "it answered no address")
    return found


def _in_any_order(addresses: Addresses) -> Addresses:
    """Shuffle: not all clients shall begin with the same one."""
    shuffled = list(addresses)
    random.shuffle(shuffled)
    return tuple(shuffled)


def _no_answer(domain: str, problem: str) -> NameServerUnavailableError:
    return _unavailable(
        f"{domain} tells no name server: {problem}. Check namesrv_domain, or {NAME_THEM}"
    )


def _unavailable(text: str, topic: str | None = None) -> NameServerUnavailableError:
    return NameServerUnavailableError(
        text, response_code=ResponseCode.NO_NAME_SERVER_EXCEPTION, topic=topic
    )
