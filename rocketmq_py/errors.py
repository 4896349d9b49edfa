"""Which exceptions can leave this code base, and who must act on each.

Every class carries data (`response_code`, `error_message` and, where known, `address`, `topic`,
`attempt`, `elapsed_ms`), says the next step in its text, and survives pickling. Texts never hold
secrets. Java's names are kept where Java has one; new names end in ``Error``.

::

    RocketMQError (Exception)
      configuration: fix a setting
        ConfigError (ValueError)                   setting, value, limit
      usage: fix the calling program
        DelayValueError (ValueError)               property_name, value, reason
          DelayConflictError
        ReservedPropertyError (ValueError)         property_name
        UnsupportedOperationError
        IllegalStateError (RuntimeError)
          NotStartedError  ForkedClientError
          ClientClosedError                        closed: start a new client
        OperationCancelled                         a future was cancelled
      client side: validation, routes, exhausted retries
        MQClientException
          NoRouteError
          NameServerUnavailableError (ConnectionError)
            RouteTimeoutError (TimeoutError)       not asked: the time was too short
          SendFailedError                          attempts, possibly_stored
            SendTimeoutError (TimeoutError)        its budget of time is used up
            TooManySendsError                      too much in flight: wait for results
          ReplyTopicMissingError
      timeout
        RequestTimeoutException (TimeoutError)     request-reply, 10006
      broker answer: look at code and remark
        MQBrokerException                          code, broker_addr, remark
          InvalidDelayError (ValueError)  DelayOutOfRangeError (ValueError)
          FlowControlError  TopicNotExistError  PermissionDeniedError  RecallNotSupportedError
          RequestNotSupportedError (UnsupportedOperationError)   request_code, server_version
      transport: the network
        RemotingException (OSError)
          RemotingConnectException (ConnectionError)
          RemotingSendRequestException (ConnectionError)
          RemotingTimeoutException (TimeoutError)
          RemotingTooMuchRequestException
      protocol: peer bytes or stored bytes are wrong
        RemotingCommandException (ValueError)
          FrameError   offset, field, limit        HeaderError  field, value
          BodyError    body, reason                RecordError  offset, field
            BodyTooLargeError                      size_max: decompressed it has more
      other API shapes
        ONSClientException (RuntimeError)          message_id
        ClientException                            request_id; one class per v5 status

What is marked with `OSError`, `ConnectionError` or `TimeoutError` is caught by ``except OSError``,
as errors of Python's own network modules are: the two last are kinds of the first. A program that
handles files and sends in one block names the errors of the SDK first.

This module must not know about sockets, frames or the broker. The codes themselves are in
`rocketmq_py.protocol.codes`; what raises what is told where it is raised.
"""

# ruff: noqa: N818 - Java's exception names are kept so that ported `except` clauses read the same

from typing import Any, NamedTuple


def _rebuild(cls: "type[RocketMQError]", args: tuple[object, ...], state: dict[str, Any]) -> object:
    """Make an error again from its pickle, without running its ``__init__``."""
    error = cls.__new__(cls)
    error.args = args
    error.__dict__.update(state)
    return error


class RocketMQError(Exception):
    """Root of everything this code base raises on purpose.

    `error_message` is the whole sentence; `response_code` the number of the peer's answer or of
    the client-local table (10001 ...), None when no number exists. `address` is the ``host:port``
    that was asked, `attempt` the number of the try that failed (from 1), `elapsed_ms` how long
    all of it took.
    """

    def __init__(
        self,
        error_message: str = "",
        *,
        response_code: int | None = None,
        address: str | None = None,
        topic: str | None = None,
        attempt: int | None = None,
        elapsed_ms: int | None = None,
    ) -> None:
        # Exactly one positional argument: OSError reads two or more as errno and strerror.
        super().__init__(error_message)
        self.error_message = error_message
        self.response_code = response_code
        self.address = address
        self.topic = topic
        self.attempt = attempt
        self.elapsed_ms = elapsed_ms

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild, (type(self), self.args, self.__dict__)


# --- configuration and usage ---------------------------------------------------------------


class ConfigError(RocketMQError, ValueError):
    """A setting has a value that it cannot have; `limit` says what it can have."""

    def __init__(self, setting: str, value: object, limit: str) -> None:
        super().__init__(f"setting {setting} = {value!r} is not possible: {limit}")
        self.setting = setting
        self.value = value
        self.limit = limit


class DelayValueError(RocketMQError, ValueError):
    """A delay property holds something that is no delay, or none within the limits."""

    def __init__(self, property_name: str, value: object, reason: str) -> None:
        super().__init__(f"delay property {property_name} = {value!r}: {reason}")
        self.property_name = property_name
        self.value = value
        self.reason = reason


class DelayConflictError(DelayValueError):
    """Two delay properties on one message contradict each other."""


class ReservedPropertyError(RocketMQError, ValueError):
    """A user property has a name that RocketMQ keeps for itself."""

    def __init__(self, property_name: str, reason: str = "") -> None:
        why = reason or "the name is reserved by RocketMQ: choose another one"
        super().__init__(f"user property {property_name!r}: {why}")
        self.property_name = property_name


class UnsupportedOperationError(RocketMQError):
    """The call exists but cannot be done with these arguments, as a batch of delayed messages."""


class IllegalStateError(RocketMQError, RuntimeError):
    """The call does not fit the state of the object: Java's IllegalStateException."""


class DeliveryEndedError(IllegalStateError):
    """A delivery is settled that was settled before, or that came to its end otherwise."""


class NotStartedError(IllegalStateError):
    """The client is used before `start`."""


class ClientClosedError(IllegalStateError):
    """The client is used after `shutdown`; make a new one."""


class ForkedClientError(IllegalStateError):
    """The client was made in the parent process; make one in the child."""


class OperationCancelled(RocketMQError):
    """The result will not come because its future was cancelled."""


# --- client side ---------------------------------------------------------------------------


class MQClientException(RocketMQError):
    """The client refuses or gives up: validation, state, no route, retries exhausted."""


class NoRouteError(MQClientException):
    """No name server knows a route to the topic (10005)."""


class NameServerUnavailableError(MQClientException, ConnectionError):
    """No name server address is set, or none of them answers (10004)."""


class RouteTimeoutError(NameServerUnavailableError, TimeoutError):
    """No name server was asked, because the call's time was too short for it (10002)."""


class ReplyTopicMissingError(MQClientException):
    """A reply cannot be built: the request message has no CLUSTER property (10007)."""


class RequestTimeoutException(RocketMQError, TimeoutError):
    """The request was sent but nobody replied in time (10006)."""


# --- broker answers ------------------------------------------------------------------------


class MQBrokerException(RocketMQError):
    """The server answered with a code other than success.

    `code`, `remark` and `broker_addr` are the server's number, its text and its address.
    """

    def __init__(
        self,
        code: int,
        remark: str | None = None,
        broker_addr: str | None = None,
        *,
        topic: str | None = None,
        attempt: int | None = None,
        elapsed_ms: int | None = None,
        advice: str = "",
    ) -> None:
        where = f" from {broker_addr}" if broker_addr else ""
        text = f"code {code}{where}: {remark or 'no remark'}"
        super().__init__(
            f"{text}. {advice}" if advice else text,
            response_code=code,
            address=broker_addr,
            topic=topic,
            attempt=attempt,
            elapsed_ms=elapsed_ms,
        )
        self.remark = remark

    @property
    def code(self) -> int:
        """The server's response code."""
        return self.response_code or 0

    @property
    def broker_addr(self) -> str | None:
        """The ``host:port`` that answered."""
        return self.address


class InvalidDelayError(MQBrokerException, ValueError):
    """Code 13: the server could not read the delay."""


class DelayOutOfRangeError(MQBrokerException, ValueError):
    """Code 13: the delay is longer than the server's limit."""


class FlowControlError(MQBrokerException):
    """Codes 2 and 215, and 1 with a flow-control remark: try again later."""


class TopicNotExistError(MQBrokerException):
    """Code 17: the topic does not exist there and may not be created."""


class PermissionDeniedError(MQBrokerException):
    """Code 16: broker, topic, group or account forbids it."""


class RecallNotSupportedError(MQBrokerException):
    """The broker does not recall messages: it is switched off (16), or too old (3)."""


class RequestNotSupportedError(MQBrokerException, UnsupportedOperationError):
    """Code 3: this server, or its version, does not know the request.

    `request_code` is the number of the request, `server_version` the release that the server says
    to have, such as ``4.9.7``, or the number that it gave.
    """

    def __init__(
        self,
        request: str,
        request_code: int,
        server_version: str,
        since: str,
        remark: str | None = None,
        broker_addr: str | None = None,
        *,
        topic: str | None = None,
    ) -> None:
        super().__init__(
            3,
            remark,
            broker_addr,
            topic=topic,
            advice=f"Request {request_code} ({request}) is not known to this server, of version "
            f"{server_version}: RocketMQ has it since {since}",
        )
        self.request_code = request_code
        self.server_version = server_version


# --- transport -----------------------------------------------------------------------------


class RemotingException(RocketMQError, OSError):
    """Root of the transport family; `request_left` is False when the request was never written."""

    request_left = True


class RemotingConnectException(RemotingException, ConnectionError):
    """Cannot connect, or the channel is not usable."""

    request_left = False


class RemotingSendRequestException(RemotingException, ConnectionError):
    """The write failed, or the channel closed while an answer was awaited."""


class RemotingTimeoutException(RemotingException, TimeoutError):
    """No answer within the time given."""


class RemotingTooMuchRequestException(RemotingException):
    """Too many calls are in flight, or no time is left to begin an attempt."""

    request_left = False


# --- sends -----------------------------------------------------------------------------------


class SendAttempt(NamedTuple):
    """One attempt of a send that failed."""

    broker_name: str
    queue_id: int
    reason: str
    """Class and text of what went wrong."""
    seconds: float
    """How long it took."""
    possibly_stored: bool
    """False: the broker refused the message, or it never left this client."""


class SendFailedError(MQClientException):
    """A send failed for good; ``__cause__`` is the last failure.

    `attempts` tells each try. `possibly_stored` is False when no broker can have the message: it
    may be sent again, or given up, without a second thought. When it is True, an attempt ended
    without an answer; the message keeps its id when it is sent again, so a consumer can tell.
    """

    attempts: tuple[SendAttempt, ...] = ()
    possibly_stored: bool = False


class SendTimeoutError(
    SendFailedError, RemotingTooMuchRequestException, RemotingTimeoutException, TimeoutError
):
    """A send used up its time (``send_msg_timeout``, or ``timeout=``).

    It is a `TimeoutError`, as every time-out of Python is, and so an `OSError`: Python made its
    TimeoutError one. So ``except OSError`` around work with files catches it, too, when the same
    block sends. Name `SendFailedError` in an earlier clause, or send outside the block; the errors
    of the system have an ``errno``, those of this package have None there.

    >>> try:
    ...     raise SendTimeoutError("no broker has answered")
    ... except SendFailedError as error:  # before OSError
    ...     print(isinstance(error, OSError), error.errno)
    True None
    """


class TooManySendsError(SendFailedError, RemotingTooMuchRequestException):
    """Too much is in flight or waits already: wait for results before sending more."""


# --- protocol ------------------------------------------------------------------------------


class RemotingCommandException(RocketMQError, ValueError):
    """Bytes of a peer or of a store are not what the protocol says."""


class FrameError(RemotingCommandException):
    """A frame cannot be split or built; the connection cannot be used any more."""

    def __init__(self, offset: int, field: str, value: int, limit: str) -> None:
        super().__init__(f"frame field {field} at offset {offset} is {value}: {limit}")
        self.offset = offset
        self.field = field
        self.value = value
        self.limit = limit


class HeaderError(RemotingCommandException):
    """A header, or one field of a header, cannot be read or written."""

    def __init__(self, field: str, value: object, reason: str) -> None:
        shown = "" if value is None else f" = {_clipped(value)}"
        super().__init__(f"header field {field}{shown}: {reason}")
        self.field = field
        self.value = value
        self.reason = reason


class BodyError(RemotingCommandException):
    """A body is not the document that belongs to its request."""

    def __init__(self, body: str, reason: str, offset: int | None = None) -> None:
        where = "" if offset is None else f" at offset {offset}"
        super().__init__(f"body {body}{where}: {reason}")
        self.body = body
        self.reason = reason
        self.offset = offset


class BodyTooLargeError(BodyError):
    """A body is compressed and becomes larger than allowed; `size_max` is the limit in bytes."""

    def __init__(self, body: str, compressed_size: int, size_max: int, setting: str) -> None:
        super().__init__(
            body,
            f"its {compressed_size} bytes become more than the {size_max} bytes of {setting} when "
            "they are decompressed",
        )
        self.size_max = size_max


class RecordError(RemotingCommandException):
    """A stored record cannot be read; `offset` is where it begins in the given buffer."""

    def __init__(self, offset: int, field: str, reason: str) -> None:
        super().__init__(f"record at offset {offset}, field {field}: {reason}")
        self.offset = offset
        self.field = field
        self.reason = reason


# --- other API shapes ----------------------------------------------------------------------


class ONSClientException(RocketMQError, RuntimeError):
    """Everything that `compat.ons` raises."""

    def __init__(
        self,
        error_message: str = "",
        *,
        response_code: int | None = None,
        topic: str | None = None,
        message_id: str | None = None,
    ) -> None:
        super().__init__(error_message, response_code=response_code, topic=topic)
        self.message_id = message_id


class ClientException(RocketMQError):
    """Root of what the 5.0 API shape raises; `request_id` is the server's id of the request."""

    def __init__(
        self,
        error_message: str = "",
        *,
        response_code: int | None = None,
        request_id: str | None = None,
        topic: str | None = None,
    ) -> None:
        super().__init__(error_message, response_code=response_code, topic=topic)
        self.request_id = request_id

    @property
    def code(self) -> int | None:
        """`response_code`, as the official Python client names it."""
        return self.response_code


class BadRequestError(ClientException):
    """Illegal topic, tag, key, group, delivery time, body or receipt handle."""


class UnauthorizedError(ClientException):
    """Credentials are missing or wrong."""


class ForbiddenError(ClientException):
    """The account has no right to do this."""


class PaymentRequiredError(ClientException):
    """The account's quota is used up."""


class NotFoundError(ClientException):
    """The topic or the group is unknown."""


class PayloadTooLargeError(ClientException):
    """The body is longer than the server's limit."""


class PayloadEmptyError(ClientException):
    """The body is empty."""


class RequestHeaderFieldsTooLargeError(ClientException):
    """The properties are longer than the server's limit."""


class TooManyRequestsError(ClientException):
    """Throttled: retry with back-off."""


class InternalError(ClientException):
    """The server failed."""


class ProxyTimeoutError(ClientException):
    """The server's store did not answer it in time."""


class UnsupportedError(ClientException):
    """The server does not know this request."""


class LiteTopicQuotaExceededError(ClientException):
    """No further lite topic may be created."""


class LiteSubscriptionQuotaExceededError(ClientException):
    """No further lite topic may be subscribed."""


def how_to_install(extra: str) -> str:
    """Say how to get what an optional extra brings, for errors about a package that is missing.

    >>> how_to_install("cli")
    'install the extra cli from a clone of this project: pip install "DIR/TO/CLONE[cli]"'
    """
    command = f'pip install "DIR/TO/CLONE[{extra}]"'
    return f"install the extra {extra} from a clone of this project: {command}"


def _clipped(value: object, size_max: int = 120) -> str:
    """``repr`` of a foreign value, bounded so that an error text stays a sentence."""
    text = repr(value)
    return text if len(text) <= size_max else f"{text[:size_max]}..."
