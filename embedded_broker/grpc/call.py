"""One call of a client, from its arrival to the bytes of its answer.

Answers: who calls, what was said, and that an answer is given once. What is to be undone when the
client does not get it stands here. Must not know: what any call means, loops. Read on:
``endpoint.py``.
"""

from collections.abc import Callable, Sequence
from typing import Any

from attrs import define, field

from embedded_broker.core.guards import Action, Resource
from embedded_broker.door import Door
from embedded_broker.grpc.auth import Metadata
from embedded_broker.grpc.clients import GrpcClient
from embedded_broker.grpc.status import Aborted
from embedded_broker.remoting.journal import Exchange
from rocketmq_py.protocol.rpc import Rpc


@define(eq=False, kw_only=True)
class Call:
    """A call that wants one answer; a stream of several messages is one answer, too.

    ``remaining_ms`` is how long its client waits, None for ever. ``tell`` hands the answer, or how
    the call is aborted, to who waits for it. It may be called on any thread, outside the door.
    """

    rpc: Rpc
    client: GrpcClient
    metadata: Metadata
    request: Any  # a message of protobuf
    remaining_ms: int | None
    fields: dict[str, str]
    """What was said, as the journal shows it."""
    exchange: Exchange
    door: Door
    tell: Callable[[list[bytes] | Aborted], None]
    undo: Callable[[], None] | None = field(default=None, init=False)
    """Is done under the door when the client does not get the answer."""
    is_answered: bool = field(default=False, init=False)
    spoilt: str = field(default="", init=False)
    """The verb of a fault about the answer, if one was chosen."""
    closed: bool = field(default=False, init=False)
    _aborted: Aborted | None = field(default=None, init=False)

    def deliver(self, frames: list[bytes]) -> None:
        """Hand the answer over; the door does so once it is released."""
        self.tell(frames if self._aborted is None else self._aborted)

    def abort(self, name: str, text: str) -> None:
        """End the call with a status of gRPC itself. Under the door."""
        self.is_answered, self._aborted = True, Aborted(name, text)
        self.door.emit(self, b"")

    def close(self) -> None:
        """End the call: too much waits. Outside the door."""
        self.tell(Aborted("RESOURCE_EXHAUSTED", "too many requests wait for a paused broker"))

    def lost(self) -> None:
        """Note that the client does not get the answer. Outside the door."""
        with self.door:
            self.closed = True
            self.take_back()

    def take_back(self) -> None:
        """Undo what was done for the client, once. Under the door."""
        undo, self.undo = self.undo, None
        if undo is not None:
            undo()


@define
class Asked:
    """A call that was read: what it wants to do with what, and how it is done under the door.

    ``handle`` gives the answer, or None when that comes later.
    """

    handle: Callable[[], Any]
    action: Action
    resources: Sequence[Resource] = ()
    also: Sequence[Action] = ()
