"""The service without HTTP: its parts, what joins them, and what lives as long as it does."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from dataclasses import dataclass
from datetime import time
from pathlib import Path
from zoneinfo import ZoneInfo

from order_service import orders, reports
from order_service.database import connect
from order_service.inbox import Inbox
from order_service.orders import Orders
from order_service.outbox import Outbox
from order_service.reports import Reports
from rocketmq_py import ApplicationClock, ConsumeFromWhere, aio

GROUP = "order-service"


@dataclass(frozen=True)
class Settings:
    """Where the service finds things, and when it reports."""

    namesrv_addr: str = "127.0.0.1:9876"
    database: Path = Path("orders.db")
    report_at: time = time(8)
    report_zone: str = "Europe/Berlin"


@dataclass(frozen=True)
class Service:
    """What the routes use."""

    orders: Orders
    reports: Reports


@asynccontextmanager
async def running(settings: Settings, clock: ApplicationClock) -> AsyncIterator[Service]:
    """Run the service inside this block. What it has not done by the end, the next run does."""
    with closing(connect(settings.database)) as database:
        outbox = Outbox(database, clock)
        zone = ZoneInfo(settings.report_zone)
        service = Service(
            Orders(database, outbox, clock),
            Reports(database, outbox, clock, settings.report_at, zone),
        )
        service.reports.begin()
        inbox = Inbox(database, {**service.orders.handlers, **service.reports.handlers})
        producer = aio.Producer(GROUP, namesrv_addr=settings.namesrv_addr)
        consumer = aio.Consumer(
            GROUP,
            namesrv_addr=settings.namesrv_addr,
            consume_from_where=ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET,
        )
        consumer.subscribe(orders.TOPIC, " || ".join(service.orders.handlers))
        consumer.subscribe(reports.TOPIC, " || ".join(service.reports.handlers))
        consumer.register_message_listener(aio.Orderly(inbox.handle))
        async with producer, outbox.sent_by(producer), consumer:
            yield service
