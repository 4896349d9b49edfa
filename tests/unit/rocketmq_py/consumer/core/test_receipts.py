"""Receipts that are renewed while somebody works, and the delays of messages that failed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Future

import pytest

from embedded_broker import EmbeddedBroker, VirtualClock
from rocketmq_py import DefaultMQProducer, Message
from rocketmq_py.clock import monotonic
from rocketmq_py.consumer.core.pop_calls import PopAsk, PopCalls, Receipt, read_ack, read_pop
from rocketmq_py.consumer.core.receipts import (
    ASK_AGAIN_MS,
    LAST_AGE_S,
    RETRY_DELAYS_S,
    HeldReceipt,
    ReceiptKeeper,
    delay_after_last_s,
    renewals_within,
    retry_delay_s,
)
from rocketmq_py.errors import RemotingConnectException
from rocketmq_py.protocol.bodies.heartbeat import SubscriptionData
from rocketmq_py.protocol.codes import RequestCode, ResponseCode
from rocketmq_py.protocol.command import RemotingCommand
from rocketmq_py.protocol.pop_handles import PopHandle
from rocketmq_py.send_result import MessageQueue
from tests.client_instances import started_instance
from tests.unit.rocketmq_py.consumer.fake_engine import (
    ADDRESS,
    BROKER,
    GROUP,
    FakeEngine,
    ok,
    refusal,
)
from tests.waiting import until

CHANGE = RequestCode.CHANGE_MESSAGE_INVISIBLETIME
INVISIBLE_MS = 60_000
RECEIPT = Receipt("T", PopHandle(7, 1_000, INVISIBLE_MS, 3, "0", BROKER, 0, 9), 0, 9)
GONE = {"popTime": "0", "invisibleTime": "0", "reviveQid": "0"}


class Engine(FakeEngine):
    """Runs what may block where it runs everything else: when the test says so."""

    takes_background = True

    def submit_background(self, task: Callable[..., object], *args: object) -> bool:
        return self.takes_background and self.submit(task, *args)


class Bench:
    """A keeper, its time, and a broker that gives pop times 1, 2, 3 ..."""

    def __init__(self) -> None:
        self.engine = Engine()
        self.now_s = 5_000.0
        self.given = 0
        self.engine.answers[CHANGE] = self.give
        self.keeper = self.make(3)

    def make(self, renewals_max: int) -> ReceiptKeeper:
        calls = PopCalls(self.engine, GROUP)
        return ReceiptKeeper(
            self.engine, calls, INVISIBLE_MS, renewals_max=renewals_max, now=lambda: self.now_s
        )

    def give(self, _: RemotingCommand) -> RemotingCommand:
        self.given += 1
        return ok({"popTime": str(self.given), "invisibleTime": "60000", "reviveQid": "4"})

    def register(self) -> HeldReceipt:
        return self.keeper.register(RECEIPT, self.now_s)

    def run(self) -> list[float]:
        """Let the time of the next renewals come; return how far ahead they were."""
        waiting = [handle.delay_ms for handle in self.engine.scheduled if not handle.cancelled]
        self.now_s += max(waiting, default=0) / 1000
        return self.engine.run_scheduled()

    def renewed(self) -> list[str]:
        return [command.ext_fields["extraInfo"] for command in self.engine.called(CHANGE)]


@pytest.fixture
def bench() -> Bench:
    return Bench()


def test_a_receipt_is_renewed_at_half_of_its_time_each_time_by_the_newest(bench: Bench) -> None:
    held = bench.register()
    assert (held.receipt, held.expires_at) == (RECEIPT, bench.now_s + 60)
    assert bench.run() == [30_000]
    assert held.expires_at == bench.now_s + 60
    assert bench.run() == [30_000]
    assert bench.renewed() == [f"7 1000 60000 3 0 {BROKER} 0 9", f"9 1 60000 4 0 {BROKER} 0 9"]
    assert held.done().result(0) == held.receipt
    assert held.receipt.handle.text() == f"9 2 60000 4 0 {BROKER} 0 9"


def test_the_time_since_the_pop_is_gone(bench: Bench) -> None:
    held = bench.keeper.register(RECEIPT, bench.now_s - 20)
    assert [handle.delay_ms for handle in bench.engine.scheduled] == [10_000]
    assert held.expires_at == bench.now_s + 40
    bench.keeper.register(RECEIPT, bench.now_s - 50)
    assert bench.engine.scheduled[-1].delay_ms == 0


def test_a_renewal_counts_from_its_question_on(bench: Bench) -> None:
    held = bench.register()

    def slow(command: RemotingCommand) -> RemotingCommand:
        bench.now_s += 4
        return bench.give(command)

    bench.engine.answers[CHANGE] = slow
    bench.run()
    assert held.expires_at == bench.now_s - 4 + 60
    assert [handle.delay_ms for handle in bench.engine.scheduled] == [26_000]


def test_a_message_is_renewed_so_often_and_no_more(bench: Bench) -> None:
    held = bench.register()
    assert [bench.run() for _ in range(4)] == [[30_000]] * 3 + [[]]
    assert not held.is_over(bench.now_s + 59)
    assert held.is_over(bench.now_s + 60)
    assert bench.keeper.held == 1  # the work goes on
    assert bench.make(0).register(RECEIPT, bench.now_s).done().result(0) == RECEIPT


def test_nothing_is_renewed_when_the_work_is_done(bench: Bench) -> None:
    held = bench.register()
    assert held.done().result(0) == RECEIPT
    assert held.done().result(0) == RECEIPT
    assert bench.keeper.held == 0
    assert (bench.run(), bench.renewed()) == ([], [])


def test_a_renewal_that_is_due_finds_the_work_done(bench: Bench) -> None:
    held = bench.register()
    (handle,) = bench.engine.scheduled
    handle.task()  # the timer has run, the pool has not
    held.done()
    bench.engine.run_tasks()
    assert bench.renewed() == []


def test_who_is_done_during_a_renewal_gets_the_receipt_that_counts_then(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    answer: Future[RemotingCommand] = Future()
    monkeypatch.setattr(bench.engine, "invoke_async", lambda *_: answer)
    held = bench.register()
    bench.run()
    settled = held.done()
    assert not settled.done()
    assert held.done() is settled
    answer.set_result(bench.give(RemotingCommand(CHANGE)))
    assert not settled.done()  # it is read elsewhere than on the thread of the answer
    bench.engine.run_tasks()
    assert settled.result(0).handle.pop_time_ms == 1
    assert bench.run() == []


def test_who_gives_up_waiting_for_the_receipt_disturbs_nobody(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    answer: Future[RemotingCommand] = Future()
    monkeypatch.setattr(bench.engine, "invoke_async", lambda *_: answer)
    held = bench.register()
    bench.run()
    assert held.done().cancel()
    answer.set_result(bench.give(RemotingCommand(CHANGE)))
    bench.engine.run_tasks()
    assert held.done().result(0).handle.pop_time_ms == 1


def test_an_answer_is_read_on_its_own_thread_when_the_client_ends(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    answer: Future[RemotingCommand] = Future()
    monkeypatch.setattr(bench.engine, "invoke_async", lambda *_: answer)
    held = bench.register()
    bench.run()
    settled = held.done()
    monkeypatch.setattr(bench.engine, "submit", lambda *_: False)
    answer.set_result(bench.give(RemotingCommand(CHANGE)))
    assert settled.result(0).handle.pop_time_ms == 1


def test_a_failed_renewal_is_told_and_tried_again_until_the_time_is_over(
    bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    def away(_: RemotingCommand) -> RemotingCommand:
        raise RemotingConnectException("nobody there", address=ADDRESS)

    bench.keeper = bench.make(100)
    held = bench.register()
    bench.engine.answers[CHANGE] = away
    waits = [bench.run() for _ in range(4)]
    assert waits == [[30_000], [15_000], [7_500], [3_750]]
    assert held.receipt == RECEIPT
    (told,) = caplog.messages
    assert "keeping message 9 of T hidden" in told
    bench.engine.answers[CHANGE] = bench.give
    bench.run()
    assert held.receipt.handle.pop_time_ms == 1
    bench.engine.answers[CHANGE] = away
    later: list[float] = []
    while bench.engine.scheduled:
        later += bench.run()
    assert later[-1] == ASK_AGAIN_MS
    # What is over is somebody else's: it is not asked for any more.
    assert held.is_over(bench.now_s)
    assert len(bench.renewed()) == 5 + len(later) - 1


@pytest.mark.parametrize("answer", [refusal(ResponseCode.NO_MESSAGE), ok(GONE)])
def test_a_message_that_the_broker_has_no_longer_is_over_at_once(
    bench: Bench, answer: RemotingCommand
) -> None:
    held = bench.register()
    bench.engine.answers[CHANGE] = lambda _: answer
    bench.run()
    assert held.is_over(bench.now_s)
    assert bench.run() == []
    assert held.done().result(0) == RECEIPT


def test_a_renewal_that_no_thread_takes_is_tried_again_soon(bench: Bench) -> None:
    held = bench.register()
    bench.engine.takes_background = False
    assert bench.run() == [30_000]
    bench.engine.takes_background = True
    assert bench.run() == [ASK_AGAIN_MS]
    assert held.receipt.handle.pop_time_ms == 1


def test_a_hook_that_fails_keeps_nobody_waiting(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def failing(*_: object) -> Future[RemotingCommand]:
        raise ValueError("of a hook")

    held = bench.register()
    monkeypatch.setattr(bench.engine, "invoke_async", failing)
    bench.run()
    assert "of a hook" in caplog.text
    assert held.done().result(0) == RECEIPT


def test_a_keeper_that_closes_renews_nothing_any_more(bench: Bench) -> None:
    for _ in range(3):
        bench.register()
    assert bench.keeper.held == 3
    bench.keeper.close()
    assert (bench.keeper.held, bench.run(), bench.renewed()) == (0, [], [])


# --- delays ----------------------------------------------------------------------------------


def test_a_message_that_failed_comes_later_each_time() -> None:
    assert [retry_delay_s(times) for times in range(18)] == [*RETRY_DELAYS_S, 7200, 7200]
    assert sum(RETRY_DELAYS_S[:4]) == 220
    assert [retry_delay_s(7, level) for level in (1, 3, 15, 99)] == [30, 120, 7200, 7200]


@pytest.mark.parametrize(("times", "level"), [(0, -1), (-1, 0)])
def test_dead_letters_have_no_delay(times: int, level: int) -> None:
    with pytest.raises(ValueError, match="has no delay"):
        retry_delay_s(times, level)


def test_a_message_that_failed_too_often_is_given_up_after_four_hours() -> None:
    ages = [0, 9, 10, 599, 600, 7_199, 7_200, LAST_AGE_S]
    assert [delay_after_last_s(age) for age in ages] == [10, 10, 30, 600, 1200, 7200, 7200, 7200]
    assert delay_after_last_s(LAST_AGE_S + 0.1) is None
    assert LAST_AGE_S == 4 * 60 * 60


def test_as_many_renewals_as_a_span_needs() -> None:
    assert renewals_within(15 * 60_000, 60_000) == 28
    assert [renewals_within(span, 10) for span in (0, 10, 11, 15, 16)] == [0, 0, 1, 1, 2]
    assert renewals_within(5, 1) == 4


# --- on a broker -----------------------------------------------------------------------------


@pytest.fixture
def broker() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker(topics=["T"], clock=VirtualClock()) as made:
        yield made


def test_a_message_stays_hidden_while_its_receipt_is_renewed(broker: EmbeddedBroker) -> None:
    queue = MessageQueue("T", broker.broker_name, 0)
    ask = PopAsk(queue, 8, 60_000, 0, SubscriptionData("T", "*"))
    with (
        DefaultMQProducer("P", namesrv_addr=broker.namesrv_addr) as producer,
        started_instance(broker.namesrv_addr) as instance,
    ):
        producer.send(Message("T", b"m"), queue=queue)
        calls = PopCalls(instance, GROUP)
        ((_, first),) = read_pop(calls.ask_pop(ask).result(10), ask).popped
        broker.clock.advance(40)
        keeper = ReceiptKeeper(instance, calls, 60_000, renewals_max=1)
        # As if half of its time were over already.
        held = keeper.register(first, monotonic() - 30)
        until(lambda: held.receipt != first)
        broker.clock.advance(59)
        assert not read_pop(calls.ask_pop(ask).result(10), ask).popped
        current = held.done().result(10)
        assert read_ack(calls.ask_ack(current).result(10), "T")
        broker.clock.advance(120)
        assert not read_pop(calls.ask_pop(ask).result(10), ask).popped
