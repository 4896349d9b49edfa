"""What type checkers must infer for a user of the public names; never executed, only checked."""

from __future__ import annotations

from concurrent.futures import Future
from datetime import UTC, datetime, timedelta
from typing import assert_type

from compat import java, ons, v5
from rocketmq_py import (
    AllocateMessageQueueConsistentHash,
    CheckForbiddenContext,
    ClientConfig,
    CompressionType,
    ConsumeConcurrentlyContext,
    ConsumeConcurrentlyStatus,
    ConsumeMessageContext,
    ConsumeOrderlyContext,
    ConsumeOrderlyStatus,
    Credentials,
    DefaultLitePullConsumer,
    DefaultMQProducer,
    DefaultMQPushConsumer,
    DefaultPopConsumer,
    DelayPolicy,
    Delivery,
    DeliveryListener,
    EndTransactionContext,
    FilterMessageContext,
    Listener,
    LitePullConsumerConfig,
    LocalTransactionState,
    Message,
    MessageExt,
    MessageListenerConcurrently,
    MessageListenerOrderly,
    MessageQueue,
    MessageQueueSelector,
    MessageSelector,
    ProducerConfig,
    PushConsumerConfig,
    RemotingCommand,
    ResponseCode,
    RPCHook,
    SendCallback,
    SendMessageContext,
    SendResult,
    SendStatus,
    TlsConfig,
    TransactionListener,
    TransactionMQProducer,
    TransactionSendResult,
    aio,
    select_message_queue_by_hash,
    split_batch,
)
from rocketmq_py.admin import (
    AdminClient,
    OffsetChange,
    TopicChange,
    TopicDeletion,
    TopicPlace,
    TrackState,
)
from rocketmq_py.trace import (
    EndTransaction,
    MessageKind,
    Pub,
    Recall,
    SubAfter,
    SubBefore,
    TraceRecord,
    read_records,
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
    assert_type(aio.Producer.of(ClientConfig(), "G", connect_timeout=5), aio.Producer)
    assert_type(producer.send_msg_timeout, int)
    async with aio.Producer("G", namesrv_addr="127.0.0.1:9876") as started:
        assert_type(started, aio.Producer)
        assert_type(started.transaction(message), aio.Transaction)
        async with started.transaction(message) as half:
            assert_type(half, aio.BegunHalf)
            assert_type(half.message_id, str)
    await producer.send(message, queue=queue, selector=None)  # type: ignore[call-overload] # pyright: ignore[reportCallIssue, reportArgumentType]


def administering(admin: AdminClient, message: MessageExt) -> None:
    """Answers are values, and so is what a dry run says."""
    assert_type(admin.group_progress("G").lag, int)
    assert_type(admin.delete_topic("T", dry_run=True), TopicDeletion)
    assert_type(admin.track(message)[0].state, TrackState)
    assert_type(admin.trace("ID"), tuple[TraceRecord, ...])
    assert_type(admin.reset_offsets("G", "T", "first"), OffsetChange)
    assert_type(admin.topic_settings("T")["broker-a"].message_type, str | None)
    assert_type(admin.create_topic("T", queues=2, dry_run=True), dict[str, TopicChange])
    assert_type(admin.ask_again(message), None)
    made = admin.ensure_topic
    assert_type(made("T", within=timedelta(seconds=5)), tuple[TopicPlace, ...])


async def awaiting_administration(admin: aio.AdminClient) -> None:
    """The same calls, awaited."""
    assert_type(await admin.topic_names(), tuple[str, ...])
    assert_type(await admin.trace("ID", topic="T"), tuple[TraceRecord, ...])
    assert_type(await admin.ensure_topic("T", queues=2), tuple[TopicPlace, ...])
    async with aio.AdminClient(namesrv_addr="127.0.0.1:9876", timeout_millis=5) as started:
        assert_type(started, aio.AdminClient)


async def receiving(consumer: aio.Consumer) -> None:
    """Iterations and listeners of the asyncio face."""

    async def handle(delivery: aio.Delivery) -> None:
        await delivery.nack(timedelta(seconds=1))

    consumer.subscribe("T", "a || b")
    by_name: dict[str, aio.Listener] = {"handle": handle}
    consumer.register_message_listener(by_name["handle"])
    consumer.register_message_listener(aio.Orderly(handle))
    assert_type(aio.Consumer.of(ClientConfig(), "G", consume_timeout=5), aio.Consumer)
    async with aio.Consumer("G", namesrv_addr="127.0.0.1:9876") as started:
        assert_type(started, aio.Consumer)
        async for delivery in started:
            assert_type(delivery, aio.Delivery)
            assert_type(delivery.message, MessageExt)
            await delivery.ack()


def polling(consumer: DefaultLitePullConsumer, queue: MessageQueue) -> None:
    """A consumer that is asked for messages."""
    consumer.subscribe("T", MessageSelector.by_sql("amount > 5"))
    assert_type(consumer.poll(), list[MessageExt])
    assert_type(consumer.poll(500), list[MessageExt])
    assert_type(consumer.assignment(), list[MessageQueue])
    assert_type(consumer.committed(queue), int | None)
    assert_type(consumer.offset_for_timestamp(queue, datetime(2030, 1, 1, tzinfo=UTC)), int)
    consumer.seek(queue, 7)
    consumer.pause([queue])
    consumer.commit()
    consumer.commit({queue: 8})
    for batch in consumer.batches(timedelta(seconds=1)):
        assert_type(batch, list[MessageExt])
    by_hand = DefaultLitePullConsumer("G", auto_commit=False, poll_timeout_millis=timedelta(1))
    assert_type(by_hand.poll_timeout_millis, int)
    by_hand.assign(consumer.fetch_message_queues("T"))
    by_hand.register_topic_message_queue_change_listener("T", print)
    assert_type(DefaultLitePullConsumer.of(consumer, "G"), DefaultLitePullConsumer)
    assert_type(LitePullConsumerConfig.of(consumer), LitePullConsumerConfig)
    with DefaultLitePullConsumer("G", namesrv_addr="127.0.0.1:9876") as started:
        assert_type(started, DefaultLitePullConsumer)


async def polling_in_a_loop(consumer: aio.LitePullConsumer, queue: MessageQueue) -> None:
    """The same calls; those that may take a while are awaited."""
    consumer.subscribe("T")
    assert_type(await consumer.poll(timedelta(seconds=1)), list[MessageExt])
    assert_type(consumer.assignment(), list[MessageQueue])
    assert_type(await consumer.committed(queue), int | None)
    assert_type(await consumer.fetch_message_queues("T"), list[MessageQueue])
    await consumer.seek_to_begin(queue)
    consumer.commit({queue: 8})
    async for batch in consumer.batches():
        assert_type(batch, list[MessageExt])
    assert_type(aio.LitePullConsumer.of(consumer, "G", auto_commit=False), aio.LitePullConsumer)
    async with aio.LitePullConsumer("G", namesrv_addr="127.0.0.1:9876") as started:
        assert_type(started, aio.LitePullConsumer)


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


def ons_in_order(message: ons.Message, context: ons.ConsumeOrderContext) -> ons.OrderAction:
    """The shape of a listener of ONS for messages in order."""
    return ons.OrderAction.Success if context and message.body else ons.OrderAction.Suspend


def ons_in_batches(messages: list[ons.Message], context: ons.ConsumeContext) -> ons.Action:
    """The shape of a listener of ONS for batches."""
    return ons.Action.CommitMessage if context and messages else ons.Action.ReconsumeLater


class OnsCallback(ons.SendCallback):
    """A callback of ONS, under Java's names."""

    def onSuccess(self, sendResult: ons.SendResult) -> None:
        """Take the result."""
        assert_type(sendResult.getMessageId(), str)

    def onException(self, context: ons.OnExceptionContext) -> None:
        """Take the reason."""
        assert_type(context.getException(), ons.ONSClientException)
        assert_type(context.message_id, str | None)


class OnsChecker:
    """Says what became of transactions, without a base class."""

    def check(self, message: ons.Message) -> ons.TransactionStatus:
        """Say it."""
        return ons.TransactionStatus.Unknow if message.msg_id else ons.TransactionStatus.UNKNOW


def ons_messages() -> None:
    """Both spellings, and setters that give the message."""
    message = ons.Message("T", "TagA", b"x").setKey("k").setStartDeliverTime(5)
    assert_type(message, ons.Message)
    assert_type(ons.Message("T", None, "key", b"x").getKey(), str | None)
    assert_type(message.start_deliver_time, int)
    assert_type(message.getUserProperties(), ons.Properties)
    assert_type(message.getUserProperties("colour"), str | None)
    assert_type(message.topic_partition, ons.TopicPartition | None)
    message.tag, message.body, message.start_deliver_time = "TagB", b"y", 6
    properties = ons.Properties({"a": 1})
    properties.put(ons.PropertyKeyConst.SendMsgTimeoutMillis, 3000)
    properties.setProperty(ons.PropertyKeyConst.MsgTraceSwitch, value=True)
    assert_type(properties.getProperty("a"), str | None)


def ons_producers(message: ons.Message) -> None:
    """Producers of all kinds."""
    properties = {"NAMESRV_ADDR": "127.0.0.1:9876", "SendMsgTimeoutMillis": 3000}
    with ons.ONSFactory.createProducer(properties) as producer:
        assert_type(producer, ons.Producer)
        assert_type(producer.send(message).getTopic(), str)
        producer.sendAsync(message, OnsCallback())
        producer.send_async(message, ons.SendCallback(lambda result: print(result.message_id)))
    with ons.ONSFactory.create_order_producer(properties) as ordered:
        assert_type(ordered.send(message, "key"), ons.SendResult)
    with ons.ONSFactory.createTransactionProducer(properties, OnsChecker()) as bank:
        assert_type(bank, ons.TransactionProducer)
        done = ons.TransactionStatus.CommitTransaction
        assert_type(bank.send(message, lambda _message, _arg: done, 42), ons.SendResult)
        bank.send(message, ons.LocalTransactionExecuter(), allow_delay=True)


def ons_consumers(properties: ons.Properties) -> None:
    """Consumers of all kinds, with functions and objects as listeners."""
    ordered = ons.ONSFactory.createOrderedConsumer(properties)
    ordered.subscribe("T", "*", ons_in_order)
    ordered.subscribe("T", None, ons.MessageOrderListener(ons_in_order))
    batches = ons.ONSFactory.create_batch_consumer(properties)
    batches.subscribe("T", ons.MessageSelector.bySql("a > 5"), ons_in_batches)
    batches.subscribe("T", "*", ons.BatchMessageListener(ons_in_batches))
    with ons.ONSFactory.createPullConsumer(properties) as pulling:
        partitions = pulling.topicPartitions("T")
        assert_type(partitions, set[ons.TopicPartition])
        pulling.assign(partitions)
        assert_type(pulling.poll(3000), list[ons.Message])
        assert_type(pulling.committed(partitions.pop()), int | None)
        pulling.registerTopicPartitionChangedListener("T", lambda changed: print(len(changed)))


def consuming() -> None:
    """A plain function is a listener."""
    with DefaultMQPushConsumer("group", namesrv_addr="127.0.0.1:9876") as consumer:
        assert_type(consumer, DefaultMQPushConsumer)
        consumer.subscribe("T", "TagA || TagB")
        consumer.register_message_listener(listener)


def in_order(messages: list[MessageExt], context: ConsumeOrderlyContext) -> ConsumeOrderlyStatus:
    """A listener that gets the messages of a queue one after the other."""
    context.auto_commit = False
    return ConsumeOrderlyStatus.COMMIT if messages else ConsumeOrderlyStatus.SUCCESS


class Ordered(MessageListenerOrderly):
    """The same as a class."""

    def consume_message(
        self, messages: list[MessageExt], context: ConsumeOrderlyContext
    ) -> ConsumeOrderlyStatus:
        """Handle messages."""
        return in_order(messages, context)


def decorated_listeners(consumer: DefaultMQPushConsumer, awaited: aio.Consumer) -> None:
    """A decorated function stays what it is."""

    @consumer.listener
    def book(
        messages: list[MessageExt], context: ConsumeConcurrentlyContext
    ) -> ConsumeConcurrentlyStatus:
        """Handle messages."""
        return listener(messages, context)

    context = ConsumeConcurrentlyContext(MessageQueue("T", "b", 0))
    assert_type(book([], context), ConsumeConcurrentlyStatus)

    @consumer.listener
    def settle(delivery: Delivery) -> int:
        """Settle messages."""
        delivery.ack()
        return 1

    @consumer.listener(orderly=True)
    def settle_in_order(delivery: Delivery) -> int:
        """Settle messages in order."""
        return settle(delivery)

    assert_type(consumer.listener(orderly=True)(in_order)([], an_order()), ConsumeOrderlyStatus)

    @awaited.listener
    async def handle(delivery: aio.Delivery) -> None:
        """Handle a delivery."""
        await delivery.ack()

    @awaited.listener(orderly=True)
    async def handle_in_order(delivery: aio.Delivery) -> None:
        """Handle a delivery in order."""
        await handle(delivery)


def an_order() -> ConsumeOrderlyContext:
    """What an orderly listener is told."""
    return ConsumeOrderlyContext(MessageQueue("T", "b", 0))


def ordered_listeners(consumer: DefaultMQPushConsumer) -> None:
    """A function in the wrapper, or a subclass of it."""
    consumer.register_message_listener(MessageListenerOrderly(in_order))
    consumer.register_message_listener(Ordered())
    consumer.register_message_listener(
        MessageListenerOrderly(lambda _messages, _context: ConsumeOrderlyStatus.ROLLBACK)
    )


def settling(delivery: Delivery) -> None:
    """A listener that settles its messages itself; the name of its parameter says so."""
    assert_type(delivery.message, MessageExt)
    assert_type(delivery.nack(timedelta(seconds=1)), Future[None])


def settling_too(taken: Delivery) -> None:
    """The same under another name, for the wrapper."""
    assert_type(taken.ack(), Future[None])


def settling_listeners(consumer: DefaultMQPushConsumer, later: list[Delivery]) -> None:
    """A function, a lambda or the wrapper, side by side and in order."""
    consumer.register_message_listener(settling)
    consumer.register_message_listener(lambda delivery: delivery.ack())
    consumer.register_message_listener(DeliveryListener(settling_too))
    consumer.register_message_listener(DeliveryListener(later.append))
    consumer.register_message_listener(DeliveryListener(lambda taken: taken.ack()))
    consumer.register_message_listener(MessageListenerConcurrently(settling))
    consumer.register_message_listener(MessageListenerOrderly(settling))
    consumer.register_message_listener(MessageListenerOrderly(lambda delivery: delivery.nack()))
    consumer.register_message_listener(MessageListenerOrderly(DeliveryListener(settling_too)))
    kept: list[Listener] = [settling, DeliveryListener(settling_too), listener]
    consumer.register_message_listener(kept[0])


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


def settings(producer: DefaultMQProducer, consumer: DefaultMQPushConsumer) -> None:
    """A client is its settings; a duration is a number of its unit, or a timedelta."""
    made = DefaultMQProducer("g", send_msg_timeout=timedelta(seconds=3), connect_timeout=500)
    assert_type(made.send_msg_timeout, int)
    assert_type(made.namesrv_addr, str)
    assert_type(made.name_servers, tuple[str, ...])
    assert_type(DefaultMQProducer("g", namesrv_domain="mq.example").namesrv_domain, str)
    assert_type(made.retry_response_codes, frozenset[int])
    assert_type(made.compress_type, CompressionType)
    assert_type(consumer.consume_timestamp, str | datetime)
    assert_type(consumer.reconsume_times_max, int)
    producer.send_msg_timeout = 500
    producer.max_delay = timedelta(days=40)
    assert_type(producer.delay_policy, DelayPolicy)
    producer.delay_policy = "as_java"
    producer.add_retry_response_code(ResponseCode.SYSTEM_ERROR)
    DefaultMQProducer(retry_response_codes=[1, 2], topics=["T"], address_mapper=str.lower)
    DefaultMQProducer("g", credentials=lambda: Credentials("id", "secret"))
    DefaultMQProducer("g", use_tls=True, tls_config=TlsConfig(ca_file="ca.pem"))
    DefaultMQPushConsumer(consume_timeout=timedelta(minutes=30), pull_interval=timedelta(seconds=1))
    DefaultMQPushConsumer("g", allocate_strategy=AllocateMessageQueueConsistentHash())
    given: ClientConfig = producer
    assert_type(ClientConfig.of(given, unit_name="u"), ClientConfig)
    assert_type(ProducerConfig.of(producer, max_message_size=1), ProducerConfig)
    assert_type(DefaultMQProducer.of(given, "g", connect_timeout=5), DefaultMQProducer)
    assert_type(DefaultMQPushConsumer.of(consumer, "g"), DefaultMQPushConsumer)
    assert_type(DefaultMQPushConsumer.of(PushConsumerConfig()), DefaultMQPushConsumer)
    assert_type(TransactionMQProducer.of(given, transaction_delay="drop"), TransactionMQProducer)
    producer.shutdown(timedelta(seconds=3))
    consumer.shutdown(2.5)


def choosing_queues(producer: DefaultMQProducer, message: Message, queue: MessageQueue) -> None:
    """A queue, or a selector with its argument."""
    by_hash: MessageQueueSelector = select_message_queue_by_hash
    assert_type(producer.send(message, queue=queue, timeout=timedelta(seconds=1)), SendResult)
    assert_type(producer.send(message, selector=by_hash, arg="order-1"), SendResult)
    assert_type(
        producer.send(message, selector=lambda queues, _message, _arg: queues[0]), SendResult
    )
    assert_type(producer.send_async(message, queue=queue), Future[SendResult])
    assert_type(producer.send_async(message, None, selector=by_hash, arg=1), Future[SendResult])
    producer.send_oneway(message, queue=queue)
    producer.send_oneway(message, selector=by_hash, arg=1)
    assert_type(producer.request(message, selector=by_hash, arg=1, timeout=9), MessageExt)
    assert_type(producer.request_async(message, queue=queue), Future[MessageExt])
    for part in split_batch([message], 1_000):
        assert_type(producer.send_batch(part, timeout=timedelta(seconds=1)), SendResult)


class Watch:
    """Hooks are objects with the methods of their protocols."""

    def before_request(self, address: str, request: RemotingCommand) -> None:
        """See a request."""

    def after_response(
        self, address: str, request: RemotingCommand, response: RemotingCommand
    ) -> None:
        """See an answer."""

    def before(self, context: SendMessageContext) -> None:
        """See an attempt."""
        assert_type(context.message, Message)

    def after(self, context: SendMessageContext) -> None:
        """See its outcome."""
        assert_type(context.result, SendResult | None)

    def check(self, context: CheckForbiddenContext) -> None:
        """Forbid nothing."""

    def end(self, context: EndTransactionContext) -> None:
        """See an outcome."""
        assert_type(context.state, LocalTransactionState)
        assert_type(context.transaction_id, str | None)


class ConsumerWatch:
    """Hooks of a consumer."""

    def before(self, context: ConsumeMessageContext) -> None:
        """See messages before the listener."""

    def after(self, context: ConsumeMessageContext) -> None:
        """See what came of them."""
        assert_type(context.queue, MessageQueue)

    def filter_message(self, context: FilterMessageContext) -> None:
        """Keep all."""


def hooks_of_a_consumer(consumer: DefaultMQPushConsumer) -> None:
    """One object may be both."""
    consumer.register_consume_message_hook(ConsumerWatch())
    consumer.register_filter_message_hook(ConsumerWatch())


def hooks(producer: TransactionMQProducer) -> None:
    """Each is registered for what it has the methods of."""
    hook: RPCHook = Watch()
    DefaultMQPushConsumer("g", rpc_hooks=[hook])
    producer.register_send_message_hook(Watch())
    producer.register_check_forbidden_hook(Watch())
    producer.register_end_transaction_hook(Watch())


def tracing(body: bytes) -> None:
    """Settings of producers and consumers, and records that are told apart by their class."""
    DefaultMQProducer("g", enable_trace=True, trace_topic="T", access_channel="CLOUD")
    DefaultMQPushConsumer("g", enable_trace=True, trace_topic="T", access_channel="LOCAL")
    aio.Consumer("g", enable_trace=True)
    for record in read_records(body):
        assert_type(record, Pub | SubBefore | SubAfter | EndTransaction | Recall)
        assert_type(record.msg_id, str)
        if isinstance(record, Pub):
            assert_type(record.kind, MessageKind)
            assert_type(record.keys, tuple[str, ...])


def transactions() -> None:
    """The result says what became of the local work."""
    bank: TransactionListener = Bank()
    with TransactionMQProducer("bank", transaction_listener=bank, send_msg_timeout=5) as producer:
        assert_type(producer, TransactionMQProducer)
        result = producer.send_message_in_transaction(Message("T", b"x"), 42)
        assert_type(result, TransactionSendResult)
        assert_type(result.local_transaction_state, LocalTransactionState)
        assert_type(result.msg_id, str)


class JavaOutcome(java.SendCallback):
    """A callback with Java's names."""

    def onSuccess(self, sendResult: java.SendResult) -> None:
        """Take the result."""
        assert_type(sendResult.getMessageQueue(), java.MessageQueue)

    def onException(self, e: Exception) -> None:
        """Take the error."""


def java_messages(arrived: java.MessageExt) -> None:
    """Java's orders of arguments; setters give the message."""
    message = java.Message("T", "TagA", "key", b"x")
    assert_type(message.setDelayTimeLevel(3), java.Message)
    assert_type(java.Message("T", "TagA", b"x").setTopic("U"), java.Message)
    assert_type(java.Message("T", b"x", delay=timedelta(seconds=1)).getKeys(), str | None)
    assert_type(arrived.getMsgId(), str)
    assert_type(arrived.getReconsumeTimes(), int)
    plain: Message = message
    assert_type(plain.topic, str)


def java_sends(producer: java.DefaultMQProducer, queue: java.MessageQueue) -> None:
    """An overload with a callback gives nothing, any other the result."""
    message = java.Message("T", b"x")
    assert_type(producer.send(message), java.SendResult)
    assert_type(producer.send(message, 3000), java.SendResult)
    assert_type(producer.send(message, queue, 3000), java.SendResult)
    assert_type(producer.send(message, lambda mqs, _msg, _arg: mqs[0], 7), java.SendResult)
    assert_type(producer.send(message, java.SelectMessageQueueByHash(), "a", 3000), java.SendResult)
    assert_type(producer.send([message, message]), java.SendResult)
    producer.send(message, JavaOutcome())
    producer.send(message, queue, JavaOutcome(), 3000)
    producer.send(message, java.SelectMessageQueueByHash(), "a", JavaOutcome())
    assert_type(producer.send(message, timeout=3000), java.SendResult)
    assert_type(producer.send_async(message), Future[SendResult])
    assert_type(producer.request(message, 3000), java.MessageExt)
    assert_type(producer.getSendMsgTimeout(), int)
    classic_sends(producer)


def classic_sends(producer: DefaultMQProducer) -> None:
    """A producer with Java's names is one of the SDK."""
    assert_type(producer.send(Message("T", b"x")), SendResult)


def java_consumers(
    consumer: java.DefaultMQPushConsumer, puller: java.DefaultLitePullConsumer
) -> None:
    """Listeners and polls get messages with Java's names."""

    def listen(
        msgs: list[java.MessageExt], context: java.ConsumeConcurrentlyContext
    ) -> ConsumeConcurrentlyStatus:
        assert_type(context.getAckIndex(), int)
        return ConsumeConcurrentlyStatus.CONSUME_SUCCESS

    consumer.registerMessageListener(listen)
    consumer.registerMessageListener(java.MessageListenerConcurrently(listen))
    consumer.setConsumeThreadMin(4)
    assert_type(puller.poll(1000)[0].getBody(), bytes)
    assert_type(puller.committed(puller.assignment()[0]), int)
    puller.commit({puller.assignment()[0]: 7}, True)


def java_transactions(producer: java.TransactionMQProducer) -> None:
    """The result says what became of the local work."""
    result = producer.sendMessageInTransaction(java.Message("T", b"x"), None)
    assert_type(result, java.TransactionSendResult)
    assert_type(result.getLocalTransactionState(), LocalTransactionState)
    assert_type(java.DefaultMQAdminExt(3000).fetchAllTopicList(), list[str])


class ListenerOf50(v5.MessageListener):
    """A listener as programs of the official client write it, whose messages are `Message`."""

    def consume(self, message: v5.Message) -> v5.ConsumeResult:
        """Handle a message."""
        assert_type(message.topic, str)
        return v5.ConsumeResult.SUCCESS


class CheckerOf50(v5.TransactionChecker):
    """Decides by the id."""

    def check(self, message: v5.MessageView) -> v5.TransactionResolution:
        """Decide."""
        return (
            v5.TransactionResolution.COMMIT if message.message_id else v5.TransactionResolution(0)
        )


def sending_of_50() -> None:
    """Properties of the official client, and builders of the documents."""
    configuration = v5.ClientConfiguration("127.0.0.1:9876", v5.Credentials("ak", "sk"), "", 3)
    message = v5.Message()
    message.topic, message.body, message.tag = "T", b"x", "a"
    message.keys = "k1"
    message.keys = ["k2", "k3"]
    message.delivery_timestamp = 1_800_000_000
    message.delivery_timestamp = v5.EpochMilliseconds(1_800_000_000_000)
    message.delivery_timestamp = datetime.now(UTC)
    assert_type(message.delivery_timestamp, v5.EpochMilliseconds | None)
    assert_type(message.keys, frozenset[str])
    built = v5.MessageBuilder().set_topic("T").set_body(b"x").set_keys("a", "b").build()
    assert_type(built, v5.Message)
    with v5.Producer(configuration, ("T",), CheckerOf50()) as producer:
        receipt = producer.send(built)
        assert_type(receipt.recall_handle, str | None)
        assert_type(producer.send_async(built).result(), v5.SendReceipt)
        transaction = producer.begin_transaction()
        producer.send(built, transaction)
        transaction.commit()
        recalled = producer.recall_message("T", receipt.recall_handle or "")
        assert_type(recalled.message_id, str)
    assert_type(v5.ProducerBuilder().set_max_attempts(3).set_topics("T").build(), v5.Producer)


def receiving_of_50(configuration: v5.ClientConfiguration) -> None:
    """Durations are seconds, or a timedelta."""
    v5.PushConsumer(configuration, "G", ListenerOf50(), {"T": v5.FilterExpression("a || b")})
    simple = v5.SimpleConsumer(configuration, "G", await_duration=timedelta(seconds=5))
    simple.subscribe("T")
    simple.subscribe("T", v5.FilterExpression("a > 1", v5.FilterType.SQL92))
    for message in simple.receive(32, 15):
        assert_type(message, v5.MessageView)
        assert_type(message.delivery_attempt, int)
        simple.change_invisible_duration(message, timedelta(seconds=30))
        simple.ack(message)
    for view in simple.receive_async(32, 15.5).result():
        assert_type(simple.ack_async(view).result(), None)
    assert_type(simple.subscription_expressions["T"], v5.FilterExpression)


def popping(producer: TransactionMQProducer) -> None:
    """A consumer that pops when it is asked, and what producers tell without waiting."""
    with DefaultPopConsumer("g", namesrv_addr="127.0.0.1:9876", pop_batch_nums=8) as consumer:
        consumer.subscribe("T", "a || b")
        (message,) = consumer.receive(1, invisible=timedelta(minutes=1), wait=5_000)
        assert_type(message, MessageExt)
        consumer.change_invisible_time(message, timedelta(seconds=5))
        assert_type(consumer.receive_async().result(), list[MessageExt])
        assert_type(consumer.ack_async(message).result(), None)
    DefaultMQPushConsumer("g", pop_all_queues=True, pop_threshold_bytes_for_queue=1 << 20)
    assert_type(producer.topic_message_type("T").result(), str | None)
    assert_type(producer.recall_message_async("T", "handle").result(), str)
    half = producer.begin(Message("T", b"x"), timeout=5_000)
    assert_type(half.end(LocalTransactionState.COMMIT_MESSAGE).result(), None)
