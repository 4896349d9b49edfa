"""What can be asked and changed of topics: names, routes, settings, bounds, and their end.

A topic has settings of its own at each master; an act looks at, or changes, those of all of them.
What changes something says what it changes, and with ``dry_run`` only says it. Must not know groups
and messages.
"""

import re
from collections.abc import Iterable, Mapping
from datetime import timedelta
from typing import Any, Final

from attrs import evolve

from rocketmq_py.administration.broker_addresses import (
    at_masters,
    learned,
    masters,
    masters_of,
    of_name_servers,
    places_of,
    route,
    routes,
)
from rocketmq_py.administration.servers import Servers
from rocketmq_py.administration.table import (
    ALL_TOPICS,
    DELETE_TOPIC,
    FORGET_ROUTE,
    PUT_TOPIC,
    READERS,
    TOPIC,
    TOPIC_NAMES,
    TOPIC_STATS,
)
from rocketmq_py.administration.values import (
    MESSAGE_TYPE,
    TopicChange,
    TopicDeletion,
    TopicMessageType,
    TopicPlace,
    TopicSettings,
)
from rocketmq_py.client.topic_questions import QueueBounds
from rocketmq_py.client.topic_types import clean_attributes
from rocketmq_py.clock import monotonic
from rocketmq_py.errors import (
    ConfigError,
    MQClientException,
    NoRouteError,
    RequestNotSupportedError,
    UnsupportedOperationError,
)
from rocketmq_py.protocol.bodies.topics import TopicConfig, TopicRouteData
from rocketmq_py.protocol.codes import PERM_INHERIT, PERM_READ, PERM_WRITE, ResponseCode
from rocketmq_py.protocol.names import AUTO_CREATE_TOPIC, topic_problem
from rocketmq_py.send_result import MessageQueue

_ATTRIBUTE: Final = re.compile(r"[^,=+-][^,=]*=[^,=]+")
LOOK_EVERY_S: Final = 0.05
"""How often a route is asked for that has not come yet."""
READY_WITHIN: Final = timedelta(seconds=10)
QUEUES: Final = 8
_QUEUES_MAX: Final = 2**31 - 1

Changes = dict[str, TopicChange]
"""By broker name."""


async def names(servers: Servers) -> tuple[str, ...]:
    """Name all topics (206)."""
    return tuple(sorted((await learned(servers, TOPIC_NAMES)).topic_list))


# --- settings ------------------------------------------------------------------------------


async def configs(
    servers: Servers, topic: str, places: Mapping[str, str]
) -> dict[str, TopicConfig | None]:
    """Give the settings of a topic at brokers, as the wire has them (351, or 21 before 5.0)."""
    try:
        return await at_masters(servers, TOPIC, places, topic=topic)
    except RequestNotSupportedError:
        tables = await at_masters(servers, ALL_TOPICS, places)
        return {name: one.topic_config_table.get(topic) for name, one in tables.items()}


def settings_of(config: TopicConfig) -> TopicSettings:
    """Read settings of the wire."""
    return TopicSettings(
        read_queues=config.read_queue_nums,
        write_queues=config.write_queue_nums,
        readable=bool(config.perm & PERM_READ),
        writable=bool(config.perm & PERM_WRITE),
        ordered=config.order,
        attributes={name.lstrip("+"): value for name, value in config.attributes.items()},
    )


async def settings(servers: Servers, topic: str) -> dict[str, TopicSettings]:
    """Give the settings of a topic by broker name."""
    found = await configs(servers, topic, await masters_of(servers, topic))
    return {name: settings_of(one) for name, one in found.items() if one is not None}


async def bounds(servers: Servers, topic: str) -> dict[MessageQueue, QueueBounds]:
    """Give the bounds of every queue of a topic (202)."""
    places = await masters_of(servers, topic)
    tables = await at_masters(servers, TOPIC_STATS, places, topic=topic)
    return {
        MessageQueue(key.topic, key.broker_name, key.queue_id): QueueBounds(
            one.min_offset, one.max_offset, one.last_update_timestamp
        )
        for table in tables.values()
        for key, one in sorted(table.offset_table.items())
    }


async def readers(servers: Servers, topic: str) -> tuple[str, ...]:
    """Name the groups that subscribe to a topic, or have committed in it (300)."""
    places = await masters_of(servers, topic)
    lists = await at_masters(servers, READERS, places, topic=topic)
    return tuple(sorted({name for one in lists.values() for name in one.group_list}))


# --- changes -------------------------------------------------------------------------------


async def create(
    servers: Servers,
    topic: str,
    queues: int,
    message_type: TopicMessageType | None,
    *,
    ordered: bool,
    at: str | None,
    dry_run: bool,
) -> Changes:
    """Create a topic on masters; MQClientException (18) when one of them has it."""
    _check(topic, queues)
    places = await masters(servers, at)
    there = await configs(servers, topic, places)
    has = sorted(name for name, one in there.items() if one is not None)
    if has:
        raise MQClientException(
            f"topic {topic} is there already, at {', '.join(has)}: alter it, or use ensure_topic",
            response_code=ResponseCode.TOPIC_EXIST_ALREADY,
            topic=topic,
        )
    wanted = TopicSettings(queues, queues, ordered=ordered, attributes=_typed(message_type))
    changes = {name: TopicChange(None, wanted) for name in places}
    await _check_attributes(servers, wanted.attributes, places)
    if not dry_run:
        await _put(servers, topic, places, there, changes)
    return changes


async def alter(
    servers: Servers,
    topic: str,
    *,
    read_queues: int | None,
    write_queues: int | None,
    readable: bool | None,
    writable: bool | None,
    attributes: Mapping[str, str],
    at: str | None,
    dry_run: bool,
) -> Changes:
    """Change what is given of a topic at its masters, or one of them; NoRouteError without one."""
    attributes = clean_attributes(attributes)
    for number in (read_queues, write_queues):
        _check(topic, 1 if number is None else number)
    places = await masters_of(servers, topic)
    if at is not None:
        places = await masters(servers, at)
    there = await configs(servers, topic, places)
    given: dict[str, Any] = {  # Any: evolve takes no mapping of kinds
        "read_queues": read_queues,
        "write_queues": write_queues,
        "readable": readable,
        "writable": writable,
    }
    changes = {}
    for name, config in there.items():
        if config is None:
            continue
        before = settings_of(config)
        after = evolve(
            before,
            attributes={**before.attributes, **attributes},
            **{field: value for field, value in given.items() if value is not None},
        )
        if after != before:
            changes[name] = TopicChange(before, after)
    await _check_attributes(servers, attributes, places)
    if not dry_run:
        await _put(servers, topic, places, there, changes)
    return changes


async def delete(servers: Servers, topic: str, *, dry_run: bool) -> TopicDeletion:
    """Delete a topic at its masters (215), then its route at the name servers (216)."""
    places = await masters_of(servers, topic)
    messages = dict.fromkeys(places, 0)
    for queue, one in (await bounds(servers, topic)).items():
        messages[queue.broker_name] += one.max_offset - one.min_offset
    deletion = TopicDeletion(topic, messages, await readers(servers, topic))
    if not dry_run:
        await at_masters(servers, DELETE_TOPIC, places, topic=topic)
        cluster = servers.config.cluster
        await of_name_servers(servers, FORGET_ROUTE, topic=topic, cluster_name=cluster)
    return deletion


async def ensure(
    servers: Servers,
    topic: str,
    queues: int,
    message_type: TopicMessageType | None,
    within: timedelta,
) -> tuple[TopicPlace, ...]:
    """Create a topic where a master does not have it, and wait until every name server shows it.

    Masters that have it with fewer queues, or closed, get what is wanted; nothing is taken away.
    """
    _check(topic, queues)
    if not isinstance(within, timedelta) or within < timedelta(0):
        raise ConfigError("within", within, "must be a timedelta from 0")
    until = monotonic() + within.total_seconds()
    places = await masters(servers)
    there = await configs(servers, topic, places)
    typed = _typed(message_type)
    changes: Changes = {}
    for name, config in there.items():
        before = None if config is None else settings_of(config)
        old = before or TopicSettings(0, 0)
        after = TopicSettings(
            max(queues, old.read_queues),
            max(queues, old.write_queues),
            ordered=old.ordered,
            attributes={**old.attributes, **typed},
        )
        if after != before:
            changes[name] = TopicChange(before, after)
    if changes:
        await _check_attributes(servers, typed, places)
        await _put(servers, topic, places, there, changes)
    while True:
        told = await routes(servers, topic)
        missing = _missing(servers, told, places, queues)
        if missing is None:
            return await route(servers, topic)
        if monotonic() >= until:
            raise NoRouteError(
                f"topic {topic} is at {', '.join(places)}, but after {within} {missing}",
                response_code=ResponseCode.NOT_FOUND_TOPIC_EXCEPTION,
                topic=topic,
            )
        await servers.pause(LOOK_EVERY_S)


def _missing(
    servers: Servers, told: Mapping[str, TopicRouteData | None], wanted: Iterable[str], queues: int
) -> str | None:
    """Say what a route still lacks; None: it is usable."""
    for server, one in told.items():
        places = () if one is None else places_of(servers, one)
        known = {place.broker_name: place for place in places}
        for name in wanted:
            place = known.get(name)
            if place is None or not place.writable or place.write_queues < queues:
                return f"name server {server} does not show its {queues} writable queues at {name}"
    return None


def _check(topic: str, queues: int) -> None:
    problem = topic_problem(topic)
    if problem is not None:
        raise ConfigError("topic", topic, problem)
    if isinstance(queues, bool) or not isinstance(queues, int) or not 1 <= queues <= _QUEUES_MAX:
        raise ConfigError("queues", queues, f"must be a whole number from 1 to {_QUEUES_MAX}")


def _typed(message_type: TopicMessageType | None) -> dict[str, str]:
    if message_type is None:
        return {}
    return {MESSAGE_TYPE: TopicMessageType(message_type.upper()).value}


async def _check_attributes(
    servers: Servers, attributes: Mapping[str, str], places: Mapping[str, str]
) -> None:
    """Refuse attributes that no line can hold, and all at brokers before 5.0.

    Those would take them and forget them.
    """
    for name, value in attributes.items():
        if not _ATTRIBUTE.fullmatch(f"{name}={value}"):
            raise ConfigError(f"attribute {name}", value, "has no comma, no sign and one '='")
    if not attributes:
        return
    try:
        await at_masters(servers, TOPIC, places, topic=AUTO_CREATE_TOPIC)
    except RequestNotSupportedError as error:
        raise UnsupportedOperationError(
            f"attributes of topics, such as {', '.join(attributes)}, are kept by brokers "
            f"from 5.0 on: the one at {error.address} has version {error.server_version}",
            address=error.address,
        ) from error


async def put(
    servers: Servers, topic: str, wanted: TopicSettings, places: Mapping[str, str]
) -> None:
    """Create a topic at brokers, or give it other settings."""
    _check(topic, max(1, wanted.write_queues))
    await _check_attributes(servers, wanted.attributes, places)
    there = await configs(servers, topic, places)
    changes = {
        name: TopicChange(None if config is None else settings_of(config), wanted)
        for name, config in there.items()
    }
    await _put(servers, topic, places, there, changes)


async def _put(
    servers: Servers,
    topic: str,
    places: Mapping[str, str],
    there: Mapping[str, TopicConfig | None],
    changes: Changes,
) -> None:
    """Give brokers the settings of a topic; what is not ours to change stays (17)."""
    questions = {}
    for name, change in changes.items():
        old = there[name] or TopicConfig()
        had = {} if change.before is None else change.before.attributes
        told = [
            f"+{key}={value}"
            for key, value in change.after.attributes.items()
            if had.get(key) != value
        ]
        questions[name] = PUT_TOPIC.at(
            places[name],
            topic=topic,
            default_topic=AUTO_CREATE_TOPIC,
            read_queue_nums=change.after.read_queues,
            write_queue_nums=change.after.write_queues,
            perm=change.after.perm | (old.perm & PERM_INHERIT),
            topic_filter_type=old.topic_filter_type,
            topic_sys_flag=old.topic_sys_flag,
            order=change.after.ordered,
            attributes=",".join(told) or None,
        )
    await servers.each(questions)
