"""What a user asks of a write, batch or stream: checked before anything is connected.

Must not know Spark, Arrow or the network. Read on: ``table.py`` for what each option means,
``connection.py`` for the options of all uses.
"""

from collections.abc import Mapping
from typing import Final

from attrs import frozen

from rocketmq_py import DelayKind, DelayPolicy
from rocketmq_py.raw import RawMessages
from spark_connector.errors import OptionError
from spark_connector.options.connection import Connection, connection_of
from spark_connector.options.parsing import Given
from spark_connector.options.table import BATCH_BYTES_MOST

NO_PROPERTIES: Final = RawMessages.RESERVED_PROPERTIES.union(kind.value for kind in DelayKind)
"""Names that no property of a row may have: RocketMQ reserves them, or ONS asks for a delay by one.

A delay is a column: a row that has one in its properties would be sent in a batch, and refused.
"""


@frozen
class WriteOptions:
    """Checked options of a batch or streaming write; times are ms, sizes bytes.

    Every field but `connection` is the option of its name.
    """

    connection: Connection
    topic: str | None
    tags: str | None
    delay_ms: int | None
    deliver_at_ms: int | None
    delay_level: int | None
    delay_conflict: str
    delay_policy: DelayPolicy
    max_delay_ms: int
    translate_start_deliver_time: str
    send_timeout_ms: int
    send_retries: int
    send_deadline_ms: int
    max_in_flight: int
    batch_send: bool
    batch_bytes: int
    compression: str
    compress_over: int
    on_invalid_row: str
    invalid_row_topic: str | None
    extra_columns: str
    reserved_properties: str
    use_partition: bool
    route_by_key: str
    accept_status: str
    clock_tolerance_ms: int
    dedupe: str
    replay_guard: str | None
    replay_guard_take_over: bool
    batch_id: int | None
    progress_interval_ms: int
    fetch_offset_num_retries: int
    fetch_offset_retry_interval_ms: int


def write_options(options: Mapping[str, str], *, streaming: bool) -> WriteOptions:
    """Check the options of a write; raises `OptionError`, connects to nothing."""
    given = Given(options, "W")
    connection = connection_of(given)
    _check_batch_bytes(given)
    values = given.values(WriteOptions)
    if values["on_invalid_row"] == "topic" and values["invalid_row_topic"] is None:
        raise OptionError("option onInvalidRow=topic needs invalidRowTopic")
    delays = [one for one in ("delayMs", "deliverAt", "delayLevel") if given.value(one) is not None]
    if len(delays) > 1:
        raise OptionError(f"options {' and '.join(delays)} contradict each other: give one")
    delay, most = values["delay_ms"], values["max_delay_ms"]
    if most and delay is not None and delay > most:
        raise OptionError(f"option delayMs = {delay} is over maxDelayMs = {most}: raise that one")
    for name in ("topic", "invalidRowTopic"):
        problem = RawMessages.topic_problem(given.value(name) or "-")
        if problem is not None:
            raise OptionError(f"option {name}: {problem}")
    tags = values["tags"]
    if tags is not None and "|" in tags:
        raise OptionError(f"option tags = {tags!r}: the tag of a message has no vertical bar")
    if values["replay_guard"] == "off":
        values["replay_guard"] = None
    _check_guard(values["replay_guard"], values["topic"], values["batch_id"], streaming=streaming)
    has_ids = streaming or values["batch_id"] is not None
    values["dedupe"] = values["dedupe"] or ("auto" if has_ids else "none")
    return WriteOptions(connection=connection, **values)


def _check_guard(
    guard: str | None, topic: str | None, batch_id: int | None, *, streaming: bool
) -> None:
    if streaming and batch_id is not None:
        raise OptionError("option batchId is for batch writes: Spark numbers those of a stream")
    if guard is None:
        if batch_id is not None:
            raise OptionError("option batchId needs replayGuard, the group that holds the mark")
        return
    if topic is None:
        raise OptionError("option replayGuard needs the option topic")
    if not streaming and batch_id is None:
        raise OptionError(
            "option replayGuard of a batch write needs batchId: the number that foreachBatch gives"
        )


def _check_batch_bytes(given: Given) -> None:
    try:
        given.value("batchBytes")
    except OptionError as error:
        raise OptionError(
            f"{error}: a broker takes a batch as one message, and by default no message of more "
            f"than {BATCH_BYTES_MOST} bytes (its maxMessageSize)"
        ) from None
