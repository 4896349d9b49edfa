"""The event loop of an asyncio client, and what goes on beside it to its end."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextvars import ContextVar

import pytest

from embedded_broker import EmbeddedBroker
from rocketmq_py import aio
from rocketmq_py.aio.home import to_its_end

GUARD_S = 30.0
Client = aio.AdminClient | aio.Consumer | aio.LitePullConsumer | aio.Producer


def subscribed(consumer: aio.Consumer | aio.LitePullConsumer) -> Client:
    consumer.subscribe("T")
    return consumer


CLIENTS: dict[str, Callable[[str], Client]] = {
    "administrator": lambda address: aio.AdminClient(namesrv_addr=address),
    "consumer": lambda address: subscribed(aio.Consumer("G", namesrv_addr=address)),
    "lite pull": lambda address: subscribed(aio.LitePullConsumer("G", namesrv_addr=address)),
    "producer": lambda address: aio.Producer("G", namesrv_addr=address),
}


@pytest.fixture(scope="module")
def broker() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker(topics=["T"], tcp=False) as started:
        yield started


@pytest.mark.parametrize("make", CLIENTS.values(), ids=list(CLIENTS))
def test_a_shutdown_that_is_cancelled_before_a_thread_is_free_for_it_is_done_all_the_same(
    broker: EmbeddedBroker, make: Callable[[str], Client]
) -> None:
    client, free = make(broker.namesrv_addr), threading.Event()

    async def main() -> None:
        pool = ThreadPoolExecutor(1)
        asyncio.get_running_loop().set_default_executor(pool)
        await client.start()
        pool.submit(free.wait, GUARD_S)
        ending = asyncio.create_task(client.shutdown())
        try:
            await asyncio.sleep(0)  # it has begun, and waits for the thread
            ending.cancel()
            with pytest.raises(asyncio.CancelledError):
                await ending
            assert repr(client).endswith("running)")
        finally:
            free.set()

    asyncio.run(main())  # which waits for the threads of its loop
    assert repr(client).endswith("closed)")


def test_what_is_done_to_its_end_gives_its_exception_and_knows_the_context_of_its_task() -> None:
    seen, asked = list[str](), ContextVar("asked", default="nothing")

    def fail(what: str) -> None:
        seen.append(asked.get())
        raise LookupError(what)

    async def main() -> None:
        asked.set("by the task")
        with pytest.raises(LookupError, match="gone"):
            await to_its_end(fail, "gone")

    asyncio.run(main())
    assert seen == ["by the task"]
