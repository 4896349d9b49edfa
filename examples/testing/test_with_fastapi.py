"""Tests of a FastAPI application that sends and consumes delayed messages.

Copy it to a folder of your own, since in here the settings of this clone's pytest count. There:

    pip install fastapi httpx2
    pytest test_with_fastapi.py

The application and its clients share one event loop. For a whole service, with a database, see
examples/order_service.
"""

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from datetime import timedelta

import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient

from embedded_broker import EmbeddedBroker, VirtualClock
from rocketmq_py import Message, aio

# -- the application: it knows nothing of tests ---------------------------------------------------


def create_app(namesrv_addr: str, topic: str) -> FastAPI:
    """Make the application; its producer and its consumer live as long as it does."""
    orders: dict[str, str] = {}

    async def cancel(delivery: aio.Delivery) -> None:
        number = delivery.message.body.decode()
        if orders.get(number) == "open":
            orders[number] = "cancelled"

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        consumer = aio.Consumer("orders", namesrv_addr=namesrv_addr)
        consumer.subscribe(topic)
        consumer.register_message_listener(cancel)
        async with aio.Producer("shop", namesrv_addr=namesrv_addr) as producer, consumer:
            app.state.producer = producer
            yield

    app = FastAPI(lifespan=lifespan)

    @app.post("/orders/{number}", status_code=201)
    async def place(number: str) -> None:
        orders[number] = "open"
        message = Message(topic, number.encode(), delay=timedelta(minutes=30))
        await app.state.producer.send(message)

    @app.post("/orders/{number}/payment")
    async def pay(number: str) -> None:
        orders[number] = "paid"

    @app.get("/orders/{number}")
    async def status(number: str) -> str:
        return orders[number]

    return app


# -- its tests ------------------------------------------------------------------------------------


@pytest.fixture
def client(rocketmq_broker: EmbeddedBroker, rocketmq_topic: str) -> Iterator[TestClient]:
    """A client of the application, which uses the broker of the test."""
    with TestClient(create_app(rocketmq_broker.namesrv_addr, rocketmq_topic)) as client:
        yield client


def test_an_order_that_nobody_pays_is_cancelled(
    client: TestClient, rocketmq_clock: VirtualClock
) -> None:
    assert client.post("/orders/42").status_code == 201
    rocketmq_clock.run(minutes=29)
    assert client.get("/orders/42").json() == "open"
    rocketmq_clock.run(minutes=1)
    assert client.get("/orders/42").json() == "cancelled"


def test_an_order_that_is_paid_stays(client: TestClient, rocketmq_clock: VirtualClock) -> None:
    client.post("/orders/42")
    client.post("/orders/42/payment")
    rocketmq_clock.run(hours=1)
    assert client.get("/orders/42").json() == "paid"
