"""Which options the data source takes, what each means and which values it can have.

One table, `OPTIONS`, says name, kind, default, use (B batch read, S stream read, W write), limits,
and takes what each means from ``option_meanings.py`` (`python -m spark_connector options` shows);
`read_options` and `write_options` check a user's options against it before anything is
connected. Names match without regard to case, as Spark passes them on in lower case. Must not
know Spark, Arrow or the network. Read on: ``connection.py`` for the options of all uses,
``positions.py`` for offsets, ``decoding/read_columns.py`` for columns.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from attrs import evolve, frozen

from rocketmq_py import RawMessages
from spark_connector.errors import OptionError
from spark_connector.options.connection import Connection, connection_of
from spark_connector.options.instants import instant_ms
from spark_connector.options.option_meanings import MEANINGS
from spark_connector.options.parsing import Given, Option
from spark_connector.options.positions import Positions, Start, parse_start, places, user_positions

__all__ = [
    "BATCH_BYTES_MOST",
    "OPTIONS",
    "Connection",
    "Option",
    "ReadOptions",
    "Subscription",
    "WriteOptions",
    "named_tags",
    "read_options",
    "write_options",
]

MIB = 1024 * 1024
MINUTE_MS = 60_000
DAY_MS = 86_400_000
INT_MOST = (1 << 31) - 1
BATCH_BYTES_MOST = 4 * MIB
"""Bytes of a batch: to a broker it is one message, whose maxMessageSize has this default."""


def _table(
    *rows: tuple[str, str, str | None, str]
    | tuple[str, str, str | None, str, int]
    | tuple[str, str, str | None, str, int, int],
) -> dict[str, Option]:
    options = [evolve(Option(*row), meaning=MEANINGS.get(row[0], "")) for row in rows]
    return {option.name.lower(): option for option in options}


OPTIONS = _table(
    ("nameServer", "text", None, "BSW"),
    ("accessKey", "text", None, "BSW"),
    ("secretKey", "text", None, "BSW"),
    ("securityToken", "text", None, "BSW"),
    ("credentialsEnv", "text", None, "BSW"),
    ("credentialsFile", "text", None, "BSW"),
    ("addressMap", "text", None, "BSW"),
    ("namespace", "text", None, "BSW"),
    ("tls", "bool", "false", "BSW"),
    ("tlsCa", "text", None, "BSW"),
    ("tlsCert", "text", None, "BSW"),
    ("tlsKey", "text", None, "BSW"),
    ("progressIntervalMs", "int", "30000", "BSW"),
    ("subscribe", "text", None, "BS"),
    ("subscribePattern", "text", None, "BS"),
    ("assign", "json", None, "BS"),
    ("subExpression", "text", None, "BS"),
    ("sqlExpression", "text", None, "BS"),
    ("startingOffsets", "text", None, "BS"),
    ("endingOffsets", "text", "latest", "B"),
    ("startingTimestamp", "text", None, "BS"),
    ("endingTimestamp", "text", None, "B"),
    ("startingOffsetsByTimestamp", "json", None, "BS"),
    ("endingOffsetsByTimestamp", "json", None, "B"),
    ("startingOffsetsByTimestampStrategy", "error|latest", "error", "BS"),
    ("failOnDataLoss", "bool", "true", "BS"),
    ("maxOffsetsPerTrigger", "int", None, "S", 1),
    ("maxBytesPerTrigger", "int", None, "S", 1),
    ("minOffsetsPerTrigger", "int", None, "S", 1),
    ("maxTriggerDelay", "duration", "15m", "S"),
    ("minPartitions", "int", None, "BS", 1),
    ("maxRecordsPerPartition", "int", None, "BS", 1),
    ("groupId", "text", None, "BS"),
    ("commitOffsets", "bool", None, "S"),
    ("fetchOffset.numRetries", "int", "3", "BS"),
    ("fetchOffset.retryIntervalMs", "int", "1000", "BS"),
    ("offsetPollIntervalMs", "int", "100", "S", 1),
    ("routeRefreshMs", "int", "30000", "S", 1),
    ("missingQueueGraceMs", "int", "600000", "S"),
    ("pullBatchSize", "int", "1024", "BS", 1, INT_MOST),
    ("pullTimeoutMs", "int", "3000", "BS", 1),
    ("pullDeadlineMs", "int", "120000", "BS", 1),
    ("prefetch", "int", "4", "BS", 1, 1024),
    ("arrowBatchRows", "int", "4000", "BS", 1, INT_MOST),
    ("arrowBatchBytes", "int", str(8 * MIB), "BS", 1, 1024 * MIB),
    ("columns", "text", None, "BS"),
    ("includeHeaders", "bool", "false", "BS"),
    ("bodyCharsetErrors", "replace|strict", "replace", "BS"),
    ("readFromSlave", "bool", "true", "BS"),
    ("checkCrc", "bool", "false", "BS"),
    ("pushFilters", "bool", "false", "B"),
    ("topic", "text", None, "BSW"),
    ("tags", "text", None, "W"),
    ("delayMs", "int", None, "W"),
    ("deliverAt", "text", None, "W"),
    ("delayLevel", "int", None, "W", 1, 18),
    ("delayConflict", "error|first", "error", "W"),
    ("maxDelayMs", "int", str(3 * DAY_MS), "W"),
    ("translateStartDeliverTime", "auto|always|never", "auto", "W"),
    ("sendTimeoutMs", "int", "3000", "W", 1),
    ("sendRetries", "int", "2", "W"),
    ("sendDeadlineMs", "int", "120000", "W"),
    ("maxInFlight", "int", "256", "W", 1, 65_535),
    ("batchSend", "bool", "true", "W"),
    ("batchBytes", "int", str(MIB), "W", 1024, BATCH_BYTES_MOST),
    ("compression", "none|zlib|lz4|zstd", "none", "W"),
    ("compressOver", "int", "4096", "W"),
    ("onInvalidRow", "fail|skip|topic", "fail", "W"),
    ("invalidRowTopic", "text", None, "W"),
    ("extraColumns", "error|properties|ignore", "error", "W"),
    ("reservedProperties", "error|drop", "error", "W"),
    ("usePartition", "bool", "false", "W"),
    ("acceptStatus", "SEND_OK|stored", "SEND_OK", "W"),
    ("clockToleranceMs", "int", "60000", "W"),
    ("dedupe", "auto|none", None, "W"),
    ("replayGuard", "text", None, "W"),
    ("replayGuardTakeOver", "bool", "false", "W"),
)
"""Every option by its lower-case name."""


@frozen
class Subscription:
    """Which topics and queues: one of topics, a pattern, or queues by topic and broker."""

    topics: tuple[str, ...] = ()
    pattern: str | None = None
    assigned: Positions | None = None


@frozen
class ReadOptions:
    """Checked options of a batch or streaming read; times are ms, sizes bytes."""

    connection: Connection
    subscription: Subscription
    expression: str
    expression_type: str
    start: Start
    end: Start
    strategy: str
    fail_on_data_loss: bool
    max_offsets: int | None
    max_bytes: int | None
    min_offsets: int | None
    max_trigger_delay_ms: int
    min_partitions: int | None
    max_records: int | None
    group: str | None
    commit_offsets: bool
    retries: int
    retry_interval_ms: int
    poll_interval_ms: int
    route_refresh_ms: int
    grace_ms: int
    pull_batch_size: int
    pull_timeout_ms: int
    pull_deadline_ms: int
    prefetch: int
    batch_rows: int
    batch_bytes: int
    columns: tuple[str, ...]
    include_headers: bool
    strict_text: bool
    read_from_slave: bool
    check_crc: bool
    push_filters: bool
    progress_ms: int


@frozen
class WriteOptions:
    """Checked options of a batch or streaming write; times are ms, sizes bytes."""

    connection: Connection
    topic: str | None
    tags: str | None
    delay_ms: int | None
    deliver_at_ms: int | None
    delay_level: int | None
    first_delay_wins: bool
    max_delay_ms: int
    translate_start_deliver: bool
    timeout_ms: int
    retries: int
    send_deadline_ms: int
    max_in_flight: int
    batch_send: bool
    batch_bytes: int
    compression: str
    compress_over: int
    on_invalid_row: str
    invalid_row_topic: str | None
    extra_columns: str
    drop_reserved: bool
    use_partition: bool
    accept_stored: bool
    clock_tolerance_ms: int
    dedupe: str
    replay_guard: str | None
    replay_take_over: bool
    progress_ms: int


def named_tags(expression: str) -> tuple[str, ...]:
    """Return the tags that a tag expression names, () for all messages."""
    tags = (one.strip() for one in expression.split("||"))
    return () if expression == "*" else tuple(one for one in tags if one)


# --- reading the user's options ----------------------------------------------------------------


def read_options(options: Mapping[str, str], *, streaming: bool) -> ReadOptions:
    """Check the options of a read; raises `OptionError`, connects to nothing."""
    given = Given(options, "S" if streaming else "B", OPTIONS)
    connection = connection_of(given)
    expression, expression_type = _filter(given)
    group = given.text("groupId")
    commit = given.text("commitOffsets") if streaming else None
    # Read under "S" only: a batch has neither limits per trigger nor a cache of offsets.
    stream_number = given.number if streaming else _nothing
    if commit is not None and given.flag("commitOffsets") and group is None:
        raise OptionError("option commitOffsets needs groupId: whose offsets?")
    least, most = stream_number("minOffsetsPerTrigger"), stream_number("maxOffsetsPerTrigger")
    if least is not None and most is not None and least > most:
        raise OptionError(f"option minOffsetsPerTrigger = {least} is over maxOffsetsPerTrigger")
    return ReadOptions(
        connection=connection,
        subscription=_subscription(given),
        expression=expression,
        expression_type=expression_type,
        start=_start(given, streaming=streaming),
        end=Start("latest") if streaming else _end(given),
        strategy=given.word("startingOffsetsByTimestampStrategy"),
        fail_on_data_loss=given.flag("failOnDataLoss"),
        max_offsets=most,
        max_bytes=stream_number("maxBytesPerTrigger"),
        min_offsets=least,
        max_trigger_delay_ms=_duration_ms(given) if streaming else 0,
        min_partitions=given.number("minPartitions"),
        max_records=given.number("maxRecordsPerPartition"),
        group=group,
        commit_offsets=streaming
        and (group is not None if commit is None else given.flag("commitOffsets")),
        retries=given.count("fetchOffset.numRetries"),
        retry_interval_ms=given.count("fetchOffset.retryIntervalMs"),
        poll_interval_ms=stream_number("offsetPollIntervalMs") or 100,
        route_refresh_ms=stream_number("routeRefreshMs") or 30_000,
        grace_ms=stream_number("missingQueueGraceMs") or 0,
        pull_batch_size=given.count("pullBatchSize"),
        pull_timeout_ms=given.count("pullTimeoutMs"),
        pull_deadline_ms=given.count("pullDeadlineMs"),
        prefetch=given.count("prefetch"),
        batch_rows=given.count("arrowBatchRows"),
        batch_bytes=given.count("arrowBatchBytes"),
        columns=_list(given.text("columns")),
        include_headers=given.flag("includeHeaders"),
        strict_text=given.word("bodyCharsetErrors") == "strict",
        read_from_slave=given.flag("readFromSlave"),
        check_crc=given.flag("checkCrc"),
        push_filters=not streaming and given.flag("pushFilters"),
        progress_ms=given.count("progressIntervalMs"),
    )


def write_options(options: Mapping[str, str], *, streaming: bool) -> WriteOptions:
    """Check the options of a write; raises `OptionError`, connects to nothing."""
    given = Given(options, "W", OPTIONS)
    connection = connection_of(given)
    on_invalid_row = given.word("onInvalidRow")
    invalid_topic = given.text("invalidRowTopic")
    if on_invalid_row == "topic" and invalid_topic is None:
        raise OptionError("option onInvalidRow=topic needs invalidRowTopic")
    delays = [name for name in ("delayMs", "deliverAt", "delayLevel") if given.text(name)]
    if len(delays) > 1:
        raise OptionError(f"options {' and '.join(delays)} contradict each other: give one")
    deliver_at = given.text("deliverAt")
    delay, most = given.number("delayMs"), given.count("maxDelayMs")
    if most and delay is not None and delay > most:
        raise OptionError(f"option delayMs = {delay} is over maxDelayMs = {most}: raise that one")
    for name in ("topic", "invalidRowTopic"):
        problem = RawMessages.topic_problem(given.text(name) or "-")
        if problem is not None:
            raise OptionError(f"option {name}: {problem}")
    tags = given.text("tags")
    if tags is not None and "|" in tags:
        raise OptionError(f"option tags = {tags!r}: the tag of a message has no vertical bar")
    dedupe = given.word("dedupe") if given.text("dedupe") else ("auto" if streaming else "none")
    guard = given.text("replayGuard")
    guard = None if guard == "off" else guard
    if guard is not None and (not streaming or given.text("topic") is None):
        raise OptionError("option replayGuard is for streaming writes, and needs the option topic")
    return WriteOptions(
        connection=connection,
        topic=given.text("topic"),
        tags=tags,
        delay_ms=delay,
        deliver_at_ms=None if deliver_at is None else instant_ms("deliverAt", deliver_at),
        delay_level=given.number("delayLevel"),
        first_delay_wins=given.word("delayConflict") == "first",
        max_delay_ms=most,
        translate_start_deliver=given.word("translateStartDeliverTime") != "never",
        timeout_ms=given.count("sendTimeoutMs"),
        retries=given.count("sendRetries"),
        send_deadline_ms=given.count("sendDeadlineMs"),
        max_in_flight=given.count("maxInFlight"),
        batch_send=given.flag("batchSend"),
        batch_bytes=_batch_bytes(given),
        compression=given.word("compression"),
        compress_over=given.count("compressOver"),
        on_invalid_row=on_invalid_row,
        invalid_row_topic=invalid_topic,
        extra_columns=given.word("extraColumns"),
        drop_reserved=given.word("reservedProperties") == "drop",
        use_partition=given.flag("usePartition"),
        accept_stored=given.word("acceptStatus") == "stored",
        clock_tolerance_ms=given.count("clockToleranceMs"),
        dedupe=dedupe,
        replay_guard=guard,
        replay_take_over=given.flag("replayGuardTakeOver"),
        progress_ms=given.count("progressIntervalMs"),
    )


def _batch_bytes(given: Given) -> int:
    try:
        return given.count("batchBytes")
    except OptionError as error:
        raise OptionError(
            f"{error}: a broker takes a batch as one message, and by default no message of more "
            f"than {BATCH_BYTES_MOST} bytes (its maxMessageSize)"
        ) from None


def _nothing(_name: str) -> int | None:
    return None


def _subscription(given: Given) -> Subscription:
    subscribe, topic = given.text("subscribe"), given.text("topic")
    if subscribe is not None and topic is not None and subscribe != topic:
        raise OptionError("options subscribe and topic mean the same: give one")
    topics = _list(subscribe or topic)
    pattern = given.text("subscribePattern")
    assign = given.json("assign")
    chosen = [bool(topics), pattern is not None, assign is not None]
    if sum(chosen) != 1:
        raise OptionError(
            "give exactly one of subscribe (or topic), subscribePattern and assign; "
            f"{sum(chosen)} are given"
        )
    if pattern is not None:
        try:
            re.compile(pattern)
        except re.error as error:
            raise OptionError(f"option subscribePattern is no pattern: {error}") from None
    return Subscription(topics, pattern, None if assign is None else _assigned(assign))


def _assigned(value: object) -> Positions:
    """``{"t": {"broker-a": [0, 1]}}`` with every queue at offset 0."""
    wrong = 'option assign must look like {"topic":{"broker-a":[0,1]}}'
    if not isinstance(value, dict) or not value:
        raise OptionError(wrong)
    found: Positions = {}
    for topic, brokers in value.items():
        if not isinstance(brokers, dict):
            raise OptionError(wrong)
        for broker, queues in brokers.items():
            if not isinstance(queues, list) or not all(
                isinstance(one, int) and not isinstance(one, bool) and one >= 0 for one in queues
            ):
                raise OptionError(wrong)
            found.setdefault(topic, {})[broker] = dict.fromkeys(queues, 0)
    if not any(places(found)):
        raise OptionError(f"{wrong}: this one names no queue")
    return found


def _filter(given: Given) -> tuple[str, str]:
    tags, sql = given.text("subExpression"), given.text("sqlExpression")
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
    moment = given.text("startingTimestamp")
    by_queue = given.json("startingOffsetsByTimestamp")
    if moment is not None:
        return Start("timestamp", timestamp_ms=instant_ms("startingTimestamp", moment))
    if by_queue is not None:
        times = user_positions("startingOffsetsByTimestamp", by_queue, low=0)
        return Start("timestamps", positions=times, otherwise=default)
    start = parse_start("startingOffsets", given.text("startingOffsets") or default, default)
    if not streaming and start.wants_latest:
        raise OptionError("option startingOffsets: latest (-1) in a batch would read nothing")
    if start.kind == "group" and given.text("groupId") is None:
        raise OptionError("option startingOffsets=group needs groupId")
    return start


def _end(given: Given) -> Start:
    moment = given.text("endingTimestamp")
    by_queue = given.json("endingOffsetsByTimestamp")
    if moment is not None:
        return Start("timestamp", timestamp_ms=instant_ms("endingTimestamp", moment))
    if by_queue is not None:
        times = user_positions("endingOffsetsByTimestamp", by_queue, low=0)
        return Start("timestamps", positions=times, otherwise="latest")
    end = parse_start("endingOffsets", given.text("endingOffsets") or "latest", "latest")
    if end.kind == "group" or end.wants_earliest:
        raise OptionError("option endingOffsets must be latest or JSON without -2")
    return end


def _duration_ms(given: Given) -> int:
    text = given.text("maxTriggerDelay") or "15m"
    match = re.fullmatch(r"(\d{1,12})\s*(ms|s|m|min|h|d)?", text)
    if match is None:
        raise OptionError(f"option maxTriggerDelay = {text!r}: must look like 500ms, 30s, 15m, 2h")
    unit = {"s": 1000, "m": MINUTE_MS, "min": MINUTE_MS, "h": 60 * MINUTE_MS, "d": DAY_MS}
    return int(match[1]) * unit.get(match[2] or "ms", 1)


def _list(text: str | None) -> tuple[str, ...]:
    return tuple(part.strip() for part in (text or "").split(",") if part.strip())
