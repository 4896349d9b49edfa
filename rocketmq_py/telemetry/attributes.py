"""What spans say of messages, in the names of OpenTelemetry's conventions for RocketMQ.

Facts: the messaging conventions 1.3x, attributes ``messaging.*`` and ``messaging.rocketmq.*``.
What these do not name has the prefix ``rocketmq_py.``. Must not know spans; that is ``spans.py``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeAlias

from rocketmq_py.clock import wall_ms
from rocketmq_py.errors import DelayValueError
from rocketmq_py.message import Message, MessageBatch, MessageExt
from rocketmq_py.protocol.delay import delay_level, has_delay, requested_time
from rocketmq_py.protocol.properties import Prop

Value: TypeAlias = str | bool | int | float | Sequence[str]
Attributes: TypeAlias = dict[str, Value]

ROCKETMQ = "messaging.rocketmq.message."


def operation(kind: str, name: str, topic: str, client_id: str) -> Attributes:
    """Name what is done: ``kind`` is send, receive, process or settle."""
    return {
        "messaging.system": "rocketmq",
        "messaging.operation.type": kind,
        "messaging.operation.name": name,
        "messaging.destination.name": topic,
        "messaging.client.id": client_id,
    }


def server(address: str) -> Attributes:
    """Name the broker at an address ``host:port``."""
    host, _, port = address.rpartition(":")
    named: Attributes = {"server.address": host.strip("[]") or address}
    if port.isascii() and port.isdigit():
        named["server.port"] = int(port)
    return named


def sent(message: Message) -> Attributes:
    """Describe a message, or the messages of a batch."""
    if isinstance(message, MessageBatch):
        return {"messaging.batch.message_count": len(message)}
    return described(message)


def received(messages: Sequence[MessageExt]) -> Attributes:
    """Describe messages that came together, as far as that is not said by their links."""
    if len(messages) > 1:
        return {"messaging.batch.message_count": len(messages)}
    return arrived(messages[0])


def arrived(message: MessageExt) -> Attributes:
    """Describe a message that arrived, and how often it has come before."""
    return {**described(message), "rocketmq_py.reconsume_times": message.reconsume_times}


def described(message: Message) -> Attributes:
    """Describe one message."""
    properties = _as_sent(message)
    found: Attributes = {
        "messaging.message.body.size": len(message.body),
        f"{ROCKETMQ}type": kind_of(properties),
    }
    msg_id = message.msg_id if isinstance(message, MessageExt) else properties.get(Prop.UNIQ_KEY)
    if msg_id:
        found["messaging.message.id"] = msg_id
    if message.keys:
        found[f"{ROCKETMQ}keys"] = tuple(message.keys)
    if message.tags:
        found[f"{ROCKETMQ}tag"] = message.tags
    group = properties.get(Prop.SHARDING_KEY)
    if group:
        found[f"{ROCKETMQ}group"] = group
    return {**found, **_delay(message, properties)}


def _as_sent(message: Message) -> Mapping[str, str]:
    """Give the properties without the delay level of a retry, which is not the sender's."""
    properties = message.properties
    if isinstance(message, MessageExt) and message.reconsume_times and Prop.DELAY in properties:
        return {name: value for name, value in properties.items() if name != Prop.DELAY}
    return properties


def kind_of(properties: Mapping[str, str]) -> str:
    """Tell the type of a message from its properties."""
    if properties.get(Prop.TRAN_MSG, "").lower() == "true":
        return "transaction"
    if has_delay(properties):
        return "delay"
    return "fifo" if Prop.SHARDING_KEY in properties else "normal"


def _delay(message: Message, properties: Mapping[str, str]) -> Attributes:
    """Tell the delay: its level, or when it ends; a relative one counts from the sender's clock."""
    try:
        level = delay_level(properties)
        if level > 0:
            return {f"{ROCKETMQ}delay_time_level": level}
        asked = requested_time(properties, start_deliver=True)
        if asked is None:
            return {}
        begun = message.born_timestamp if isinstance(message, MessageExt) else wall_ms()
        return {f"{ROCKETMQ}delivery_timestamp": asked.due_ms(begun)}
    except DelayValueError:  # the broker says what it cannot read
        return {}
