"""What each error of the SDK becomes for a program of the 5.0 API."""

from __future__ import annotations

import pickle

import pytest

from compat import v5
from compat.v5.errors import translated, translated_error
from rocketmq_py.errors import (
    ClientClosedError,
    DelayValueError,
    DeliveryEndedError,
    MQBrokerException,
    MQClientException,
    NameServerUnavailableError,
    NoRouteError,
    NotStartedError,
    PermissionDeniedError,
    RecallNotSupportedError,
    RemotingConnectException,
    RemotingTimeoutException,
    ReservedPropertyError,
    RocketMQError,
    SendTimeoutError,
    UnsupportedOperationError,
)


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (MQBrokerException(13), v5.BadRequestError),
        (PermissionDeniedError(16), v5.ForbiddenError),
        (MQBrokerException(17), v5.NotFoundError),
        (MQBrokerException(26), v5.NotFoundError),
        (MQBrokerException(2), v5.TooManyRequestsError),
        (MQBrokerException(215), v5.TooManyRequestsError),
        (MQBrokerException(10), v5.ProxyTimeoutError),
        (MQBrokerException(11), v5.ProxyTimeoutError),
        (MQBrokerException(12), v5.ProxyTimeoutError),
        (MQBrokerException(1), v5.InternalError),
        (MQBrokerException(3), v5.UnsupportedError),
        (MQBrokerException(604), v5.BadRequestError),
        (MQBrokerException(999), v5.ClientException),
        (RecallNotSupportedError(16), v5.UnsupportedError),
        (NoRouteError("no route", response_code=10005), v5.NotFoundError),
        (NameServerUnavailableError("none"), v5.ConnectionException),
        (RemotingConnectException("refused"), v5.ConnectionException),
        (RemotingTimeoutException("late"), v5.RequestTimeoutException),
        (SendTimeoutError("late"), v5.RequestTimeoutException),
        (ClientClosedError("closed"), v5.ClosedException),
        (NotStartedError("new"), v5.IllegalStateException),
        (DeliveryEndedError("over"), v5.BadRequestError),
        (UnsupportedOperationError("no"), v5.UnsupportedError),
        (ReservedPropertyError("TAGS"), v5.IllegalArgumentException),
        (DelayValueError("TIMER_DELIVER_MS", 1, "early"), v5.IllegalArgumentException),
        (ValueError("what"), v5.IllegalArgumentException),
        (MQClientException("something"), v5.ClientException),
    ],
)
def test_class_and_code_decide(error: Exception, kind: type[v5.ClientException]) -> None:
    told = translated_error(error)
    assert type(told) is kind
    assert (str(told), told.__cause__) == (str(error), error)
    if isinstance(error, RocketMQError):
        assert told.code == error.response_code
    again = pickle.loads(pickle.dumps(told))  # noqa: S301 - made here
    assert (type(again), str(again)) == (kind, str(error))


def test_errors_of_this_api_and_of_others_stay_as_they_are() -> None:
    for error in (v5.BadRequestError("b"), KeyError("k"), KeyboardInterrupt()):
        assert translated_error(error) is error
    ours = v5.NotFoundError("n")
    with pytest.raises(v5.NotFoundError) as told, translated():
        raise ours
    assert told.value is ours


def test_the_official_names_are_the_same_classes_and_kinds_of_builtin_errors() -> None:
    assert v5.BadRequestException is v5.BadRequestError
    assert v5.TooManyRequestsException is v5.TooManyRequestsError
    assert issubclass(v5.IllegalArgumentException, (ValueError, v5.ClientException))
    assert issubclass(v5.IllegalStateException, RuntimeError)
    assert issubclass(v5.ClosedException, ClientClosedError)
    assert issubclass(v5.ConnectionException, ConnectionError)
    assert issubclass(v5.RequestTimeoutException, TimeoutError)
