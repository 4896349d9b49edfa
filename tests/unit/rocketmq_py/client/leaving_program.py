"""A program that ends without shutting its clients down, or that runs until a signal.

``WHAT ADDRESS``: one of the functions below, and the name server of a broker in another process.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import threading
from collections.abc import Callable

from rocketmq_py import (
    ConsumeConcurrentlyStatus,
    ConsumeFromWhere,
    DefaultLitePullConsumer,
    DefaultMQProducer,
    DefaultMQPushConsumer,
    Message,
    SendCallback,
    aio,
    running_clients,
)
from rocketmq_py.errors import IllegalStateError
from rocketmq_py.message import MessageBatch

FIRST = ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET
SIGNALS = (signal.SIGINT, signal.SIGTERM)


may_say_so = threading.Event()
may_say_so.set()


def consumer(address: str) -> DefaultMQPushConsumer:
    def listen(*_: object) -> ConsumeConcurrentlyStatus:
        may_say_so.wait()
        print("received", flush=True)
        return ConsumeConcurrentlyStatus.CONSUME_SUCCESS

    made = DefaultMQPushConsumer("G", namesrv_addr=address, consume_from_where=FIRST)
    made.subscribe("T")
    made.register_message_listener(listen)
    return made


# --- ends without a shutdown --------------------------------------------------------------------


def forgets_consumer(address: str) -> None:
    consumer(address).start()
    print("main ends")


def forgets_consumer_and_fails(address: str) -> None:
    consumer(address).start()
    sys.exit(3)


def forgets_lite_pull_consumer(address: str) -> None:
    made = DefaultLitePullConsumer("G", namesrv_addr=address)
    made.subscribe("T")
    made.start()
    print("main ends")


def forgets_aio_consumer(address: str) -> None:
    forgets_in_a_coroutine(aio.Consumer("G", namesrv_addr=address))


def forgets_aio_lite_pull_consumer(address: str) -> None:
    forgets_in_a_coroutine(aio.LitePullConsumer("G", namesrv_addr=address))


def forgets_in_a_coroutine(made: aio.Consumer | aio.LitePullConsumer) -> None:
    async def main() -> None:
        made.subscribe("T")
        await made.start()
        print("main ends")

    asyncio.run(main())


def forgets_two_of_each(address: str) -> None:
    for group in ("A", "B"):
        made = DefaultLitePullConsumer(group, namesrv_addr=address)
        made.subscribe("T")
        made.start()
    consumer(address).start()


def ends_consumer(address: str) -> None:
    with consumer(address):
        print("main ends")


def forgets_fifty_sends(address: str) -> None:
    producer = DefaultMQProducer("P", namesrv_addr=address)
    producer.start()
    for number in range(50):
        producer.send_async(Message("T", b"%d" % number))


def forgets_fifty_batches(address: str) -> None:
    producer = DefaultMQProducer("P", namesrv_addr=address, topics=["T"])
    producer.start()
    for _ in range(50):
        batch = [Message("T", b"x"), Message("T", b"y")]
        producer.send_async(MessageBatch(batch))


def forgets_sends_with_callbacks(address: str) -> None:
    producer = DefaultMQProducer("P", namesrv_addr=address)
    producer.start()
    told = SendCallback(lambda _: os.write(1, b"stored\n"))
    for number in range(5):
        producer.send_async(Message("T", b"%d" % number), told)


def sends_from_another_thread(address: str) -> None:
    """A thread that is no daemon keeps the program alive: nothing ends before it."""
    producer = DefaultMQProducer("P", namesrv_addr=address)
    producer.start()

    def send() -> None:
        threading.main_thread().join()
        producer.send(Message("T", b"after main"))
        producer.shutdown()

    threading.Thread(target=send).start()


def forgets_what_is_not_answered(address: str) -> None:
    producer = DefaultMQProducer("P", namesrv_addr=address, send_msg_timeout=60_000)
    producer.start()
    for _ in range(7):
        producer.send_async(Message("T", b"x"))


# --- runs until a signal ------------------------------------------------------------------------


def run(address: str) -> None:
    before = [signal.getsignal(number) for number in SIGNALS]
    made = consumer(address)
    made.run()
    restored = [signal.getsignal(number) for number in SIGNALS] == before
    print("ended", made.is_running, restored, running_clients(), flush=True)


def runs(address: str) -> None:
    signal.signal(signal.SIGINT, signal.default_int_handler)
    run(address)


def runs_where_sigint_is_ignored(address: str) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    run(address)


def says_so_when_signals_are_handled() -> None:
    while signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
        threading.Event().wait(0.001)
    may_say_so.set()


def runs_what_runs_already(address: str) -> None:
    may_say_so.clear()  # the signal that follows must not come before `run` handles it
    with consumer(address) as made:
        print("started", flush=True)
        threading.Thread(target=says_so_when_signals_are_handled, daemon=True).start()
        made.run()
    print("ended", made.is_running, True, running_clients(), flush=True)


def runs_until_another_thread_ends_it(address: str) -> None:
    made = consumer(address)

    def end() -> None:
        sys.stdin.readline()
        made.shutdown()

    threading.Thread(target=end, daemon=True).start()
    made.run()
    print("ended", made.is_running, True, running_clients(), flush=True)


def runs_in_another_thread(address: str) -> None:
    def run_there() -> None:
        try:
            consumer(address).run()
        except IllegalStateError as error:
            print(error)

    thread = threading.Thread(target=run_there)
    thread.start()
    thread.join()


def fails_to_run(address: str) -> None:
    before = [signal.getsignal(number) for number in SIGNALS]
    made = DefaultMQPushConsumer("G", namesrv_addr=address)
    try:
        made.run()
    except Exception as error:  # noqa: BLE001 - its text is what the test looks at
        print(error)
    print([signal.getsignal(number) for number in SIGNALS] == before)


PROGRAMS: dict[str, Callable[[str], None]] = {
    name: made
    for name, made in list(globals().items())
    if callable(made) and getattr(made, "__module__", "") == __name__
}

if __name__ == "__main__":
    PROGRAMS[sys.argv[1]](sys.argv[2])
