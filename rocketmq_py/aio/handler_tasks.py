"""Tasks that handlers of asyncio consumers have started and not awaited, for the clock of a test.

A task inherits the context variables of who creates it, so one of them tells whose handler that
was. Nobody is asked while messages are handled: a clock that settles looks through the tasks of the
loop. Must not know brokers. Read on: ``receiving.py`` for when a handler begins.
"""

import asyncio
import gc
from contextvars import Context, ContextVar
from typing import Final
from weakref import ref

from attrs import frozen

NAMED_MAX: Final = 3
"""Most tasks that are told by name."""


@frozen(eq=False)
class _Handler:
    """The handling of one message: whose it is, the task that does it, and what ends it early."""

    tasks: "HandlerTasks"
    group: str
    own: "ref[asyncio.Task[object]] | None"
    until_settled: object


_handler_here: ContextVar[_Handler | None] = ContextVar("_handler_here", default=None)


@frozen(eq=False)
class HandlerTasks:
    """The tasks of one event loop that handlers of one client started, until they end."""

    loop: asyncio.AbstractEventLoop

    def begin(self, group: str, until_settled: object = None) -> None:
        """Count what the running task creates from now on, until `settled` is called for this.

        A listener is a task of its own, so what it creates counts to its end.
        """
        task = asyncio.current_task(self.loop)
        _handler_here.set(_Handler(self, group, None if task is None else ref(task), until_settled))

    def told(self) -> str | None:
        """Say which tasks have not ended; None: all have. On any thread."""
        if self.loop.is_closed():  # nothing ends there any more
            return None
        seen: set[asyncio.Task[object]] = set()
        while True:
            found = {task: one for task in asyncio.all_tasks(self.loop) if (one := self._of(task))}
            open_tasks = [(task, one) for task, one in found.items() if not task.done()]
            if open_tasks:
                return _named(open_tasks)
            if found.keys() <= seen:
                return None
            seen |= found.keys()  # one that ended just now may have created another before

    def _of(self, task: "asyncio.Task[object]") -> _Handler | None:
        """Give the handler that created a task; None for others, and for the handling task."""
        context = _context_of(task)
        handler = None if context is None else context.get(_handler_here)
        if handler is None or handler.tasks is not self:
            return None
        is_own = handler.own is not None and handler.own() is task
        return None if is_own else handler


def settled(what: object) -> None:
    """Count nothing more that the running task creates, if it took this and nothing after it."""
    handler = _handler_here.get()
    if handler is not None and handler.until_settled is what:
        _handler_here.set(None)


def _context_of(task: "asyncio.Task[object]") -> Context | None:
    """Give the context of a task; before Python 3.12 only the garbage collector knows it."""
    get_context = getattr(task, "get_context", None)
    if get_context is not None:
        context: Context = get_context()
        return context
    return next((one for one in gc.get_referents(task) if isinstance(one, Context)), None)


def _named(open_tasks: "list[tuple[asyncio.Task[object], _Handler]]") -> str:
    names = [
        f"{task.get_name()} ({getattr(task.get_coro(), '__qualname__', '?')})"
        for task, _ in open_tasks[:NAMED_MAX]
    ]
    groups = ", ".join(sorted({handler.group for _, handler in open_tasks}))
    more = f" and {len(open_tasks) - NAMED_MAX} more" if len(open_tasks) > NAMED_MAX else ""
    return (
        f"consumer {groups}: tasks that its handlers started have not ended: {', '.join(names)}"
        f"{more} (one that is to go on does not count when it was created with "
        "context=contextvars.Context())"
    )
