"""What type checkers must infer for a user of the public names; never executed, only checked."""

from __future__ import annotations

from concurrent.futures import Future
from datetime import UTC, datetime, timedelta
from typing import assert_type

from compat import ons
from rocketmq_py import (
    ConsumeConcurrentlyContext,
    ConsumeConcurrentlyStatus,
    DefaultMQProducer,
    DefaultMQPushConsumer,
    LocalTransactionState,
    Message,
    MessageExt,
    MessageListenerConcurrently,
    MessageQueue,
    SendCallback,
    SendResult,
    SendStatus,
    TransactionListener,
    TransactionMQProducer,
    TransactionSendResult,
    aio,
)


class Reminder(Message):
    """A subclass keeps its own type through the fluent setters."""


def messages() -> None:
    """Setters return the object they were called on, in both spellings."""
    assert_type(Message("T", b"", delay=timedelta(seconds=1)), Message)
    assert_type(Message("T", b"", deliver_at=datetime(2030, 1, 1, tzinfo=UTC)), Message)
    assert_type(Reminder("T", b"").set_delay_time_sec(1), Reminder)
    assert_type(Reminder("T", b"").setDelayTimeMs(1), Reminder)
    assert_type(Message("T", b"").get_deliver_time_ms(), int)
    assert_type(Message("T", b"").body, bytes)


def producing(producer: DefaultMQProducer, message: Message) -> None:
    """Blocking, asynchronous and selected sends."""
    result = producer.send(message)
    assert_type(result, SendResult)
    assert_type(result.send_status, SendStatus)
    assert_type(result.recall_handle, str | None)
    assert_type(result.message_queue, MessageQueue)
    assert_type(producer.send_async(message), Future[SendResult])
    assert_type(producer.send_batch([message]), SendResult)
    assert_type(producer.send_batch(one for one in (message,)), SendResult)
    assert_type(producer.recall_message("T", result.recall_handle), str)
    assert_type(producer.send_async(message, SendCallback(print, print)), Future[SendResult])


async def awaiting(producer: aio.Producer, message: Message, queue: MessageQueue | None) -> None:
    """The calls of the asyncio face."""
    result = await producer.send(message)
    assert_type(result, SendResult)
    assert_type(await producer.send(message, queue=queue, timeout=500), SendResult)
    assert_type(
        await producer.send(message, selector=lambda queues, _message, _arg: queues[0], arg=7),
        SendResult,
    )
    assert_type(await producer.send_batch(one for one in (message,)), SendResult)
    assert_type(await producer.request(message, timeout=timedelta(seconds=1)), MessageExt)
    assert_type(await producer.recall("T", result.recall_handle), str)
    await producer.send_oneway(message)
    async with aio.Producer("G", namesrv_addr="127.0.0.1:9876") as started:
        assert_type(started, aio.Producer)
        async with started.transaction(message) as half:
            assert_type(half.message_id, str)
    await producer.send(message, queue=queue, selector=None)  # type: ignore[call-overload] # pyright: ignore[reportCallIssue, reportArgumentType]


def cancelled(error: BaseException) -> None:
    """What a cancellation knows of its send."""
    send = aio.cancelled_send(error)
    assert_type(send, aio.SendCancelledError | None)
    if send is not None:
        assert_type(send.possibly_stored, bool)
        assert_type(send.msg_id, str | None)


def listener(
    messages: list[MessageExt], context: ConsumeConcurrentlyContext
) -> ConsumeConcurrentlyStatus:
    """The shape of a listener."""
    assert_type(messages[0].msg_id, str)
    assert_type(messages[0].reconsume_times, int)
    assert_type(context.message_queue, MessageQueue)
    return ConsumeConcurrentlyStatus.CONSUME_SUCCESS


def silent_listener(messages: list[MessageExt], context: ConsumeConcurrentlyContext) -> None:
    """No listener: every message would come again."""


def ons_listener(message: ons.Message, context: ons.ConsumeContext) -> bool:
    """No listener of ONS: True is no Action."""
    return bool(message)


def refused(consumer: DefaultMQPushConsumer, other: ons.Consumer) -> None:
    """What a checker must find, since the messages would end as dead letters."""
    consumer.register_message_listener(silent_listener)  # type: ignore[arg-type]
    MessageListenerConcurrently(silent_listener)  # type: ignore[arg-type]
    other.subscribe("T", "*", ons_listener)  # type: ignore[arg-type]


def consuming() -> None:
    """A plain function is a listener."""
    with DefaultMQPushConsumer("group", namesrv_addr="127.0.0.1:9876") as consumer:
        assert_type(consumer, DefaultMQPushConsumer)
        consumer.subscribe("T", "TagA || TagB")
        consumer.register_message_listener(listener)


class Bank:
    """A transaction listener is any object with the two methods."""

    def execute_local_transaction(self, message: Message, arg: object) -> LocalTransactionState:
        """Do the work."""
        assert_type(message.transaction_id, str | None)
        return LocalTransactionState.COMMIT_MESSAGE if arg else LocalTransactionState.UNKNOW

    def check_local_transaction(self, message: MessageExt) -> LocalTransactionState:
        """Say how it ended."""
        assert_type(message.msg_id, str)
        return LocalTransactionState.ROLLBACK_MESSAGE


def transactions() -> None:
    """The result says what became of the local work."""
    bank: TransactionListener = Bank()
    with TransactionMQProducer("bank", transaction_listener=bank, send_msg_timeout=5) as producer:
        assert_type(producer, TransactionMQProducer)
        result = producer.send_message_in_transaction(Message("T", b"x"), 42)
        assert_type(result, TransactionSendResult)
        assert_type(result.local_transaction_state, LocalTransactionState)
        assert_type(result.msg_id, str)
