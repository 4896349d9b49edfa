"""Calls of the broker to its clients, and which of them wait for an answer.

Answers: what can be said to a client, as values; to which call an answer belongs; and how a call
ends that gets none. Must not know: frames, codes. A wire sends a call and gives it a number, under
which it hands in the answer. Read on: ``embedded_broker/remoting/client_requests.py``.
"""

from collections import Counter
from collections.abc import Callable, Mapping
from enum import Enum, auto
from typing import Final, Protocol

from attrs import frozen

from embedded_broker.clocks.session import Session, SessionTimer
from embedded_broker.core.refusals import OVERLOAD, Reason, Refused
from embedded_broker.core.send_values import Incoming
from embedded_broker.tables.peer import Peer
from rocketmq_py.logs import get_logger
from rocketmq_py.protocol.bodies.document import MessageQueueKey

logger = get_logger(__name__)

ANSWER_WAIT_MS: Final = 3_000
CLIENT_WAIT_MS: Final = 10_000
"""How long a client has for what somebody else waits for (`Broker2Client.callClient`)."""
PENDING_MAX: Final = 10_000
"""Most calls that wait at one time. Calls whose end nobody wants to hear get half of the room."""


@frozen
class GroupChanged:
    """Members of a consumer group came or went, or its subscriptions changed."""

    group: str


@frozen(kw_only=True)
class CheckTransaction:
    """What became of this transaction? ``record`` is its half message as stored."""

    queue_offset: int
    commit_log_offset: int
    unique_key: str | None
    offset_id: str
    topic: str
    broker_name: str
    record: bytes


@frozen(kw_only=True)
class ResetOffsets:
    """Continue at these offsets."""

    group: str
    topic: str
    timestamp: int
    offsets: Mapping[MessageQueueKey, int]
    as_list: bool = False
    """A C++ client reads no table with queues as keys."""


@frozen(kw_only=True)
class PushReply:
    """This is the reply to a request of yours; hosts are `ip:port`."""

    message: Incoming
    producer_group: str
    born_host: str
    store_host: str
    stored_ms: int


@frozen
class TellRunningInfo:
    """Say how you are, as a consumer of this group."""

    group: str
    client_id: str
    with_stacks: bool = False


@frozen
class TellOffsets:
    """Say how far you are in this topic."""

    group: str
    topic: str


@frozen(kw_only=True)
class ConsumeDirectly:
    """Consume this message now, and say what came of it."""

    group: str
    client_id: str
    msg_id: str
    topic: str | None
    broker_name: str
    topic_sys_flag: int | None
    group_sys_flag: int | None
    record: bytes


Call = (
    GroupChanged
    | CheckTransaction
    | ResetOffsets
    | PushReply
    | TellRunningInfo
    | TellOffsets
    | ConsumeDirectly
)


class End(Enum):
    """How a call ended."""

    ANSWERED = auto()
    TIMED_OUT = auto()
    GONE = auto()
    """The client left before it answered, or was gone already."""


@frozen
class Answer:
    """What a client answered: whether it agreed, why not, and what it sent along."""

    accepted: bool
    remark: str | None
    body: bytes


OnEnd = Callable[[End, Answer | None], None]


class Wire(Protocol):
    """Who brings calls to clients; ``remoting.endpoint.Endpoint`` does."""

    def call(self, peer: Peer, call: Call) -> int | None:
        """Send a call and give its number; None when the client is not reached this way."""


@frozen(eq=False)
class _Pending:
    on_end: OnEnd | None
    timer: SessionTimer


class ClientCalls:
    """The calls of one broker to its clients. Used under the door.

    ``counts`` says how often a call ended in which way. ``unmatched`` counts answers that belong to
    no call that waits: they came late, twice, or from somebody who was not asked.
    """

    def __init__(self, session: Session) -> None:
        self._session = session
        self._pending: dict[Peer, dict[int, _Pending]] = {}
        self._count = 0
        self.wires: list[Wire] = []
        self.counts: Counter[End] = Counter()
        self.unmatched = 0

    def __len__(self) -> int:
        return self._count

    def tell(self, peer: Peer, call: Call) -> None:
        """Send something that is not answered."""
        self._send(peer, call)

    def ask(
        self,
        peer: Peer,
        call: Call,
        *,
        on_end: OnEnd | None = None,
        wait_ms: int = ANSWER_WAIT_MS,
    ) -> None:
        """Send something that may be answered, and wait for it in session time.

        ``on_end`` is called once: at once for a client that is gone, else later. Raises ``Refused``
        when too many calls wait; without ``on_end`` the call is sent then and not waited for.
        """
        if on_end is not None and self._count >= PENDING_MAX:
            raise Refused(
                Reason.BUSY, f"{OVERLOAD}: {PENDING_MAX} calls to clients wait for their answers"
            )
        number = self._send(peer, call)
        if number is None:
            self._end(on_end, End.GONE, None)
        elif on_end is not None or self._count < PENDING_MAX // 2:

            def give_up() -> None:
                self._leave(peer, number, End.TIMED_OUT)

            timer = self._session.after(wait_ms, give_up, "answer of a client")
            self._pending.setdefault(peer, {})[number] = _Pending(on_end, timer)
            self._count += 1

    def answered(self, peer: Peer, number: int, answer: Answer) -> None:
        """Take a client's answer; one that belongs to no call is counted and dropped."""
        if not self._leave(peer, number, End.ANSWERED, answer):
            self.unmatched += 1

    def forget(self, peer: Peer) -> None:
        """End the calls to a client that has left."""
        for number in list(self._pending.get(peer, ())):
            self._leave(peer, number, End.GONE)

    def forget_all(self) -> None:
        """End every call: this broker asks nobody any more."""
        for peer in list(self._pending):
            self.forget(peer)

    def _send(self, peer: Peer, call: Call) -> int | None:
        numbers = (wire.call(peer, call) for wire in self.wires)
        return next((number for number in numbers if number is not None), None)

    def _leave(self, peer: Peer, number: int, end: End, answer: Answer | None = None) -> bool:
        calls = self._pending.get(peer, {})
        pending = calls.pop(number, None)
        if pending is None:
            return False
        if not calls:
            del self._pending[peer]
        self._count -= 1
        pending.timer.cancel()
        self._end(pending.on_end, end, answer)
        return True

    def _end(self, on_end: OnEnd | None, end: End, answer: Answer | None) -> None:
        self.counts[end] += 1
        if on_end is None:
            return
        try:
            on_end(end, answer)
        except Exception:
            # Whoever happens to bring the answer, or the time, must not suffer.
            logger.exception("the end of a call to a client was not handled")
