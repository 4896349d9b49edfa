"""The event loop that an asyncio client belongs to: the first one that uses it.

Futures and tasks of one loop cannot be awaited in another, so any other loop is refused. What
blocks is called beside the loop, `to_its_end` where a cancelled task must not undo it. Must not
know what a client does.
"""

import asyncio
from collections.abc import Callable
from contextvars import copy_context
from typing import TypeVar, TypeVarTuple

from rocketmq_py.errors import IllegalStateError

_Result = TypeVar("_Result")
_Arguments = TypeVarTuple("_Arguments")


class Home:
    """The loop of one client; ``client`` names it in errors."""

    def __init__(self, client: object) -> None:
        self._client = client
        self._loop: asyncio.AbstractEventLoop | None = None

    def take(self) -> asyncio.AbstractEventLoop:
        """Return the running loop, to which the client belongs from now on.

        Raises `IllegalStateError` where none runs, and in another one.
        """
        loop, own = running_loop(), self._loop
        if loop is None:
            raise IllegalStateError(
                f"{self._client!r} needs asyncio: no event loop of it runs here"
            )
        if own is not None and own is not loop:
            state = "has closed" if own.is_closed() else "is another one"
            kind = type(self._client).__name__.lower()
            raise IllegalStateError(
                f"{self._client!r} belongs to the event loop that used it first, which {state}: "
                f"make a {kind} for each loop"
            )
        self._loop = loop
        return loop


async def to_its_end(act: Callable[[*_Arguments], _Result], *given: *_Arguments) -> _Result:
    """Call on another thread; it is done also when the task that awaits it is cancelled.

    `asyncio.to_thread` forgets a call whose task is cancelled before a thread is free for it.
    """
    loop, context = asyncio.get_running_loop(), copy_context()
    return await asyncio.shield(loop.run_in_executor(None, context.run, act, *given))


def running_loop() -> asyncio.AbstractEventLoop | None:
    """Give the loop that runs on this thread."""
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None
