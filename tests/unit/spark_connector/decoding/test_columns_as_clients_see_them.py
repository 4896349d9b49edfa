"""Every column, under every name it has, shows what a push consumer shows of the same message."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from queue import SimpleQueue

import pyarrow as pa
import pytest

from embedded_broker import EmbeddedBroker, VirtualClock
from rocketmq_py import (
    ConsumeConcurrentlyStatus,
    ConsumeFromWhere,
    DefaultMQPushConsumer,
    LocalTransactionState,
    Message,
    MessageExt,
    QueueAccess,
    TransactionListener,
    TransactionMQProducer,
)
from spark_connector.decoding.read_columns import _TYPES, ALIASES
from spark_connector.options.read_options import read_options
from spark_connector.planning.queue_ranges import QueueRange
from spark_connector.reading.range_reader import read_range

TIME = pa.timestamp("us", tz="UTC")
TYPES = {
    "int32": pa.int32(),
    "int64": pa.int64(),
    "string": pa.string(),
    "binary": pa.binary(),
    "timestamp": TIME,
    "map": pa.map_(pa.string(), pa.string()),
    "list": pa.list_(pa.struct([("key", pa.string()), ("value", pa.string())])),
}
ADDED = {"MIN_OFFSET", "MAX_OFFSET", "CONSUME_START_TIME"}
"""Properties that a consumer adds by itself."""
Shown = Callable[[MessageExt], object]


def moment(milliseconds: int) -> datetime:
    return datetime.fromtimestamp(0, UTC) + timedelta(milliseconds=milliseconds)


def stored(message: MessageExt) -> dict[str, str]:
    return {name: text for name, text in message.properties.items() if name not in ADDED}


def deliver_at(message: MessageExt) -> int | None:
    """The time that a message was to be delivered at, which the broker leaves in it."""
    text = message.properties.get("TIMER_OUT_MS")
    return None if text is None else int(text)


def end(message: MessageExt) -> int:
    return int(message.properties["MAX_OFFSET"])


def first_of(message: MessageExt, *names: str) -> str | None:
    return next((message.properties[one] for one in names if one in message.properties), None)


SHOWN: dict[str, Shown] = {
    "topic": lambda m: m.topic,
    "broker_name": lambda m: m.broker_name,
    "queue_id": lambda m: m.queue_id,
    "offset": lambda m: m.queue_offset,
    "message_id": lambda m: m.msg_id,
    "keys": lambda m: " ".join(m.keys) or None,
    "tags": lambda m: m.tags,
    "born_timestamp": lambda m: moment(m.born_timestamp),
    "store_timestamp": lambda m: moment(m.store_timestamp),
    "body": lambda m: m.body,
    "properties": lambda m: list(stored(m).items()),
    "dedupe_id": lambda m: m.properties.get("DEDUPE_ID"),
    "flag": lambda m: m.flag,
    # As stored: a client clears the bit of a compressed body when it has decompressed it.
    "sys_flag": lambda m: m.sys_flag | int(m.store_size < len(m.body)),
    "body_crc": lambda m: m.body_crc,
    "reconsume_times": lambda m: m.reconsume_times,
    "store_size": lambda m: m.store_size,
    "commit_log_offset": lambda m: m.commit_log_offset,
    "queue_size_left": lambda m: end(m) - 1 - m.queue_offset,
    "offset_msg_id": lambda m: m.offset_msg_id,
    "born_host": lambda m: m.born_host,
    "store_host": lambda m: m.store_host,
    "transaction_id": lambda m: m.transaction_id,
    "sharding_key": lambda m: m.properties.get("__SHARDINGKEY"),
    "deliver_at": lambda m: None if (at := deliver_at(m)) is None else moment(at),
    "delay_level": lambda m: int(m.properties["DELAY"]) if "DELAY" in m.properties else None,
    "origin_topic": lambda m: first_of(m, "DLQ_ORIGIN_TOPIC", "RETRY_TOPIC"),
    "origin_message_id": lambda m: first_of(m, "DLQ_ORIGIN_MESSAGE_ID", "ORIGIN_MESSAGE_ID"),
}
"""What a classic client shows under each column of ours, in the column's usual type."""

OTHER_TYPES: dict[tuple[str, str], Shown] = {
    ("born_timestamp", "int64"): lambda m: m.born_timestamp,
    ("store_timestamp", "int64"): lambda m: m.store_timestamp,
    ("deliver_at", "int64"): deliver_at,
    ("body", "string"): lambda m: m.body.decode(),
    ("properties", "string"): lambda m: json.dumps(
        stored(m), ensure_ascii=False, separators=(",", ":")
    ),
    ("properties", "list"): lambda m: [{"key": k, "value": v} for k, v in stored(m).items()],
}
NAMES = [*((name, name) for name in _TYPES), *ALIASES.items()]
CASES = [(name, source, kind) for name, source in NAMES for kind in _TYPES[source]]


class Commits(TransactionListener):
    def execute_local_transaction(self, message: Message, arg: object) -> LocalTransactionState:
        return LocalTransactionState.COMMIT_MESSAGE

    def check_local_transaction(self, message: MessageExt) -> LocalTransactionState:
        return LocalTransactionState.COMMIT_MESSAGE


class Both:
    """The same messages, as a push consumer was given them and as the connector reads them."""

    def __init__(self, seen: list[MessageExt], address: str) -> None:
        self.seen = seen
        self._address = address

    def read(self, name: str, kind: str) -> list[object]:
        (first, *_) = self.seen
        options = read_options(
            {"nameServer": self._address, "subscribe": first.topic}, streaming=False
        )
        wanted = QueueRange(first.topic, first.broker_name, 0, 0, len(self.seen))
        with QueueAccess(namesrv_addr=self._address) as access:
            access.read_queues(first.topic)
            batches = list(read_range(access, options, wanted, pa.schema([(name, TYPES[kind])])))
        return [value for batch in batches for value in batch.column(0).to_pylist()]


@pytest.fixture(scope="module")
def both() -> Iterator[Both]:
    found: SimpleQueue[MessageExt] = SimpleQueue()
    with EmbeddedBroker(clock=VirtualClock()) as broker:
        broker.topics.create("T", queues=1)
        broker.send("T", b"plain")
        properties = {"region": "Süd", "DEDUPE_ID": "d-1", "__SHARDINGKEY": "s"}
        broker.send("T", "voll 三".encode(), tags="t", keys="k1 k2", properties=properties)
        broker.send("T", b"late", delay=5)
        tried = {"ORIGIN_MESSAGE_ID": "o", "RETRY_TOPIC": "R"}
        broker.send("T", b"level", properties={"DELAY": "1", **tried})
        given_up = {"DLQ_ORIGIN_TOPIC": "A", "DLQ_ORIGIN_MESSAGE_ID": "a"}
        broker.send("T", b"dead", properties=tried | given_up)
        assert isinstance(broker.clock, VirtualClock)
        broker.clock.advance(20)
        address = broker.namesrv_addr
        with TransactionMQProducer(
            "bank", transaction_listener=Commits(), namesrv_addr=address
        ) as bank:
            bank.send_message_in_transaction(Message("T", b"x" * 5000, flag=7))
            bank.send_message_in_transaction(Message("T", b"paid", keys="order"))
        broker.wait_for(lambda b: len(b.messages.in_topic("T")) == 7)
        first = ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET
        consumer = DefaultMQPushConsumer("G", namesrv_addr=address, consume_from_where=first)
        consumer.subscribe("T", "*")

        def take(messages: list[MessageExt], _context: object) -> ConsumeConcurrentlyStatus:
            for one in messages:
                found.put(one)
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS

        consumer.register_message_listener(take)
        with consumer:
            seen = sorted((found.get(timeout=20) for _ in range(7)), key=lambda m: m.queue_offset)
        yield Both(seen, address)


@pytest.mark.case("SP12")
@pytest.mark.parametrize(("name", "source", "kind"), CASES, ids=str)
def test_a_column_shows_what_a_push_consumer_shows(
    both: Both, name: str, source: str, kind: str
) -> None:
    shown = OTHER_TYPES.get((source, kind), SHOWN[source])
    assert [shown(message) for message in both.seen] == both.read(name, kind)


def test_the_messages_have_something_to_show_in_every_column(both: Both) -> None:
    unset = {0, None, ""}
    bare = [
        source for source, shown in SHOWN.items() if {str(shown(m)) for m in both.seen} <= {"None"}
    ]
    assert bare == []
    assert {m.transaction_id in unset for m in both.seen} == {True, False}
    assert SHOWN.keys() == _TYPES.keys()
