"""Tests of the service, by its routes: half an hour and a week pass in milliseconds."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, closing
from datetime import UTC, datetime, time, timedelta
from pathlib import Path
from typing import Any

import pytest
from httpx2 import ASGITransport, AsyncClient

from embedded_broker import EmbeddedBroker, VirtualClock
from order_service import outbox
from order_service.app import create_app
from order_service.database import connect
from order_service.orders import Orders
from order_service.outbox import Outbox
from order_service.service import Settings

pytestmark = [pytest.mark.anyio, pytest.mark.rocketmq(topics=["Orders", "Reports"])]
Start = Callable[..., Any]


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
def settings(rocketmq_broker: EmbeddedBroker, tmp_path: Path) -> Settings:
    """The service's settings: the broker of the test, and a database of its own."""
    return Settings(rocketmq_broker.namesrv_addr, tmp_path / "orders.db")


@asynccontextmanager
async def started(settings: Settings, clock: VirtualClock) -> AsyncIterator[AsyncClient]:
    """Run the service, as a server does, and give a client of it."""
    app = create_app(settings, clock)
    transport = ASGITransport(app=app)
    async with (
        app.router.lifespan_context(app),
        AsyncClient(transport=transport, base_url="http://shop") as shop,
    ):
        yield shop


async def entries(shop: AsyncClient, customer: str) -> list[str]:
    booked = (await shop.get(f"/customers/{customer}/bookings")).json()
    return [booking["entry"] for booking in booked]


async def state(shop: AsyncClient, number: int) -> str:
    return str((await shop.get(f"/orders/{number}")).json()["state"])


async def test_an_order_that_nobody_pays_is_cancelled_after_half_an_hour(
    settings: Settings, rocketmq_broker: EmbeddedBroker, rocketmq_clock: VirtualClock
) -> None:
    async with started(settings, rocketmq_clock) as shop:
        answer = await shop.post("/orders", json={"customer": "ann", "cents": 500})
        assert answer.status_code == 201
        await rocketmq_broker.aio.run(minutes=29)
        assert await state(shop, 1) == "open"
        await rocketmq_broker.aio.run(minutes=1)
        assert await state(shop, 1) == "cancelled"
        assert await entries(shop, "ann") == ["invoice", "cancellation"]
        assert (await shop.post("/orders/1/payment")).status_code == 409


async def test_an_order_that_is_paid_stays(
    settings: Settings, rocketmq_broker: EmbeddedBroker, rocketmq_clock: VirtualClock
) -> None:
    async with started(settings, rocketmq_clock) as shop:
        await shop.post("/orders", json={"customer": "ann", "cents": 500})
        await rocketmq_broker.aio.run(minutes=29)
        for _ in range(2):  # a customer may click twice
            assert (await shop.post("/orders/1/payment")).status_code == 200
        await rocketmq_broker.aio.run(hours=1)
        assert await state(shop, 1) == "paid"
        assert await entries(shop, "ann") == ["invoice", "payment"]


async def test_an_order_that_is_not_there_is_not_found(
    settings: Settings, rocketmq_clock: VirtualClock
) -> None:
    async with started(settings, rocketmq_clock) as shop:
        assert (await shop.get("/orders/1")).status_code == 404
        assert (await shop.post("/orders/1/payment")).status_code == 404


async def test_what_a_killed_process_did_not_send_is_sent_by_the_next_one(
    settings: Settings, rocketmq_broker: EmbeddedBroker, rocketmq_clock: VirtualClock
) -> None:
    async with started(settings, rocketmq_clock):
        pass
    with closing(connect(settings.database)) as database:  # it was killed behind the commit
        Orders(database, Outbox(database, rocketmq_clock), rocketmq_clock).place("ann", 500)
    assert rocketmq_broker.topics["Orders"].count() == 0
    await rocketmq_broker.aio.run(minutes=10)
    async with started(settings, rocketmq_clock) as shop:
        await rocketmq_broker.aio.settle()
        assert await entries(shop, "ann") == ["invoice"]
        await rocketmq_broker.aio.run(minutes=20)  # the order is half an hour old
        assert await state(shop, 1) == "cancelled"
        assert await entries(shop, "ann") == ["invoice", "cancellation"]


@pytest.mark.rocketmq_crash(after="SEND_MESSAGE_V2", topic="Orders")
async def test_a_message_whose_answer_is_lost_is_sent_again_and_books_once(
    settings: Settings,
    rocketmq_broker: EmbeddedBroker,
    rocketmq_clock: VirtualClock,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(outbox, "PAUSE", timedelta(milliseconds=50))
    async with started(settings, rocketmq_clock) as shop:
        await shop.post("/orders", json={"customer": "ann", "cents": 500})
        await rocketmq_broker.aio.settle()
        sent = [message.msg_id for message in rocketmq_broker.messages.in_topic("Orders")]
        assert sent == ["order-1-placed", "order-1-placed"]
        assert await entries(shop, "ann") == ["invoice"]


async def test_a_message_that_is_delivered_twice_books_once(
    settings: Settings, rocketmq_broker: EmbeddedBroker, rocketmq_clock: VirtualClock
) -> None:
    async with started(settings, rocketmq_clock) as shop:
        await shop.post("/orders", json={"customer": "ann", "cents": 500})
        await rocketmq_broker.aio.settle()
        (placed,) = rocketmq_broker.messages.in_topic("Orders")
        rocketmq_broker.redeliver(placed)
        await rocketmq_broker.aio.settle()
        assert rocketmq_broker.topics["Orders"].count() == 2
        assert await entries(shop, "ann") == ["invoice"]


async def test_the_next_event_of_a_customer_waits_for_one_that_failed(
    settings: Settings,
    rocketmq_broker: EmbeddedBroker,
    rocketmq_clock: VirtualClock,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    calls = []

    def fails_once(orders: Orders, number: int) -> None:
        calls.append(number)
        if calls == [1]:
            raise OSError("the books are locked")
        book(orders, number)

    book = Orders.on_placed
    monkeypatch.setattr(Orders, "on_placed", fails_once)
    async with started(settings, rocketmq_clock) as shop:
        await shop.post("/orders", json={"customer": "ann", "cents": 500})
        await shop.post("/orders/1/payment")
        await rocketmq_broker.aio.run(minutes=1)
        assert calls == [1, 1]
        assert await entries(shop, "ann") == ["invoice", "payment"]


SPRING = pytest.mark.rocketmq(start=datetime(2030, 3, 29, 12, tzinfo=UTC))
AUTUMN = pytest.mark.rocketmq(start=datetime(2030, 10, 25, 12, tzinfo=UTC))


@pytest.mark.parametrize(
    ("at", "made_at"),
    [
        pytest.param(
            time(8),
            ["2030-03-30T08:00:00+01:00", "2030-03-31T08:00:00+02:00", "2030-04-01T08:00:00+02:00"],
            marks=SPRING,
            id="spring",
        ),
        pytest.param(
            time(8),
            ["2030-10-26T08:00:00+02:00", "2030-10-27T08:00:00+01:00", "2030-10-28T08:00:00+01:00"],
            marks=AUTUMN,
            id="autumn",
        ),
        pytest.param(
            time(2, 30),
            ["2030-03-30T02:30:00+01:00", "2030-03-31T03:30:00+02:00", "2030-04-01T02:30:00+02:00"],
            marks=SPRING,
            id="a time that is skipped",
        ),
        pytest.param(
            time(2, 30),
            ["2030-10-26T02:30:00+02:00", "2030-10-27T02:30:00+02:00", "2030-10-28T02:30:00+01:00"],
            marks=AUTUMN,
            id="a time that comes twice",
        ),
    ],
)
async def test_a_report_is_made_once_a_day_at_one_local_time(
    settings: Settings,
    rocketmq_broker: EmbeddedBroker,
    rocketmq_clock: VirtualClock,
    at: time,
    made_at: list[str],
) -> None:
    settings = Settings(settings.namesrv_addr, settings.database, report_at=at)
    async with started(settings, rocketmq_clock) as shop:
        await rocketmq_broker.aio.run(days=3)
        reports = (await shop.get("/reports")).json()
        assert [report["made_at"] for report in reports] == made_at
    assert rocketmq_broker.topics["Reports"].count() == 3


async def test_a_report_counts_the_orders_of_the_day_before(
    settings: Settings, rocketmq_broker: EmbeddedBroker, rocketmq_clock: VirtualClock
) -> None:
    async with started(settings, rocketmq_clock) as shop:
        for cents in (500, 250):
            await shop.post("/orders", json={"customer": "ann", "cents": cents})
        await rocketmq_broker.aio.run(days=2)
        reports = (await shop.get("/reports")).json()
    assert [(one["day"], one["orders"], one["cents"]) for one in reports] == [
        ("2030-01-01", 0, 0),
        ("2030-01-02", 2, 750),
    ]


async def test_a_service_that_was_down_makes_up_for_its_reports(
    settings: Settings, rocketmq_broker: EmbeddedBroker, rocketmq_clock: VirtualClock
) -> None:
    async with started(settings, rocketmq_clock):
        await rocketmq_broker.aio.run(hours=1)
    await rocketmq_broker.aio.run(days=3)
    async with started(settings, rocketmq_clock) as shop:
        await rocketmq_broker.aio.settle()
        days = [report["day"] for report in (await shop.get("/reports")).json()]
        assert days == ["2030-01-01", "2030-01-02", "2030-01-03"]
        await rocketmq_broker.aio.run(timedelta(days=1))
        assert len((await shop.get("/reports")).json()) == 4
