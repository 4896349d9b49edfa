"""Mistakes that a type checker must find: each line that ends with a mark is refused.

Never executed, and no part of what the checkers must accept. `tests/architecture/test_refusals.py`
runs both checkers once and names the marked lines that neither refuses, and others that are.
"""

from __future__ import annotations

from asyncio import Future, ensure_future
from datetime import UTC, datetime, timedelta

from rocketmq_py import (
    AllocateMessageQueueAveragely,
    AllocateMessageQueueByConfig,
    ClientConfig,
    CompressionType,
    ConsumeConcurrentlyContext,
    ConsumeConcurrentlyStatus,
    ConsumeFromWhere,
    ConsumeOrderlyContext,
    Credentials,
    DefaultLitePullConsumer,
    DefaultMQAdminExt,
    DefaultMQProducer,
    DefaultMQPushConsumer,
    DefaultPopConsumer,
    Delay,
    Delivery,
    DeliveryListener,
    FaultTable,
    LocalTransactionState,
    Message,
    MessageExt,
    MessageListenerConcurrently,
    MessageListenerOrderly,
    MessageModel,
    MessageQueue,
    MessageSelector,
    ProducerConfig,
    PushConsumerConfig,
    RPCHook,
    SendCallback,
    SendMessageContext,
    SendResult,
    SendStatus,
    TlsConfig,
    TransactionListener,
    TransactionMQProducer,
    aio,
    create_reply_message,
    running_clients,
    select_message_queue_by_hash,
    split_batch,
)
from rocketmq_py.admin import AdminClient

P = DefaultMQProducer
T = TransactionMQProducer
C = DefaultMQPushConsumer
L = DefaultLitePullConsumer


def settings_of_a_producer(producer: P, seconds: float) -> None:
    """Unknown names, other types, another unit, and settings of consumers."""
    P("g", send_msg_timeot=3000)  # refused
    P("g", send_msg_timeout="3000")  # refused
    P("g", send_msg_timeout=2.5)  # refused
    P("g", send_msg_timeout=seconds)  # refused
    P("g", send_msg_timeout=None)  # refused
    P("g", connect_timeout=0.5)  # refused
    P("g", heartbeat_broker_interval=30.0)  # refused
    P("g", mq_client_api_timeout=seconds)  # refused
    P("g", detect_interval=1.5)  # refused
    P("g", max_delay=40)  # refused
    P("g", max_delay=40.0)  # refused
    P("g", namesrv_addr=9876)  # refused
    P("g", namesrv_addr=[("127.0.0.1", 9876)])  # refused
    P("g", namesrv_addr=("127.0.0.1", 9876))  # refused
    P("g", namesrv_addr=None)  # refused
    P("g", namesrv_domain=["mq.example"])  # refused
    P("g", instance_name=7)  # refused
    P("g", unit_mode="yes")  # refused
    P("g", retry_times_when_send_failed="2")  # refused
    P("g", retry_response_codes=2)  # refused
    P("g", retry_response_codes={"2"})  # refused
    P("g", compress_type="ZLIB")  # refused
    P("g", compress_type=3)  # refused
    P("g", compress_level="best")  # refused
    P("g", fault_table="V5")  # refused
    P("g", transport="udp")  # refused
    P("g", delay_policy="ignore")  # refused
    P("g", delay_policy=None)  # refused
    P("g", delay_conflict="error")  # refused
    P("g", past_deliver="error")  # refused
    P("g", translate_start_deliver_time=True)  # refused
    P("g", credentials=("id", "secret"))  # refused
    P("g", credentials="id:secret")  # refused
    P("g", credentials=lambda: ("id", "secret"))  # refused
    P("g", tls_config="ca.pem")  # refused
    P("g", tls_config={"ca_file": "ca.pem"})  # refused
    P("g", use_tls="require")  # refused
    P("g", address_mapper={"a:1": "b:1"})  # refused
    P("g", address_mapper=lambda address: None)  # refused
    P("g", topics=7)  # refused
    P("g", rpc_hooks=[print])  # refused
    P("g", access_channel="cloud")  # refused
    P("g", rpc_hooks=RPCHook)  # refused
    P(7)  # refused
    P("g", "127.0.0.1:9876")  # refused
    P("g", config=ClientConfig())  # refused
    P("g", consume_thread_min=1)  # refused
    P("g", pull_batch_size=1)  # refused
    P("g", message_model=MessageModel.CLUSTERING)  # refused
    P("g", pull_time_delay_millis_when_exception=10)  # refused
    P("g", transaction_listener=None)  # refused
    producer.send_msg_timeot = 3000  # refused
    producer.send_msg_timeout = 2.5  # refused
    producer.send_msg_timeout = "3000"  # refused
    producer.consume_timeout = 3  # refused
    producer.retry_response_codes = {"2"}  # refused
    producer.compress_type = "ZLIB"  # refused
    producer.credentials = "id"  # refused
    producer.tls_config = "ca.pem"  # refused
    producer.producer_group = None  # refused
    producer.config = ProducerConfig()  # refused
    producer.copy()  # refused
    producer.fix()  # refused
    print(producer.is_fixed)  # refused
    producer.unfix()  # refused
    producer.use_name_servers("127.0.0.1:9876")  # refused
    P.build(None, {})  # refused
    P.of("g")  # refused
    P.of(ClientConfig(), "g", send_msg_timeot=1)  # refused
    P.of(ClientConfig(), "g", send_msg_timeout=1.5)  # refused
    P.of(ClientConfig(), 7)  # refused


def settings_of_an_asyncio_producer(producer: aio.Producer) -> None:
    """The same as of every producer."""
    aio.Producer("g", send_msg_timeot=3000)  # refused
    aio.Producer("g", send_msg_timeout=2.5)  # refused
    aio.Producer("g", config=ClientConfig())  # refused
    aio.Producer("g", consume_thread_min=1)  # refused
    aio.Producer("g", transaction_check=5)  # refused
    producer.send_msg_timeout = 2.5  # refused
    producer.send_msg_timeot = 3000  # refused
    aio.Producer.of(ClientConfig(), "g", send_msg_timeout=1.5)  # refused


def blocking(delivery: aio.Delivery) -> None:
    """Be no coroutine function."""


async def of_threads(delivery: Delivery) -> None:
    """Expect a delivery of the consumer on threads."""


def of_futures(delivery: aio.Delivery) -> Future[None]:
    """Give what can be awaited, and be no coroutine function."""
    return ensure_future(delivery.ack())


def an_asyncio_consumer(consumer: aio.Consumer) -> None:
    """The same as of every consumer, and listeners that are no coroutine functions."""
    aio.Consumer("g", consume_timeot=3)  # refused
    aio.Consumer("g", consume_timeout=0.5)  # refused
    aio.Consumer("g", send_msg_timeout=3000)  # refused
    consumer.consume_timeot = 3  # refused
    consumer.register_message_listener(print)  # refused
    consumer.register_message_listener(blocking)  # refused
    consumer.register_message_listener(of_threads)  # refused
    consumer.register_message_listener(of_futures)  # refused
    consumer.register_message_listener(aio.Orderly)  # refused
    consumer.register_message_listener(MessageListenerOrderly(settled))  # refused
    consumer.listener(blocking)  # refused
    consumer.listener(of_threads)  # refused
    consumer.listener(of_futures)  # refused
    consumer.listener(orderly=True)(blocking)  # refused
    aio.Orderly(print)  # refused
    aio.Orderly(blocking)  # refused
    aio.Orderly(of_threads)  # refused
    aio.Consumer("g", poll_timeout_millis=5)  # refused
    aio.Consumer("g", config=PushConsumerConfig())  # refused
    for _ in consumer:  # refused
        pass


async def awaiting(consumer: aio.Consumer, delivery: aio.Delivery, message: Message) -> None:
    """Calls that are begun and not awaited, numbers as delays, and deliveries of threads."""
    consumer.start()  # refused
    delivery.ack()  # refused
    await delivery.nack(10)  # refused
    await delivery.nack(delay=0.5)  # refused
    await consumer.shutdown("3")  # refused
    await consumer.subscribe("T")  # refused
    async with aio.Producer("g").transaction(message) as half:
        half.commit()  # refused
    with aio.Producer("g").transaction(message):  # refused
        pass
    async for one in consumer:
        print(one.body)  # refused
        of_push: Delivery = one  # refused
        print(of_push)


def settings_of_a_lite_pull_consumer(consumer: L) -> None:
    """The same as of every consumer, and settings of those that have listeners."""
    L("g", poll_timeout_milis=5)  # refused
    L("g", poll_timeout_millis=0.5)  # refused
    L("g", topic_metadata_check_interval=1.5)  # refused
    L("g", auto_commit="no")  # refused
    L("g", pull_threshold_for_all="many")  # refused
    L("g", send_msg_timeout=5)  # refused
    L("g", consume_timeout=5)  # refused
    L("g", consume_thread_min=5)  # refused
    L("g", consume_message_batch_max_size=5)  # refused
    L("g", config=PushConsumerConfig())  # refused
    L.of(ClientConfig(), "g", poll_timeout_millis=0.5)  # refused
    consumer.poll_timeout_millis = 0.5  # refused
    consumer.consume_timeout = 5  # refused
    consumer.register_message_listener(settled)  # refused


def a_lite_pull_consumer(consumer: L, queue: MessageQueue) -> None:
    """Whole milliseconds, queues, and offsets; messages that nobody settles."""
    consumer.poll(0.5)  # refused
    consumer.poll("5")  # refused
    consumer.batches(0.5)  # refused
    consumer.subscribe("T", ["a"])  # refused
    consumer.assign(queue)  # refused
    consumer.assign(["T"])  # refused
    consumer.set_sub_expression_for_assign("T", MessageSelector)  # refused
    consumer.seek("q", 1)  # refused
    consumer.seek(queue, "1")  # refused
    consumer.seek_to_begin([queue])  # refused
    consumer.commit({queue: "1"})  # refused
    consumer.commit([queue])  # refused
    consumer.committed("q")  # refused
    consumer.offset_for_timestamp(queue, 0.5)  # refused
    consumer.pause(queue)  # refused
    consumer.resume("q")  # refused
    consumer.register_topic_message_queue_change_listener("T", lambda queues: None)  # refused
    print(consumer.committed(queue) + 1)  # refused
    print(consumer.poll().body)  # refused
    for batch in consumer.batches():
        batch[0].ack()  # refused
        print(batch.topic)  # refused


async def an_asyncio_lite_pull_consumer(
    consumer: aio.LitePullConsumer, queue: MessageQueue
) -> None:
    """The same, and calls that must be awaited."""
    aio.LitePullConsumer("g", poll_timeout_millis=0.5)  # refused
    aio.LitePullConsumer("g", consume_timeout=5)  # refused
    aio.LitePullConsumer("g", consume_thread_min=5)  # refused
    consumer.poll_timeout_millis = 0.5  # refused
    consumer.poll()  # refused
    consumer.seek(queue, 1)  # refused
    consumer.seek_to_end(queue)  # refused
    await consumer.poll(0.5)  # refused
    await consumer.seek("q", 1)  # refused
    await consumer.commit()  # refused
    consumer.commit({queue: "1"})  # refused
    consumer.assign(queue)  # refused
    consumer.pause(queue)  # refused
    print(consumer.committed(queue) + 1)  # refused
    for _ in consumer.batches():  # refused
        pass
    async for messages in consumer.batches():
        messages[0].ack()  # refused
    async for one in consumer:  # refused
        print(one)


def settings_of_a_consumer(consumer: C, naive: datetime) -> None:
    """The same for consumers, and settings of producers."""
    C("g", consume_thread_mins=2)  # refused
    C("g", send_msg_timeout=3000)  # refused
    C("g", retry_times_when_send_failed=3000)  # refused
    C("g", send_latency_enable=True)  # refused
    C("g", max_delay=timedelta(days=1))  # refused
    C("g", strict_reserved=True)  # refused
    C("g", consume_timeout=0.5)  # refused
    C("g", pull_interval=0.5)  # refused
    C("g", await_termination_millis_when_shutdown=1.5)  # refused
    C("g", pull_time_delay_millis_when_exception=0.01)  # refused
    C("g", consume_from_where="CONSUME_FROM_FIRST_OFFSET")  # refused
    C("g", consume_from_where=MessageModel.CLUSTERING)  # refused
    C("g", message_model="CLUSTERING")  # refused
    C("g", message_model=ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET)  # refused
    C("g", consume_timestamp=1700000000)  # refused
    C("g", allocate_strategy="AVG")  # refused
    C("g", allocate_strategy=AllocateMessageQueueAveragely)  # refused
    C("g", allocate_strategy=AllocateMessageQueueByConfig("q"))  # refused
    C("g", clock=lambda: 5)  # refused
    C("h", config=P("g"))  # refused
    C("h", topics=["T"])  # refused
    consumer.send_msg_timeout = 3000  # refused
    consumer.consume_from_were = 3000  # refused
    consumer.consume_thread_min = "3"  # refused
    consumer.message_model = "CLUSTERING"  # refused
    consumer.reconsume_times_max = 3  # refused
    C.of(ClientConfig(), "g", send_msg_timeout=1)  # refused
    ClientConfig("127.0.0.1:9876")  # refused
    ClientConfig(max_delay=timedelta(days=1))  # refused
    ClientConfig(pull_time_delay_millis_when_exception=10)  # refused
    ProducerConfig(pull_batch_size=1)  # refused
    PushConsumerConfig(send_msg_timeout=1)  # refused
    ClientConfig().copy()  # refused
    Credentials("id")  # refused
    Credentials("id", b"secret")  # refused
    TlsConfig("ca.pem")  # refused
    TlsConfig(ca_file=b"ca.pem", verify="no")  # refused


def messages() -> None:
    """Bodies are bytes, delays are timedeltas, times are datetimes."""
    Message("T", "body")  # refused
    Message("T", {"order": 42})  # refused
    Message(b"T", b"x")  # refused
    Message("T", b"x", delay=30)  # refused
    Message("T", b"x", delay=0.5)  # refused
    Message("T", b"x", deliver_at=1_700_000_000)  # refused
    Message("T", b"x", deliver_at="2030-01-01")  # refused
    Message("T", b"x", delay_level="3")  # refused
    Message("T", b"x", tags=["a"])  # refused
    Message("T", b"x", key="k")  # refused
    Message("T", b"x").set_delay_time_sec(timedelta(seconds=1))  # refused
    Message("T", b"x").set_delay_time_sec("1")  # refused
    Message("T", b"x").body = "text"  # refused
    create_reply_message(Message("T", b"x"), b"reply")  # refused
    split_batch([b"x"], 100)  # refused
    split_batch([Message("T", b"x")])  # refused
    Delay("3")  # refused


def sends(producer: P, message: Message, queue: MessageQueue, seconds: float) -> None:
    """A queue or a selector, whole milliseconds, and one message."""
    producer.send(message, queue=queue, selector=select_message_queue_by_hash)  # refused
    producer.send(message, queue=queue, selector=select_message_queue_by_hash, arg=1)  # refused
    producer.send(message, arg="order-1")  # refused
    producer.send(message, queue=queue, arg="order-1")  # refused
    producer.send(message, queue=0)  # refused
    producer.send(message, queue=("T", "broker-a", 0))  # refused
    producer.send(message, selector="hash")  # refused
    producer.send(message, selector=lambda queues: queues[0])  # refused
    producer.send(message, selector=lambda queues, message, arg: 0)  # refused
    producer.send(message, timeout=0.5)  # refused
    producer.send(message, timeout=seconds)  # refused
    producer.send(message, timeout="3000")  # refused
    producer.send(message, 3000)  # refused
    producer.send(message, delay=timedelta(seconds=1))  # refused
    producer.send("hello")  # refused
    producer.send(b"hello")  # refused
    producer.send([message])  # refused
    producer.send("T", b"hello")  # refused
    producer.send()  # refused
    producer.send_async(message, print)  # refused
    producer.send_async(message, SendCallback)  # refused
    producer.send_async(message, queue=queue, selector=select_message_queue_by_hash)  # refused
    producer.send_async(message, arg=1)  # refused
    producer.send_async(message, timeout=seconds)  # refused
    producer.send_oneway(message, queue=queue, selector=select_message_queue_by_hash)  # refused
    producer.send_oneway(message, arg=1)  # refused
    producer.send_oneway(message, timeout=3000)  # refused
    producer.request(message, queue=queue, selector=select_message_queue_by_hash)  # refused
    producer.request(message, arg=1)  # refused
    producer.request(message, timeout=1.5)  # refused
    producer.request_async(message, arg=1)  # refused
    producer.request_async(message, timeout=1.5)  # refused
    producer.send_batch(message)  # refused
    producer.send_batch([b"x"])  # refused
    producer.send_batch([message], timeout=0.5)  # refused
    producer.send_batch([message], selector=select_message_queue_by_hash)  # refused
    producer.recall_message("T", producer.send(message))  # refused
    producer.recall_message("T", b"handle")  # refused
    producer.recall_message(message, "handle")  # refused
    producer.search_offset(queue, datetime(2030, 1, 1, tzinfo=UTC))  # refused
    producer.search_offset(queue, 0, "FIRST")  # refused
    producer.create_topic("K", "T", "8")  # refused
    producer.max_offset("T")  # refused
    producer.shutdown("3")  # refused
    producer.start(True)  # refused
    producer.update_name_server_address(9876)  # refused
    producer.add_retry_response_code("14")  # refused
    producer.register_send_message_hook(print)  # refused
    producer.register_check_forbidden_hook(print)  # refused
    print(producer.send(message).status)  # refused
    print(producer.send(message).send_status == "SEND_OK")  # refused
    print(producer.send_async(message).send_status)  # refused
    SendCallback(lambda: None)  # refused
    SendCallback(on_succes=print)  # refused


class JavaCallback(SendCallback):
    """Would never be told anything."""

    def onSuccess(self, result: SendResult) -> None:  # refused
        """Learn of nothing."""

    def onException(self, error: Exception) -> None:  # refused
        """Learn of nothing."""


class OtherCallback(SendCallback):
    """Takes something else."""

    def on_success(self, result: str) -> None:  # refused
        """Take a text."""

    def on_exception(self) -> None:  # refused
        """Take nothing."""


class JavaListener(TransactionListener):
    """Has the names of Java, so what the protocol asks for is missing."""

    def executeLocalTransaction(self, message: Message, arg: object) -> LocalTransactionState:
        """Do the work."""
        return LocalTransactionState.COMMIT_MESSAGE

    def checkLocalTransaction(self, message: MessageExt) -> LocalTransactionState:
        """Say how it ended."""
        return LocalTransactionState.COMMIT_MESSAGE


class HalfListener:
    """Answers one of two questions."""

    def execute_local_transaction(self, message: Message, arg: object) -> LocalTransactionState:
        """Do the work."""
        return LocalTransactionState.COMMIT_MESSAGE


class OtherListener(TransactionListener):
    """Answers with something else."""

    def execute_local_transaction(self, message: Message, arg: object) -> bool:  # refused
        """Do the work."""
        return True

    def check_local_transaction(self, message: MessageExt) -> None:  # refused
        """Say nothing."""


def transactions(producer: T, message: Message) -> None:
    """Listeners, delays, and results."""
    T("g", transaction_listener=JavaListener())  # refused
    T("g", transaction_listener=HalfListener())  # refused
    T("g", transaction_listener=HalfListener)  # refused
    T("g", transaction_listener=print)  # refused
    T("g", transaction_delay="later")  # refused
    T("g", executor=4)  # refused
    T("g", check_thread_pool_max="2")  # refused
    T("g", consume_thread_min=2)  # refused
    producer.transaction_listener = HalfListener()  # refused
    producer.transaction_delay = "later"  # refused
    producer.send_message_in_transaction("hello")  # refused
    producer.send_message_in_transaction(message, timeout=0.5)  # refused
    producer.register_end_transaction_hook(print)  # refused
    P("g").send_message_in_transaction(message).local_transaction_state  # refused


def silent(messages: list[MessageExt], context: ConsumeConcurrentlyContext) -> None:
    """Say nothing."""


def truth(messages: list[MessageExt], context: ConsumeConcurrentlyContext) -> bool:
    """Say True."""
    return bool(messages)


def perhaps(
    messages: list[MessageExt], context: ConsumeConcurrentlyContext
) -> ConsumeConcurrentlyStatus | None:
    """Say something at times."""
    return ConsumeConcurrentlyStatus.CONSUME_SUCCESS if messages else None


def one(message: MessageExt, context: ConsumeConcurrentlyContext) -> ConsumeConcurrentlyStatus:
    """Take one message."""
    return ConsumeConcurrentlyStatus.CONSUME_SUCCESS if message else ConsumeConcurrentlyStatus(1)


def alone(messages: list[MessageExt]) -> ConsumeConcurrentlyStatus:
    """Take no context."""
    return ConsumeConcurrentlyStatus(len(messages))


async def later(
    messages: list[MessageExt], context: ConsumeConcurrentlyContext
) -> ConsumeConcurrentlyStatus:
    """Be awaited by nobody."""
    return ConsumeConcurrentlyStatus.CONSUME_SUCCESS


def ordered_truth(messages: list[MessageExt], context: ConsumeOrderlyContext) -> bool:
    """Say True in order."""
    return bool(messages)


def ordered_nothing(messages: list[MessageExt], context: ConsumeOrderlyContext) -> None:
    """Say nothing in order."""


def concurrently(
    messages: list[MessageExt], context: ConsumeConcurrentlyContext
) -> ConsumeConcurrentlyStatus:
    """Say what is right elsewhere."""
    return ConsumeConcurrentlyStatus.CONSUME_SUCCESS


def settled(delivery: Delivery) -> None:
    """Settle a message."""
    delivery.ack()


def renamed(taken: Delivery) -> None:
    """Settle a message under another name, which only the wrapper takes."""
    taken.ack()


def settlements(consumer: C, delivery: Delivery) -> None:
    """A delay is a timedelta, and a listener of deliveries has one parameter of this name."""
    delivery.nack(10)  # refused
    delivery.nack(delay=0.5)  # refused
    delivery.nack("1s")  # refused
    delivery.ack(timedelta(seconds=1))  # refused
    print(delivery.messages[0].nack())  # refused
    consumer.register_message_listener(renamed)  # refused
    consumer.register_message_listener(DeliveryListener(silent))  # refused
    consumer.register_message_listener(DeliveryListener)  # refused
    consumer.register_message_listener(blocking)  # refused
    consumer.register_message_listener(aio.Orderly(of_threads))  # refused
    DeliveryListener(42)  # refused


def in_order(consumer: C) -> None:
    """Listeners in order return a status of their own."""
    MessageListenerOrderly(ordered_truth)  # refused
    MessageListenerOrderly(ordered_nothing)  # refused
    MessageListenerOrderly(concurrently)  # refused
    MessageListenerOrderly(renamed)  # refused
    MessageListenerOrderly(lambda messages, context: True)  # refused
    MessageListenerOrderly(42)  # refused
    MessageListenerConcurrently(ordered_truth)  # refused
    consumer.register_message_listener(MessageListenerOrderly)  # refused
    consumer.register_message_listener(ordered_truth)  # refused


class HalfHook:
    """Has one of the two methods of a consume hook."""

    def before(self, context: SendMessageContext) -> None:
        """See a send."""


def hooks_of_a_consumer(consumer: C) -> None:
    """Hooks are objects with the methods of their protocols."""
    consumer.register_consume_message_hook(print)  # refused
    consumer.register_consume_message_hook(HalfHook())  # refused
    consumer.register_consume_message_hook(HalfHook)  # refused
    consumer.register_filter_message_hook(print)  # refused
    consumer.register_filter_message_hook(HalfHook())  # refused


def listeners(consumer: C, message: MessageExt) -> None:
    """Listeners return a status, whatever their shape."""
    consumer.register_message_listener(silent)  # refused
    consumer.register_message_listener(truth)  # refused
    consumer.register_message_listener(perhaps)  # refused
    consumer.register_message_listener(one)  # refused
    consumer.register_message_listener(alone)  # refused
    consumer.register_message_listener(later)  # refused
    consumer.register_message_listener(print)  # refused
    consumer.register_message_listener(lambda messages, context: True)  # refused
    consumer.register_message_listener(lambda messages, context: None)  # refused
    consumer.register_message_listener(MessageListenerConcurrently)  # refused
    consumer.listener(silent)  # refused
    consumer.listener(renamed)  # refused
    consumer.listener(ordered_truth)  # refused
    consumer.listener(later)  # refused
    consumer.listener(concurrently, orderly=True)  # refused
    consumer.listener("Orders")  # refused
    consumer.listener(orderly=True)(concurrently)  # refused
    consumer.listener(orderly=True)(ordered_nothing)  # refused
    MessageListenerConcurrently(silent)  # refused
    MessageListenerConcurrently(later)  # refused
    consumer.subscribe("T", ["a", "b"])  # refused
    consumer.subscribe(["T"])  # refused
    consumer.subscribe("T", MessageSelector)  # refused
    consumer.unsubscribe(None)  # refused
    consumer.send_message_back(message, timedelta(seconds=1))  # refused
    consumer.send_message_back("id")  # refused
    consumer.update_core_pool_size(2.5)  # refused
    consumer.shutdown("3")  # refused
    message.body = "text"  # refused
    print(message.msgId)  # refused
    print(consumer.assigned_queues()["T"])  # refused


def others(queue: MessageQueue) -> None:
    """Values and other clients."""
    MessageQueue("T", "broker-a", "0")  # refused
    MessageQueue("T", 0)  # refused
    queue.queue_id = 7  # refused
    DefaultMQAdminExt(timeout_millis="5000")  # refused
    DefaultMQAdminExt(timeout_millis=0.5)  # refused
    DefaultMQAdminExt(send_msg_timeout=5)  # refused
    AdminClient(timeout_millis="5000")  # refused
    AdminClient().reset_offsets("G", "T", "middle")  # refused
    AdminClient().ensure_topic("T", 8)  # refused
    AdminClient().ensure_topic("T", queue=8)  # refused
    AdminClient().create_topic()  # refused
    print(AdminClient().brokers()[0].nam)  # refused
    AdminClient().topic_settings("T")["broker-a"].perm = 6  # refused
    print(SendStatus.OK)  # refused
    print(LocalTransactionState.COMMIT)  # refused
    print(FaultTable.V6)  # refused
    print(CompressionType.GZIP)  # refused
    print(ConsumeConcurrentlyStatus.SUCCESS)  # refused
    print(running_clients()["shop"])  # refused


def popping(consumer: DefaultPopConsumer, producer: P) -> None:
    """A consumer that pops when it is asked."""
    DefaultPopConsumer("g", pull_batch=8)  # refused
    DefaultPopConsumer("g", await_duration=2.5)  # refused
    consumer.receive("8")  # refused
    consumer.receive(8, timedelta(seconds=30))  # refused
    consumer.receive(8, invisible=2.5)  # refused
    consumer.ack(consumer.receive())  # refused
    consumer.poll()  # refused
    producer.begin(Message("T", b"x"))  # refused
    producer.topic_message_type("T").result().lower()  # refused
