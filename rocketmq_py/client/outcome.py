"""Which future a call of the application gives: one that costs little until somebody waits.

A window of sends keeps a thousand futures, and most are looked at when their outcome is there. So
the condition and the lists of a `concurrent.futures.Future`, two thirds of all that the garbage
collector would find of a send, are made for the first who waits. From then on, and for everything
that is not written down here, it is Python's own future. Must not know what is called.
"""

from collections.abc import Callable
from concurrent.futures import Future, InvalidStateError
from functools import partial
from typing import Generic, TypeVar

from rocketmq_py.client.instance import ClientInstance

_Outcome = TypeVar("_Outcome")
_Other = TypeVar("_Other")

_PENDING, _FINISHED = "PENDING", "FINISHED"
_FOR_WAITING = frozenset({"_condition", "_waiters", "_done_callbacks"})
_IS_KNOWN = vars(Future()).keys() == _FOR_WAITING | {"_state", "_result", "_exception"}
"""Whether a future of this Python consists of what is put off here; else nothing is."""


class CallbackFuture(Future[_Outcome], Generic[_Outcome]):
    """A future whose callbacks run on the callback threads, not on the one that has the answer.

    It is running from the start, because what is sent cannot be taken back.
    """

    def __init__(self, instance: ClientInstance) -> None:
        self._instance = instance
        if _IS_KNOWN:
            self._state = _PENDING
            self._result = None
            self._exception = None
            self._is_complete = False
        else:
            super().__init__()
            self._is_complete = True

    def __getattr__(self, name: str) -> object:
        """Make what was put off: Python's own code is about to use it, the condition first."""
        if name not in _FOR_WAITING:
            raise AttributeError(f"{type(self).__name__} has no attribute {name}")
        with self._instance.deciding:
            if not self._is_complete:
                self.__dict__.update(vars(Future()) | vars(self))
                self._is_complete = True
        return self.__dict__[name]

    def cancel(self) -> bool:
        """Do nothing: the outcome will come."""
        return False

    def running(self) -> bool:
        """Whether there is no outcome yet."""
        return self._state != _FINISHED

    def done(self) -> bool:
        """Whether there is an outcome."""
        return self._state == _FINISHED

    def result(self, timeout: float | None = None) -> _Outcome:
        """As of every future: the result, or its error raised, waiting for it if need be."""
        if self._state == _FINISHED and self._exception is None:
            return self._result  # type: ignore[return-value]
        return super().result(timeout)

    def set_result(self, result: _Outcome) -> None:
        """Decide; raises InvalidStateError when that was done before."""
        if not self._decide(result, None):
            super().set_result(result)

    def set_exception(self, exception: BaseException | None) -> None:
        """Decide; raises InvalidStateError when that was done before."""
        if not self._decide(None, exception):
            super().set_exception(exception)

    def _decide(self, result: _Outcome | None, error: BaseException | None) -> bool:
        """Take the outcome, if nobody has waited for it so far."""
        with self._instance.deciding:
            if self._is_complete:
                return False
            if self._state == _FINISHED:
                raise InvalidStateError(f"{self._state}: the outcome is known already")
            self._result, self._exception = result, error
            self._state = _FINISHED  # last: `result` reads without the lock
            return True

    def add_done_callback(self, fn: Callable[[Future[_Outcome]], object]) -> None:
        """As of every future: at once when it is done, else on a callback thread."""
        if self.done():
            super().add_done_callback(fn)
        else:
            super().add_done_callback(lambda _: self._instance.submit_callback(fn, self))

    def when_decided(self, fn: Callable[[Future[_Outcome]], object]) -> None:
        """Call a function of the SDK with the outcome, on the thread that has it: not to block."""
        super().add_done_callback(fn)

    def sibling(self) -> "CallbackFuture[_Other]":
        """Make another future whose callbacks run on the same threads."""
        return CallbackFuture(self._instance)


def followed_by(
    call: Future[_Outcome], step: Callable[[Future[_Outcome]], Future[_Other]]
) -> Future[_Other]:
    """Give the outcome of what follows a call; for API shapes that translate results and errors.

    ``step`` gets the call when it is decided, returns a future or raises, and must not block. It
    has no thread of its own, and what waits for the result waits for no callback.
    """
    ours = call if isinstance(call, CallbackFuture) else None
    result: Future[_Other] = Future() if ours is None else ours.sibling()

    def go_on(done: Future[_Outcome]) -> None:
        try:
            _when_decided(step(done), partial(_copy, result))
        except Exception as error:  # noqa: BLE001 - it belongs to whoever waits
            result.set_exception(error)

    _when_decided(call, go_on)
    return result


def _when_decided(call: Future[_Outcome], fn: Callable[[Future[_Outcome]], object]) -> None:
    if isinstance(call, CallbackFuture):
        call.when_decided(fn)
    else:
        call.add_done_callback(fn)


def told_apart(instance: ClientInstance, call: Future[_Outcome]) -> CallbackFuture[_Outcome]:
    """Give the outcome of a call to the application, whose callbacks get threads of their own."""
    told: CallbackFuture[_Outcome] = CallbackFuture(instance)

    call.add_done_callback(partial(_copy, told))
    return told


def _copy(to: Future[_Outcome], decided: Future[_Outcome]) -> None:
    error = decided.exception()
    if error is None:
        to.set_result(decided.result())
    else:
        to.set_exception(error)
