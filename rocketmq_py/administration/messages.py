"""Stored messages: by id, by key, by store time, by offset, and what became of one in each group.

Must not know settings. Read on: ``../client/queries.py`` for what producers and consumers may ask.
"""

from collections.abc import Iterable
from datetime import datetime
from typing import Final

from rocketmq_py.administration.broker_addresses import masters_of, route
from rocketmq_py.administration.groups import address_of, members
from rocketmq_py.administration.progress import of_group
from rocketmq_py.administration.servers import Servers
from rocketmq_py.administration.table import ASK_AGAIN
from rocketmq_py.administration.topics import readers
from rocketmq_py.administration.values import (
    GroupMembers,
    MessageTrack,
    TrackState,
    milliseconds_of,
)
from rocketmq_py.client.asking import Address, Broker, Question
from rocketmq_py.client.call_bodies import CallBodies
from rocketmq_py.client.fan_out import first_error
from rocketmq_py.client.queries import (
    INT64_MAX,
    THREE_DAYS_MS,
    UNIQUE_MAX,
    KeyQuery,
    as_address,
    record_at,
)
from rocketmq_py.client.queue_pulls import pull_of
from rocketmq_py.client.queue_requests import RawPull, offset_at, pull_fields
from rocketmq_py.clock import wall_ms
from rocketmq_py.errors import (
    ConfigError,
    MQBrokerException,
    MQClientException,
    RemotingCommandException,
)
from rocketmq_py.message import MessageExt
from rocketmq_py.protocol.bodies.heartbeat import BROADCASTING, CONSUME_ACTIVELY, TAG
from rocketmq_py.protocol.codes import ResponseCode
from rocketmq_py.protocol.handles import decode_offset_id
from rocketmq_py.protocol.message_codec import iter_records
from rocketmq_py.protocol.names import TOOLS_CONSUMER_GROUP
from rocketmq_py.send_result import MessageQueue

MESSAGES: Final = 64
"""How many messages are given unless more are asked for."""
_AT_ONCE: Final = 32
_MESSAGES_MAX: Final = 100_000


async def by_id(servers: Servers, topic: str, msg_id: str) -> MessageExt:
    """Give a message by its offset id (33), or by the id that its client gave (12, three days).

    Raises `MQClientException` (208) when there is none.
    """
    places = await masters_of(servers, topic)
    by_address = {
        one: place.broker_name
        for place in await route(servers, topic)
        for one in place.addresses.values()
    }
    try:
        host, port, offset = decode_offset_id(msg_id)
        address = as_address(host, port)
    except RemotingCommandException:
        address, offset = "", 0
    mapper = servers.config.address_mapper
    if address and mapper is not None:
        address = mapper(address)
    # An id that a client made has the same look, and would name a stranger: ask none.
    if address in by_address:
        try:
            record = await servers.one(record_at(address, topic, offset))
        except MQBrokerException:
            pass
        else:
            if record.topic == topic:
                return CallBodies(servers.config).message(record, by_address[address])
    begin_ms = wall_ms() - THREE_DAYS_MS
    query = KeyQuery(topic, msg_id, UNIQUE_MAX, begin_ms, INT64_MAX, unique=True)
    answers = await servers.all({name: query.at(Address(one)) for name, one in places.items()})
    found = query.messages(answers, servers.config).message_list
    if not found:
        raise MQClientException(
            f"no message of topic {topic} has the id {msg_id!r}, or the index of the broker does "
            "not reach back to it",
            response_code=ResponseCode.NO_MESSAGE,
            topic=topic,
        ) from first_error(answers.values())
    return found[0]


async def by_key(
    servers: Servers,
    topic: str,
    key: str,
    begin: datetime | None,
    end: datetime | None,
    max_messages: int,
) -> tuple[MessageExt, ...]:
    """Give messages with a key, the oldest first (12)."""
    _check_count(max_messages)
    begin_ms = 0 if begin is None else milliseconds_of(begin, "begin")
    end_ms = INT64_MAX if end is None else milliseconds_of(end, "end")
    query = KeyQuery(topic, key, max_messages, begin_ms, end_ms)
    places = await masters_of(servers, topic)
    answers = await servers.each({name: query.at(Address(one)) for name, one in places.items()})
    return query.messages(answers, servers.config).message_list[:max_messages]


async def by_time(
    servers: Servers, topic: str, begin: datetime, end: datetime, max_messages: int
) -> tuple[MessageExt, ...]:
    """Give messages stored from one time to before another, the oldest first.

    With more of them than ``max_messages`` those that are left out are not older than any given.
    """
    _check_count(max_messages)
    begin_ms, end_ms = milliseconds_of(begin, "begin"), milliseconds_of(end, "end")
    await masters_of(servers, topic)
    queues = [
        MessageQueue(topic, one.broker_name, number)
        for one in await route(servers, topic)
        for number in range(one.read_queues)
    ]
    at = await servers.each({queue: offset_at(queue, begin_ms, "LOWER") for queue in queues})
    bodies = CallBodies(servers.config)
    found: list[MessageExt] = []
    counts = dict.fromkeys(queues, 0)
    while at:
        pulls = await servers.each({queue: _pull(queue, place) for queue, place in at.items()})
        following: dict[MessageQueue, int] = {}
        for queue, pulled in pulls.items():
            messages = _messages(bodies, queue, pulled)
            wanted = [one for one in messages if begin_ms <= one.store_timestamp < end_ms]
            found += wanted
            counts[queue] += len(wanted)
            is_past = any(one.store_timestamp >= end_ms for one in messages)
            goes_on = at[queue] < pulled.next_offset < pulled.max_offset
            if goes_on and not is_past and counts[queue] < max_messages:
                following[queue] = pulled.next_offset
        at = following
    found.sort(key=lambda one: (one.store_timestamp, one.queue_id, one.queue_offset))
    return tuple(found[:max_messages])


async def at_offset(servers: Servers, queue: MessageQueue, offset: int) -> MessageExt | None:
    """Give the message at an offset of a queue; None: there is none to read."""
    pulled = await servers.one(_pull(queue, offset, 1))
    messages = _messages(CallBodies(servers.config), queue, pulled)
    return next((one for one in messages if one.queue_offset == offset), None)


def _pull(queue: MessageQueue, offset: int, count: int = _AT_ONCE) -> Question[RawPull]:
    fields = pull_fields(TOOLS_CONSUMER_GROUP, count, "*", TAG, wall_ms())
    return pull_of(Broker(queue.topic, queue.broker_name), queue, offset, fields)


def _messages(bodies: CallBodies, queue: MessageQueue, pulled: RawPull) -> list[MessageExt]:
    if not pulled.found:
        return []
    return [
        message
        for record in iter_records(pulled.records)
        for message in bodies.messages(record, queue.broker_name)
    ]


def _check_count(count: int) -> None:
    if isinstance(count, bool) or not isinstance(count, int) or not 1 <= count <= _MESSAGES_MAX:
        raise ConfigError("max_messages", count, f"must be 1 to {_MESSAGES_MAX}")


async def ask_again(servers: Servers, message: MessageExt) -> None:
    """Let a broker ask again about a half message that it gave up (323)."""
    address = await address_of(servers, message)
    fields = {"topic": message.topic, "msg_id": message.offset_msg_id}
    await servers.one(ASK_AGAIN.at(address, body=b"", **fields))


# --- track ---------------------------------------------------------------------------------


async def track(servers: Servers, message: MessageExt) -> tuple[MessageTrack, ...]:
    """Say what became of a message in every group that reads its topic."""
    groups: Iterable[str] = await readers(servers, message.topic)
    return tuple([MessageTrack(group, await _state(servers, message, group)) for group in groups])


async def _state(servers: Servers, message: MessageExt, group: str) -> TrackState:
    online = await members(servers, group)
    if online.consume_type == CONSUME_ACTIVELY:
        return TrackState.PULLS
    if online.message_model == BROADCASTING:
        return TrackState.BROADCASTING
    queue = MessageQueue(message.topic, message.broker_name, message.queue_id)
    place = (await of_group(servers, group, message.topic)).queues.get(queue)
    if place is not None and place.committed > message.queue_offset:
        return TrackState.FILTERED if _is_filtered(message, online) else TrackState.CONSUMED
    return TrackState.NOT_YET if online.members else TrackState.NOT_ONLINE


def _is_filtered(message: MessageExt, online: GroupMembers) -> bool:
    """Whether the tags that a group wants leave a message out, as far as its members say."""
    wanted = online.subscriptions.get(message.topic)
    if wanted is None or wanted.kind != TAG or wanted.expression in {"", "*"}:
        return False
    return message.tags not in {tag.strip() for tag in wanted.expression.split("||")}
