"""The program behind a consumer of any face (``faces.py``), and the loop of those for asyncio."""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

from rocketmq_py import MessageExt

HELD_S = 120.0
"""A hang guard of what a test lets go before."""
_COUNTING = threading.Lock()


class Desk:
    """The program behind a face: it notes each message, and says whether it is handled.

    ``stop`` lets every call wait until `go_on`; an end of the test lets all go. ``inside`` are the
    queues that have a message in a call; ``overlaps`` those that had two at a time.
    """

    def __init__(
        self,
        handles: Callable[[MessageExt], bool] = lambda _message: True,
        *,
        beside: Desk | None = None,
    ) -> None:
        self.inside: Counter[int] = Counter() if beside is None else beside.inside
        self.overlaps: list[int] = [] if beside is None else beside.overlaps
        self._handles = handles
        self._lock = threading.Lock()
        self._may_go = threading.Event()
        self._may_go.set()
        self.entered = threading.Event()
        self.messages: list[MessageExt] = []
        self.attempts: list[int] = []

    def __call__(self, message: MessageExt) -> bool:
        """Note a message; whether it is handled."""
        with _COUNTING:
            self.inside[message.queue_id] += 1
            if self.inside[message.queue_id] > 1:
                self.overlaps.append(message.queue_id)
        self.entered.set()
        self._may_go.wait(HELD_S)
        with _COUNTING:
            self.inside[message.queue_id] -= 1
        with self._lock:
            self.messages.append(message)
            self.attempts.append(message.reconsume_times + 1)
        return self._handles(message)

    def stop(self) -> None:
        """Let calls wait from now on."""
        self.entered.clear()
        self._may_go.clear()

    def go_on(self) -> None:
        """Let all calls go."""
        self._may_go.set()

    @contextmanager
    def stopped(self) -> Iterator[None]:
        """Let calls wait inside this block."""
        self.stop()
        try:
            yield
        finally:
            self.go_on()

    @property
    def bodies(self) -> list[bytes]:
        """What has come so far."""
        with self._lock:
            return [one.body for one in self.messages]

    def __len__(self) -> int:
        return len(self.messages)


class Loop:
    """An event loop that runs in a thread of its own, with threads for what may block it."""

    def __init__(self) -> None:
        self._begun: Future[tuple[asyncio.AbstractEventLoop, asyncio.Event]] = Future()
        self._threads = ThreadPoolExecutor(64, "desk")
        self._thread = threading.Thread(target=asyncio.run, args=(self._run(),))
        self._thread.start()
        self._loop, self._is_over = self._begun.result(HELD_S)

    async def _run(self) -> None:
        is_over = asyncio.Event()
        self._begun.set_result((asyncio.get_running_loop(), is_over))
        await is_over.wait()

    def begin(self, call: Coroutine[Any, Any, None]) -> Future[None]:
        """Run a coroutine there."""
        return asyncio.run_coroutine_threadsafe(call, self._loop)

    async def off(self, call: Callable[..., bool], *args: object) -> bool:
        """Let something that may block run beside the loop."""
        return await self._loop.run_in_executor(self._threads, call, *args)

    def close(self) -> None:
        """Cancel what still runs there."""
        self._loop.call_soon_threadsafe(self._is_over.set)
        self._thread.join()
        self._threads.shutdown()
