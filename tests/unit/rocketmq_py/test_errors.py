"""The exception tree: what it inherits, what it carries, that it survives pickling."""

from __future__ import annotations

import inspect
import pickle

import pytest

from rocketmq_py import errors
from rocketmq_py.errors import RocketMQError

CLASSES = [
    cls
    for _, cls in inspect.getmembers(errors, inspect.isclass)
    if issubclass(cls, RocketMQError) and cls.__module__ == errors.__name__
]

SPECIAL = {
    errors.RequestNotSupportedError: ("GET_TIMER_METRICS", 61, "4.9.7", "5.0", "no", "a:1"),
    errors.ConfigError: ("sendMsgTimeout", 0, "from 1 to 600000"),
    errors.DelayValueError: ("TIMER_DELAY_SEC", "soon", "is no number"),
    errors.DelayConflictError: ("TIMER_DELAY_SEC", "5", "TIMER_DELAY_MS is set too"),
    errors.ReservedPropertyError: ("KEYS",),
    errors.FrameError: (16, "length", 1 << 30, "at most 16777212"),
    errors.HeaderError: ("queueId", "x", "is no 32-bit integer"),
    errors.BodyError: ("TopicRouteData", "is no JSON object", 3),
    errors.BodyTooLargeError: ("message", 10, 1000, "decompressed_body_max_bytes"),
    errors.RecordError: (104, "magic", "is 7"),
}


def build(cls: type[RocketMQError]) -> RocketMQError:
    if cls in SPECIAL:
        return cls(*SPECIAL[cls])  # type: ignore[arg-type] # each class has its own arguments
    if issubclass(cls, errors.MQBrokerException):
        return cls(17, "no such topic", "10.0.0.1:10911", topic="T", attempt=2, advice="create it")
    return cls("what happened, and what to do", response_code=10005)


@pytest.mark.parametrize("cls", CLASSES, ids=lambda cls: cls.__name__)
def test_every_error_keeps_its_class_text_and_data_when_pickled(
    cls: type[RocketMQError],
) -> None:
    error = build(cls)
    error.add_note("seen while sending")

    copy = pickle.loads(pickle.dumps(error))  # noqa: S301 - our own bytes

    assert type(copy) is cls
    assert str(copy) == str(error)
    assert vars(copy) == vars(error)


@pytest.mark.parametrize(
    ("cls", "built_in"),
    [
        (errors.NameServerUnavailableError, ConnectionError),
        (errors.RouteTimeoutError, TimeoutError),
        (errors.InvalidDelayError, ValueError),
        (errors.DelayOutOfRangeError, ValueError),
        (errors.RemotingException, OSError),
        (errors.RemotingConnectException, ConnectionError),
        (errors.RemotingSendRequestException, ConnectionError),
        (errors.RemotingTimeoutException, TimeoutError),
        (errors.RemotingCommandException, ValueError),
        (errors.RequestTimeoutException, TimeoutError),
        (errors.IllegalStateError, RuntimeError),
        (errors.ONSClientException, RuntimeError),
        (errors.ConfigError, ValueError),
    ],
)
def test_an_error_is_caught_by_the_nearest_built_in(
    cls: type[RocketMQError], built_in: type[Exception]
) -> None:
    assert issubclass(cls, built_in)


def test_errors_of_the_network_and_no_others_are_caught_by_except_oserror() -> None:
    assert {cls.__name__ for cls in CLASSES if issubclass(cls, OSError)} == {
        "NameServerUnavailableError",
        "RouteTimeoutError",
        "SendTimeoutError",
        "TooManySendsError",
        "RequestTimeoutException",
        "RemotingException",
        "RemotingConnectException",
        "RemotingSendRequestException",
        "RemotingTimeoutException",
        "RemotingTooMuchRequestException",
    }


def test_a_send_that_times_out_beside_work_with_files_is_told_from_it() -> None:
    def work(fails: Exception) -> str:
        try:
            raise fails
        except errors.SendFailedError:
            return "send"
        except OSError as error:
            return f"file {error.errno}"

    assert work(errors.SendTimeoutError("no broker has answered")) == "send"
    assert work(FileNotFoundError(2, "no such file")) == "file 2"
    assert errors.SendTimeoutError("no broker has answered").errno is None


def test_an_error_that_is_an_oserror_is_not_read_as_errno_and_strerror() -> None:
    error = errors.RemotingConnectException("cannot connect to 10.0.0.1:9876", response_code=10001)

    assert error.errno is None
    assert error.args == ("cannot connect to 10.0.0.1:9876",)
    assert error.response_code == 10001


def test_refined_client_errors_stay_mqclientexceptions() -> None:
    for cls in (
        errors.NoRouteError,
        errors.NameServerUnavailableError,
        errors.RouteTimeoutError,
        errors.SendFailedError,
        errors.ReplyTopicMissingError,
    ):
        assert issubclass(cls, errors.MQClientException)


def test_a_broker_error_shows_code_address_remark_and_advice() -> None:
    error = errors.TopicNotExistError(
        17, "topic[T] not exist", "10.0.0.1:10911", advice="Create it."
    )

    assert (error.code, error.remark, error.broker_addr) == (
        17,
        "topic[T] not exist",
        "10.0.0.1:10911",
    )
    assert str(error) == "code 17 from 10.0.0.1:10911: topic[T] not exist. Create it."


def test_a_broker_error_without_remark_says_so() -> None:
    assert str(errors.MQBrokerException(1)) == "code 1: no remark"


def test_a_header_error_clips_a_long_foreign_value() -> None:
    assert len(str(errors.HeaderError("topic", "x" * 10_000, "is no text"))) < 200
