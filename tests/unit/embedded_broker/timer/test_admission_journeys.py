"""What becomes of a delayed message at the broker's door: what is stored, what is refused.

A real producer sends; the broker's store is looked at, in memory or as the bytes of its commit
log on disk. Time is frozen.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from embedded_broker import EmbeddedBroker, StoredMessage, VirtualClock
from embedded_broker.store.put_values import InnerMessage, PutStatus
from rocketmq_py import (
    DefaultMQProducer,
    DefaultMQPushConsumer,
    DelayOutOfRangeError,
    InvalidDelayError,
    Message,
    MQBrokerException,
    RecallHandle,
    ReservedPropertyError,
    SendResult,
)
from rocketmq_py.protocol.codes import RequestCode
from rocketmq_py.protocol.command import RemotingCommand
from rocketmq_py.protocol.message_codec import MessageRecord, decode_record
from tests.unit.rocketmq_py.consumer.inbox import LATER, Inbox

GUARD_S = 30.0
TIMERS = "rmq_sys_wheel_timer"
LEVELS = "SCHEDULE_TOPIC_XXXX"
RETRY, DEAD = "%RETRY%G", "%DLQ%G"
MAX_DELAY_MS = 259_200_000
"""timerMaxDelaySec of a broker that nobody configured: three days."""
COMMIT_LOG_READ = 64 * 1024
"""More than any test here stores."""

Properties = Callable[[int], dict[str, str]]
"""Properties of a message that is sent at a time in ms."""
Start = Callable[..., EmbeddedBroker]
Connect = Callable[..., DefaultMQProducer]


@pytest.fixture
def start() -> Iterator[Start]:
    with ExitStack() as ends:

        def start_one(
            *, at: datetime = datetime(2030, 5, 17, 10, 20, 30, 456_000, UTC), **arguments: object
        ) -> EmbeddedBroker:
            broker = EmbeddedBroker(
                clock=VirtualClock(start=at),
                tcp=False,
                topics=["T"],
                **arguments,  # type: ignore[arg-type] # passed on as the test wrote them
            )
            return ends.enter_context(broker)

        yield start_one


@pytest.fixture
def broker(start: Start) -> EmbeddedBroker:
    return start()


@pytest.fixture
def connect() -> Iterator[Connect]:
    with ExitStack() as ends:

        def connect_one(broker: EmbeddedBroker, **settings: object) -> DefaultMQProducer:
            producer = DefaultMQProducer(
                "P", namesrv_addr=broker.namesrv_addr, delay_policy="as_java"
            )
            for name, value in settings.items():
                setattr(producer, name, value)
            return ends.enter_context(producer)

        yield connect_one


@pytest.fixture
def producer(broker: EmbeddedBroker, connect: Connect) -> DefaultMQProducer:
    return connect(broker)


def send(producer: DefaultMQProducer, properties: dict[str, str]) -> SendResult:
    """Send as a client that lets everything through, so that the broker has to judge."""
    message = Message("T", b"x")
    message.properties |= properties
    return producer.send(message)


def stored(broker: EmbeddedBroker) -> list[MessageRecord]:
    """Everything that was ever put into the store, whatever its topic."""
    parts = broker._parts()
    with parts.door.quiet:
        return list(parts.store.scan(0))


def the_one(broker: EmbeddedBroker, topic: str) -> StoredMessage:
    """The only message that is stored anywhere; it is in this topic."""
    assert [record.topic for record in stored(broker)] == [topic]
    (message,) = broker.messages.in_topic(topic)
    return message


def timer_names(properties: dict[str, str]) -> set[str]:
    return {name for name in properties if name.startswith("TIMER_")}


def commit_log(directory: Path) -> list[MessageRecord]:
    """The records of a closed store, read from the file alone."""
    with (directory / "commitlog" / f"{0:020}").open("rb") as file:
        data = file.read(COMMIT_LOG_READ)
    records: list[MessageRecord] = []
    offset = 0
    while int.from_bytes(data[offset : offset + 4]) > 0:
        records.append(decode_record(data, offset))
        offset += records[-1].size
    return records


# --- where a timer message is kept ------------------------------------------------------------


@pytest.mark.case("A1")
@pytest.mark.parametrize(
    ("deliver_ms", "out_ms"), [(20_500, 20_000), (20_000, 19_000), (20_001, 20_000)]
)
def test_the_slot_is_the_last_one_that_ends_no_earlier_than_the_asked_time(
    start: Start, connect: Connect, deliver_ms: int, out_ms: int
) -> None:
    base_ms = 2_000_000_000_000  # our client takes times before 1973 for seconds
    broker = start(at=datetime.fromtimestamp(base_ms / 1000 + 10, UTC))
    assert broker.clock.now_ms == base_ms + 10_000
    send(connect(broker), {"TIMER_DELIVER_MS": str(base_ms + deliver_ms)})
    assert the_one(broker, TIMERS).properties["TIMER_OUT_MS"] == str(base_ms + out_ms)


WAYS: list[Properties] = [
    lambda _: {"TIMER_DELAY_SEC": "10"},
    lambda _: {"TIMER_DELAY_MS": "10000"},
    lambda now_ms: {"TIMER_DELIVER_MS": str(now_ms + 10_000)},
    lambda now_ms: {"__STARTDELIVERTIME": str(now_ms + 10_000)},
]


@pytest.mark.case("A2")
@pytest.mark.parametrize("way", WAYS)
def test_a_timer_message_waits_in_the_timer_topic_with_its_way_back_written_on_it(
    start: Start, connect: Connect, tmp_path: Path, way: Properties
) -> None:
    broker = start(store=tmp_path)
    now_ms = broker.clock.now_ms
    producer = connect(broker)
    queue = producer.fetch_publish_message_queues("T")[3]
    message = Message("T", b"body", tags="TagA", keys="k", properties=way(now_ms))
    sent = producer.send(message, queue=queue)
    assert broker.topics["T"].count() == 0
    assert broker.timers.count(topic="T") == 1
    assert (sent.message_queue, sent.queue_offset) == (queue, 0)
    broker.close()

    (record,) = commit_log(tmp_path)
    assert (record.topic, record.queue_id, record.body) == (TIMERS, 0, b"body")
    expected = {
        "REAL_TOPIC": "T",
        "REAL_QID": "3",
        "TIMER_OUT_MS": str((now_ms + 10_000) // 1000 * 1000),
        "TAGS": "TagA",
        "KEYS": "k",
        "UNIQ_KEY": sent.msg_id,
    }
    asked = way(now_ms)
    assert record.properties == record.properties | expected | asked
    translated = {"TIMER_DELIVER_MS"} if "__STARTDELIVERTIME" in asked else set()
    assert timer_names(record.properties) == {"TIMER_OUT_MS"} | timer_names(asked) | translated


# --- which request counts ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("asked", "wait_ms"),
    [
        pytest.param(
            lambda now_ms: {
                "TIMER_DELAY_SEC": "5",
                "TIMER_DELAY_MS": "1",
                "TIMER_DELIVER_MS": str(now_ms + 86_400_000),
            },
            5000,
            id="before milliseconds and an instant",
            marks=pytest.mark.case("A3"),
        ),
        pytest.param(
            lambda _: {
                "TIMER_DELAY_SEC": "5",
                "TIMER_DELAY_MS": "junk",
                "TIMER_DELIVER_MS": str(2**62),
            },
            5000,
            id="and the losers are not even read",
            marks=pytest.mark.case("A3"),
        ),
        pytest.param(
            lambda now_ms: {"__STARTDELIVERTIME": str(now_ms + 60_000), "TIMER_DELAY_SEC": "5"},
            5000,
            id="before Aliyun's",
            marks=pytest.mark.case("A14"),
        ),
    ],
)
def test_seconds_win(
    broker: EmbeddedBroker, producer: DefaultMQProducer, asked: Properties, wait_ms: int
) -> None:
    now_ms = broker.clock.now_ms
    send(producer, asked(now_ms))
    kept = the_one(broker, TIMERS).properties
    assert kept == kept | asked(now_ms)
    assert kept["TIMER_OUT_MS"] == str((now_ms + wait_ms) // 1000 * 1000)
    broker.clock.advance(timedelta(milliseconds=wait_ms - 1))
    assert broker.topics["T"].count() == 0
    broker.clock.advance(timedelta(milliseconds=1))
    assert broker.topics["T"].count() == 1


@pytest.mark.parametrize(
    ("asked", "queue_id", "level"),
    [
        pytest.param(
            {"DELAY": "3", "TIMER_DELIVER_MS": str(2**41)},
            2,
            "3",
            id="with an instant",
            marks=pytest.mark.case("A8"),
        ),
        pytest.param(
            {"DELAY": "3", "TIMER_DELAY_SEC": "junk", "TIMER_DELAY_MS": "-1"},
            2,
            "3",
            id="with junk",
            marks=pytest.mark.case("A8"),
        ),
        pytest.param({"DELAY": "99"}, 17, "18", id="beyond the last", marks=pytest.mark.case("A9")),
    ],
)
def test_a_level_wins_and_is_stored_as_one_that_exists_without_any_timer_property(
    start: Start,
    connect: Connect,
    tmp_path: Path,
    asked: dict[str, str],
    queue_id: int,
    level: str,
) -> None:
    broker = start(store=tmp_path)
    send(connect(broker), asked)
    assert broker.timers.count(topic="T") == 1
    broker.close()

    (record,) = commit_log(tmp_path)
    assert (record.topic, record.queue_id) == (LEVELS, queue_id)
    assert record.properties["DELAY"] == level
    assert record.properties["REAL_TOPIC"] == "T"
    assert timer_names(record.properties) == set()


# --- what is stored at once -------------------------------------------------------------------


@pytest.mark.case("A5")
@pytest.mark.parametrize(
    "asked",
    [
        pytest.param(lambda now_ms: {"TIMER_DELIVER_MS": str(now_ms)}, id="now"),
        pytest.param(lambda now_ms: {"TIMER_DELIVER_MS": str(now_ms - 1)}, id="now - 1"),
        pytest.param(lambda _: {"TIMER_DELIVER_MS": "-5"}, id="before 1970"),
        pytest.param(lambda _: {"TIMER_DELAY_SEC": "0"}, id="0 s"),
        pytest.param(lambda _: {"TIMER_DELAY_MS": "-1"}, id="-1 ms"),
    ],
)
def test_a_time_that_is_not_in_the_future_is_no_delay(
    broker: EmbeddedBroker, producer: DefaultMQProducer, asked: Properties
) -> None:
    properties = asked(broker.clock.now_ms)
    sent = send(producer, properties)
    kept = the_one(broker, "T")
    assert kept.msg_id == sent.msg_id
    assert kept.properties == kept.properties | properties
    assert timer_names(kept.properties) == timer_names(properties)
    assert "REAL_TOPIC" not in kept.properties
    assert broker.timers.count() == 0


@pytest.mark.case("A13")
@pytest.mark.parametrize(
    ("alias", "topic", "waiting"), [(True, TIMERS, 1), (False, "T", 0)], ids=["on", "off"]
)
def test_aliyuns_property_delays_where_the_broker_takes_it_and_stays_on_the_message(
    start: Start, connect: Connect, alias: bool, topic: str, waiting: int
) -> None:
    broker = start(config={"startDeliverTimeEnable": alias})
    due_ms = str(broker.clock.now_ms + 10_000)
    send(connect(broker, translate_start_deliver_time="never"), {"__STARTDELIVERTIME": due_ms})
    assert the_one(broker, topic).properties["__STARTDELIVERTIME"] == due_ms
    assert broker.timers.count() == waiting
    broker.clock.advance(10)
    (arrived,) = broker.messages.in_topic("T")
    assert arrived.properties["__STARTDELIVERTIME"] == due_ms


# --- what is refused --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("asked", "error", "named"),
    [
        pytest.param(
            lambda now_ms: {"TIMER_DELAY_SEC": "x", "TIMER_DELIVER_MS": str(now_ms + 5000)},
            InvalidDelayError,
            "TIMER_DELAY_SEC = 'x'",
            id="junk before a good one",
            marks=pytest.mark.case("A4"),
        ),
        pytest.param(
            lambda _: {"TIMER_DELAY_SEC": " 5"},
            InvalidDelayError,
            "TIMER_DELAY_SEC = ' 5'",
            id="a blank",
            marks=pytest.mark.case("A11"),
        ),
        pytest.param(
            lambda _: {"TIMER_DELAY_SEC": "5.0"},
            InvalidDelayError,
            "TIMER_DELAY_SEC = '5.0'",
            id="a fraction",
            marks=pytest.mark.case("A11"),
        ),
        pytest.param(
            lambda _: {"TIMER_DELAY_SEC": str(2**63)},
            InvalidDelayError,
            f"TIMER_DELAY_SEC = '{2**63}'",
            id="65 bits",
            marks=pytest.mark.case("A11"),
        ),
        pytest.param(
            lambda _: {"TIMER_DELAY_SEC": str(2**63 - 1)},
            DelayOutOfRangeError,
            f"TIMER_DELAY_SEC={2**63 - 1}",
            id="seconds that overflow as milliseconds",
            marks=pytest.mark.case("A12"),
        ),
        pytest.param(
            lambda _: {"TIMER_DELAY_MS": str(MAX_DELAY_MS + 1)},
            DelayOutOfRangeError,
            f"TIMER_DELAY_MS={MAX_DELAY_MS + 1}",
            id="a millisecond too long",
            marks=pytest.mark.case("A6"),
        ),
        pytest.param(
            lambda now_ms: {"TIMER_DELIVER_MS": str(now_ms + MAX_DELAY_MS + 1)},
            DelayOutOfRangeError,
            f"asks for {MAX_DELAY_MS + 1} ms",
            id="an instant a millisecond too far",
            marks=pytest.mark.case("A6"),
        ),
        pytest.param(
            lambda _: {"TIMER_DELAY_SEC": str(259_200 + 20)},
            DelayOutOfRangeError,
            "TIMER_DELAY_SEC=259220",
            id="20 s too long",
            marks=pytest.mark.case("A7"),
        ),
        pytest.param(
            lambda now_ms: {"TIMER_DELIVER_MS": str(now_ms + MAX_DELAY_MS + 20_000)},
            DelayOutOfRangeError,
            f"asks for {MAX_DELAY_MS + 20_000} ms",
            id="an instant 20 s too far",
            marks=pytest.mark.case("A7"),
        ),
    ],
)
def test_an_impossible_delay_is_refused_with_13_and_nothing_is_stored(
    broker: EmbeddedBroker,
    producer: DefaultMQProducer,
    asked: Properties,
    error: type[MQBrokerException],
    named: str,
) -> None:
    with pytest.raises(error) as caught:
        send(producer, asked(broker.clock.now_ms))
    assert caught.value.code == 13
    remark = caught.value.remark or ""
    assert named in remark
    assert f"{MAX_DELAY_MS} ms" in remark
    assert "timerMaxDelaySec" in remark
    assert stored(broker) == []
    assert broker.timers.count() == 0


@pytest.mark.parametrize(
    ("asked", "wait_ms"),
    [
        pytest.param(
            lambda _: {"TIMER_DELAY_SEC": "+5"},
            5000,
            id="a plus sign",
            marks=pytest.mark.case("A11"),
        ),
        pytest.param(
            lambda _: {"TIMER_DELAY_MS": str(MAX_DELAY_MS)},
            MAX_DELAY_MS,
            id="exactly the maximum",
            marks=pytest.mark.case("A6"),
        ),
        pytest.param(
            lambda now_ms: {"TIMER_DELIVER_MS": str(now_ms + MAX_DELAY_MS)},
            MAX_DELAY_MS,
            id="an instant exactly that far",
            marks=pytest.mark.case("A6"),
        ),
    ],
)
def test_a_delay_at_the_edge_of_what_is_possible_is_accepted_and_kept(
    broker: EmbeddedBroker, producer: DefaultMQProducer, asked: Properties, wait_ms: int
) -> None:
    send(producer, asked(broker.clock.now_ms))
    assert the_one(broker, TIMERS).properties.items() >= asked(broker.clock.now_ms).items()
    broker.clock.advance(timedelta(milliseconds=wait_ms - 1))
    assert broker.topics["T"].count() == 0
    broker.clock.advance(timedelta(milliseconds=1))
    assert broker.topics["T"].count() == 1


@pytest.mark.case("A11")
def test_an_empty_value_does_not_survive_the_wire_and_is_refused_when_put_from_inside(
    broker: EmbeddedBroker, producer: DefaultMQProducer
) -> None:
    # Every reader of properties leaves empty values out (MessageDecoder.string2messageProperties).
    send(producer, {"TIMER_DELAY_SEC": ""})
    assert "TIMER_DELAY_SEC" not in the_one(broker, "T").properties

    parts = broker._parts()
    with parts.door:
        result = parts.store.put(InnerMessage("T", 0, b"x", {"TIMER_DELAY_SEC": ""}))
    assert result.status is PutStatus.WHEEL_TIMER_MSG_ILLEGAL
    assert "TIMER_DELAY_SEC = ''" in (result.remark or "")
    assert len(stored(broker)) == 1


@pytest.mark.case("A15")
@pytest.mark.parametrize("name", ["TIMER_DELAY_SEC", "TIMER_DELAY_MS"])
def test_a_user_property_delays_unless_the_producer_is_strict_about_reserved_names(
    broker: EmbeddedBroker, connect: Connect, name: str
) -> None:
    message = Message("T", b"x").put_user_property(name, "5")
    with pytest.raises(ReservedPropertyError, match=name):
        connect(broker, strict_reserved=True).send(message)
    assert stored(broker) == []

    sent = connect(broker).send(message)
    waiting = the_one(broker, TIMERS)
    assert (waiting.msg_id, waiting.properties[name]) == (sent.msg_id, "5")


# --- after the delivery -----------------------------------------------------------------------


@pytest.mark.case("P33")
def test_a_delivered_timer_that_fails_waits_at_levels_until_the_dead_letters(
    broker: EmbeddedBroker, producer: DefaultMQProducer
) -> None:
    inbox = Inbox(lambda _: LATER)
    consumer = DefaultMQPushConsumer("G", namesrv_addr=broker.namesrv_addr, max_reconsume_times=1)
    consumer.subscribe("T")
    consumer.register_message_listener(inbox)
    with consumer:
        sent = send(producer, {"TIMER_DELAY_SEC": "5"})
        broker.clock.advance(5)
        wait_for_send_backs(broker, 1)
        (waiting,) = broker.messages.in_topic(LEVELS)
        assert (waiting.queue_id, waiting.properties["DELAY"]) == (2, "3")
        assert waiting.properties["REAL_TOPIC"] == RETRY
        assert "TIMER_DELAY_SEC" not in waiting.properties
        assert broker.timers.count(topic=RETRY) == 1

        broker.clock.advance(9.999)
        assert broker.topics[RETRY].count() == 0
        broker.clock.advance(0.001)
        wait_for_send_backs(broker, 2)
        (dead,) = broker.messages.in_topic(DEAD)
        first, second = inbox.messages

    assert [m.reconsume_times for m in (first, second)] == [0, 1]
    assert second.store_timestamp == first.store_timestamp + 10_000
    assert {m.msg_id for m in (first, second)} | {dead.msg_id} == {sent.msg_id}
    # What keeps a message that was timed once from being timed again survives every copy.
    out_ms = first.properties["TIMER_OUT_MS"]
    assert [m.properties["TIMER_OUT_MS"] for m in (waiting, second, dead)] == [out_ms] * 3
    assert len(broker.messages.in_topic(TIMERS)) == 1
    assert broker.timers.count() == 0


@pytest.mark.case("P33")
@pytest.mark.parametrize(
    ("name", "value"), [("TIMER_DELAY_SEC", "5"), ("TIMER_DELIVER_MS", str(2**41))]
)
def test_a_copy_that_a_client_publishes_for_retry_is_not_timed_again(
    broker: EmbeddedBroker, producer: DefaultMQProducer, name: str, value: str
) -> None:
    broker.topics.create(RETRY, queues=1)
    timed_once = {name: value, "TIMER_OUT_MS": str(broker.clock.now_ms - 1000)}
    message = Message(RETRY, b"x")
    message.properties |= timed_once
    producer.send(message)
    kept = the_one(broker, RETRY).properties
    assert kept == kept | timed_once
    assert broker.timers.count() == 0


def wait_for_send_backs(broker: EmbeddedBroker, count: int) -> None:
    code = RequestCode.CONSUMER_SEND_MSG_BACK
    broker.wait_for(
        lambda b: sum(one.response_code == 0 for one in b.journal.requests(code=code)) == count,
        timeout=GUARD_S,
    )


# --- recall handles ---------------------------------------------------------------------------


@pytest.mark.case("R2")
@pytest.mark.parametrize("precision_ms", [100, 200, 500, 1000])
@pytest.mark.parametrize("wait_ms", [4999, 5000, 5001, 5544])
def test_the_handles_time_rounds_back_to_the_slot_of_the_stored_message(
    start: Start, connect: Connect, precision_ms: int, wait_ms: int
) -> None:
    broker = start(config={"timerPrecisionMs": precision_ms})
    sent = send(connect(broker), {"TIMER_DELAY_MS": str(wait_ms)})
    out_ms = int(the_one(broker, TIMERS).properties["TIMER_OUT_MS"])
    assert sent.recall == RecallHandle("T", "broker-a", out_ms + 1, sent.msg_id)
    assert (out_ms + 1) // precision_ms * precision_ms == out_ms
    assert out_ms < broker.clock.now_ms + wait_ms <= out_ms + precision_ms


@pytest.mark.case("R3")
@pytest.mark.parametrize(
    ("topic", "asked", "stored_in"),
    [
        pytest.param("T", {}, "T", id="no delay"),
        pytest.param("T", {"DELAY": "3"}, LEVELS, id="a level"),
        pytest.param("T", {"TIMER_DELAY_SEC": "0"}, "T", id="due already"),
        pytest.param(RETRY, {"TIMER_DELAY_SEC": "5"}, TIMERS, id="a retry topic"),
    ],
)
def test_only_a_timer_of_an_ordinary_topic_has_a_recall_handle(
    broker: EmbeddedBroker,
    producer: DefaultMQProducer,
    topic: str,
    asked: dict[str, str],
    stored_in: str,
) -> None:
    broker.topics.create(RETRY, queues=1)
    sent = producer.send(Message(topic, b"x", properties=asked))
    assert the_one(broker, stored_in).msg_id == sent.msg_id
    assert sent.recall_handle is None


@pytest.mark.case("R3")
def test_a_batch_has_no_recall_handle(broker: EmbeddedBroker, producer: DefaultMQProducer) -> None:
    sent = producer.send_batch([Message("T", b"1"), Message("T", b"2")])
    assert broker.topics["T"].count() == 2
    assert sent.recall_handle is None


class Answers:
    """A hook that keeps what was asked and answered."""

    def __init__(self) -> None:
        self.kept: list[tuple[int, RemotingCommand]] = []

    def before_request(self, address: str, request: RemotingCommand) -> None:
        pass

    def after_response(
        self, address: str, request: RemotingCommand, response: RemotingCommand
    ) -> None:
        self.kept.append((request.code, response))


@pytest.mark.case("R3")
def test_a_timer_that_is_sent_back_gets_no_recall_handle(broker: EmbeddedBroker) -> None:
    answers, inbox = Answers(), Inbox(lambda _: LATER)
    consumer = DefaultMQPushConsumer("G", namesrv_addr=broker.namesrv_addr, rpc_hooks=[answers])
    consumer.subscribe("T")
    consumer.register_message_listener(inbox)
    producer = DefaultMQProducer("P", namesrv_addr=broker.namesrv_addr, rpc_hooks=[answers])
    with producer, consumer:
        sent = send(producer, {"TIMER_DELAY_SEC": "5"})
        broker.clock.advance(5)
        wait_for_send_backs(broker, 1)
    assert sent.recall_handle is not None
    fields = {code: answer.ext_fields for code, answer in answers.kept}
    assert "recallHandle" in fields[RequestCode.SEND_MESSAGE_V2]
    assert "recallHandle" not in fields[RequestCode.CONSUMER_SEND_MSG_BACK]


@pytest.mark.case("R4")
@pytest.mark.parametrize("way", WAYS)
def test_a_recalled_timer_is_never_delivered(
    start: Start, connect: Connect, way: Properties
) -> None:
    broker = start(config={"recallMessageEnable": True})
    producer = connect(broker)
    sent = send(producer, way(broker.clock.now_ms - 5000))
    assert sent.recall_handle is not None
    broker.clock.advance(1)
    assert producer.recall_message("T", sent.recall_handle) == sent.msg_id
    (request,) = broker.journal.requests(code=RequestCode.RECALL_MESSAGE)
    assert request.response_code == 0
    broker.clock.advance(days=1)
    assert broker.messages.in_topic("T") == []
    assert broker.timers.count() == 0
