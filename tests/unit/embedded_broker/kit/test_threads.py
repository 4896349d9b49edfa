"""A blocking call is awaited on another thread, under either event loop."""

from __future__ import annotations

import asyncio
from threading import current_thread, main_thread

import pytest

from embedded_broker.kit.threads import in_thread


def test_asyncio_goes_on_while_another_thread_works() -> None:
    async def test() -> bool:
        return await in_thread(lambda: current_thread() is main_thread())

    assert asyncio.run(test()) is False


def test_trio_goes_on_while_another_thread_works() -> None:
    import trio

    async def test() -> bool:
        return await in_thread(lambda: current_thread() is main_thread())

    assert trio.run(test) is False


def test_errors_come_back() -> None:
    def fail() -> None:
        raise KeyError("x")

    async def test() -> None:
        with pytest.raises(KeyError):
            await in_thread(fail)

    asyncio.run(test())
