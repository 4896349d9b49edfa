"""``clock.busy()`` and ``clock.idle_when(...)``: an application names its activity.

Answers: ``clock.busy()``, ``clock.idle_when(...)`` and ``clock.forget(...)``. Must not know: who
waits for the application. Read on: ``activity.py`` for what is counted, ``rocketmq_py/clock.py``
for the same calls on the clock of production, which do nothing. A listener that sends tomorrow's
message on another thread, on each day of three:

>>> from concurrent.futures import ThreadPoolExecutor
>>> from embedded_broker import EmbeddedBroker, VirtualClock
>>> from rocketmq_py import ConsumeConcurrentlyStatus, DefaultMQPushConsumer
>>> rang = []
>>> with (
...     EmbeddedBroker(tcp=False, topics=["T"], clock=VirtualClock()) as broker,
...     ThreadPoolExecutor() as pool,
... ):
...     def arm():
...         return broker.send("T", b"ring", delay=86_400)
...
...     def listen(messages, context):
...         rang.append(broker.clock.now())
...         pool.submit(broker.clock.busy("alarm").hand_over(arm))
...         return ConsumeConcurrentlyStatus.CONSUME_SUCCESS
...
...     consumer = DefaultMQPushConsumer("G", namesrv_addr=broker.namesrv_addr)
...     consumer.register_message_listener(listen)
...     consumer.subscribe("T")
...     with consumer:
...         _ = arm()
...         _ = broker.clock.run(days=3)
>>> len(rang)
3
"""

import inspect
import sys
import weakref
from collections.abc import Callable, Coroutine, Sequence
from functools import wraps
from threading import current_thread, get_ident
from types import FrameType, TracebackType
from typing import Any, ParamSpec, Self, TypeVar, cast

from embedded_broker.clocks.activity import Activity, Condition, Token
from rocketmq_py.clock import check_activity_name

P = ParamSpec("P")
R = TypeVar("R")


class Busy:
    """Work of the application while which ``settle``, ``run`` and ``autojump`` wait.

    ``with clock.busy(): ...`` in any thread or coroutine, as often and as deep as you like; or
    ``@clock.busy()`` on a function or a coroutine function. A call of a coroutine function counts
    from the call on, so before a loop has begun with it. For work that another thread begins later,
    see ``hand_over``.
    """

    def __init__(self, activity: Activity, what: str) -> None:
        self._activity = activity
        self._what = what
        self._entered: dict[Token, None] = {}

    def __repr__(self) -> str:
        return f"<clock.{self._what}>"

    def __enter__(self) -> Self:
        self._entered[self._activity.begin(self._what, thread=get_ident())] = None
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        entered = list(self._entered)
        if not entered:
            raise RuntimeError(f"clock.{self._what} is not entered: nothing can end")
        own = [token for token in entered if token.thread == get_ident()]
        token = (own or entered)[-1]  # one object may be shared by threads
        self._entered.pop(token, None)
        self._activity.end(token)

    def __call__(self, function: Callable[P, R]) -> Callable[P, R]:
        """Count every call of a function or a coroutine function, from the call to its end."""
        what = self._around(function)

        @wraps(function)
        def counted(*args: P.args, **kwargs: P.kwargs) -> R:
            token = self._activity.begin(what, thread=get_ident())
            return self._call(token, function, *args, **kwargs)

        return _marked(counted, function)

    def hand_over(self, function: Callable[P, R]) -> Callable[P, R]:
        """Count from now until the call that is returned has been made and has ended.

        So a listener gives work to a thread without a gap: ``pool.submit(clock.busy().hand_over(
        send_next), message)``, ``Thread(target=clock.busy().hand_over(work))``. A call that nobody
        makes counts until nobody holds it any more. Calls after the first count while they run.
        """
        activity, what = self._activity, self._around(function)
        waiting = [activity.begin(what)]

        @wraps(function)
        def handed(*args: P.args, **kwargs: P.kwargs) -> R:
            try:
                token = waiting.pop()
            except IndexError:  # called before
                token = activity.begin(what)
            token.thread, token.by = get_ident(), current_thread().name
            return self._call(token, function, *args, **kwargs)

        weakref.finalize(handed, _end_quietly, activity, waiting).atexit = False
        return _marked(handed, function)

    def _around(self, function: Callable[..., object]) -> str:
        """Name the function; ``TypeError`` for what does not end when its call returns."""
        name = getattr(function, "__qualname__", repr(function))
        if not callable(function) or isinstance(function, type):
            raise TypeError(f"clock.busy() goes around a function, not {function!r}")
        if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
            raise TypeError(
                f"clock.busy() cannot go around the generator {name}, whose call returns before "
                "its work begins: write `with clock.busy():` inside"
            )
        return f"{name} in {self._what}"

    def _call(self, token: Token, function: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        """Call, and end the token when the call, or the coroutine that it gave, has ended."""
        try:
            result = function(*args, **kwargs)
        except BaseException:
            self._activity.end(token)
            raise
        if not inspect.iscoroutine(result):
            self._activity.end(token)
            return result
        token.thread = None  # a task may end on any thread
        coroutine = self._until_done(token, result)
        # One that is never begun has no end.
        weakref.finalize(coroutine, _end_quietly, self._activity, [token]).atexit = False
        return cast("R", coroutine)

    async def _until_done(self, token: Token, coroutine: Coroutine[Any, Any, R]) -> R:
        try:
            result = await coroutine
        except GeneratorExit:  # perhaps of a garbage collection
            self._activity.end(token, wake=False)
            raise
        except BaseException:
            self._activity.end(token)
            raise
        self._activity.end(token)
        return result


class ApplicationFace:
    """What a clock offers to the application that lives by it."""

    def __init__(self) -> None:
        self.activity = Activity()
        """What the application is doing, for who moves time."""

    def busy(self, name: str | None = None) -> Busy:
        """Let time wait for work of the application's own: a context manager and a decorator.

        ``settle``, ``run``, ``run_until`` and ``autojump`` know when clients are idle, and nothing
        of threads and tasks of the application. While one of these is inside ``busy()``, they wait.
        When their wall time is over, the error names who is inside: ``name``, and where ``busy``
        was called. ``advance`` and ``jump_to`` do not wait. A listener that gives work to a thread
        takes the token before it returns, with ``busy().hand_over(function)``.

        The clocks of production (``rocketmq_py.SystemClock``) have the call, too, and do nothing.

        >>> from concurrent.futures import ThreadPoolExecutor
        >>> from embedded_broker import EmbeddedBroker, VirtualClock
        >>> with (
        ...     EmbeddedBroker(tcp=False, topics=["T"], clock=VirtualClock()) as broker,
        ...     ThreadPoolExecutor() as pool,
        ... ):
        ...     send_next = broker.clock.busy("sends").hand_over(broker.send)
        ...     _ = pool.submit(send_next, "T", b"a day later", delay=86_400)
        ...     broker.clock.run(days=1).fired
        1
        """
        check_activity_name("busy", name)
        return Busy(self.activity, f"busy({_quoted(name)}) at {_place(sys._getframe(1))}")  # noqa: SLF001

    def idle_when(self, predicate: Callable[[], object], *, name: str | None = None) -> Condition:
        """Let time wait until ``predicate()`` is true: an outbox is empty, no worker is at work.

        ``settle``, ``run``, ``run_until`` and ``autojump`` ask each time when they look whether
        clients are idle, on the thread that waits. An exception of the predicate ends their wait
        with ``ClockError``, which names it. Ask no longer with ``forget()`` of the result, with a
        ``with`` block around it, or with ``clock.forget(name)``; at the end of a test the kit
        forgets all. Of one's own queue take ``queue.unfinished_tasks == 0``, which counts what a
        worker has in hand (it calls ``task_done``).

        >>> from embedded_broker import VirtualClock
        >>> outbox = []
        >>> clock = VirtualClock()
        >>> with clock.idle_when(lambda: not outbox, name="outbox"):
        ...     pass  # clock.run(days=5)
        """
        check_activity_name("idle_when", name)
        if not callable(predicate) or inspect.iscoroutinefunction(predicate):
            raise TypeError(
                f"clock.idle_when({predicate!r}): give a function without arguments, no coroutine "
                "function: it is asked by a thread, and answers at once"
            )
        condition = Condition(self.activity, predicate, name, _place(sys._getframe(1)))  # noqa: SLF001
        self.activity.add(condition)
        return condition

    def forget(self, name: str) -> None:
        """Ask the condition that ``idle_when`` was given by this name no longer.

        Raises ``KeyError`` when there is none.
        """
        self.activity.remove_named(name)


def _end_quietly(activity: Activity, tokens: Sequence[Token]) -> None:
    for token in tokens:
        activity.end(token, wake=False)


def _marked(counted: Callable[P, R], function: Callable[P, R]) -> Callable[P, R]:
    """Let others see that a call gives a coroutine: by a mark of Python 3.12, or asyncio's."""
    if not inspect.iscoroutinefunction(function):
        return counted
    mark = getattr(inspect, "markcoroutinefunction", None)
    if mark is not None:
        return cast("Callable[P, R]", mark(counted))
    asyncio = sys.modules.get("asyncio.coroutines")  # a program without it does not load it by this
    if asyncio is not None:
        vars(counted)["_is_coroutine"] = vars(asyncio)["_is_coroutine"]
    return counted


def _quoted(name: str | None) -> str:
    return "" if name is None else repr(name)


def _place(frame: FrameType) -> str:
    return f"{frame.f_code.co_filename}:{frame.f_lineno}"
