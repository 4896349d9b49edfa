"""What every ONS client has: properties, keys, start and shutdown, one kind of error.

Must not know sending and receiving; producers and consumers derive from `Client`. Names as in
``com.aliyun.openservices.ons.api.Admin``.
"""

from __future__ import annotations

import inspect
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import ClassVar, Final, Self

import rocketmq_py
from compat.ons.access import Access
from compat.ons.message import Message
from compat.ons.properties import Properties
from compat.ons.settings import ClientKind, named_by_property
from rocketmq_py.config import Credentials
from rocketmq_py.errors import DelayConflictError, ONSClientException, RocketMQError

NEEDED: Final = "NAMESRV_ADDR or ONSAddr, and GROUP_ID (which a producer may do without)"


class Client(ABC):
    """Base of producers and consumers; `start` and `shutdown` may be called twice.

    It lives as long as the client of the SDK that it translates to, and by the same rules. One is
    different, as in ONS: a start of what runs does nothing.

    A property that is not known, or asks what is not offered, raises ONSClientException when the
    client is made, and what is no mapping TypeError; a property that concerns another kind of
    client is left to that.
    """

    _KIND: ClassVar[ClientKind]

    def __init__(self, properties: Mapping[str, object]) -> None:
        with named_by_property(self._KIND):
            self.properties = Properties.of(properties, NEEDED)
            self._access = Access.of(self.properties)
            self._make()
        self._one_start = threading.RLock()  # `shutdown` takes no lock: a signal may call it

    @abstractmethod
    def _make(self) -> None:
        """Make the client of the SDK."""

    @property
    def credentials(self) -> Credentials | None:
        """The key pair that signs requests now; None when they are not signed."""
        keys = self._access.keys
        return None if keys is None else keys()

    @property
    @abstractmethod
    def core(
        self,
    ) -> (
        rocketmq_py.DefaultMQProducer
        | rocketmq_py.DefaultMQPushConsumer
        | rocketmq_py.DefaultLitePullConsumer
    ):
        """The client of the SDK."""

    def start(self) -> None:
        """Start; nothing happens when it is started.

        A start that failed because of the properties may be tried again.
        """
        with self._one_start, translated("start"):
            if not self.core.is_running:
                self.core.start()
                self._started()
                self.core.check_running()  # a handler of a signal may have shut it down meanwhile

    def shutdown(self) -> None:
        """Shut down; it cannot be started any more.

        May be called again, also by a handler of a signal: a second call waits for what the first
        one began.
        """
        self.core.shutdown()

    def is_started(self) -> bool:
        """Whether it is started and not shut down; in a forked child it is not."""
        return self.core.is_running

    def is_closed(self) -> bool:
        """Whether it cannot be used: not started yet, or shut down."""
        return not self.is_started()

    def update_credential(self, properties: Mapping[str, object]) -> None:
        """Sign with the AccessKey, SecretKey and SecurityToken of ``properties`` from now on.

        ONSClientException when one of the first two is missing, or the client was made without.
        """
        self._access.update(Properties.of(properties, "AccessKey and SecretKey"))

    def isStarted(self) -> bool:
        """Java's spelling of `is_started`."""
        return self.is_started()

    def isClosed(self) -> bool:
        """Java's spelling of `is_closed`."""
        return self.is_closed()

    def updateCredential(self, credentialProperties: Mapping[str, object]) -> None:
        """Java's spelling of `update_credential`."""
        self.update_credential(credentialProperties)

    def check_running(self) -> None:
        """Raise ONSClientException unless it is started and not shut down."""
        with translated("use the client"):
            self.core.check_running()

    def __enter__(self) -> Self:
        """Start."""
        self.start()
        return self

    def __exit__(self, *exception: object) -> None:
        """Shut down."""
        self.shutdown()

    def _started(self) -> None:  # noqa: B027 - a producer has nothing else to do
        """Do what else belongs to a start; `shutdown` may come at any time."""


@contextmanager
def translated(what: str, message: Message | None = None) -> Iterator[None]:
    """Turn every error of the SDK into ONSClientException, the SDK's error as its cause.

    But for a delay where none may be: that is a mistake of the program, and stays a ValueError.
    """
    try:
        yield
    except (ONSClientException, DelayConflictError):
        raise
    except (RocketMQError, ValueError, TypeError) as error:
        where = ""
        if message is not None:
            where = f" (topic={message.topic}, msgId={message.msg_id})"
        code = error.response_code if isinstance(error, RocketMQError) else None
        raise ONSClientException(
            f"cannot {what}{where}: {error}",
            response_code=code,
            topic=None if message is None else message.topic,
            message_id=None if message is None else message.msg_id,
        ) from error


def misfit(function: Callable[..., object], what: str, *names: str) -> str | None:
    """Say why a function cannot be called with so many arguments; None: it can."""
    if inspect.iscoroutinefunction(function):
        return f"the {what} is a coroutine function, and nobody awaits it: use rocketmq_py.aio"
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        return None  # a builtin says nothing about itself
    try:
        signature.bind(*names)
    except TypeError:
        return f"the {what} takes {signature}: it is called with ({', '.join(names)})"
    return None
