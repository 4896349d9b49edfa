"""What a send of ONS gives back, at once or through a callback.

Names as in ``com.aliyun.openservices.ons.api``: ``SendResult``, ``SendCallback``,
``OnExceptionContext``. Must not know producers.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from concurrent.futures import Executor
from typing import NamedTuple, Protocol, TypeAlias, TypeVar

from attrs import frozen

from rocketmq_py.errors import ONSClientException

logger = logging.getLogger(__name__)

_T = TypeVar("_T")


@frozen
class SendResult:
    """What a successful send returns."""

    topic: str
    message_id: str

    def getTopic(self) -> str:
        """Java's spelling of `topic`."""
        return self.topic

    def getMessageId(self) -> str:
        """Java's spelling of `message_id`."""
        return self.message_id


@frozen
class OnExceptionContext:
    """What a failed asynchronous send tells its callback."""

    topic: str
    message_id: str | None
    exception: ONSClientException

    def getTopic(self) -> str:
        """Java's spelling of `topic`."""
        return self.topic

    def getMessageId(self) -> str | None:
        """Java's spelling of `message_id`."""
        return self.message_id

    def getException(self) -> ONSClientException:
        """Java's spelling of `exception`."""
        return self.exception


class SendCallback:
    """Learns the outcome of an asynchronous send; runs on a callback thread of the client.

    Override `on_success` and `on_exception` (or ``onSuccess`` and ``onException``), or pass two
    callables. What they raise is logged.
    """

    _on_success: Callable[[SendResult], object] | None = None
    _on_exception: Callable[[OnExceptionContext], object] | None = None

    def __init__(
        self,
        on_success: Callable[[SendResult], object] | None = None,
        on_exception: Callable[[OnExceptionContext], object] | None = None,
    ) -> None:
        self._on_success = on_success
        self._on_exception = on_exception

    def on_success(self, result: SendResult) -> None:
        """Learn that the broker has the message."""
        if self._on_success is not None:
            self._on_success(result)

    def on_exception(self, context: OnExceptionContext) -> None:
        """Learn that the send failed; the message may be sent again."""
        if self._on_exception is not None:
            self._on_exception(context)

    def onSuccess(self, sendResult: SendResult) -> None:
        """Java's spelling of `on_success`."""
        self.on_success(sendResult)

    def onException(self, context: OnExceptionContext) -> None:
        """Java's spelling of `on_exception`."""
        self.on_exception(context)


class _Callback(Protocol):
    def on_success(self, result: SendResult, /) -> object: ...

    def on_exception(self, context: OnExceptionContext, /) -> object: ...


class _JavaCallback(Protocol):
    def onSuccess(self, sendResult: SendResult, /) -> object: ...

    def onException(self, context: OnExceptionContext, /) -> object: ...


SendCallbackLike: TypeAlias = SendCallback | _Callback | _JavaCallback
"""Everything that ``Producer.send_async`` takes as its callback."""


class Teller(NamedTuple):
    """Tells a callback of a program what became of a send, on ``executor`` if there is one."""

    success: Callable[[SendResult], object]
    failure: Callable[[OnExceptionContext], object]
    executor: Executor | None

    @classmethod
    def of(cls, callback: object, executor: Executor | None) -> Teller:
        """Find the methods of a callback; TypeError, naming the fix, when it lacks one."""
        return cls(
            _method(callback, "onSuccess", "on_success"),
            _method(callback, "onException", "on_exception"),
            executor,
        )

    def tell_success(self, result: SendResult) -> None:
        """Tell that the broker has the message."""
        self._tell(self.success, result)

    def tell_failure(self, context: OnExceptionContext) -> None:
        """Tell that the send has failed."""
        self._tell(self.failure, context)

    def _tell(self, function: Callable[[_T], object], outcome: _T) -> None:
        if self.executor is not None:
            try:
                self.executor.submit(_called, function, outcome)
            except RuntimeError as error:  # it is shut down, and the program waits to be told
                logger.warning("the callback executor takes no work, so it is done here: %s", error)
            else:
                return
        _called(function, outcome)


def _called(function: Callable[[_T], object], outcome: _T) -> None:
    try:
        function(outcome)
    except Exception:
        # A callback of a foreign program runs on our thread and must not end it.
        logger.exception("send callback failed")


def _method(callback: object, *names: str) -> Callable[..., object]:
    if isinstance(callback, type):
        raise TypeError(f"{callback.__name__} is a class: pass an object of it as the callback")
    for name in names:
        # A name from a foreign program: what it is, is looked at here.
        method = getattr(callback, name, None)
        if callable(method):
            found: Callable[..., object] = method
            return found
    raise TypeError(
        f"{type(callback).__name__} is no callback of a send, it has no {names[0]}: pass a "
        "SendCallback, made of two callables or with onSuccess and onException"
    )
