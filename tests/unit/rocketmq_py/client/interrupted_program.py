"""A program whose client is shut down at a bad moment; it prints what became of it.

``KIND MOMENT``: ``start`` and ``shutdown`` send SIGTERM while the main thread is inside that call,
and the handler shuts the client down; ``ctrl-c`` interrupts a shutdown that waits for the
application, and shuts down again.
"""

from __future__ import annotations

import logging
import signal
import sys
import threading
from collections.abc import Callable
from typing import Any

from compat.ons import Action, ONSFactory, SendCallback
from compat.ons import Message as OnsMessage
from rocketmq_py import (
    ConsumeConcurrentlyStatus,
    Credentials,
    DefaultMQProducer,
    DefaultMQPushConsumer,
    LocalTransactionState,
    Message,
    TransactionMQProducer,
    running_clients,
)
from rocketmq_py.protocol.codes import RequestCode
from tests.unit.rocketmq_py.scripted import ScriptedCluster

WAIT_S = 10.0


class Trap:
    """Credentials that, once, signal the main thread when a request is signed: in mid-call."""

    def __init__(self) -> None:
        self.is_set = False

    def __call__(self) -> Credentials:
        if self.is_set:
            self.is_set = False
            signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGTERM)
        return Credentials("id", "secret")


class Listener:
    """Answers nothing until it is released."""

    def __init__(self) -> None:
        self.entered, self.leave = threading.Event(), threading.Event()

    def hold(self) -> None:
        self.entered.set()
        self.leave.wait(WAIT_S)

    def consume_message(self, *_: object) -> ConsumeConcurrentlyStatus:
        self.hold()
        return ConsumeConcurrentlyStatus.CONSUME_SUCCESS

    def consume(self, *_: object) -> Action:
        self.hold()
        return Action.CommitMessage

    def execute_local_transaction(self, *_: object) -> LocalTransactionState:
        return LocalTransactionState.COMMIT_MESSAGE

    check_local_transaction = execute_local_transaction


def producer(namesrv_addr: str, trap: Trap, _: Listener) -> Any:
    return DefaultMQProducer("G", namesrv_addr=namesrv_addr, topics=["T"], credentials=trap)


def transactions(namesrv_addr: str, trap: Trap, listener: Listener) -> Any:
    return TransactionMQProducer(
        "G", namesrv_addr=namesrv_addr, transaction_listener=listener, credentials=trap
    )


def consumer(namesrv_addr: str, trap: Trap, listener: Listener) -> Any:
    made = DefaultMQPushConsumer("G", namesrv_addr=namesrv_addr, credentials=trap)
    made.subscribe("T")
    made.register_message_listener(listener)
    return made


def ons_producer(namesrv_addr: str, trap: Trap, _: Listener) -> Any:
    made = ONSFactory.create_producer({"NAMESRV_ADDR": namesrv_addr, "GROUP_ID": "G"})
    made._producer.credentials = trap
    return made


def ons_consumer(namesrv_addr: str, trap: Trap, listener: Listener) -> Any:
    made = ONSFactory.create_consumer({"NAMESRV_ADDR": namesrv_addr, "GROUP_ID": "G"})
    made._consumer.credentials = trap
    made.subscribe("T", "*", lambda *_: listener.consume())
    return made


KINDS: dict[str, Callable[[str, Trap, Listener], Any]] = {
    made.__name__: made for made in (producer, transactions, consumer, ons_producer, ons_consumer)
}


def attempt(call: Callable[[], object]) -> str:
    try:
        call()
    except BaseException as error:  # noqa: BLE001 - its name is what the test looks at
        return type(error).__name__
    return "returned"


def at_sigterm(client: Any, trap: Trap, moment: str) -> str:
    signal.signal(signal.SIGTERM, lambda *_: client.shutdown())
    if moment == "shutdown":
        client.start()
        if isinstance(client, DefaultMQProducer):
            client.send(Message("T", b"x"))
        elif hasattr(client, "send_oneway"):
            client.send(OnsMessage("T", "tag", b"x"))
    trap.is_set = True
    outcome = attempt(getattr(client, moment))
    return f"{outcome}, {'never signalled' if trap.is_set else 'signalled'}"


def busy(client: Any, cluster: ScriptedCluster, listener: Listener) -> None:
    """Give the client something that its shutdown waits for."""
    if isinstance(client, DefaultMQPushConsumer) or hasattr(client, "_consumer"):
        core = getattr(client, "_consumer", client)
        # As if a message had come: the pool of listeners is what a shutdown waits for.
        core._member.dispatch.pool.submit(listener.hold)
        assert listener.entered.wait(WAIT_S)
        return
    cluster.brokers[0].silent(RequestCode.SEND_MESSAGE_V2)
    if isinstance(client, DefaultMQProducer):
        client.send_async(Message("T", b"y"), timeout=60_000)
    else:
        client.send_async(OnsMessage("T", "tag", b"y"), SendCallback())
    cluster.brokers[0].wait_for(RequestCode.SEND_MESSAGE_V2)


def at_ctrl_c(client: Any, cluster: ScriptedCluster, listener: Listener) -> str:
    client.start()
    busy(client, cluster, listener)
    core = getattr(client, "_producer", getattr(client, "_consumer", client))
    main, look = threading.main_thread(), threading.Event()

    def interrupt() -> None:
        while "closed" not in repr(core) and getattr(core, "is_running", True):
            look.wait(0.01)
        signal.pthread_kill(main.ident or 0, signal.SIGINT)
        listener.leave.set()

    threading.Thread(target=interrupt, daemon=True).start()
    first = attempt(client.shutdown)
    listener.leave.set()
    return f"{first}, {attempt(client.shutdown)}"


def left_behind() -> list[str]:
    """Name the SDK's threads that do not end. One that has nothing to do any more may take a while.

    A shutdown waits for its threads for a bounded time, and this machine may be busy.
    """
    for thread in threading.enumerate():
        if "rocketmq" in thread.name:
            thread.join(WAIT_S)
    return [one.name for one in threading.enumerate() if "rocketmq" in one.name]


def main(kind: str, moment: str) -> None:
    logging.disable(logging.WARNING)  # the scripted broker knows no groups
    cluster, trap, listener = ScriptedCluster(), Trap(), Listener()
    client = KINDS[kind](cluster.namesrv_addr, trap, listener)
    if moment == "ctrl-c":
        outcome = at_ctrl_c(client, cluster, listener)
    else:
        outcome = at_sigterm(client, trap, moment)
    print(outcome)
    print(f"{len(running_clients())} running, threads {left_behind()}")
    greeted = cluster.brokers[0].of(RequestCode.HEART_BEAT)
    left = cluster.brokers[0].of(RequestCode.UNREGISTER_CLIENT)
    print("left" if left or not greeted else "still a member")
    cluster.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
