"""What a program asks for, and when its consumer gets it: the whole way of a delayed message.

A real producer, the broker, a real push consumer. Time is the broker's virtual clock, so "after
ten seconds" means: not one millisecond earlier, and without a further step of the clock.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta

import pytest
from attrs import frozen

from embedded_broker import EmbeddedBroker, JournalEntry, VirtualClock
from rocketmq_py import (
    DefaultMQProducer,
    DefaultMQPushConsumer,
    DelayConflictError,
    DelayOutOfRangeError,
    DelayPolicy,
    DelayValueError,
    LocalTransactionState,
    Message,
    MessageExt,
    SendStatus,
    SystemClock,
    TransactionListener,
    TransactionMQProducer,
    aio,
)
from rocketmq_py.protocol.codes import RequestCode
from rocketmq_py.protocol.properties import decode_properties
from tests.unit.rocketmq_py.consumer.inbox import Inbox

GUARD_S = 30.0
MILLISECOND = timedelta(milliseconds=1)
BETWEEN_SLOTS = datetime(2030, 5, 17, 10, 20, 30, 456_000, tzinfo=UTC)
"""A start that no slot of the wheel begins or ends at."""
MAX_DELAY_MS = 259_200_000
"""timerMaxDelaySec of a broker that nobody configured: three days."""

Ask = Callable[[Message, int], object]
"""Asks a message for a delay; the second argument is the time now in ms."""


@frozen
class Road:
    """A broker, and a consumer of its topic T that has its queues before anything is sent."""

    broker: EmbeddedBroker
    producer: DefaultMQProducer
    inbox: Inbox

    @property
    def now_ms(self) -> int:
        return self.broker.clock.now_ms

    @property
    def sends(self) -> list[JournalEntry]:
        """Every attempt of a send that reached the broker."""
        return self.broker.journal.requests(code=RequestCode.SEND_MESSAGE_V2)

    def wire(self) -> dict[str, str]:
        """The properties of the one message that was sent, as they reached the broker."""
        (request,) = self.sends
        return decode_properties(request.fields["i"])

    def arrived(self, count: int = 1) -> list[MessageExt]:
        """Wait, in wall time only, for what is visible to reach the listener."""
        self.broker.wait_for(lambda _: len(self.inbox) >= count, timeout=GUARD_S)
        return self.inbox.messages

    def arrives_after(self, wait: timedelta) -> MessageExt:
        """Check that the one message under way becomes visible after exactly this span."""
        began_ms = self.now_ms
        self.broker.clock.advance(wait - MILLISECOND)
        assert self.broker.topics["T"].count() == 0
        assert self.broker.timers.count(topic="T") == 1
        self.broker.clock.advance(MILLISECOND)
        (message,) = self.arrived()
        assert message.store_timestamp == began_ms + wait // MILLISECOND
        assert self.broker.timers.count() == 0
        return message

    def arrives_at_once(self) -> MessageExt:
        """Check that the one message under way is there without any step of the clock."""
        assert self.broker.timers.count() == 0
        (message,) = self.arrived()
        assert message.store_timestamp == self.now_ms
        return message


OpenRoad = Callable[..., Road]


@pytest.fixture(params=["in-process", "tcp"])
def open_road(request: pytest.FixtureRequest) -> Iterator[OpenRoad]:
    """Starts broker, producer and consumer; keywords are settings of the producer."""
    tcp = request.param == "tcp"
    with ExitStack() as ends:

        def open_one(
            *,
            start: datetime = BETWEEN_SLOTS,
            broker_config: dict[str, object] | None = None,
            queues: int = 1,
            threads: int = 20,
            **producer_settings: object,
        ) -> Road:
            broker = ends.enter_context(
                EmbeddedBroker(
                    clock=VirtualClock(start=start),
                    tcp=tcp,
                    inproc=not tcp,
                    config=broker_config,
                )
            )
            broker.topics.create("T", queues=queues)
            inbox = Inbox()
            consumer = DefaultMQPushConsumer(
                "G", namesrv_addr=broker.namesrv_addr, consume_thread_min=threads
            )
            consumer.subscribe("T")
            consumer.register_message_listener(inbox)
            ends.enter_context(consumer)
            producer = DefaultMQProducer("P", namesrv_addr=broker.namesrv_addr)
            for name, value in producer_settings.items():
                setattr(producer, name, value)
            ends.enter_context(producer)
            return Road(broker, producer, inbox)

        yield open_one


@pytest.fixture
def road(open_road: OpenRoad) -> Road:
    return open_road()


# --- one way of asking ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("ask", "written", "getter"),
    [
        pytest.param(
            lambda m, _: m.put_user_property("TIMER_DELAY_SEC", "10"),
            lambda _: {"TIMER_DELAY_SEC": "10"},
            lambda m: m.get_delay_time_sec() == 10,
            id="user property in seconds",
            marks=pytest.mark.case("T33"),
        ),
        pytest.param(
            lambda m, _: m.put_user_property("TIMER_DELAY_MS", "10000"),
            lambda _: {"TIMER_DELAY_MS": "10000"},
            lambda m: m.get_delay_time_ms() == 10_000,
            id="user property in ms",
        ),
        pytest.param(
            lambda m, now_ms: m.put_user_property("TIMER_DELIVER_MS", str(now_ms + 10_000)),
            lambda now_ms: {"TIMER_DELIVER_MS": str(now_ms + 10_000)},
            lambda m: m.get_deliver_time_ms() == m.store_timestamp,
            id="user property with an instant",
        ),
        pytest.param(
            lambda m, now_ms: m.put_user_property("__STARTDELIVERTIME", str(now_ms + 10_000)),
            lambda now_ms: {
                "__STARTDELIVERTIME": str(now_ms + 10_000),
                "TIMER_DELIVER_MS": str(now_ms + 10_000),
            },
            lambda m: m.get_start_deliver_time() == m.store_timestamp,
            id="user property of Aliyun",
            marks=pytest.mark.case("T35"),
        ),
        pytest.param(
            lambda m, _: m.set_delay_time_sec(10),
            lambda _: {"TIMER_DELAY_SEC": "10"},
            lambda m: m.get_delay_time_sec() == 10,
            id="setter in seconds",
            marks=pytest.mark.case("T37"),
        ),
        pytest.param(
            lambda m, _: m.set_delay_time_ms(10_000),
            lambda _: {"TIMER_DELAY_MS": "10000"},
            lambda m: m.delay == timedelta(seconds=10),
            id="setter in ms",
            marks=pytest.mark.case("T37"),
        ),
        pytest.param(
            lambda m, now_ms: m.set_deliver_time_ms(now_ms + 10_000),
            lambda now_ms: {"TIMER_DELIVER_MS": str(now_ms + 10_000)},
            lambda m: m.get_deliver_time_ms() == m.store_timestamp,
            id="setter of an instant",
            marks=pytest.mark.case("T38"),
        ),
        pytest.param(
            lambda m, _: m.set_delay_time_level(3),
            lambda _: {"DELAY": "3"},
            lambda m: m.get_delay_time_level() == 3,
            id="level",
        ),
    ],
)
def test_a_message_arrives_exactly_ten_seconds_later_however_it_was_asked_for(
    road: Road,
    ask: Ask,
    written: Callable[[int], dict[str, str]],
    getter: Callable[[MessageExt], bool],
) -> None:
    message = Message("T", b"later")
    ask(message, road.now_ms)
    road.producer.send(message)

    on_the_wire = road.wire()
    on_the_wire.pop("UNIQ_KEY")
    assert on_the_wire == written(road.now_ms) | {"WAIT": "true"}
    got = road.arrives_after(timedelta(seconds=10))
    assert got.body == b"later"
    assert getter(got)


@pytest.mark.case("T34")
@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("TIMER_DELAY_SEC", "ten"),
        ("TIMER_DELAY_MS", "10.0"),
        ("TIMER_DELIVER_MS", " 10"),
        ("__STARTDELIVERTIME", "1e9"),
    ],
)
def test_a_delay_that_is_no_number_is_refused_where_it_is_set_and_does_not_delay(
    road: Road, name: str, value: str
) -> None:
    message = Message("T", b"now")
    with pytest.raises(ValueError, match=name):
        message.put_user_property(name, value)
    road.producer.send(message)
    assert name not in road.arrives_at_once().properties


@pytest.mark.case("T36")
@pytest.mark.parametrize(
    ("alias", "arrives"),
    [
        pytest.param(False, Road.arrives_at_once, id="a broker that knows the timers only"),
        pytest.param(
            True, lambda road: road.arrives_after(timedelta(seconds=10)), id="a broker like ours"
        ),
    ],
)
def test_an_untranslated_aliyun_delay_is_left_to_the_broker(
    open_road: OpenRoad, alias: bool, arrives: Callable[[Road], MessageExt]
) -> None:
    road = open_road(
        broker_config={"startDeliverTimeEnable": alias}, translate_start_deliver_time="never"
    )
    start_ms = road.now_ms + 10_000
    road.producer.send(Message("T", b"x").set_start_deliver_time(start_ms))
    sent = road.wire()
    assert sent["__STARTDELIVERTIME"] == str(start_ms)
    assert [name for name in sent if name.startswith("TIMER_")] == []
    assert arrives(road).get_start_deliver_time() == start_ms


# --- two ways at once -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("asks", "wait"),
    [
        pytest.param(
            [lambda m, _: m.set_delay_time_level(3), lambda m, _: m.set_delay_time_sec(60)],
            timedelta(seconds=10),
            id="level before seconds",
            marks=pytest.mark.case("T40"),
        ),
        pytest.param(
            [
                lambda m, _: m.set_delay_time_sec(5),
                lambda m, _: m.set_delay_time_ms(60_000),
                lambda m, now_ms: m.set_deliver_time_ms(now_ms + 90_000),
            ],
            timedelta(seconds=5),
            id="seconds before the rest",
            marks=pytest.mark.case("T41"),
        ),
        pytest.param(
            [
                lambda m, _: m.set_delay_time_ms(60_000),
                lambda m, now_ms: m.set_deliver_time_ms(now_ms + 5000),
            ],
            timedelta(seconds=60),
            id="milliseconds before an instant",
        ),
        pytest.param(
            [
                lambda m, now_ms: m.set_deliver_time_ms(now_ms + 60_000),
                lambda m, now_ms: m.set_start_deliver_time(now_ms + 5000),
            ],
            timedelta(seconds=60),
            id="an instant before Aliyun's",
        ),
    ],
)
@pytest.mark.parametrize("backwards", [False, True])
def test_of_several_delays_the_brokers_order_decides_and_not_that_of_the_setters(
    open_road: OpenRoad, asks: list[Ask], wait: timedelta, backwards: bool
) -> None:
    road = open_road(delay_policy="as_java")
    message = Message("T", b"x")
    for ask in reversed(asks) if backwards else asks:
        ask(message, road.now_ms)
    road.producer.send(message)
    got = road.arrives_after(wait)
    if message.get_delay_time_level():
        assert [name for name in got.properties if name.startswith("TIMER_")] == []


@pytest.mark.case("T42")
@pytest.mark.parametrize(
    "send",
    [
        pytest.param(lambda producer, message: producer.send(message), id="sync"),
        pytest.param(
            lambda producer, message: producer.send_async(message).result(GUARD_S), id="async"
        ),
        pytest.param(lambda producer, message: producer.send_oneway(message), id="oneway"),
    ],
)
def test_nothing_is_sent_of_a_message_that_asks_twice(
    road: Road, send: Callable[[DefaultMQProducer, Message], object]
) -> None:
    twice = Message("T", b"x").set_delay_time_sec(60).set_deliver_time_ms(road.now_ms + 5000)
    with pytest.raises(DelayConflictError, match=r"TIMER_DELAY_SEC.*TIMER_DELIVER_MS"):
        send(road.producer, twice)
    assert road.sends == []
    assert road.broker.timers.count() == 0

    send(road.producer, Message("T", b"once").set_delay_time_sec(5))
    road.broker.wait_for(lambda b: b.timers.count() == 1, timeout=GUARD_S)
    assert road.arrives_after(timedelta(seconds=5)).body == b"once"


# --- no delay after all -----------------------------------------------------------------------


@pytest.mark.parametrize(
    "ask",
    [
        pytest.param(
            lambda m, now_ms: m.set_deliver_time_ms(now_ms - 1),
            id="a millisecond ago",
            marks=pytest.mark.case("T43"),
        ),
        pytest.param(
            lambda m, now_ms: m.set_deliver_time_ms(now_ms),
            id="this very millisecond",
            marks=pytest.mark.case("T43"),
        ),
        pytest.param(
            lambda m, now_ms: m.set_start_deliver_time(now_ms - 3_600_000),
            id="an hour ago, Aliyun",
            marks=pytest.mark.case("T43"),
        ),
        pytest.param(lambda m, _: m.set_delay_time_sec(0), id="0 s", marks=pytest.mark.case("T44")),
        pytest.param(
            lambda m, _: m.set_delay(timedelta()), id="0 ms", marks=pytest.mark.case("T44")
        ),
        pytest.param(
            lambda m, _: m.set_delay_time_level(0), id="level 0", marks=pytest.mark.case("T44")
        ),
    ],
)
def test_what_is_due_already_arrives_at_once_and_cannot_be_recalled(road: Road, ask: Ask) -> None:
    message = Message("T", b"x")
    ask(message, road.now_ms)
    sent = road.producer.send(message)
    assert sent.send_status is SendStatus.SEND_OK
    assert sent.recall_handle is None
    assert "TIMER_OUT_MS" not in road.arrives_at_once().properties


@pytest.mark.case("T44")
@pytest.mark.parametrize(
    "ask",
    [
        pytest.param(lambda m, _: m.set_delay_time_sec(-1), id="seconds"),
        pytest.param(lambda m, _: m.set_delay_time_ms(-1), id="milliseconds"),
        pytest.param(lambda m, _: m.set_delay(timedelta(seconds=-1)), id="a span"),
        pytest.param(lambda m, _: m.set_deliver_time_ms(-1), id="an instant"),
    ],
)
def test_a_negative_delay_is_refused_where_it_is_set_and_does_not_delay(
    road: Road, ask: Ask
) -> None:
    message = Message("T", b"x")
    with pytest.raises(ValueError, match="-1"):
        ask(message, road.now_ms)
    road.producer.send(message)
    assert road.arrives_at_once().delay is None


@pytest.mark.case("T44")
def test_a_level_below_none_is_refused_by_the_send_and_means_none_in_javas_way(road: Road) -> None:
    message = Message("T", b"x").set_delay_time_level(-1)
    with pytest.raises(DelayValueError, match="negative level"):
        road.producer.send(message)
    assert road.sends == []
    road.producer.delay_policy = "as_java"
    assert road.producer.send(message).recall_handle is None
    road.arrives_at_once()


# --- limits and clocks ------------------------------------------------------------------------


@pytest.mark.case("T45")
@pytest.mark.parametrize(
    ("ask", "named"),
    [
        pytest.param(
            lambda m, _: m.set_delay_time_sec(259_201), "TIMER_DELAY_SEC=259201", id="seconds"
        ),
        pytest.param(
            lambda m, _: m.set_delay_time_ms(MAX_DELAY_MS + 1),
            f"TIMER_DELAY_MS={MAX_DELAY_MS + 1}",
            id="milliseconds",
        ),
        pytest.param(
            lambda m, now_ms: m.set_deliver_time_ms(now_ms + MAX_DELAY_MS + 1),
            "TIMER_DELIVER_MS=",
            id="an instant",
        ),
        pytest.param(
            lambda m, now_ms: m.set_start_deliver_time(now_ms + MAX_DELAY_MS + 1),
            "TIMER_DELIVER_MS=",
            id="an instant, Aliyun",
        ),
    ],
)
def test_a_delay_beyond_the_brokers_maximum_is_an_error_after_one_attempt(
    road: Road, ask: Ask, named: str
) -> None:
    message = Message("T", b"x")
    ask(message, road.now_ms)
    with pytest.raises(DelayOutOfRangeError, match="timerMaxDelaySec") as caught:
        road.producer.send(message)
    assert caught.value.code == 13
    assert caught.value.broker_addr == road.broker.addr
    assert named in str(caught.value)
    assert str(MAX_DELAY_MS) in str(caught.value)
    assert len(road.sends) == 1
    assert road.broker.timers.count() == 0
    assert road.broker.topics["T"].count() == 0


@pytest.mark.case("T47")
@pytest.mark.parametrize(
    ("ask", "wait"),
    [
        pytest.param(
            lambda m, _: m.set_delay_time_sec(5), timedelta(seconds=5), id="relative: the broker's"
        ),
        pytest.param(
            lambda m, client_now_ms: m.set_deliver_time_ms(client_now_ms + 5000),
            timedelta(hours=1, seconds=5),
            id="absolute: the caller's",
        ),
    ],
)
def test_whose_clock_counts_when_the_client_is_an_hour_ahead(
    open_road: OpenRoad, ask: Ask, wait: timedelta
) -> None:
    client_now_ms = SystemClock().now_ms
    broker_now = datetime.fromtimestamp(0, UTC) + client_now_ms * MILLISECOND - timedelta(hours=1)
    road = open_road(start=broker_now)
    message = Message("T", b"x")
    ask(message, client_now_ms)
    road.producer.send(message)
    assert road.arrives_after(wait).body == b"x"


# --- the message itself -----------------------------------------------------------------------


@pytest.mark.case("T52")
@pytest.mark.parametrize(
    "ask",
    [
        pytest.param(lambda m, _: m.set_delay_time_sec(60), id="wheel"),
        pytest.param(lambda m, _: m.set_delay_time_level(5), id="level"),
        pytest.param(lambda m, now_ms: m.set_start_deliver_time(now_ms + 60_000), id="Aliyun"),
    ],
)
@pytest.mark.parametrize(
    "body", [bytes(range(256)), b"compressible" * 1000], ids=["binary", "compressed on the way"]
)
def test_a_delayed_message_arrives_as_it_was_sent(
    open_road: OpenRoad, ask: Ask, body: bytes
) -> None:
    road = open_road(queues=4)
    queue = road.producer.fetch_publish_message_queues("T")[3]
    message = Message("T", body, tags="TagA", keys=["k1", "k2"], flag=7)
    message.put_user_property("colour", "rot grün 红")
    ask(message, road.now_ms)
    sent = road.producer.send(message, queue=queue)
    got = road.arrives_after(timedelta(minutes=1))
    assert (got.topic, got.tags, got.keys, got.flag) == ("T", "TagA", ["k1", "k2"], 7)
    assert got.body == body
    assert got.get_user_property("colour") == "rot grün 红"
    assert got.msg_id == sent.msg_id
    assert got.queue_id == sent.message_queue.queue_id == 3
    assert got.reconsume_times == 0
    assert str(got.born_timestamp) == road.sends[0].fields["g"]
    assert got.offset_msg_id != sent.offset_msg_id


@pytest.mark.case("T53")
@pytest.mark.parametrize("spans_ms", [(5000, 3000), (3001, 3000), (60_000, 3000)])
def test_of_two_messages_that_fall_due_in_one_jump_the_earlier_one_arrives_first(
    open_road: OpenRoad, spans_ms: tuple[int, int]
) -> None:
    road = open_road(threads=1)
    sent_at_ms = road.now_ms
    for span_ms in spans_ms:
        road.producer.send(Message("T", b"%d" % span_ms).set_deliver_time_ms(sent_at_ms + span_ms))
    road.broker.clock.advance(minutes=1)
    got = road.arrived(2)
    assert [message.body for message in got] == [b"%d" % span_ms for span_ms in sorted(spans_ms)]
    assert [m.store_timestamp - sent_at_ms for m in got] == sorted(spans_ms)


@pytest.mark.case("T56")
@pytest.mark.parametrize(
    "ask",
    [
        pytest.param(lambda m, _: m.set_delay_time_sec(60), id="seconds"),
        pytest.param(lambda m, now_ms: m.set_deliver_time_ms(now_ms + 60_000), id="an instant"),
        pytest.param(lambda m, now_ms: m.set_start_deliver_time(now_ms + 60_000), id="Aliyun"),
    ],
)
def test_a_recalled_message_never_arrives_and_its_neighbour_of_the_same_moment_does(
    road: Road, ask: Ask
) -> None:
    recalled, kept = Message("T", b"recalled"), Message("T", b"kept")
    for message in (recalled, kept):
        ask(message, road.now_ms)
    sent = road.producer.send(recalled)
    road.producer.send(kept)
    assert sent.recall_handle is not None

    road.broker.clock.advance(30)
    assert road.producer.recall_message("T", sent.recall_handle) == sent.msg_id

    assert road.arrives_after(timedelta(seconds=30)).body == b"kept"
    road.broker.clock.advance(days=3)
    assert road.inbox.bodies == [b"kept"]
    assert road.broker.topics["T"].count() == 1


@pytest.mark.case("T50")
def test_what_was_delayed_waits_again_as_it_is_and_anew_as_a_fresh_message(road: Road) -> None:
    road.producer.send(Message("T", b"x", delay=timedelta(seconds=10)))
    road.broker.clock.advance(10)
    (first,) = road.arrived()
    fresh = Message.from_ext(first).set_delay_time_sec(20)
    with pytest.raises(DelayConflictError, match="from_ext"):
        road.producer.send(first)
    road.producer.delay_policy = "as_java"
    assert road.producer.send(first).msg_id == first.msg_id
    assert road.producer.send(fresh).msg_id != first.msg_id
    for seconds, count in ((10, 2), (10, 3)):
        road.broker.clock.advance(timedelta(seconds=seconds) - MILLISECOND)
        assert road.broker.topics["T"].count() == count - 1
        road.broker.clock.advance(MILLISECOND)
        assert road.arrived(count)[-1].body == b"x"


@pytest.mark.case("T54")
@pytest.mark.parametrize("crash", [False, True], ids=["closed", "killed"])
@pytest.mark.parametrize("away", [30, 3600], ids=["back before it is due", "down across it"])
def test_a_timer_outlives_its_broker_and_leaves_when_it_is_due_or_promptly(
    road: Road, *, crash: bool, away: int
) -> None:
    broker = road.broker
    road.producer.send(Message("T", b"x", delay=timedelta(minutes=1)))
    due_ms = road.now_ms + 60_000
    if crash:
        broker.crash()
    else:
        broker.close()
    broker.clock.advance(away)
    broker.restart()
    if away < 60:
        assert broker.timers.count(topic="T") == 1
        broker.clock.advance(timedelta(seconds=60 - away) - MILLISECOND)
        assert broker.topics["T"].count() == 0
        broker.clock.advance(MILLISECOND)
    (message,) = road.arrived()
    assert message.body == b"x"
    assert message.store_timestamp == max(due_ms, road.now_ms)


# --- every way to send ------------------------------------------------------------------------


def send_in_a_transaction(road: Road, message: Message) -> None:
    with TransactionMQProducer(
        "X",
        namesrv_addr=road.broker.namesrv_addr,
        transaction_listener=Commits(),
        transaction_delay="at_commit",
        delay_policy=road.producer.delay_policy,
    ) as producer:
        producer.send_message_in_transaction(message)


def send_awaited(road: Road, message: Message) -> None:
    async def send() -> None:
        async with aio.Producer(
            "A", namesrv_addr=road.broker.namesrv_addr, delay_policy=road.producer.delay_policy
        ) as producer:
            await producer.send(message)

    asyncio.run(send())


class Commits(TransactionListener):
    def execute_local_transaction(self, msg: Message, arg: object) -> LocalTransactionState:
        return LocalTransactionState.COMMIT_MESSAGE

    def check_local_transaction(self, msg: Message) -> LocalTransactionState:
        return LocalTransactionState.COMMIT_MESSAGE


WAYS = [
    pytest.param(lambda road, m: road.producer.send(m), id="send"),
    pytest.param(lambda road, m: road.producer.send_async(m).result(GUARD_S), id="send_async"),
    pytest.param(lambda road, m: road.producer.send_oneway(m), id="send_oneway"),
    pytest.param(lambda road, m: road.producer.send_batch([m]), id="send_batch"),
    pytest.param(send_in_a_transaction, id="transaction"),
    pytest.param(send_awaited, id="asyncio"),
]


@pytest.mark.parametrize("policy", ["strict", "warn", "as_java"])
@pytest.mark.parametrize("send", WAYS)
def test_every_way_to_send_has_one_judge(
    road: Road,
    send: Callable[[Road, Message], object],
    policy: DelayPolicy,
    caplog: pytest.LogCaptureFixture,
) -> None:
    road.producer.delay_policy = policy
    message = Message("T", b"x").set_delay_time_level(-1)
    if policy == "strict":
        with pytest.raises(DelayValueError, match="negative level"):
            send(road, message)
        assert road.broker.journal.requests(code=RequestCode.SEND_BATCH_MESSAGE) == road.sends == []
        return
    with caplog.at_level(logging.WARNING, "rocketmq_py.client.delay_policy"):
        send(road, message)
        road.arrived()
    told = [one.getMessage() for one in caplog.records]
    assert len(told) == (policy == "warn")
    assert all(f"message={message.unique_key}:" in one for one in told)


def test_a_request_is_judged_as_any_message(road: Road) -> None:
    with pytest.raises(DelayValueError, match="negative level"):
        road.producer.request(Message("T", b"x").set_delay_time_level(-1), timeout=1000)
    assert road.sends == []
