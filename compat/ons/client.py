"""What every ONS client has: properties, credentials, start and shutdown, one kind of error.

Must not know sending and receiving; `producer` and `consumer` derive from `Client`. Names as in
``com.aliyun.openservices.ons.api.Admin``.
"""

import threading
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Self, TypedDict

import rocketmq_py
from compat.ons.message import Message
from compat.ons.properties import (
    Properties,
    PropertyKeyConst,
    check_known,
    credentials_of,
    namespace_of,
    text_of,
)
from rocketmq_py.config import Credentials, CredentialsSource
from rocketmq_py.errors import ONSClientException, RocketMQError


class _InstanceSettings(TypedDict, total=False):
    """Client settings that are passed on only when the program sets them."""

    instance_name: str
    namespace: str


class Client(ABC):
    """Base of producers and consumers; `start` and `shutdown` may be called twice.

    It lives as long as the client of the SDK that it translates to, and by the same rules. One is
    different, as in ONS: a start of what runs does nothing.
    """

    def __init__(self, properties: Mapping[str, object]) -> None:
        self.properties = Properties.of(properties)
        check_known(self.properties)
        self._credentials = credentials_of(self.properties)
        self._one_start = threading.RLock()  # `shutdown` takes no lock: a signal may call it

    @property
    def credentials_source(self) -> CredentialsSource | None:
        """Credentials for the SDK: asked for at each request, so that they can be renewed."""
        return None if self._credentials is None else self._current_credentials

    @property
    def credentials(self) -> Credentials | None:
        """The key pair that signs requests now."""
        return self._credentials

    @property
    def _instance_settings(self) -> _InstanceSettings:
        """The instance name, if the program has set one, and the namespace."""
        settings = _InstanceSettings(namespace=namespace_of(self.properties))
        name = text_of(self.properties, PropertyKeyConst.InstanceName)
        if name:
            settings["instance_name"] = name
        return settings

    @property
    @abstractmethod
    def core(self) -> rocketmq_py.DefaultMQProducer | rocketmq_py.DefaultMQPushConsumer:
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
        """Sign with another key pair from now on; ONSClientException when a key is missing."""
        renewed = credentials_of(Properties.of(properties))
        if renewed is None or not renewed.secret_key:
            raise ONSClientException("update_credential needs AccessKey and SecretKey")
        if self._credentials is None:
            raise ONSClientException("the client was made without keys: create one with keys")
        self._credentials = renewed

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

    def _current_credentials(self) -> Credentials:
        if self._credentials is None:
            raise ONSClientException("the client has no credentials")
        return self._credentials

    def _started(self) -> None:  # noqa: B027 - a producer has nothing else to do
        """Do what else belongs to a start; `shutdown` may come at any time."""


@contextmanager
def translated(what: str, message: Message | None = None) -> Iterator[None]:
    """Turn every error of the SDK into ONSClientException, the SDK's error as its cause."""
    try:
        yield
    except ONSClientException:
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
