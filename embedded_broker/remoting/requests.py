"""Types that an endpoint and its handlers share: connection, request, answer, handler.

Answers: what a connection can do, what a decoded request is, what a handler gives back, how it
refuses, and how requests that follow each other are handled in one call. Must not know: who handles
what. Read on: ``endpoint.py``, which makes requests and sends answers.
"""

from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import NamedTuple

from embedded_broker.remoting.journal import Exchange
from embedded_broker.tables.peer import Peer
from rocketmq_py.protocol.command import RemotingCommand
from rocketmq_py.protocol.frame import Buffer


class SharedBytes(bytes):
    """A body that many get at once: it is not copied into their frames."""

    __slots__ = ()


class Connection(Peer):
    """A peer that is reached by frames, over TCP or in the same process."""

    is_stream = False
    """Whether there is a socket: a frame may be delivered in parts, and who is idle is closed."""

    __slots__ = ("used_ms",)

    def __init__(self, remote: tuple[str, int], local: tuple[str, int]) -> None:
        super().__init__(remote, local)
        self.used_ms = 0

    @abstractmethod
    def deliver(self, frames: list[bytes]) -> None:
        """Send whole frames in order. Called outside the door, on any thread; never blocks."""

    def give_way(self, go_on: Callable[[], None]) -> bool:  # noqa: ARG002 - for others to use
        """Let others have their turn before ``go_on``; false where there are no turns."""
        return False


class Request(NamedTuple):
    """One command that wants an answer."""

    connection: Connection
    command: RemotingCommand
    exchange: Exchange


class WrittenAnswer(NamedTuple):
    """An answer whose JSON header is written already; see ``answer_patterns.py``."""

    code: int
    remark: str | None
    header: bytes
    body_parts: Sequence[Buffer] = ()


Answer = RemotingCommand | WrittenAnswer

Handler = Callable[[Request], Answer | None]
"""Returns the answer; None when it is given later (``Endpoint.answer``) or there is none."""


class GroupHandler:
    """Handles requests of one connection that follow each other, all in one call.

    A request that comes alone is a group of one.
    """

    __slots__ = ()

    @abstractmethod
    def take(self, requests: Sequence[Request]) -> Sequence[Answer | None]:
        """Give the answer to each, as a `Handler` does; a refusal is an answer."""


class RequestError(Exception):
    """Raised by a handler: answer ``code`` with ``remark`` and these header fields."""

    def __init__(self, code: int, remark: str, ext_fields: dict[str, str] | None = None) -> None:
        super().__init__(remark)
        self.code = int(code)
        self.remark = remark
        self.ext_fields = ext_fields
