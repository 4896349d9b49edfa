"""How far groups are, and how a group goes on elsewhere: reset, skip, clone, set.

A group with members is moved by its brokers, which tell them (222); before 5.3 its members wait ten
seconds before they go on. Of a group without members the offsets are stored (15) where a broker
moves groups with members only. Must not know settings of groups.
"""

from collections.abc import Mapping
from datetime import datetime
from typing import Final

from rocketmq_py.administration.broker_addresses import at_masters, masters, masters_of, route
from rocketmq_py.administration.groups import members
from rocketmq_py.administration.servers import Servers
from rocketmq_py.administration.table import CLONE, PROGRESS, RESET
from rocketmq_py.administration.values import (
    GroupProgress,
    OffsetChange,
    OffsetMove,
    Place,
    QueueProgress,
    milliseconds_of,
    moment,
)
from rocketmq_py.client.queue_requests import (
    group_offset_in,
    group_offset_is,
    max_offset_of,
    min_offset_of,
    offset_at,
)
from rocketmq_py.errors import ConfigError, MQBrokerException, MQClientException, RocketMQError
from rocketmq_py.protocol.codes import ResponseCode
from rocketmq_py.send_result import MessageQueue

_FIRST_MS: Final = 0
_LAST_MS: Final = -1
_ONLINE_ONLY: Final = frozenset({ResponseCode.CONSUMER_NOT_ONLINE, ResponseCode.SYSTEM_ERROR})
"""What brokers before 5.3 answer to a reset of a group that is not online, or new in a queue."""
_OFFSET_MAX: Final = 2**63 - 1


async def of_group(servers: Servers, group: str, topic: str | None) -> GroupProgress:
    """Give how far a group is in a topic, or in all that it has read (208)."""
    places = await (masters(servers) if topic is None else masters_of(servers, topic))
    tables = await at_masters(servers, PROGRESS, places, consumer_group=group, topic=topic)
    queues = {
        MessageQueue(*key): QueueProgress(
            one.consumer_offset, one.broker_offset, one.pull_offset, moment(one.last_timestamp)
        )
        for table in tables.values()
        for key, one in sorted(table.offset_table.items())
    }
    return GroupProgress(group, queues, sum(table.consume_tps for table in tables.values()))


async def reset(
    servers: Servers, group: str, topic: str, to: Place, *, dry_run: bool
) -> OffsetChange:
    """Let a group go on at a store time, or at an end of the queues, in a whole topic."""
    if to == "first":
        at_ms = _FIRST_MS
    elif to == "last":
        at_ms = _LAST_MS
    elif isinstance(to, datetime):
        at_ms = max(0, milliseconds_of(to, "to"))
    else:
        raise ConfigError("to", to, "must be 'first', 'last' or an aware datetime")
    queues = await _queues(servers, topic)
    before = await _committed(servers, group, queues)
    if at_ms == _LAST_MS:
        targets = await servers.each({one: max_offset_of(one) for one in queues})
    elif at_ms == _FIRST_MS:
        targets = await servers.each({one: min_offset_of(one) for one in queues})
    else:
        targets = await servers.each({one: offset_at(one, at_ms, "LOWER") for one in queues})
    online = bool((await members(servers, group)).members)
    if not dry_run:
        targets |= await _reset(servers, group, topic, at_ms, targets, online=online)
    moves = {queue: OffsetMove(before[queue], targets[queue]) for queue in queues}
    return OffsetChange(group, online, moves)


async def _reset(
    servers: Servers,
    group: str,
    topic: str,
    at_ms: int,
    targets: Mapping[MessageQueue, int],
    *,
    online: bool,
) -> dict[MessageQueue, int]:
    """Move a group at each master; give the offsets that brokers have chosen."""
    places = await masters_of(servers, topic)
    questions = {
        name: RESET.at(address, topic=topic, group=group, timestamp=at_ms, is_force=True)
        for name, address in places.items()
    }
    chosen: dict[MessageQueue, int] = {}
    stored: dict[MessageQueue, int] = {}
    for name, told in (await servers.all(questions)).items():
        if not isinstance(told, RocketMQError):
            chosen |= {MessageQueue(*key): one for key, one in told.offset_table.items()}
        elif isinstance(told, MQBrokerException) and told.code in _ONLINE_ONLY and not online:
            stored |= {queue: one for queue, one in targets.items() if queue.broker_name == name}
        else:
            raise told
    await servers.each({queue: group_offset_is(queue, group, at) for queue, at in stored.items()})
    return chosen | stored


async def put(
    servers: Servers, group: str, offsets: Mapping[MessageQueue, int], *, dry_run: bool
) -> OffsetChange:
    """Store offsets of a group (15); its members commit theirs over them."""
    for queue, offset in offsets.items():
        if (
            isinstance(offset, bool)
            or not isinstance(offset, int)
            or not 0 <= offset <= _OFFSET_MAX
        ):
            raise ConfigError(f"offset of {queue}", offset, f"must be 0 to {_OFFSET_MAX}")
    before = await _committed(servers, group, offsets)
    online = bool((await members(servers, group)).members)
    if not dry_run:
        await servers.each({one: group_offset_is(one, group, at) for one, at in offsets.items()})
        kept = await _committed(servers, group, offsets)
        others = {queue: kept[queue] for queue, offset in offsets.items() if kept[queue] != offset}
        if others and not online:
            raise MQClientException(
                f"group {group} keeps other offsets: {others}. A reset waits for its next pull, "
                "and nothing else counts before"
            )
    moves = {queue: OffsetMove(before[queue], offset) for queue, offset in offsets.items()}
    return OffsetChange(group, online, moves)


async def clone(
    servers: Servers, source: str, target: str, topic: str | None, *, dry_run: bool
) -> OffsetChange:
    """Let a group begin where another one is, in a topic or in all that that one has read (314)."""
    there = (await of_group(servers, source, topic)).queues
    if not there:
        raise MQClientException(
            f"group {source} has no offset in {'any topic' if topic is None else topic}",
            response_code=ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST,
            topic=topic,
        )
    before = await _committed(servers, target, there)
    online = bool((await members(servers, target)).members)
    if not dry_run:
        places = await masters(servers)
        names = {queue.broker_name for queue in there}
        await at_masters(
            servers,
            CLONE,
            {name: address for name, address in places.items() if name in names},
            src_group=source,
            dest_group=target,
            topic=topic,
            offline=True,
        )
    moves = {queue: OffsetMove(before[queue], one.committed) for queue, one in there.items()}
    return OffsetChange(target, online, moves)


async def _queues(servers: Servers, topic: str) -> list[MessageQueue]:
    await masters_of(servers, topic)  # raises without one
    return [
        MessageQueue(topic, one.broker_name, number)
        for one in await route(servers, topic)
        for number in range(one.read_queues)
    ]


async def _committed(
    servers: Servers, group: str, queues: Mapping[MessageQueue, object] | list[MessageQueue]
) -> dict[MessageQueue, int | None]:
    return await servers.each(
        {queue: group_offset_in(queue, group, zero_if_none=False) for queue in queues}
    )
