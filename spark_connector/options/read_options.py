"""What a user asks of a read, batch or stream: checked, and put together where options belong so.

`read_options` checks before anything is connected. Must not know Spark, Arrow or the network. Read
on: ``table.py`` for what each option means, ``connection.py`` for the options of all uses,
``positions.py`` for offsets.
"""

import json
import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import TypeVar

from attrs import field, frozen

from rocketmq_py import MessageQueue
from spark_connector.errors import OptionError
from spark_connector.options.connection import Connection, connection_of
from spark_connector.options.instants import checked_ms
from spark_connector.options.parsing import Given
from spark_connector.options.positions import Start, check_order, parse_start, user_positions

RETRY_PREFIX = "%RETRY%"
DLQ_PREFIX = "%DLQ%"
_T = TypeVar("_T")
_FORMS = {
    "requiredQueues": '8 or {"topic":8}',
    "requiredBrokers": 'broker-a,broker-b or {"topic":["broker-a"]}',
}


@frozen
class Subscription:
    """Which topics and queues: one of topics, a pattern, or queues by topic and broker."""

    topics: tuple[str, ...] = ()
    pattern: str | None = None
    assigned: frozenset[MessageQueue] | None = None
    is_of_groups: bool = False
    """The topics are those of dead letters or retries, which exist from the first one on."""


@frozen
class Required:
    """What a topic must have: so many queues, and these brokers; under "" what each must have."""

    queues: Mapping[str, int] = field(factory=dict)
    brokers: Mapping[str, tuple[str, ...]] = field(factory=dict)

    @property
    def topics(self) -> set[str]:
        """The topics that are named."""
        return {topic for topic in (*self.queues, *self.brokers) if topic}

    def queues_of(self, topic: str) -> int:
        """Return how many queues a topic must have."""
        return self.queues.get(topic, self.queues.get("", 0))

    def brokers_of(self, topic: str) -> tuple[str, ...]:
        """Return which brokers a topic must have queues on."""
        return self.brokers.get(topic, self.brokers.get("", ()))


@frozen
class ReadOptions:
    """Checked options of a batch or streaming read; times are ms, sizes bytes.

    A field that is named like an option has its value; the others are made of several options.
    """

    connection: Connection
    subscription: Subscription
    expression: str
    expression_type: str
    start: Start
    end: Start
    starting_offsets_by_timestamp_strategy: str
    fail_on_data_loss: bool
    max_offsets_per_trigger: int | None
    max_bytes_per_trigger: int | None
    max_fetch_time_ms: int | None
    min_offsets_per_trigger: int | None
    max_trigger_delay_ms: int
    min_partitions: int | None
    max_partitions: int | None
    max_records_per_partition: int | None
    group_id: str | None
    commit_offsets: bool
    fetch_offset_num_retries: int
    fetch_offset_retry_interval_ms: int
    offset_poll_interval_ms: int
    route_refresh_ms: int
    missing_queue_grace_ms: int
    required: Required
    pull_batch_size: int
    pull_timeout_ms: int
    pull_deadline_ms: int
    prefetch: int
    arrow_batch_rows: int
    arrow_batch_bytes: int
    mode: str
    column_name_of_corrupt_record: str
    columns: tuple[str, ...]
    include_headers: bool
    body_charset_errors: str
    read_from_slave: bool
    check_crc: bool
    push_filters: bool
    progress_interval_ms: int


def named_tags(expression: str) -> tuple[str, ...]:
    """Return the tags that a tag expression names, () for all messages."""
    tags = (one.strip() for one in expression.split("||"))
    return () if expression == "*" else tuple(one for one in tags if one)


def read_options(options: Mapping[str, str], *, streaming: bool) -> ReadOptions:
    """Check the options of a read; raises `OptionError`, connects to nothing."""
    given = Given(options, "S" if streaming else "B")
    connection = connection_of(given)
    expression, expression_type = _filter(given)
    values = given.values(ReadOptions)
    group, commits = values["group_id"], values["commit_offsets"]
    if commits and group is None:
        raise OptionError("option commitOffsets needs groupId, the group whose offsets are stored")
    least, most = values["min_offsets_per_trigger"], values["max_offsets_per_trigger"]
    if least is not None and most is not None and least > most:
        raise OptionError(f"option minOffsetsPerTrigger = {least} is over maxOffsetsPerTrigger")
    least, most = values["min_partitions"], values["max_partitions"]
    if least is not None and most is not None and least > most:
        raise OptionError(f"option minPartitions = {least} is over maxPartitions = {most}")
    values["commit_offsets"] = streaming and (group is not None if commits is None else commits)
    values["columns"] = _list(values["columns"])
    start, end = _start(given, streaming=streaming), Start("latest") if streaming else _end(given)
    check_order(start, end)
    return ReadOptions(
        connection=connection,
        subscription=_subscription(given),
        expression=expression,
        expression_type=expression_type,
        start=start,
        end=end,
        required=Required(
            _for_topics(given, "requiredQueues", _whole),
            _for_topics(given, "requiredBrokers", _named),
        ),
        **values,
    )


def _subscription(given: Given) -> Subscription:
    subscribe, topic = given.value("subscribe"), given.value("topic")
    if subscribe is not None and topic is not None and subscribe != topic:
        raise OptionError("options subscribe and topic mean the same: give one")
    topics = _list(subscribe or topic)
    pattern = given.value("subscribePattern")
    assign = given.value("assign")
    dead, retried = _list(given.value("deadLettersOf")), _list(given.value("retriesOf"))
    chosen = [bool(topics), pattern is not None, assign is not None, bool(dead), bool(retried)]
    if sum(chosen) != 1:
        raise OptionError(
            "give exactly one of subscribe (or topic), subscribePattern, assign, deadLettersOf and "
            f"retriesOf; {sum(chosen)} are given"
        )
    if dead or retried:
        of_groups = [DLQ_PREFIX + one for one in dead] + [RETRY_PREFIX + one for one in retried]
        return Subscription(tuple(of_groups), is_of_groups=True)
    if pattern is not None:
        try:
            re.compile(pattern)
        except re.error as error:
            raise OptionError(f"option subscribePattern is no pattern: {error}") from None
    return Subscription(topics, pattern, None if assign is None else _assigned(assign))


def _assigned(value: object) -> frozenset[MessageQueue]:
    """Read ``{"t": {"broker-a": [0, 1]}}``."""
    wrong = 'option assign must look like {"topic":{"broker-a":[0,1]}}'
    if not isinstance(value, dict) or not value:
        raise OptionError(wrong)
    found: set[MessageQueue] = set()
    for topic, brokers in value.items():
        if not isinstance(brokers, dict):
            raise OptionError(wrong)
        for broker, queues in brokers.items():
            if not isinstance(queues, list) or not all(
                isinstance(one, int) and not isinstance(one, bool) and one >= 0 for one in queues
            ):
                raise OptionError(wrong)
            found.update(MessageQueue(topic, broker, one) for one in queues)
    if not found:
        raise OptionError(f"{wrong}: this one names no queue")
    return frozenset(found)


def _filter(given: Given) -> tuple[str, str]:
    tags, sql = given.value("subExpression"), given.value("sqlExpression")
    if tags is not None and sql is not None:
        raise OptionError("give one of subExpression and sqlExpression")
    if sql is not None:
        return sql, "SQL92"
    if tags is not None:
        _check_tags(tags)
    return tags or "*", "TAG"


def _check_tags(expression: str) -> None:
    """Refuse what brokers take for the name of a tag that no message has.

    Empty parts among others are nothing to them; with no other part they refuse, or find nothing.
    """
    meant = " || ".join(filter(None, (one.strip() for one in expression.split("|"))))
    if not meant:
        raise OptionError(f"option subExpression = {expression!r} names no tag")
    if any("|" in one for one in named_tags(expression)):
        raise OptionError(
            f"option subExpression = {expression!r}: the tag of a message has no vertical bar; "
            f"write {meant} for messages with any of these tags"
        )


def _start(given: Given, *, streaming: bool) -> Start:
    default = "latest" if streaming else "earliest"
    by_time = _by_time(given, "starting", default)
    if by_time is not None:
        return by_time
    start = parse_start("startingOffsets", given.value("startingOffsets") or default, default)
    if not streaming and start.wants_latest:
        raise OptionError(
            "option startingOffsets: a batch that begins at latest (-1) would read nothing"
        )
    if start.kind == "group" and given.value("groupId") is None:
        raise OptionError("option startingOffsets=group needs groupId")
    return start


def _end(given: Given) -> Start:
    by_time = _by_time(given, "ending", "latest")
    if by_time is not None:
        return by_time
    end = parse_start("endingOffsets", given.value("endingOffsets"), "latest")
    if end.kind == "group" or end.wants_earliest:
        raise OptionError("option endingOffsets must be latest or JSON without -2")
    return end


def _by_time(given: Given, which: str, otherwise: str) -> Start | None:
    """Return what options such as ``startingTimestamp`` say, None when none is given."""
    moment = given.value(f"{which}Timestamp")
    if moment is not None:
        return Start("timestamp", timestamp_ms=moment)
    name = f"{which}OffsetsByTimestamp"
    by_queue = given.value(name)
    if by_queue is None:
        return None
    positions = user_positions(name, by_queue, low=0)
    for queue, moment in positions.items():
        checked_ms(
            f"option {name}: {queue.topic!r}: queue {queue.queue_id} has {moment}, which", moment
        )
    return Start("timestamps", positions=positions, otherwise=otherwise)


def _for_topics(given: Given, option: str, read: Callable[[object], _T | None]) -> dict[str, _T]:
    """Read what is said for each topic: one value, under "", or a JSON object by topic."""
    text = given.value(option)
    if text is None:
        return {}
    said: object = text
    if text.lstrip().startswith("{"):
        with suppress(ValueError):
            said = json.loads(text)
    by_topic = said if isinstance(said, dict) else {"": said}
    found = {topic: read(one) for topic, one in by_topic.items()}
    if not found or None in found.values():
        raise OptionError(f"option {option} = {text!r} must look like {_FORMS[option]}")
    return {topic: one for topic, one in found.items() if one is not None}


def _whole(said: object) -> int | None:
    text = str(said)
    return int(text) if re.fullmatch("[0-9]{1,9}", text) and int(text) else None


def _named(said: object) -> tuple[str, ...] | None:
    names = said if isinstance(said, list) else _list(said) if isinstance(said, str) else ()
    return tuple(map(str, names)) or None


def _list(text: str | None) -> tuple[str, ...]:
    return tuple(part.strip() for part in (text or "").split(",") if part.strip())
