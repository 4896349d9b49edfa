"""What an endpoint and its handlers hand to each other: who asks, and what.

Answers: what a connection can do, what a request is before and after it is decoded, how a handler
refuses, and what is known of sends and pulls that are read without decoding them. Must not know:
who handles what. Read on: ``endpoint.py``, which makes them.
"""

from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple, Protocol

from attrs import define

from embedded_broker.core.incoming import Incoming
from embedded_broker.remoting.journal import Exchange
from embedded_broker.tables.peer import Peer
from rocketmq_py.protocol.command import RemotingCommand
from rocketmq_py.protocol.frame import Frame

if TYPE_CHECKING:
    from embedded_broker.remoting.handlers.consume.pull_form import UsualPull


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


class LazyRequest(NamedTuple):
    """One request whose command is decoded only if somebody asks for it."""

    connection: Connection
    frame: Frame
    exchange: Exchange

    def request(self) -> Request:
        """Decode it."""
        return Request(self.connection, RemotingCommand.decode(self.frame), self.exchange)


Handler = Callable[[Request], RemotingCommand | None]
"""Returns the answer; None when it is given later (``Endpoint.answer``) or there is none."""


class RequestError(Exception):
    """Raised by a handler: answer ``code`` with ``remark`` and these header fields."""

    def __init__(self, code: int, remark: str, ext_fields: dict[str, str] | None = None) -> None:
        super().__init__(remark)
        self.code = int(code)
        self.remark = remark
        self.ext_fields = ext_fields


@define(slots=True, eq=False)
class Send:
    """A request 310 that is read already; ``fields`` are those of its header."""

    frame: Frame
    opaque: int
    fields: dict[str, str]
    message: Incoming


class Sends(Protocol):
    """Who takes sends that come together; ``handlers/send/send_message.py`` does."""

    def read(self, frame: Frame) -> Send | None:
        """Give the send if it is one in its usual form."""

    def take(self, connection: Connection, sends: Sequence[Send]) -> Iterator[bytes | Handler]:
        """Accept sends; give the header of each answer, or who answers the request."""


class Pulls(Protocol):
    """Who takes pulls; ``handlers/consume/pull_message.py`` does."""

    def read(self, frame: Frame) -> "UsualPull | None":
        """Give what a request says that is one in its usual form."""

    def read_on(self, usual: "UsualPull", changes: int | None, now_ms: int) -> bytes | None:
        """Do it if it is like one that was checked; give the frame of an answer with messages.

        ``changes`` are those of the door; None when there are more already.
        """

    def take(
        self, usual: "UsualPull", asked: LazyRequest, changes: int | None
    ) -> bytes | Handler | None:
        """Do it; give the frame of an answer with messages, or who answers, or neither of them.

        Neither: the answer comes later.
        """
