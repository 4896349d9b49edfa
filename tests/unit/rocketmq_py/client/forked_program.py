"""A program that forks while its clients run; it prints what the child may do with each."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable
from contextlib import ExitStack

from compat.ons import Action, ONSFactory, SendCallback
from compat.ons import Message as OnsMessage
from embedded_broker import EmbeddedBroker
from rocketmq_py import (
    ConsumeConcurrentlyStatus,
    DefaultMQAdminExt,
    DefaultMQProducer,
    DefaultMQPushConsumer,
    LocalTransactionState,
    Message,
    MessageExt,
    MessageQueue,
    QueueAccess,
    TransactionMQProducer,
)
from rocketmq_py.protocol.codes import RequestCode

Use = Callable[[], object]


class Transactions:
    def execute_local_transaction(self, _message: object, _arg: object) -> LocalTransactionState:
        return LocalTransactionState.COMMIT_MESSAGE

    def check_local_transaction(self, _message: object) -> LocalTransactionState:
        return LocalTransactionState.COMMIT_MESSAGE


def producers(stack: ExitStack, namesrv_addr: str) -> dict[str, Use]:
    plain = stack.enter_context(DefaultMQProducer("P", namesrv_addr=namesrv_addr))
    unsure = stack.enter_context(
        TransactionMQProducer("X", namesrv_addr=namesrv_addr, transaction_listener=Transactions())
    )
    message, queue = Message("T", b"x"), MessageQueue("T", "broker-a", 0)
    plain.send(message)
    return {
        "start": plain.start,
        "send": lambda: plain.send(message),
        "send_async": lambda: plain.send_async(message),
        "send_oneway": lambda: plain.send_oneway(message),
        "send_batch": lambda: plain.send_batch([message]),
        "recall_message": lambda: plain.recall_message("T", "handle"),
        "queues": lambda: plain.fetch_publish_message_queues("T"),
        "max_offset": lambda: plain.max_offset(queue),
        "name servers": lambda: plain.update_name_server_address(namesrv_addr),
        "client_id": lambda: plain.client_id,
        "transaction": lambda: unsure.send_message_in_transaction(message),
    }


def consumers(stack: ExitStack, namesrv_addr: str) -> dict[str, Use]:
    push = DefaultMQPushConsumer("G", namesrv_addr=namesrv_addr)
    push.subscribe("T")
    push.register_message_listener(lambda *_: ConsumeConcurrentlyStatus.CONSUME_SUCCESS)
    stack.enter_context(push)
    return {
        "start": push.start,
        "subscribe": lambda: push.subscribe("U"),
        "unsubscribe": lambda: push.unsubscribe("T"),
        "suspend": push.suspend,
        "resume": push.resume,
        "pool size": lambda: push.update_core_pool_size(2),
        "send back": lambda: push.send_message_back(MessageExt("T")),
        "queues": lambda: push.fetch_subscribe_message_queues("T"),
        "assigned": push.assigned_queues,
        "client_id": lambda: push.client_id,
        "is_running": lambda: print("is_running", push.is_running, flush=True),
    }


def callers(stack: ExitStack, broker: EmbeddedBroker) -> dict[str, Use]:
    admin = stack.enter_context(DefaultMQAdminExt())
    access = stack.enter_context(QueueAccess(namesrv_addr=broker.namesrv_addr))
    admin.get_timer_metrics(broker.addr)
    queue = access.read_queues("T")[0]
    return {
        "start": admin.start,
        "metrics": lambda: admin.get_timer_metrics(broker.addr),
        "access start": access.start,
        "queues": lambda: access.read_queues("T"),
        "pull": lambda: access.pull(queue, 0),
        "bounds": lambda: access.bounds("T"),
    }


def ons(stack: ExitStack, namesrv_addr: str) -> dict[str, Use]:
    settings = {"NAMESRV_ADDR": namesrv_addr, "GROUP_ID": "GID_ons"}
    producer = stack.enter_context(ONSFactory.create_producer(settings))
    consumer = ONSFactory.create_consumer(settings)
    consumer.subscribe("T", "*", lambda _, __: Action.CommitMessage)
    stack.enter_context(consumer)
    message = OnsMessage("T", "tag", b"x")
    failed = SendCallback(on_exception=lambda told: print("told", _name(told.exception)))
    return {
        "send": lambda: producer.send(message),
        "send_oneway": lambda: producer.send_oneway(message),
        "send_async": lambda: producer.send_async(message, failed),
        "subscribe": lambda: consumer.subscribe("U", "*", lambda _, __: Action.CommitMessage),
        "unsubscribe": lambda: consumer.unsubscribe("T"),
        "is_started": lambda: print("is_started", producer.is_started(), consumer.is_started()),
    }


def _name(error: BaseException) -> str:
    return type(error.__cause__ or error).__name__


def in_child(uses: dict[str, Use], stack: ExitStack) -> None:
    threads = threading.active_count()
    for name, use in uses.items():
        try:
            use()
        except Exception as error:  # noqa: BLE001 - its name is what the test looks at
            print(name, _name(error))
    stack.close()  # every shutdown, which must end nothing of the parent's
    print("threads", threading.active_count() - threads, flush=True)


def main(kind: str) -> None:
    with EmbeddedBroker(topics=["T", "U"]) as broker, ExitStack() as stack:
        address = broker.namesrv_addr
        uses = {
            "producers": lambda: producers(stack, address),
            "consumers": lambda: consumers(stack, address),
            "callers": lambda: callers(stack, broker),
            "ons": lambda: ons(stack, address),
        }[kind]()
        sys.stdout.flush()
        child = os.fork()
        if child == 0:
            in_child(uses, stack)
            os._exit(0)
        assert os.waitpid(child, 0)[1] == 0
        goodbyes = sum(
            entry.code == RequestCode.UNREGISTER_CLIENT for entry in broker.journal.requests()
        )
        print("goodbyes", goodbyes)


if __name__ == "__main__":
    main(*sys.argv[1:])
