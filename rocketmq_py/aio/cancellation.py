"""What became of a message whose send was cancelled.

Cancelling a task ends its wait, not the send: what is on its way to a broker cannot be taken back.
The ``CancelledError`` stays the one that asyncio made, because ``asyncio.timeout``, task groups and
anyio look at it; the send is its cause, and `cancelled_send` finds it. Must not know who cancels.
"""

from concurrent.futures import Future
from functools import partial
from typing import Any

from rocketmq_py.errors import RocketMQError
from rocketmq_py.logs import get_logger
from rocketmq_py.message import Message, MessageBatch
from rocketmq_py.protocol.properties import Prop

_log = get_logger(__name__)


class SendCancelledError(RocketMQError):
    """The task that waited for a send was cancelled. Cancelling is not taking back.

    `possibly_stored` is False when no broker has the message or will get it: it waited for room,
    or its send had failed by then. `msg_id` is the message's id, None when it has none yet: a
    message that is sent again keeps it, so a consumer can tell the two. It is the cause of the
    ``CancelledError``; see `cancelled_send`.
    """

    possibly_stored: bool = False
    msg_id: str | None = None


def cancelled_send(error: BaseException) -> SendCancelledError | None:
    """Return the send that a ``CancelledError`` or a time-out has ended, None when it ended none.

    >>> import asyncio
    >>> async def impatient(producer: "Producer", message: Message) -> None:
    ...     try:
    ...         async with asyncio.timeout(0.1):
    ...             await producer.send(message)
    ...     except TimeoutError as error:
    ...         send = cancelled_send(error)
    ...         if send is not None and send.possibly_stored:
    ...             print("ask whether it was stored before sending another", send.msg_id)
    """
    seen: set[int] = set()
    following: BaseException | None = error
    while following is not None and id(following) not in seen:
        if isinstance(following, SendCancelledError):
            return following
        seen.add(id(following))
        following = following.__cause__ or following.__context__
    return None


def described(
    message: Message, *, possibly_stored: bool, sending: bool = False
) -> SendCancelledError:
    """Build the cause of a cancellation; ``sending``: the send goes on without its task."""
    msg_id = id_of(message)
    if sending:
        told = "it is on its way, so a broker may have it, or get it yet"
    elif possibly_stored:
        told = "a broker may have it"
    else:
        told = "no broker has it, and none gets it"
    error = SendCancelledError(
        f"the task that sent message {msg_id or 'without id'} to topic {message.topic} was "
        f"cancelled: {told}",
        topic=message.topic,
    )
    error.possibly_stored, error.msg_id = possibly_stored, msg_id
    return error


def id_of(message: Message) -> str | None:
    """Return the id of a message, the ids of a batch; None before there is one."""
    if isinstance(message, MessageBatch):
        ids = [one.properties.get(Prop.UNIQ_KEY) for one in message]
        return ",".join(one for one in ids if one is not None) or None
    return message.properties.get(Prop.UNIQ_KEY)


def log_outcome(message: Message, send: Future[Any]) -> None:
    """Log how a send ends that nobody waits for any more; its result may be of any kind."""
    send.add_done_callback(partial(_log_late, message.topic, id_of(message)))


def _log_late(topic: str, msg_id: str | None, send: Future[Any]) -> None:
    error = send.exception()
    if error is None:
        _log.info("cancelled send was stored all the same topic=%s msg_id=%s", topic, msg_id)
    else:
        _log.info("cancelled send failed topic=%s msg_id=%s: %s", topic, msg_id, error)
