"""POP requests of this client on a real 5.3.3 broker and on ours: both answer alike."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from rocketmq_py import DefaultMQProducer, Message
from rocketmq_py.admin import AdminClient
from rocketmq_py.client.instance import ClientInstance
from rocketmq_py.consumer.core.pop_calls import (
    PopAnswer,
    PopAsk,
    PopCalls,
    Receipt,
    read_ack,
    read_assignments,
    read_invisible_time,
    read_pop,
)
from rocketmq_py.errors import MQBrokerException
from rocketmq_py.protocol.bodies.heartbeat import SubscriptionData
from rocketmq_py.send_result import MessageQueue
from tests.client_instances import IdleMember, started_instance
from tests.interop.conftest import OnBoth
from tests.waiting import HANG_S

TOPIC, GROUP = "PopOfPython", "PopOfPythonGroup"
EVERYTHING = SubscriptionData(TOPIC, "*")
POLLS = 40
"""A real broker does not tell a pop that waits of what came back: so many are made."""

TOLD = [
    "assigned None",
    "assigned PULL",
    "assigned POP -1",
    "nothing NOTHING",
    "waiting FOUND w0/0",
    "ack waiting True",
    "first FOUND m0/0 m1/0 m2/0",
    "ack m0 True",
    "ack m0 twice True",
    "hide m1 new True",
    "ack m1 by its old receipt True",
    "second FOUND m3/0 m4/0 m5/0",
    "batch True",
    "no more NOTHING",
    "back FOUND m2/1",
    "ack back True",
    "late FOUND m1/1",
    "ack late True",
    "ack m1, when it was back True",
    "ack no such offset False",
    "hide no such offset new False",
    "ack no such queue False",
    "too many 29",
    "ordered FOUND o0/0 o1/0",
    "ordered by another NOTHING",
    "hide o0 new True",
    "ordered once more FOUND o0 o1",
    "batch ordered True",
    "hide o0, when it is done new False",
    "ordered then FOUND o2",
]


class Teller:
    """Makes calls and tells what became of them."""

    def __init__(self, instance: ClientInstance, queue: MessageQueue) -> None:
        self.calls = PopCalls(instance, GROUP)
        self.queue = queue
        self.told: list[str] = []

    def ask(self, most: int, invisible_ms: int = 60_000, poll_ms: int = 0) -> PopAsk:
        return PopAsk(self.queue, most, invisible_ms, poll_ms, EVERYTHING)

    def pop(self, what: str, ask: PopAsk, *, times: bool = True) -> PopAnswer:
        answer = read_pop(self.calls.ask_pop(ask).result(HANG_S), ask)
        assert answer.problem is None
        assert {message.topic for message, _ in answer.popped} <= {TOPIC}
        if what:
            found = [
                f"{one.body.decode()}/{one.reconsume_times}" if times else one.body.decode()
                for one, _ in answer.popped
            ]
            self.told.append(" ".join([what, answer.status.name, *found]))
        return answer

    def wait(self, what: str) -> PopAnswer:
        ask = self.ask(8, poll_ms=1_000)
        for _ in range(POLLS):
            answer = self.pop("", ask)
            if answer.popped:
                (message, _), *rest = answer.popped
                assert not rest
                body, times = message.body.decode(), message.reconsume_times
                self.told.append(f"{what} {answer.status.name} {body}/{times}")
                return answer
        raise AssertionError(f"{what} did not come")

    def ack(self, what: str, receipt: Receipt) -> None:
        taken = read_ack(self.calls.ask_ack(receipt).result(HANG_S), TOPIC)
        self.told.append(f"ack {what} {taken}")

    def batch(self, what: str, answer: PopAnswer) -> None:
        (batch,) = self.calls.ask_ack_batch(receipt for _, receipt in answer.popped)
        self.told.append(f"{what} {read_ack(batch.answer.result(HANG_S), TOPIC)}")

    def hide(self, what: str, receipt: Receipt, ms: int) -> Receipt | None:
        answer = self.calls.ask_invisible_time(receipt, ms).result(HANG_S)
        new = read_invisible_time(answer, receipt)
        self.told.append(f"hide {what} new {new is not None}")
        return new

    def assigned(self) -> None:
        answer = self.calls.ask_assignments(TOPIC, "AVG").result(HANG_S)
        queues = read_assignments(answer, TOPIC)
        modes = {
            one.mode if one.queue.queue_id >= 0 else f"{one.mode} {one.queue.queue_id}"
            for one in queues or ()
        }
        self.told.append(f"assigned {' '.join(modes) if queues else queues}")


def assignments(teller: Teller, instance: ClientInstance) -> None:
    teller.assigned()
    instance.register_consumer(GROUP, IdleMember(GROUP, EVERYTHING))
    instance.send_heartbeats()
    teller.assigned()
    with AdminClient(namesrv_addr=instance.config.namesrv_addr) as admin:
        admin.set_request_mode(TOPIC, GROUP, "POP")
    teller.assigned()


def single_pops(teller: Teller, send: Callable[[str], object]) -> None:
    teller.pop("nothing", teller.ask(8))
    ask = teller.ask(8, poll_ms=20_000)
    waiting = teller.calls.ask_pop(ask)
    assert not waiting.done()
    send("w0")
    (message, receipt), *_ = read_pop(waiting.result(HANG_S), ask).popped
    teller.told.append(f"waiting FOUND {message.body.decode()}/{message.reconsume_times}")
    teller.ack("waiting", receipt)
    for number in range(6):
        send(f"m{number}")
    m0, m1, _ = (one.receipt for one in teller.pop("first", teller.ask(3, 4_000)).popped)
    teller.ack("m0", m0)
    teller.ack("m0 twice", m0)
    new = teller.hide("m1", m1, 9_000)
    assert new is not None
    teller.ack("m1 by its old receipt", m1)
    teller.batch("batch", teller.pop("second", teller.ask(8)))
    teller.pop("no more", teller.ask(8))
    teller.ack("back", teller.wait("back").popped[0].receipt)
    late = teller.wait("late").popped[0].receipt
    teller.ack("late", late)
    teller.ack("m1, when it was back", new)
    beyond = late._replace(offset=1_000_000)
    teller.ack("no such offset", beyond)
    teller.hide("no such offset", beyond, 9_000)
    teller.ack("no such queue", late._replace(queue_id=99))
    with pytest.raises(MQBrokerException) as refused:
        teller.pop("too many", teller.ask(33))
    teller.told.append(f"too many {refused.value.code}")


def ordered_pops(teller: Teller, send: Callable[[str], object]) -> None:
    for number in range(3):
        send(f"o{number}")
    ordered = teller.ask(2)._replace(order=True, attempt_id="a")
    first = teller.pop("ordered", ordered)
    teller.pop("ordered by another", ordered._replace(attempt_id="b"))
    assert teller.hide("o0", first.popped[0].receipt, 60_000) is not None
    again = teller.pop("ordered once more", ordered, times=False)
    teller.batch("batch ordered", again)
    teller.hide("o0, when it is done", again.popped[0].receipt, 60_000)
    teller.pop("ordered then", ordered._replace(attempt_id="c"), times=False)


def test_pops_of_this_client_are_answered_alike(on_both: OnBoth) -> None:
    with (
        on_both(TOPIC) as namesrv,
        DefaultMQProducer("PopOfPythonSender", namesrv_addr=namesrv) as producer,
        started_instance(namesrv) as instance,
    ):
        queue = producer.fetch_publish_message_queues(TOPIC)[0]
        teller = Teller(instance, queue)

        def send(body: str) -> None:
            producer.send(Message(TOPIC, body.encode()), queue=queue)

        instance.routes.update(TOPIC)
        assignments(teller, instance)
        single_pops(teller, send)
        ordered_pops(teller, send)
    assert teller.told == TOLD
