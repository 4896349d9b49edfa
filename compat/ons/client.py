"""What every ONS client has: properties, credentials, start and shutdown, one kind of error.

Must not know sending and receiving; `producer` and `consumer` derive from `Client`. Names as in
``com.aliyun.openservices.ons.api.Admin``.
"""

import os
import threading
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Self, TypedDict

from compat.ons.message import Message
from compat.ons.properties import Properties, PropertyKeyConst, check_known, credentials_of, text_of
from rocketmq_py.config import Credentials, CredentialsSource
from rocketmq_py.errors import ONSClientException, RocketMQError


class InstanceSettings(TypedDict, total=False):
    """Client settings that are passed on only when the program sets them."""

    instance_name: str


class Client(ABC):
    """Base of producers and consumers; `start` and `shutdown` may be called twice."""

    def __init__(self, properties: Mapping[str, object]) -> None:
        self.properties = Properties.of(properties)
        check_known(self.properties)
        self._credentials = credentials_of(self.properties)
        self._one_start = threading.RLock()  # `shutdown` takes no lock: a signal may call it
        self._begun = False
        self._started = False
        self._pid = 0
        self._closed = False

    @property
    def credentials_source(self) -> CredentialsSource | None:
        """Credentials for the SDK: asked for at each request, so that they can be renewed."""
        return None if self._credentials is None else self._current_credentials

    @property
    def credentials(self) -> Credentials | None:
        """The key pair that signs requests now."""
        return self._credentials

    @property
    def instance_settings(self) -> InstanceSettings:
        """The instance name, if the program has set one."""
        name = text_of(self.properties, PropertyKeyConst.InstanceName)
        return InstanceSettings(instance_name=name) if name else InstanceSettings()

    def start(self) -> None:
        """Start; nothing happens when it is started. A failed start may be tried again."""
        with self._one_start:
            self._check_open()
            if self._started:
                return
            self._begun = True
            try:
                with translated("start"):
                    self._start()
                self._started, self._pid = True, os.getpid()
            finally:
                self._begun = self._started
            self._check_open()  # a handler of a signal may have shut it down meanwhile

    def shutdown(self) -> None:
        """Shut down; nothing happens when it is not started.

        May be called again, also by a handler of a signal: a second call waits for what the first
        one began.
        """
        if self._begun:
            self._closed = True
            self._shutdown()

    def is_started(self) -> bool:
        """Whether it is started and not shut down; in a forked child it is not."""
        return self._started and not self._closed and self._pid == os.getpid()

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
        self._check_open()
        if not self._started:
            raise ONSClientException("the client is not started: call start() first")

    def __enter__(self) -> Self:
        """Start."""
        self.start()
        return self

    def __exit__(self, *exception: object) -> None:
        """Shut down."""
        self.shutdown()

    def _check_open(self) -> None:
        if self._closed:
            raise ONSClientException("the client is shut down: create and start a new one")

    def _current_credentials(self) -> Credentials:
        if self._credentials is None:
            raise ONSClientException("the client has no credentials")
        return self._credentials

    @abstractmethod
    def _start(self) -> None: ...

    @abstractmethod
    def _shutdown(self) -> None: ...


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
