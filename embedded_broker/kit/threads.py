"""Blocking calls from a coroutine, under asyncio and under trio.

Answers: how the async twins of the kit wait without blocking the event loop. Must not know: what is
called. Neither library is imported before a test has imported it.
"""

import sys
from collections.abc import Callable
from typing import TypeVar, cast

Result = TypeVar("Result")


async def in_thread(call: Callable[[], Result]) -> Result:
    """Await a blocking call that runs on another thread."""
    trio = sys.modules.get("trio")
    if trio is not None and trio.lowlevel.in_trio_run():
        return cast("Result", await trio.to_thread.run_sync(call))
    import asyncio

    return await asyncio.to_thread(call)
