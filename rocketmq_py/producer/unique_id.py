"""Who names a message: its UNIQ_KEY, made once, in the thread of the sender.

``MessageClientIDSetter`` of the original. A message that is sent again keeps its id, so retries
can be told from new messages. The layout is in ``protocol/handles.py``.
"""

from __future__ import annotations

from rocketmq_py.client.pool import local_address
from rocketmq_py.message import Message
from rocketmq_py.protocol.handles import UniqIdGenerator
from rocketmq_py.protocol.properties import Prop

__all__ = ["give_id"]

_generator: UniqIdGenerator | None = None


def give_id(message: Message) -> str:
    """Return the message's id, giving it a new one when it has none."""
    global _generator
    msg_id = message.properties.get(Prop.UNIQ_KEY)
    if msg_id is None:
        generator = _generator
        if generator is None:
            # Two first senders may make one each: the ids of both are unique all the same.
            generator = _generator = UniqIdGenerator(local_address())
        msg_id = message.properties[Prop.UNIQ_KEY] = generator.next()
    return msg_id
