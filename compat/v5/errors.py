"""Errors of the 5.0 API, and what each error of the SDK becomes.

All are `ClientException`. Names end in ``Exception`` as in the official Python client; those in
``Error`` are the same classes. Must not know clients.
"""

# ruff: noqa: N818 - the official client's names

from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from typing import Final, TypeVar

from rocketmq_py import followed_by
from rocketmq_py.errors import (
    BadRequestError,
    ClientClosedError,
    ClientException,
    DeliveryEndedError,
    ForbiddenError,
    IllegalStateError,
    InternalError,
    LiteSubscriptionQuotaExceededError,
    LiteTopicQuotaExceededError,
    NameServerUnavailableError,
    NoRouteError,
    NotFoundError,
    PayloadEmptyError,
    PayloadTooLargeError,
    PaymentRequiredError,
    ProxyTimeoutError,
    RecallNotSupportedError,
    RemotingException,
    RequestHeaderFieldsTooLargeError,
    RocketMQError,
    TooManyRequestsError,
    UnauthorizedError,
    UnsupportedError,
    UnsupportedOperationError,
)

BadRequestException = BadRequestError
UnauthorizedException = UnauthorizedError
PaymentRequiredException = PaymentRequiredError
ForbiddenException = ForbiddenError
NotFoundException = NotFoundError
PayloadTooLargeException = PayloadTooLargeError
PayloadEmptyException = PayloadEmptyError
TooManyRequestsException = TooManyRequestsError
LiteTopicQuotaExceededException = LiteTopicQuotaExceededError
LiteSubscriptionQuotaExceededException = LiteSubscriptionQuotaExceededError
RequestHeaderFieldsTooLargeException = RequestHeaderFieldsTooLargeError
InternalErrorException = InternalError
ProxyTimeoutException = ProxyTimeoutError
UnsupportedException = UnsupportedError

_T = TypeVar("_T")
_U = TypeVar("_U")


class IllegalArgumentException(BadRequestError, ValueError):
    """A value that cannot be: a blank tag, two kinds of message in one, a time that is no time."""


class IllegalStateException(ClientException, IllegalStateError):
    """The client is not started, or the transaction is not where it should be."""


class ClosedException(IllegalStateException, ClientClosedError):
    """The client is closed; make a new one."""


class ConnectionException(ClientException, ConnectionError):
    """No server could be reached, or the connection ended before the answer."""


class RequestTimeoutException(ConnectionException, TimeoutError):
    """No server has answered in time."""


_OF_KIND: Final[tuple[tuple[type[BaseException], type[ClientException]], ...]] = (
    (ClientClosedError, ClosedException),
    (DeliveryEndedError, BadRequestError),
    (IllegalStateError, IllegalStateException),
    (RecallNotSupportedError, UnsupportedError),
    (UnsupportedOperationError, UnsupportedError),
    (TimeoutError, RequestTimeoutException),
    (RemotingException, ConnectionException),
    (NameServerUnavailableError, ConnectionException),
    (NoRouteError, NotFoundError),
)
"""What the class of an error says; the first line that fits counts, before any code."""

_OF_CODE: Final[dict[int | None, type[ClientException]]] = {
    1: InternalError,
    2: TooManyRequestsError,
    3: UnsupportedError,
    10: ProxyTimeoutError,
    11: ProxyTimeoutError,
    12: ProxyTimeoutError,
    13: BadRequestError,
    16: ForbiddenError,
    17: NotFoundError,
    23: BadRequestError,
    26: NotFoundError,
    29: BadRequestError,
    209: TooManyRequestsError,
    215: TooManyRequestsError,
    604: BadRequestError,
}
"""What the number of an answer, or of the SDK's own refusal, says."""


def translated_error(error: BaseException) -> BaseException:
    """Return the error of this API for one of the SDK, which is its cause; others stay."""
    if isinstance(error, ClientException) or not isinstance(error, (RocketMQError, ValueError)):
        return error
    topic = error.topic if isinstance(error, RocketMQError) else None
    code = error.response_code if isinstance(error, RocketMQError) else None
    kind = next((ours for theirs, ours in _OF_KIND if isinstance(error, theirs)), None)
    if kind is None and isinstance(error, ValueError) and code is None:
        kind = IllegalArgumentException
    made = (kind or _OF_CODE.get(code, ClientException))(
        str(error), response_code=code, topic=topic
    )
    made.__cause__ = error
    return made


@contextmanager
def translated() -> Iterator[None]:
    """Turn errors of the SDK into those of this API."""
    try:
        yield
    except (RocketMQError, ValueError) as error:
        ours = translated_error(error)
        if ours is error:
            raise
        raise ours from error


def translated_call(call: Future[_T], read: Callable[[_T], _U]) -> Future[_U]:
    """Give the outcome of a call of the SDK as this API has it."""

    def step(decided: Future[_T]) -> Future[_U]:
        result: Future[_U] = Future()
        with translated():
            result.set_result(read(decided.result()))
        return result

    return followed_by(call, step)


def failed(error: BaseException) -> Future[_T]:
    """Give a call that has failed already."""
    result: Future[_T] = Future()
    result.set_exception(translated_error(error))
    return result
