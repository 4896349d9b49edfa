"""Long requests: work in steps on a thread of its own, so that the door is not held for long.

Answers: how the work of a request is cut into steps, and who does them. Such work is a generator
that runs inside the door. It yields None where the door may be given back, and a call that needs no
broker, such as reading a large body, which is made outside; the call's result comes back. A request
that is small begins at once, where it was received, and nearly always ends there. Must not know:
what is asked. Read on:
``endpoint.py``, whose ``register_long`` decides.
"""

from collections.abc import Callable, Generator
from concurrent.futures import ThreadPoolExecutor
from threading import Lock
from typing import Any, Final, TypeVar

from embedded_broker.clocks.timeline import Budget
from embedded_broker.core.refusals import OVERLOAD, Reason, Refused
from embedded_broker.door import Door
from rocketmq_py.logs import get_logger
from rocketmq_py.protocol.command import RemotingCommand

logger = get_logger(__name__)

WAITING_MAX: Final = 64
"""So many requests wait for the thread; others are told that the broker is busy."""

STEPS_AT_ONCE: Final = 256
"""So many steps of a small request are done where it was received; each takes some 10 us."""

_Result = TypeVar("_Result")

# Any: what a call gives is known to the work that yields it.
Steps = Generator[Callable[[], Any] | None, Any, _Result]
"""Work that ends with a result; the answer to a request, if it is `Work`."""
Work = Generator[Callable[[], Any] | None, Any, RemotingCommand]


def elsewhere() -> None:
    """Stand for: what follows takes long. Work that yields this goes on on the other thread."""


def do_at_once(work: Steps[_Result]) -> _Result | None:
    """Do the steps where we are, inside the door; None when they are too many to do all here.

    They are counted, not timed: the same requests have the same course on any machine.
    """
    steps = 0
    try:
        call = next(work)
        while not (call is elsewhere or (call is None and steps >= STEPS_AT_ONCE)):
            steps += 1
            call = work.send(None if call is None else call())
    except StopIteration as end:
        return end.value  # type: ignore[no-any-return] # the generator's type says so
    return None


def do_in_turns(door: Door, work: Steps[_Result]) -> _Result:
    """Do the steps that are left, from outside: the door is given back when its time is used up."""
    result = None
    try:
        while True:
            with door:
                budget = Budget()
                call = work.send(result)
                while call is None and not budget.exhausted():
                    call = next(work)
            result = None if call is None else call()
    except StopIteration as end:
        return end.value  # type: ignore[no-any-return] # the generator's type says so


class LongRequests:
    """The thread of one broker for requests that take long. It starts with the first of them."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._executor: ThreadPoolExecutor | None = None
        self._waiting = 0
        self._closed = False

    def do(self, work: Callable[[], None]) -> None:
        """Do it soon; refuses while too many wait."""
        with self._lock:
            if self._closed or self._waiting >= WAITING_MAX:
                raise Refused(
                    Reason.BUSY,
                    f"{OVERLOAD}: {self._waiting} requests that take long are waiting, at most "
                    f"{WAITING_MAX} may",
                )
            if self._executor is None:
                self._executor = ThreadPoolExecutor(1, "embedded-broker-long")
            self._waiting += 1
            executor = self._executor
        executor.submit(self._run, work)

    def _run(self, work: Callable[[], None]) -> None:
        try:
            work()
        except Exception:
            logger.exception("a long request failed: %r", work)
        finally:
            with self._lock:
                self._waiting -= 1

    def close(self) -> None:
        """Let what runs end, forget what waits, and join the thread; idempotent. Outside."""
        with self._lock:
            self._closed = True
            executor, self._executor = self._executor, None
        if executor is not None:
            executor.shutdown(cancel_futures=True)
