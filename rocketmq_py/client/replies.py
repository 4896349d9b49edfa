"""Who waits for which reply: request 326.

``ClientRemotingProcessor.receiveReplyMessage``: a broker pushes the reply to a request that a
producer of this client has sent. It is matched by its CORRELATION_ID. Must not know how a request
is sent, nor how long it waits; that is ``producer/requesting.py``.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeAlias

from rocketmq_py.clock import wall_ms
from rocketmq_py.logs import get_logger
from rocketmq_py.protocol.codes import ResponseCode
from rocketmq_py.protocol.properties import Prop

if TYPE_CHECKING:
    from rocketmq_py.message import MessageExt
    from rocketmq_py.protocol.command import RemotingCommand

_log = get_logger(__name__)

OnReply: TypeAlias = Callable[["MessageExt"], None]


class Replies:
    """The requests of one client that wait, by correlation id. Safe from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waiting: dict[str, OnReply] = {}

    def __len__(self) -> int:
        return len(self._waiting)

    def expect(self, correlation_id: str, on_reply: OnReply) -> None:
        """Let ``on_reply`` have the reply as it was sent, on a background thread.

        It may be compressed (`MessageExt.unpacked`). ``on_reply`` must not block.
        """
        with self._lock:
            self._waiting[correlation_id] = on_reply

    def forget(self, correlation_id: str) -> None:
        """Wait no longer; a reply that comes all the same is dropped."""
        with self._lock:
            self._waiting.pop(correlation_id, None)

    def serve(self, command: RemotingCommand) -> RemotingCommand:
        """Hand a request 326 to who waits for it, and answer that it has come.

        One that nobody waits for any more is logged and answered all the same, as Java does.
        Raises `RemotingCommandException` for a request that cannot be read.
        """
        reply = read_reply(command)
        correlation_id = reply.properties.get(Prop.CORRELATION_ID, "")
        with self._lock:
            on_reply = self._waiting.pop(correlation_id, None)
        if on_reply is None:
            _log.warning("reply dropped: no request %s waits here", correlation_id)
        else:
            on_reply(reply)
        return command.answer(ResponseCode.SUCCESS)


def read_reply(command: RemotingCommand) -> MessageExt:
    """Make the message of a request 326, compressed if it is; it gets the property ARRIVE_TIME."""
    from rocketmq_py.message import MessageExt  # most producers only send
    from rocketmq_py.protocol.headers.send import PushReplyMessageRequestHeader
    from rocketmq_py.protocol.properties import decode_properties

    header = PushReplyMessageRequestHeader.from_ext(command.ext_fields)
    properties = decode_properties(header.properties or "")
    properties[Prop.ARRIVE_TIME] = str(wall_ms())
    return MessageExt(
        header.topic,
        bytes(command.body),
        properties=properties,
        flag=header.flag,
        queue_id=header.queue_id,
        sys_flag=header.sys_flag,
        born_timestamp=header.born_timestamp,
        born_host_bytes=_packed(header.born_host),
        store_timestamp=header.store_timestamp,
        store_host_bytes=_packed(header.store_host),
        reconsume_times=header.reconsume_times or 0,
    )


def _packed(host: str) -> bytes:
    """Give an ``ip:port`` as it is stored; nothing for what is none."""
    from rocketmq_py.protocol.handles import pack_host

    ip, _, port = host.rpartition(":")
    try:
        return pack_host(ip.strip("[]").lstrip("/"), int(port))
    except ValueError:
        return b""
