"""The HTTP face of the service. Its routes are coroutines, since the database has one thread."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Annotated, cast

from fastapi import APIRouter, Depends, FastAPI, HTTPException, Request

from order_service.orders import Booking, Order
from order_service.reports import Report
from order_service.service import Service, Settings, running
from rocketmq_py import ApplicationClock, SystemClock

router = APIRouter()


async def _service(request: Request) -> Service:
    return cast("Service", request.app.state.service)


Current = Annotated[Service, Depends(_service)]


@dataclass(frozen=True)
class NewOrder:
    """What a customer sends."""

    customer: str
    cents: int


def create_app(settings: Settings | None = None, clock: ApplicationClock | None = None) -> FastAPI:
    """Make the application; the service runs as long as it does."""

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        async with running(settings or Settings(), clock or SystemClock()) as service:
            app.state.service = service
            yield

    app = FastAPI(lifespan=lifespan)
    app.include_router(router)
    return app


@router.post("/orders", status_code=201)
async def place(new: NewOrder, service: Current) -> Order:
    return service.orders.place(new.customer, new.cents)


@router.get("/orders/{number}")
async def order(number: int, service: Current) -> Order:
    try:
        return service.orders.get(number)
    except KeyError:
        raise HTTPException(404, f"there is no order {number}") from None


@router.post("/orders/{number}/payment")
async def pay(number: int, service: Current) -> Order:
    await order(number, service)
    paid = service.orders.pay(number)
    if paid.state != "paid":
        raise HTTPException(409, f"order {number} is {paid.state}")
    return paid


@router.get("/customers/{customer}/bookings")
async def bookings(customer: str, service: Current) -> list[Booking]:
    return service.orders.bookings(customer)


@router.get("/reports")
async def reports(service: Current) -> list[Report]:
    return service.reports.all()
