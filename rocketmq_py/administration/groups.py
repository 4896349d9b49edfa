"""What can be asked and changed of consumer groups: settings, members, their state, their end.

A group has settings of its own at each master. How far groups are is in ``progress.py``.
"""

from collections.abc import Mapping
from datetime import timedelta
from typing import Any, Final

from attrs import evolve

from rocketmq_py.administration.broker_addresses import at_masters, masters, masters_of
from rocketmq_py.administration.servers import Servers
from rocketmq_py.administration.table import (
    ALL_GROUPS,
    CONSUME_NOW,
    CONSUMERS,
    DELETE_GROUP,
    PRODUCERS,
    PROGRESS,
    PUT_GROUP,
    REQUEST_MODE,
    RUNNING_INFO,
)
from rocketmq_py.administration.values import (
    ConsumedNow,
    GroupChange,
    GroupDeletion,
    GroupMembers,
    GroupSettings,
    HeldQueue,
    Member,
    MemberState,
    Subscription,
    moment,
    span,
)
from rocketmq_py.errors import (
    ConfigError,
    MQBrokerException,
    MQClientException,
    RocketMQError,
    UnsupportedOperationError,
)
from rocketmq_py.message import MessageExt
from rocketmq_py.protocol.bodies.groups import Connection, SubscriptionGroupConfig
from rocketmq_py.protocol.bodies.heartbeat import SubscriptionData
from rocketmq_py.protocol.bodies.pop import POP, PULL, MessageRequestMode
from rocketmq_py.protocol.codes import ResponseCode, version_text
from rocketmq_py.protocol.names import group_problem
from rocketmq_py.send_result import MessageQueue

_MINUTE: Final = timedelta(minutes=1)
_NOBODY: Final = "not exist"
"""In the remark of a broker, with the code of any failure, when no producer of a group is there."""


# --- settings ------------------------------------------------------------------------------


async def _configs(
    servers: Servers, places: Mapping[str, str]
) -> dict[str, dict[str, SubscriptionGroupConfig]]:
    """Give all groups of brokers (201); asking for one (352) may make it."""
    tables = await at_masters(servers, ALL_GROUPS, places)
    return {name: one.subscription_group_table for name, one in tables.items()}


def _settings(config: SubscriptionGroupConfig) -> GroupSettings:
    fresh = GroupSettings()
    minutes = config.consume_timeout_minute
    return GroupSettings(
        consume_enabled=config.consume_enable,
        broadcast_enabled=config.consume_broadcast_enable,
        ordered=bool(config.consume_message_orderly),
        retry_queues=config.retry_queue_nums,
        retry_max_times=config.retry_max_times,
        consume_timeout=fresh.consume_timeout if minutes is None else span(minutes * 60_000),
    )


async def names(servers: Servers) -> tuple[str, ...]:
    """Name all groups that brokers know, those too that every broker has."""
    tables = await _configs(servers, await masters(servers))
    return tuple(sorted({name for one in tables.values() for name in one}))


async def settings(servers: Servers, group: str) -> dict[str, GroupSettings]:
    """Give the settings of a group by broker name; MQClientException (26) when none knows it."""
    found = await _found(servers, group, await masters(servers))
    return {name: _settings(one) for name, one in found.items()}


async def _found(
    servers: Servers, group: str, places: Mapping[str, str]
) -> dict[str, SubscriptionGroupConfig]:
    tables = await _configs(servers, places)
    found = {name: one[group] for name, one in tables.items() if group in one}
    if not found:
        raise MQClientException(
            f"group {group} is known to none of {', '.join(places)}: create it",
            response_code=ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST,
        )
    return found


async def create(
    servers: Servers, group: str, wanted: GroupSettings, at: str | None, *, dry_run: bool
) -> dict[str, GroupChange]:
    """Create a group at masters; MQClientException when one of them has it."""
    _check_name(group)
    places = await masters(servers, at)
    has = sorted(name for name, one in (await _configs(servers, places)).items() if group in one)
    if has:
        raise MQClientException(f"group {group} is there already, at {', '.join(has)}: alter it")
    changes = {name: GroupChange(None, wanted) for name in places}
    if not dry_run:
        fresh = dict.fromkeys(places, SubscriptionGroupConfig(group_name=group))
        await _put(servers, places, fresh, changes)
    return changes


async def alter(
    servers: Servers,
    group: str,
    given: Mapping[str, Any],  # Any: of the fields that are given
    at: str | None,
    *,
    dry_run: bool,
) -> dict[str, GroupChange]:
    """Change what is given of a group; what is None stays."""
    places = await masters(servers, at)
    old = await _found(servers, group, places)
    told = {name: value for name, value in given.items() if value is not None}
    changes = {}
    for name, config in old.items():
        before = _settings(config)
        after = evolve(before, **told)
        if after != before:
            changes[name] = GroupChange(before, after)
    if not dry_run:
        await _put(servers, places, old, changes)
    return changes


async def put(
    servers: Servers, group: str, wanted: GroupSettings, places: Mapping[str, str]
) -> None:
    """Create a group at brokers, or give it other settings."""
    _check_name(group)
    tables = await _configs(servers, places)
    fresh = SubscriptionGroupConfig(group_name=group)
    old = {name: one.get(group, fresh) for name, one in tables.items()}
    await _put(servers, places, old, {name: GroupChange(None, wanted) for name in places})


def _check_name(group: str) -> None:
    problem = group_problem(group)
    if problem is not None:
        raise ConfigError("group", group, problem)


async def _put(
    servers: Servers,
    places: Mapping[str, str],
    old: Mapping[str, SubscriptionGroupConfig],
    changes: Mapping[str, GroupChange],
) -> None:
    """Give brokers the settings of a group; what is not ours to change stays (200).

    A broker does not say which of them it does not know, so all are looked at again.
    """
    questions = {}
    for name, change in changes.items():
        after = change.after
        if after.consume_timeout % _MINUTE or after.consume_timeout < _MINUTE:
            raise ConfigError(
                "consume_timeout", after.consume_timeout, "must be whole minutes, from 1"
            )
        config = evolve(
            old[name],
            consume_enable=after.consume_enabled,
            consume_broadcast_enable=after.broadcast_enabled,
            consume_message_orderly=after.ordered,
            retry_queue_nums=after.retry_queues,
            retry_max_times=after.retry_max_times,
            consume_timeout_minute=after.consume_timeout // _MINUTE,
            attributes={},  # changes of them, of which there are none
        )
        questions[name] = PUT_GROUP.at(places[name], body=config.encode(standard=True))
    await servers.each(questions)
    kept = await _configs(servers, {name: places[name] for name in changes})
    for name, change in changes.items():
        config = old[name]
        has = kept[name].get(config.group_name)
        if has is None or _settings(has) != change.after:
            raise UnsupportedOperationError(
                f"broker {name} does not keep all settings of group {config.group_name}: "
                f"{change.after} were asked for, it has {has and _settings(has)}",
                address=places[name],
            )


async def delete(
    servers: Servers, group: str, *, with_offsets: bool, dry_run: bool
) -> GroupDeletion:
    """Delete a group at the masters that know it (207)."""
    places = await masters(servers)
    known = {name: places[name] for name in await _found(servers, group, places)}
    offsets: dict[MessageQueue, int] = {}
    if with_offsets:
        for stats in (await at_masters(servers, PROGRESS, known, consumer_group=group)).values():
            offsets |= {
                MessageQueue(*key): one.consumer_offset
                for key, one in sorted(stats.offset_table.items())
            }
    online = await members(servers, group)
    deletion = GroupDeletion(
        group, tuple(known), tuple(one.client_id for one in online.members), offsets
    )
    if not dry_run:
        await at_masters(
            servers,
            DELETE_GROUP,
            known,
            group_name=group,
            remove_offset=with_offsets,
            clean_offset=with_offsets,
        )
    return deletion


# --- who is there --------------------------------------------------------------------------


def _member(one: Connection) -> Member:
    return Member(one.client_id, one.client_addr, one.language, version_text(one.version))


def _subscription(one: SubscriptionData) -> Subscription:
    return Subscription(one.sub_string, one.expression_type)


async def members(servers: Servers, group: str) -> GroupMembers:
    """Give who is online in a consumer group (203); nobody: no members."""
    places = await masters(servers)
    found: dict[str, Member] = {}
    subscriptions: dict[str, Subscription] = {}
    model = kind = None
    for told in (await at_masters(servers, CONSUMERS, places, consumer_group=group)).values():
        if told is not None:
            found |= {one.client_id: _member(one) for one in told.connection_set}
            for topic, one in told.subscription_table.items():
                subscriptions[topic] = _subscription(one)
            model, kind = told.message_model, told.consume_type
    ordered = tuple(found[name] for name in sorted(found))
    return GroupMembers(group, ordered, subscriptions, model, kind)


async def producers(servers: Servers, group: str) -> tuple[Member, ...]:
    """Give who is online in a producer group (204); nobody: ()."""
    places = await masters(servers)
    questions = {
        name: PRODUCERS.at(address, producer_group=group) for name, address in places.items()
    }
    found: dict[str, Member] = {}
    for told in (await servers.all(questions)).values():
        if isinstance(told, MQBrokerException) and _NOBODY in (told.remark or ""):
            continue
        if isinstance(told, RocketMQError):
            raise told
        found |= {one.client_id: _member(one) for one in told.connection_set}
    return tuple(found[name] for name in sorted(found))


async def state(servers: Servers, group: str, client_id: str, *, stacks: bool) -> MemberState:
    """Let a member say how it is (307)."""
    places = await masters(servers)
    questions = {
        name: RUNNING_INFO.at(
            address, consumer_group=group, client_id=client_id, jstack_enable=stacks
        )
        for name, address in places.items()
    }
    refusal: RocketMQError | None = None
    for told in (await servers.all(questions)).values():
        if isinstance(told, RocketMQError):
            refusal = refusal or told
            continue
        return MemberState(
            client_id,
            told.properties,
            {one.topic: _subscription(one) for one in told.subscription_set},
            {
                MessageQueue(*key): HeldQueue(
                    one.commit_offset,
                    one.cached_msg_count,
                    one.cached_msg_size_in_mi_b,
                    one.locked,
                    moment(one.last_pull_timestamp),
                    moment(one.last_consume_timestamp),
                )
                for key, one in sorted(told.mq_table.items())
            },
            told.jstack,
        )
    raise refusal or MQClientException(f"no broker knows {client_id} of group {group}")


async def consume_now(
    servers: Servers, group: str, client_id: str, message: MessageExt
) -> ConsumedNow:
    """Let a member consume a stored message, whatever its offsets say (309)."""
    address = await address_of(servers, message)
    told = await servers.one(
        CONSUME_NOW.at(
            address,
            consumer_group=group,
            client_id=client_id,
            msg_id=message.offset_msg_id,
            broker_name=message.broker_name,
            topic=message.topic,
        )
    )
    return ConsumedNow(told.consume_result, told.remark, span(told.spent_time_mills))


async def address_of(servers: Servers, message: MessageExt) -> str:
    """Give the master that has a message; MQClientException when it names another broker."""
    places = await masters_of(servers, message.topic)
    if message.broker_name in places:
        return places[message.broker_name]
    raise MQClientException(
        f"message {message.msg_id} names broker {message.broker_name!r}, but topic "
        f"{message.topic} is at {', '.join(places)}",
        response_code=ResponseCode.BROKER_NOT_EXIST_EXCEPTION,
        topic=message.topic,
    )


async def set_request_mode(
    servers: Servers, topic: str, group: str, mode: str, share_queues: int, at: str | None
) -> None:
    """Set at every master of a topic, or one broker, whether a group pulls it or pops it (401)."""
    if mode not in {PULL, POP}:
        raise ConfigError("mode", mode, f"must be {PULL} or {POP}")
    body = MessageRequestMode(topic, group, mode, share_queues).encode(standard=True)
    places = await (masters_of(servers, topic) if at is None else masters(servers, at))
    await at_masters(servers, REQUEST_MODE, places, body=body)
