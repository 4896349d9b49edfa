"""The ONS producer: send now, send with a callback, send and forget.

A thin translator over `rocketmq_py.DefaultMQProducer`. Must not know how a send works. Names as in
``com.aliyun.openservices.ons.api.Producer``.
"""

import logging
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from typing import TypeVar

from attrs import frozen

import rocketmq_py
from compat.ons.client import Client, translated
from compat.ons.message import Message, to_core
from compat.ons.properties import (
    PRODUCER_GROUP_DEFAULT,
    SEND_TIMEOUT_DEFAULT_MS,
    PropertyKeyConst,
    domain_of,
    int_of,
    max_delay_of,
    name_servers_of,
    switch_of,
    text_of,
)
from rocketmq_py import DefaultMQProducer
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
    callables.
    """

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


class Producer(Client):
    """Sends messages; made by `ONSFactory.create_producer`.

    Every failure is an `ONSClientException` whose ``__cause__`` is the SDK's error.
    """

    def __init__(self, properties: Mapping[str, object]) -> None:
        super().__init__(properties)
        settings = self.properties
        group = (
            text_of(settings, PropertyKeyConst.GROUP_ID)
            or text_of(settings, PropertyKeyConst.ProducerId)
            or PRODUCER_GROUP_DEFAULT
        )
        with translated("create a producer"):
            self._producer = DefaultMQProducer(
                group,
                namesrv_addr=name_servers_of(settings),
                namesrv_domain=domain_of(settings),
                send_msg_timeout=int_of(
                    settings, PropertyKeyConst.SendMsgTimeoutMillis, SEND_TIMEOUT_DEFAULT_MS
                ),
                vip_channel_enabled=switch_of(settings, PropertyKeyConst.isVipChannelEnabled),
                credentials=self.credentials_source,
                delay_policy="as_java",
                max_delay=max_delay_of(settings),
                **self._instance_settings,
            )

    def send(self, message: Message) -> SendResult:
        """Send and wait for the broker."""
        self.check_running()
        with translated("send", message):
            core = to_core(message)
            try:
                result = self._producer.send(core)
            finally:
                _take_id(message, core)
        return SendResult(message.topic, result.msg_id)

    def send_oneway(self, message: Message) -> None:
        """Send without an answer; raises for state, validation and route only."""
        self.check_running()
        with translated("send", message):
            core = to_core(message)
            try:
                self._producer.send_oneway(core)
            finally:
                _take_id(message, core)

    def send_async(self, message: Message, callback: SendCallback) -> None:
        """Send; the callback learns the outcome, exactly once.

        The message has its id when this returns, equal to the one in the callback. Raises for the
        client's state only; everything else reaches the callback.
        """
        self.check_running()
        try:
            with translated("send", message):
                core = to_core(message)
                try:
                    future = self._producer.send_async(core)
                finally:
                    _take_id(message, core)
        except ONSClientException as error:
            _tell(callback.onException, OnExceptionContext(message.topic, message.msg_id, error))
            return
        topic, message_id = message.topic, message.msg_id

        def done(sent: Future[rocketmq_py.SendResult]) -> None:
            try:
                with translated("send", message):
                    result = sent.result()
            except ONSClientException as error:
                _tell(callback.onException, OnExceptionContext(topic, message_id, error))
            else:
                _tell(callback.onSuccess, SendResult(topic, result.msg_id))

        future.add_done_callback(done)

    def sendAsync(self, message: Message, sendCallback: SendCallback) -> None:
        """Java's spelling of `send_async`."""
        self.send_async(message, sendCallback)

    def sendOneway(self, message: Message) -> None:
        """Java's spelling of `send_oneway`."""
        self.send_oneway(message)

    @property
    def core(self) -> DefaultMQProducer:
        """The client of the SDK."""
        return self._producer


def _take_id(message: Message, core: rocketmq_py.Message) -> None:
    """Copy the id that the SDK gave the message in the caller's thread."""
    message.msg_id = core.get_user_property("UNIQ_KEY") or message.msg_id


def _tell(callback: Callable[[_T], object], outcome: _T) -> None:
    try:
        callback(outcome)
    except Exception:
        # A callback of a foreign program runs on our thread and must not end it.
        logger.exception("send callback failed")
