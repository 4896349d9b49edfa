"""Which queues a subscription means now, and which offsets earliest, times or groups mean there.

Everything that a batch asks brokers when it is planned, and a stream when it begins. Must not know
Spark. Read on: ``options/positions.py`` for the forms, ``reading/stream_reader.py`` for what
streams ask later.
"""

import logging
import re
from collections.abc import Mapping
from functools import partial

from attrs import evolve

from rocketmq_py import MessageQueue
from rocketmq_py.raw import QueueAccess, QueueBounds, RawMessages
from spark_connector.errors import GO_ON, OptionError
from spark_connector.options.positions import EARLIEST, LATEST, Positions, Start, look
from spark_connector.options.read_options import DLQ_PREFIX, RETRY_PREFIX, ReadOptions
from spark_connector.planning.time_places import first_at
from spark_connector.servers.access import retrying
from spark_connector.servers.asking import retrying_all

_log = logging.getLogger("spark_connector")

Bounds = dict[MessageQueue, QueueBounds]


def find_topics(access: QueueAccess, options: ReadOptions, *, is_patient: bool = True) -> list[str]:
    """Return the topics of a subscription now; a pattern and ``deadLettersOf`` may have none yet.

    With ``is_patient`` false the name server is asked once, not as often as the options say.

    A pattern means no retry and dead letter topics and none of RocketMQ's own: those are read by
    name.
    """
    subscription = options.subscription
    if subscription.pattern is None and not subscription.is_of_groups:
        return sorted(subscription.topics or {one.topic for one in subscription.assigned or ()})
    names = _listed(access, options) if is_patient else access.topic_names()
    if subscription.pattern is None:
        return sorted(set(subscription.topics).intersection(names))
    pattern = re.compile(subscription.pattern)
    own = RawMessages.is_system_topic
    return [
        name
        for name in names
        if pattern.fullmatch(name) and not name.startswith("%") and not own(name)
    ]


def warn_of_unknown_groups(access: QueueAccess, options: ReadOptions) -> None:
    """Log the groups of ``deadLettersOf`` and ``retriesOf`` that are unknown to the name server.

    It knows neither a retry nor a dead letter topic of theirs. Such a group has never run, or its
    name is misspelt, which an empty read would not tell.
    """
    if not options.subscription.is_of_groups:
        return
    names = _listed(access, options)
    for topic in options.subscription.topics:
        group = topic.removeprefix(DLQ_PREFIX).removeprefix(RETRY_PREFIX)
        own = {DLQ_PREFIX + group, RETRY_PREFIX + group}
        # POP has a retry topic for each group and topic, in either form.
        own |= {f"{RETRY_PREFIX}{group}{mark}{one}" for one in names for mark in "_+"}
        if own.isdisjoint(names):
            _log.warning(
                "no broker knows consumer group %s, so %s is read as empty: the group has never "
                "run, or its name is another",
                group,
                topic,
            )


def _listed(access: QueueAccess, options: ReadOptions) -> list[str]:
    return retrying(options, "listing the topics", access.topic_names)


def bounds_of(access: QueueAccess, options: ReadOptions) -> Bounds:
    """Return the bounds of every queue that is read; raises when a named topic is unknown."""
    topics = find_topics(access, options)
    told = retrying_all(options, asking_for, topics, access.bounds_of_topics)
    found: Bounds = {}
    for topic in topics:
        found |= told[topic]
    return chosen(found, options)


def asking_for(topic: str) -> str:
    """Say in errors what is done about a topic."""
    return f"asking for topic {topic}"


def is_subscribed(queue: MessageQueue, options: ReadOptions) -> bool:
    """Whether a queue that was read once is one that these options mean."""
    assigned = options.subscription.assigned
    return is_topic_subscribed(queue.topic, options) if assigned is None else queue in assigned


def is_topic_subscribed(topic: str, options: ReadOptions) -> bool:
    """Whether these options mean a topic, if it exists."""
    subscription = options.subscription
    if subscription.pattern is not None:
        return re.fullmatch(subscription.pattern, topic) is not None
    named = subscription.topics or {one.topic for one in subscription.assigned or ()}
    return topic in named


def chosen(found: Bounds, options: ReadOptions, *, are_all_there: bool = True) -> Bounds:
    """Keep the queues that ``assign`` names, all of them without it.

    One that is not among them is an error, if all brokers that have any are there.
    """
    assigned = options.subscription.assigned
    if assigned is None:
        return found
    kept: Bounds = {}
    for one in sorted(assigned):
        if one not in found and not are_all_there:
            continue
        if one not in found:
            where = f"broker {one.broker_name} has no queue {one.queue_id} of {one.topic}"
            raise OptionError(f"option assign: {where}")
        kept[one] = found[one]
    return kept


def resolve(
    access: QueueAccess, options: ReadOptions, start: Start, bounds: Bounds, *, is_end: bool
) -> dict[MessageQueue, int]:
    """Return the offset of every queue that a start (or end) means.

    An offset below the queue's beginning stays what it is: whoever reads there finds the loss.
    Raises `OptionError` for named queues that do not exist, offsets beyond the end (a group's only
    with ``failOnDataLoss``), groups without an offset, and times that nothing is as new as.
    """
    match start.kind:
        case "earliest":
            return {queue: one.min_offset for queue, one in bounds.items()}
        case "latest":
            return {queue: one.max_offset for queue, one in bounds.items()}
        case "offsets":
            return _by_offsets(start, bounds, is_end=is_end)
        case "group":
            return _by_group(access, options, start, bounds)
        case _:
            return _by_time(access, options, start, bounds, is_end=is_end)


def _by_offsets(start: Start, bounds: Bounds, *, is_end: bool) -> dict[MessageQueue, int]:
    _check_known(start.positions, bounds)
    found = {}
    for queue, one in bounds.items():
        offset = look(start.positions, queue)
        if offset is None:
            offset = EARLIEST if start.otherwise == "earliest" else LATEST
        if offset == EARLIEST:
            offset = one.min_offset
        elif offset == LATEST:
            offset = one.max_offset
        elif offset > one.max_offset:
            what = "endingOffsets" if is_end else "startingOffsets"
            raise OptionError(_past_the_end(what, offset, queue, one))
        found[queue] = offset
    return found


def _past_the_end(what: str, offset: int, queue: MessageQueue, one: QueueBounds) -> str:
    return (
        f"{what} {offset} of topic {queue.topic}, broker {queue.broker_name}, queue "
        f"{queue.queue_id} is past its end, {one.max_offset}: was the topic created anew?"
    )


def _check_known(positions: Positions, bounds: Mapping[MessageQueue, object]) -> None:
    brokers: dict[str, set[str]] = {}
    for queue in bounds:
        brokers.setdefault(queue.topic, set()).add(queue.broker_name)
    for queue in sorted(positions):
        topic, have = queue.topic, brokers.get(queue.topic, set())
        if not queue.broker_name and len(have) > 1:
            raise OptionError(
                f"offsets of topic {topic} must name brokers: it is on {', '.join(sorted(have))}"
            )
        name = queue.broker_name or next(iter(have), "")
        if evolve(queue, broker_name=name) not in bounds:
            raise OptionError(
                f"offsets name queue {queue.queue_id} of topic {topic} at broker {name or '?'}, "
                "which is not read here"
            )


def _by_group(
    access: QueueAccess, options: ReadOptions, start: Start, bounds: Bounds
) -> dict[MessageQueue, int]:
    group = options.group_id or ""
    what = f"asking for the offset of group {group}"
    kept = retrying_all(options, what, bounds, partial(access.group_offsets, group))
    found = {}
    for queue, one in bounds.items():
        offset = kept[queue]
        if offset is None:
            if start.otherwise == "error":
                raise OptionError(
                    f"group {group} has no offset in topic {queue.topic}, broker "
                    f"{queue.broker_name}, queue {queue.queue_id}: use startingOffsets="
                    "group:earliest or group:latest"
                )
            offset = one.min_offset if start.otherwise == "earliest" else one.max_offset
        if offset > one.max_offset:
            offset = _group_past_end(access, options, queue, one, offset)
        found[queue] = offset
    return found


def _group_past_end(
    access: QueueAccess, options: ReadOptions, queue: MessageQueue, one: QueueBounds, offset: int
) -> int:
    """Return where to begin when a group's offset is past the end that was seen.

    The group may have gone on since the end was asked for: then nothing is lost, and the end that
    was seen is where to begin, because everything else was decided by it.
    """
    what = f"asking for topic {queue.topic}"
    now = retrying(options, what, lambda: access.bounds_at(queue.topic, queue.broker_name))
    latest = now.get(queue, one)
    if offset <= latest.max_offset:
        return one.max_offset
    text = _past_the_end(f"group {options.group_id}: offset", offset, queue, latest)
    if options.fail_on_data_loss:
        raise OptionError(f"{text} {GO_ON}")
    _log.warning("%s reading begins at %d", text, one.min_offset)
    return one.min_offset


def _by_time(
    access: QueueAccess, options: ReadOptions, start: Start, bounds: Bounds, *, is_end: bool
) -> dict[MessageQueue, int]:
    if start.kind == "timestamps":
        _check_known(start.positions, bounds)
    found: dict[MessageQueue, int] = {}
    moments: dict[MessageQueue, int] = {}
    for queue, one in bounds.items():
        moment: int | None = start.timestamp_ms
        if start.kind == "timestamps":
            moment = look(start.positions, queue)
        if moment is None:
            is_first = start.otherwise == "earliest"
            found[queue] = one.min_offset if is_first else one.max_offset
        else:
            moments[queue] = moment
    timed = first_at(access, options, bounds, moments)
    found |= timed
    asked = bool(moments)
    reached = any(offset < bounds[queue].max_offset for queue, offset in timed.items())
    is_strict = options.starting_offsets_by_timestamp_strategy == "error"
    if asked and not reached and not is_end and is_strict:
        raise OptionError(
            "startingTimestamp: no message is that new; set "
            "startingOffsetsByTimestampStrategy=latest to begin at the end"
        )
    return found
