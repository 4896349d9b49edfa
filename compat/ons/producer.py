"""The ONS producer: send now, send with a callback, send and forget.

A thin translator over `rocketmq_py.DefaultMQProducer`. Must not know how a send works. Names as in
``com.aliyun.openservices.ons.api.Producer``. Messages in order and transactions have producers of
their own, in `order` and `transaction`.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from concurrent.futures import Executor, Future
from contextlib import contextmanager
from functools import lru_cache
from typing import ClassVar

import rocketmq_py
from compat.ons.client import Client, translated
from compat.ons.message import Message, check_message, to_core
from compat.ons.sending import OnExceptionContext, SendCallbackLike, SendResult, Teller
from compat.ons.settings import PRODUCER, ClientKind, producer_settings
from rocketmq_py import DefaultMQProducer
from rocketmq_py.errors import DelayConflictError, ONSClientException
from rocketmq_py.raw import MessageIds


class SendingClient(Client):
    """Base of the producers whose sends need nothing but a message.

    Every failure is an `ONSClientException` whose ``__cause__`` is the SDK's error.
    """

    def _make(self) -> None:
        settings = producer_settings(self._KIND, self.properties, self._access)
        self._producer = DefaultMQProducer(**settings)

    @property
    def core(self) -> DefaultMQProducer:
        """The client of the SDK."""
        return self._producer


class Producer(SendingClient):
    """Sends messages; made by `ONSFactory.create_producer`.

    Every failure is an `ONSClientException` whose ``__cause__`` is the SDK's error.
    """

    _KIND: ClassVar[ClientKind] = PRODUCER
    _callback_executor: Executor | None = None

    def send(self, message: Message) -> SendResult:
        """Send and wait for the broker."""
        self.check_running()
        with sending(message) as core:
            result = self._producer.send(core)
        return SendResult(message.topic, result.msg_id)

    def send_oneway(self, message: Message) -> None:
        """Send without an answer; raises for state, validation and route only."""
        self.check_running()
        with sending(message) as core:
            self._producer.send_oneway(core)

    def send_async(self, message: Message, callback: SendCallbackLike) -> None:
        """Send; the callback learns the outcome, exactly once.

        The message has its id when this returns, equal to the one in the callback. Raises for the
        client's state, and TypeError for what is no callback; everything else reaches the callback.
        """
        teller = Teller.of(callback, self._callback_executor)
        self.check_running()
        try:
            with sending(message) as core:
                future = self._producer.send_async(core)
        except ONSClientException as error:
            teller.tell_failure(OnExceptionContext(message.topic, message.msg_id, error))
            return
        topic, message_id = message.topic, message.msg_id

        def done(sent: Future[rocketmq_py.SendResult]) -> None:
            try:
                with translated("send", message):
                    result = sent.result()
            except ONSClientException as error:
                teller.tell_failure(OnExceptionContext(topic, message_id, error))
            else:
                teller.tell_success(SendResult(topic, result.msg_id))

        future.add_done_callback(done)

    def set_callback_executor(self, executor: Executor | None) -> None:
        """Run callbacks of later sends on ``executor``; None: on threads of the client."""
        self._callback_executor = executor

    def sendAsync(self, message: Message, sendCallback: SendCallbackLike) -> None:
        """Java's spelling of `send_async`."""
        self.send_async(message, sendCallback)

    def sendOneway(self, message: Message) -> None:
        """Java's spelling of `send_oneway`."""
        self.send_oneway(message)

    def setCallbackExecutor(self, callbackExecutor: Executor | None) -> None:
        """Java's spelling of `set_callback_executor`."""
        self.set_callback_executor(callbackExecutor)


@contextmanager
def sending(message: Message) -> Iterator[rocketmq_py.Message]:
    """Send the message of the SDK inside this block, under a new id; errors are ONS's.

    TypeError for what is no message of ONS.
    """
    check_message(message)
    message.msg_id = _ids(os.getpid()).next()
    with translated("send", message):
        core = to_core(message)
        core.unique_key = message.msg_id
        yield core


@lru_cache(maxsize=1)
def _ids(_process: int) -> MessageIds:
    """Give who hands out ids: each send has one before anything can be wrong with it.

    A forked child has its own: the lock of its parent's may be held by a thread that is not here.
    """
    return MessageIds()


def refuse_delay(core: rocketmq_py.Message, *, allow_delay: bool, what: str) -> None:
    """Raise DelayConflictError, a ValueError, for a delayed message that may not be one."""
    delay = None if allow_delay else core.effective_delay()
    if delay is not None:
        raise DelayConflictError(
            delay.kind.value,
            delay.value,
            f"{what} of ONS is not delayed: remove the delay, or pass allow_delay=True",
        )
