"""The programs of examples/production keep what their first lines promise, on a clock of ours."""

from __future__ import annotations

import json
import signal
from contextlib import closing
from datetime import UTC, date, datetime, time, timedelta
from pathlib import Path
from sqlite3 import connect
from unittest.mock import DEFAULT, Mock

import pytest
from production import dead_letters, outbox, request_reply, schedule
from production.order_timeouts import PAY_WITHIN, Orders, watching
from production.order_timeouts import TOPIC as TIMEOUTS
from production.schedule import Schedule

from embedded_broker import EmbeddedBroker, VirtualClock
from embedded_broker.api.faults import Faults
from rocketmq_py import (
    DefaultMQProducer,
    Message,
    RequestCode,
    RequestTimeoutException,
    SendFailedError,
)
from rocketmq_py.admin import AdminClient

MINUTE, HOUR, DAY = timedelta(minutes=1), timedelta(hours=1), timedelta(days=1)
SOON_MS = 300
TOPICS = [TIMEOUTS, outbox.TOPIC, schedule.TOPIC, dead_letters.TOPIC, request_reply.TOPIC]
pytestmark = pytest.mark.rocketmq(topics=TOPICS)


@pytest.fixture(autouse=True)
def _as_a_user(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rocketmq_broker: EmbeddedBroker
) -> None:
    """The programs have the broker from the environment and keep their files where they are."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("NAMESRV_ADDR", rocketmq_broker.namesrv_addr)


def rows(path: Path, query: str) -> list[tuple[object, ...]]:
    with closing(connect(path)) as database:
        return database.execute(query).fetchall()


# --- orders that time out ------------------------------------------------------------------


def test_an_order_is_cancelled_when_its_time_is_over_and_cannot_be_paid_then(
    tmp_path: Path, rocketmq_producer: DefaultMQProducer, rocketmq_clock: VirtualClock
) -> None:
    orders = Orders(tmp_path / "orders.db")
    with watching(orders):
        orders.place("A-1", rocketmq_producer)
        rocketmq_clock.run(PAY_WITHIN - MINUTE)
        assert orders.states() == {"A-1": "open"}
        rocketmq_clock.run(MINUTE)
        assert orders.states() == {"A-1": "cancelled"}
        assert not orders.pay("A-1", rocketmq_producer)


def test_an_order_whose_number_is_taken_is_not_placed_and_sends_nothing(
    tmp_path: Path, rocketmq_producer: DefaultMQProducer, rocketmq_broker: EmbeddedBroker
) -> None:
    orders = Orders(tmp_path / "orders.db")
    assert orders.place("A-1", rocketmq_producer)
    assert not orders.place("A-1", rocketmq_producer)
    assert orders.states() == {"A-1": "open"}
    assert len(rocketmq_broker.journal.requests(code=RequestCode.SEND_MESSAGE_V2)) == 1


def test_the_time_out_of_a_paid_order_is_recalled(
    tmp_path: Path,
    rocketmq_producer: DefaultMQProducer,
    rocketmq_clock: VirtualClock,
    rocketmq_broker: EmbeddedBroker,
) -> None:
    orders = Orders(tmp_path / "orders.db")
    with watching(orders):
        orders.place("A-1", rocketmq_producer)
        assert orders.pay("A-1", rocketmq_producer)
        assert not orders.pay("A-1", rocketmq_producer)
        rocketmq_clock.run(2 * PAY_WITHIN)
    assert orders.states() == {"A-1": "paid"}
    assert rocketmq_broker.topics[TIMEOUTS].count() == 0


@pytest.mark.rocketmq(config={"recallMessageEnable": False})
def test_a_time_out_that_cannot_be_recalled_finds_the_order_paid(
    tmp_path: Path,
    rocketmq_producer: DefaultMQProducer,
    rocketmq_clock: VirtualClock,
    rocketmq_broker: EmbeddedBroker,
) -> None:
    orders = Orders(tmp_path / "orders.db")
    with watching(orders):
        orders.place("A-1", rocketmq_producer)
        assert orders.pay("A-1", rocketmq_producer)
        rocketmq_clock.run(PAY_WITHIN)
    assert rocketmq_broker.topics[TIMEOUTS].count() == 1
    assert orders.states() == {"A-1": "paid"}


def test_an_order_that_no_broker_has_heard_of_is_not_stored(
    tmp_path: Path, rocketmq_producer: DefaultMQProducer, rocketmq_faults: Faults
) -> None:
    rocketmq_faults.on(RequestCode.SEND_MESSAGE_V2).drop().always()
    rocketmq_producer.send_msg_timeout = SOON_MS
    orders = Orders(tmp_path / "orders.db")
    with pytest.raises(SendFailedError):
        orders.place("A-1", rocketmq_producer)
    assert orders.states() == {}


def test_the_time_out_of_an_order_that_a_crash_has_lost_is_passed_over(
    tmp_path: Path, rocketmq_producer: DefaultMQProducer, rocketmq_clock: VirtualClock
) -> None:
    orders = Orders(tmp_path / "orders.db")
    with watching(orders):
        rocketmq_producer.send(Message(TIMEOUTS, b"A-0", delay=PAY_WITHIN))
        orders.place("A-1", rocketmq_producer)
        rocketmq_clock.run(HOUR)
    assert orders.states() == {"A-1": "cancelled"}


# --- the outbox ----------------------------------------------------------------------------


def parcels() -> list[str]:
    return [str(item) for (item,) in rows(outbox.WAREHOUSE, "SELECT item FROM parcels")]


def test_an_order_and_its_message_are_written_together_or_not_at_all(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert outbox.order("a chair") == 1
    broken = outbox.SCHEMAS[outbox.SHOP].replace("body TEXT", "body TEXT CHECK (body <> 'a bed')")
    outbox.SHOP.unlink()
    monkeypatch.setitem(outbox.SCHEMAS, outbox.SHOP, broken)
    with pytest.raises(Exception, match="CHECK"):
        outbox.order("a bed")
    assert rows(outbox.SHOP, "SELECT * FROM orders") == []


def test_a_message_whose_answer_is_lost_is_sent_again_with_its_id_and_ships_once(
    rocketmq_producer: DefaultMQProducer,
    rocketmq_faults: Faults,
    rocketmq_clock: VirtualClock,
    rocketmq_broker: EmbeddedBroker,
) -> None:
    outbox.order("a chair")
    with outbox.warehouse():
        rocketmq_faults.on(RequestCode.SEND_MESSAGE_V2).close(after=True).always()
        with pytest.raises(SendFailedError):
            outbox.send_waiting(rocketmq_producer)
        rocketmq_faults.clear()
        outbox.order("a table")
        outbox.send_waiting(rocketmq_producer)
        rocketmq_clock.settle()
    ids = [message.msg_id for message in rocketmq_broker.messages.in_topic(outbox.TOPIC)]
    assert ids.count("order-1") > 1
    assert set(ids) == {"order-1", "order-2"}
    assert sorted(parcels()) == ["a chair", "a table"]
    assert rows(outbox.SHOP, "SELECT * FROM outbox") == []


def test_a_relay_outlives_a_broker_that_refuses(
    monkeypatch: pytest.MonkeyPatch, rocketmq_faults: Faults, rocketmq_broker: EmbeddedBroker
) -> None:
    outbox.order("a chair")
    stopping: list[int] = []
    looks = []

    def look(_: float) -> None:
        looks.append(rocketmq_broker.topics[outbox.TOPIC].count())
        if len(looks) == 2:
            rocketmq_faults.clear()
        if len(looks) == 3:
            stopping.append(signal.SIGTERM)

    monkeypatch.setattr(outbox, "sleep", look)
    rocketmq_faults.on(RequestCode.SEND_MESSAGE_V2).respond("SYSTEM_BUSY").always()
    outbox.relay(stopping)
    assert looks == [0, 0, 1]


# --- the schedule --------------------------------------------------------------------------


@pytest.fixture
def daily(
    tmp_path: Path, rocketmq_producer: DefaultMQProducer, rocketmq_clock: VirtualClock
) -> Schedule:
    return Schedule(tmp_path / "schedule.db", rocketmq_producer, rocketmq_clock)


SPRING = pytest.mark.rocketmq(start=datetime(2030, 3, 29, 12, tzinfo=UTC))
AUTUMN = pytest.mark.rocketmq(start=datetime(2030, 10, 25, 12, tzinfo=UTC))


@pytest.mark.parametrize(
    ("at", "made_at"),
    [
        pytest.param(
            time(8),
            ["2030-03-30 08:00:00+01:00", "2030-03-31 08:00:00+02:00", "2030-04-01 08:00:00+02:00"],
            marks=SPRING,
            id="a day of 23 hours",
        ),
        pytest.param(
            time(8),
            ["2030-10-26 08:00:00+02:00", "2030-10-27 08:00:00+01:00", "2030-10-28 08:00:00+01:00"],
            marks=AUTUMN,
            id="a day of 25 hours",
        ),
        pytest.param(
            time(2, 30),
            ["2030-03-30 02:30:00+01:00", "2030-03-31 03:30:00+02:00", "2030-04-01 02:30:00+02:00"],
            marks=SPRING,
            id="a time that is skipped",
        ),
        pytest.param(
            time(2, 30),
            ["2030-10-26 02:30:00+02:00", "2030-10-27 02:30:00+02:00", "2030-10-28 02:30:00+01:00"],
            marks=AUTUMN,
            id="a time that comes twice",
        ),
    ],
)
def test_there_is_one_report_a_day_at_its_local_time(
    daily: Schedule,
    rocketmq_clock: VirtualClock,
    monkeypatch: pytest.MonkeyPatch,
    at: time,
    made_at: list[str],
) -> None:
    monkeypatch.setattr(schedule, "AT", at)
    daily.begin()
    with daily.consumer():
        rocketmq_clock.run(days=3)
    assert daily.reports() == [(one[:10], one) for one in made_at]


def test_a_schedule_that_was_down_makes_up_for_each_day(
    daily: Schedule, rocketmq_clock: VirtualClock
) -> None:
    daily.begin()
    rocketmq_clock.run(days=3)
    daily.begin()  # the next process: it goes on where the first one was
    with daily.consumer():
        rocketmq_clock.settle()
        assert [day for day, _ in daily.reports()] == ["2030-01-01", "2030-01-02", "2030-01-03"]
        rocketmq_clock.run(days=1)
        assert len(daily.reports()) == 4


def test_a_day_that_is_armed_twice_comes_twice_and_its_successor_once(
    daily: Schedule,
    rocketmq_producer: DefaultMQProducer,
    rocketmq_clock: VirtualClock,
    rocketmq_broker: EmbeddedBroker,
) -> None:
    daily.begin()
    first = Message(schedule.TOPIC, b"2030-01-01", deliver_at=schedule.due(date(2030, 1, 1)))
    rocketmq_producer.send(first)  # as a process does that died before it noted the other one
    with daily.consumer():
        rocketmq_clock.run(days=3)
    assert len(daily.reports()) == 3
    days = [one.body for one in rocketmq_broker.messages.in_topic(schedule.TOPIC)]
    assert days == [b"2030-01-01", b"2030-01-01", b"2030-01-02", b"2030-01-03"]


# --- retries and dead letters --------------------------------------------------------------


@pytest.fixture
def admin() -> AdminClient:
    return AdminClient()


def booked() -> list[tuple[object, ...]]:
    if not dead_letters.BOOKS.exists():
        return []
    return rows(dead_letters.BOOKS, "SELECT cents FROM booked ORDER BY cents")


def test_a_payment_is_tried_again_until_the_bank_opens(
    rocketmq_producer: DefaultMQProducer, rocketmq_clock: VirtualClock
) -> None:
    dead_letters.CLOSED.touch()
    with dead_letters.worker():
        rocketmq_producer.send(Message(dead_letters.TOPIC, b"250"))
        rocketmq_clock.run(seconds=30)
        assert booked() == []
        dead_letters.CLOSED.unlink()
        rocketmq_clock.run(MINUTE)
    assert booked() == [(250,)]


def test_what_still_fails_is_parked_and_drained_when_the_cause_is_mended(
    rocketmq_producer: DefaultMQProducer, rocketmq_clock: VirtualClock, admin: AdminClient
) -> None:
    dead_letters.CLOSED.touch()
    with admin, dead_letters.worker():
        assert list(dead_letters.parked(admin)) == []
        assert dead_letters.drain(admin, rocketmq_producer) == 0
        sent = rocketmq_producer.send(Message(dead_letters.TOPIC, b"250", keys="invoice-7"))
        rocketmq_producer.send(Message(dead_letters.TOPIC, b"a lot"))
        rocketmq_clock.settle()
        assert [one.body for one in dead_letters.parked(admin)] == [b"a lot"]
        rocketmq_clock.run(HOUR)
        hopeless, failed = dead_letters.parked(admin)
        assert (hopeless.body, failed.body, failed.keys) == (b"a lot", b"250", ["invoice-7"])
        assert failed.msg_id == sent.msg_id
        dead_letters.CLOSED.unlink()
        assert dead_letters.drain(admin, rocketmq_producer) == 2
        rocketmq_clock.run(HOUR)
        assert booked() == [(250,)]
        assert [one.body for one in dead_letters.parked(admin)] == [b"a lot"]


class Killed(BaseException):
    """The process is gone."""


def test_a_drain_that_is_cut_short_goes_on_and_books_nothing_twice(
    rocketmq_producer: DefaultMQProducer,
    rocketmq_clock: VirtualClock,
    admin: AdminClient,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    dead_letters.CLOSED.touch()
    with admin, dead_letters.worker():
        for cents in (b"1", b"2", b"3"):
            rocketmq_producer.send(Message(dead_letters.TOPIC, cents))
        rocketmq_clock.run(HOUR)
        dead_letters.CLOSED.unlink()
        places = Mock(side_effect=[DEFAULT, Killed], wraps=admin.set_offsets)
        with monkeypatch.context() as patch:
            patch.setattr(admin, "set_offsets", places)  # dies before it notes the second
            with pytest.raises(Killed):
                dead_letters.drain(admin, rocketmq_producer)
        assert dead_letters.drain(admin, rocketmq_producer) == 2
        rocketmq_clock.settle()
    assert booked() == [(1,), (2,), (3,)]


# --- request and reply ---------------------------------------------------------------------


@pytest.fixture
def prices(
    rocketmq_producer: DefaultMQProducer, rocketmq_clock: VirtualClock
) -> request_reply.Prices:
    return request_reply.Prices(rocketmq_producer, rocketmq_clock)


def test_a_question_has_its_answer_and_a_wrong_one_too(
    prices: request_reply.Prices, rocketmq_producer: DefaultMQProducer
) -> None:
    with prices.consumer():
        assert request_reply.ask(rocketmq_producer, "tea") == 420
        with pytest.raises(request_reply.PriceError, match="gold"):
            request_reply.ask(rocketmq_producer, "gold")


def test_every_wrong_question_is_answered() -> None:
    for body in (b"tea", b"[]", b"{}", b'{"item": []}', b"\xff"):
        answer = request_reply.answer_to(body)
        assert list(json.loads(json.dumps(answer))) == ["error"]


def test_who_asks_hears_in_time_that_nobody_answers(rocketmq_producer: DefaultMQProducer) -> None:
    patience = timedelta(milliseconds=SOON_MS)
    with pytest.raises(RequestTimeoutException):
        request_reply.ask(rocketmq_producer, "tea", patience)


def test_an_old_question_and_one_of_nobody_are_passed_over_once(
    prices: request_reply.Prices,
    rocketmq_producer: DefaultMQProducer,
    rocketmq_clock: VirtualClock,
    rocketmq_broker: EmbeddedBroker,
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level("INFO", "prices")
    with prices.consumer():
        pass  # the group has its place now
    rocketmq_producer.send(Message(request_reply.TOPIC, b'{"item": "tea"}'))
    rocketmq_clock.run(2 * MINUTE)
    with prices.consumer():
        rocketmq_producer.send(Message(request_reply.TOPIC, b'{"item": "tea"}'))
        rocketmq_clock.run(HOUR)
    told = sorted(record.message.split(maxsplit=2)[2] for record in caplog.records)
    assert len(told) == 2
    assert told[0].startswith("has no answer")
    assert told[1] == "is 0:02:00 old: nobody waits for it"
    assert rocketmq_broker.groups[request_reply.GROUP].lag() == 0
