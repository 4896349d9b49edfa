from __future__ import annotations

import logging
import threading
import zlib

import pytest

from rocketmq_py.consumer.calls import LONG_POLL_MS, ConsumerCalls
from rocketmq_py.consumer.core import intake
from rocketmq_py.consumer.core.broker_offsets import BrokerOffsets
from rocketmq_py.consumer.core.intake import Intake
from rocketmq_py.consumer.core.lane import Lane
from rocketmq_py.consumer.core.limits import QueueLimits, SpanLimit
from rocketmq_py.consumer.core.progress import OffsetProgress
from rocketmq_py.consumer.core.sources import Pulls
from rocketmq_py.consumer.core.standstill import TOLD_AFTER
from rocketmq_py.consumer.send_back import SendBack
from rocketmq_py.consumer.settings import PushConsumerConfig
from rocketmq_py.consumer.subscriptions import SubscriptionTable
from rocketmq_py.errors import RemotingConnectException
from rocketmq_py.message import MessageExt
from rocketmq_py.protocol.codes import RequestCode, ResponseCode
from rocketmq_py.protocol.command import RemotingCommand
from rocketmq_py.protocol.message_codec import encode_batch
from rocketmq_py.protocol.sysflag import COMPRESSED, WRAPPED
from rocketmq_py.send_result import MessageQueue
from tests.unit.rocketmq_py.consumer.fake_engine import (
    GROUP,
    FakeClock,
    FakeEngine,
    message,
    pulled,
    record,
    refusal,
)

QUEUE = MessageQueue("T", "broker-a", 0)
PAUSE_MS = 777


class Bench:
    def __init__(self, expression: str = "*", config: PushConsumerConfig | None = None) -> None:
        self.engine = FakeEngine()
        self.config = config or PushConsumerConfig(pull_time_delay_millis_when_exception=PAUSE_MS)
        calls = ConsumerCalls(self.engine, GROUP, self.config)
        self.offsets = BrokerOffsets(self.engine, calls)
        self.subscriptions = SubscriptionTable(FakeClock())
        self.subscriptions.put("T", expression)
        self.delivered: list[MessageExt] = []
        self.illegal: list[Lane] = []
        self.queues = 1
        self.loop = Intake(
            engine=self.engine,
            settings=self.config,
            group=GROUP,
            source=Pulls(calls, self.subscriptions, self.offsets, GROUP),
            progress=OffsetProgress(self.offsets, SendBack(GROUP, calls, self.config), lambda _: 0),
            gates=(
                QueueLimits(self.config, lambda: self.queues),
                SpanLimit("the_span", lambda: self.config.consume_concurrently_max_span),
            ),
            deliver=lambda _state, messages: self.delivered.extend(messages),
            corrected=self.illegal.append,
        )
        self.state = Lane(QUEUE, 5, fetched_at=0.0)

    def asked(self) -> dict[str, str]:
        command, _ = self.engine.pulls[-1]
        assert command.code == RequestCode.PULL_MESSAGE
        return command.ext_fields

    def complete_kept(self, answer: RemotingCommand) -> None:
        """Answer as a broker does that has kept the pull for as long as it may."""
        self.state.fetched_at -= LONG_POLL_MS / 1000
        self.engine.complete_pull(answer)

    def waits(self) -> list[float]:
        return [handle.delay_ms for handle in self.engine.scheduled]


def test_a_pull_asks_to_be_kept_and_carries_the_offset_to_commit() -> None:
    bench = Bench()
    bench.loop.fetch(bench.state)
    asked = bench.asked()
    assert asked["queueOffset"] == "5"
    assert asked["suspendTimeoutMillis"] == str(LONG_POLL_MS)
    assert asked["sysFlag"] == "2"
    assert asked["maxMsgNums"] == "32"
    assert asked["bname"] == "broker-a"
    assert "subscription" not in asked
    bench.complete_kept(pulled(code=ResponseCode.PULL_NOT_FOUND, next_offset=5))
    bench.offsets.update(QUEUE, 4)
    bench.complete_kept(pulled(code=ResponseCode.PULL_NOT_FOUND, next_offset=5))
    assert bench.asked()["sysFlag"] == "3"
    assert bench.asked()["commitOffset"] == "5"


def test_the_expression_goes_along_when_the_program_wants_it() -> None:
    bench = Bench("a || b", PushConsumerConfig(post_subscription_when_pull=True))
    bench.loop.fetch(bench.state)
    assert bench.asked()["subscription"] == "a || b"
    assert bench.asked()["sysFlag"] == "6"


def test_found_messages_are_cached_and_delivered_and_the_next_pull_follows() -> None:
    bench = Bench()
    bench.loop.fetch(bench.state)
    bench.engine.complete_pull(pulled(record(5) + record(6), next_offset=7))
    assert [m.queue_offset for m in bench.delivered] == [5, 6]
    assert bench.state.count == 2
    assert bench.asked()["queueOffset"] == "7"


def test_the_reading_thread_only_hands_the_answer_over() -> None:
    bench = Bench()
    bench.loop.fetch(bench.state)
    _, future = bench.engine.pulls[-1]
    future.set_result(pulled(record(5), next_offset=6))
    assert bench.delivered == []
    bench.engine.run_tasks()
    assert len(bench.delivered) == 1


def test_a_pause_between_pulls_is_kept() -> None:
    bench = Bench(config=PushConsumerConfig(pull_interval=250))
    bench.loop.fetch(bench.state)
    bench.engine.complete_pull(pulled(record(5), next_offset=6))
    assert bench.engine.pulls == []
    assert bench.engine.run_scheduled() == [250]
    assert bench.asked()["queueOffset"] == "6"


@pytest.mark.case("T69")
def test_what_does_not_match_moves_the_offset_when_nothing_is_cached() -> None:
    bench = Bench("TagA || TagB")
    bench.loop.fetch(bench.state)
    bench.engine.complete_pull(pulled(code=ResponseCode.PULL_RETRY_IMMEDIATELY, next_offset=40))
    assert bench.offsets.in_memory(QUEUE) == 40
    bench.state.put([message(41)])
    bench.engine.complete_pull(pulled(code=ResponseCode.PULL_RETRY_IMMEDIATELY, next_offset=60))
    assert bench.offsets.in_memory(QUEUE) == 40
    assert bench.asked()["queueOffset"] == "60"


@pytest.mark.case("T69")
def test_a_message_of_another_tag_never_reaches_the_listener() -> None:
    bench = Bench("TagA || BB")
    bench.loop.fetch(bench.state)
    records = [
        record(5, properties={"TAGS": "TagA"}),
        record(6, properties={"TAGS": "Aa"}),  # the hash of BB
        record(7, properties={"TAGS": "BB"}),
    ]
    bench.engine.complete_pull(pulled(b"".join(records), next_offset=8))
    assert [m.tags for m in bench.delivered] == ["TagA", "BB"]


def test_an_illegal_offset_drops_the_queue_and_keeps_the_brokers_offset() -> None:
    bench = Bench()
    bench.loop.fetch(bench.state)
    bench.engine.complete_pull(pulled(code=ResponseCode.PULL_OFFSET_MOVED, next_offset=3))
    assert bench.illegal == [bench.state]
    assert bench.state.dropped
    assert bench.state.next_offset == 3
    assert bench.engine.pulls == []


@pytest.mark.case("T74")
@pytest.mark.parametrize(
    ("limits", "cached", "named"),
    [
        ((2, 100), [message(5), message(6), message(7)], "pull_threshold_for_queue"),
        (
            (1000, 1),
            [message(5, body=b"x" * 2**20), message(6, body=b"x" * 2**20)],
            "pull_threshold_size_for_queue",
        ),
        ((1000, 100), [message(5), message(2006)], "the_span 2000"),
    ],
    ids=["count", "size", "span"],
)
def test_a_full_cache_pauses_pulling_until_there_is_room(
    limits: tuple[int, int],
    cached: list[MessageExt],
    named: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    bench = Bench()
    bench.config.pull_threshold_for_queue, bench.config.pull_threshold_size_for_queue = limits
    bench.state.put(cached)
    with caplog.at_level(logging.WARNING):
        bench.loop.fetch(bench.state)
        assert bench.engine.run_scheduled() == [50]
    assert bench.engine.pulls == []
    assert [named in record.message for record in caplog.records] == [True]
    bench.state.remove(cached)
    assert bench.engine.run_scheduled() == [50]
    assert len(bench.engine.pulls) == 1


def test_exactly_full_is_not_too_full() -> None:
    bench = Bench()
    bench.config.pull_threshold_for_queue = 2
    bench.state.put([message(5), message(6)])
    assert bench.loop.closed_gate(bench.state) is None


@pytest.mark.parametrize(
    "problem",
    [RemotingConnectException("gone"), refusal(1, "broken"), refusal(25)],
    ids=["transport", "error", "old subscription"],
)
def test_a_failed_pull_is_repeated_after_a_pause(problem: object) -> None:
    bench = Bench()
    bench.loop.fetch(bench.state)
    bench.engine.complete_pull(problem)  # type: ignore[arg-type]
    assert bench.engine.run_scheduled() == [PAUSE_MS]
    assert bench.asked()["queueOffset"] == "5"


def test_a_broker_that_has_forgotten_the_group_is_asked_again_soon_and_then_after_a_pause(
    caplog: pytest.LogCaptureFixture,
) -> None:
    bench = Bench()
    bench.loop.fetch(bench.state)
    for _ in range(intake.FORGOTTEN_MAX):
        bench.engine.complete_pull(refusal(24))
        assert bench.engine.run_scheduled() == [intake.FORGOTTEN_WAIT_MS]
    assert caplog.records == []
    for _ in range(2):
        bench.engine.complete_pull(refusal(24))
        assert bench.engine.run_scheduled() == [PAUSE_MS]
    assert len(caplog.records) == 1
    bench.complete_kept(pulled(code=ResponseCode.PULL_NOT_FOUND, next_offset=5))
    bench.engine.complete_pull(refusal(24))
    assert bench.engine.run_scheduled() == [intake.FORGOTTEN_WAIT_MS]


def test_a_failed_pull_is_repeated_at_once_and_only_once_when_somebody_waits_for_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = [100.0]
    monkeypatch.setattr(intake, "monotonic", lambda: now[0])
    bench = Bench()
    bench.loop.fetch(bench.state)
    bench.engine.complete_pull(RemotingConnectException("gone"))
    assert "gone" in str(bench.loop.waiting)

    bench.loop.hasten()
    bench.engine.run_tasks()
    assert bench.engine.pulls == []  # it was pulled a moment ago

    now[0] += 0.02
    bench.loop.hasten()
    bench.loop.hasten()
    bench.engine.run_tasks()
    assert len(bench.engine.pulls) == 1
    assert bench.loop.waiting is None
    assert bench.engine.run_scheduled() == [PAUSE_MS]
    assert len(bench.engine.pulls) == 1


def test_a_throttling_broker_is_asked_again_soon() -> None:
    bench = Bench()
    bench.loop.fetch(bench.state)
    bench.engine.complete_pull(refusal(ResponseCode.FLOW_CONTROL))
    assert bench.waits() == [20]


def test_a_broker_that_cannot_be_reached_is_tried_again() -> None:
    bench = Bench()
    bench.engine.addresses.clear()
    bench.loop.fetch(bench.state)
    assert bench.waits() == [PAUSE_MS]
    assert bench.engine.route_questions == ["T"]


def test_an_answer_that_is_no_pull_answer_does_not_end_the_pulling() -> None:
    bench = Bench()
    bench.loop.fetch(bench.state)
    _, future = bench.engine.pulls.pop()
    answer = pulled()
    del answer.ext_fields["nextBeginOffset"]
    future.set_result(answer)
    bench.engine.run_tasks()
    assert bench.waits() == [PAUSE_MS]


def test_a_damaged_record_holds_the_queue_and_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    bench = Bench()
    bench.loop.fetch(bench.state)
    damaged = record(6).replace(b"body", b"bodY")
    with caplog.at_level(logging.WARNING):
        bench.engine.complete_pull(pulled(record(5) + damaged + record(7), next_offset=8))
    assert [m.queue_offset for m in bench.delivered] == [5]
    assert "at offset 6 failed" in caplog.text
    bench.engine.run_scheduled()
    assert bench.asked()["queueOffset"] == "6"


def test_what_found_no_room_in_an_answer_is_pulled_again_at_once() -> None:
    bench = Bench()
    bench.loop.fetch(bench.state)
    body = zlib.compress(encode_batch([(0, bytes(9 << 20), b"")]))
    batches = [record(offset, body=body, sys_flag=WRAPPED | COMPRESSED) for offset in (5, 6)]
    bench.engine.complete_pull(pulled(b"".join(batches), next_offset=7))
    assert [m.queue_offset for m in bench.delivered] == [5]
    assert bench.asked()["queueOffset"] == "6"


def test_nothing_is_taken_while_suspended_and_everything_after() -> None:
    bench = Bench()
    bench.loop.fetch(bench.state)
    bench.loop.suspend()
    bench.engine.complete_pull(pulled(record(5), next_offset=6))
    assert bench.delivered == []
    assert bench.engine.pulls == []
    bench.loop.resume()
    bench.engine.run_tasks()
    assert bench.asked()["queueOffset"] == "5"


def test_a_dropped_queue_is_not_pulled_and_its_answer_thrown_away() -> None:
    bench = Bench()
    bench.loop.fetch(bench.state)
    bench.state.dropped = True
    bench.engine.complete_pull(pulled(record(5), next_offset=6))
    bench.loop.fetch(bench.state)
    assert (bench.delivered, bench.engine.pulls) == ([], [])


def test_after_the_stop_no_answer_is_taken() -> None:
    bench = Bench()
    bench.loop.fetch(bench.state)
    bench.loop.stop()
    bench.engine.complete_pull(pulled(record(5), next_offset=6))
    assert (bench.delivered, bench.engine.pulls) == ([], [])


def test_a_suggested_slave_is_pulled_next_and_gets_no_offset() -> None:
    bench = Bench()
    bench.engine.addresses["broker-a", 1] = "10.0.0.8:10911"
    bench.offsets.update(QUEUE, 4)
    bench.loop.fetch(bench.state)
    bench.engine.complete_pull(pulled(record(5), next_offset=6, suggest=1))
    assert bench.asked()["sysFlag"] == "2"


def test_an_unsubscribed_topic_is_not_pulled() -> None:
    bench = Bench()
    bench.subscriptions.remove("T")
    bench.loop.fetch(bench.state)
    assert bench.waits() == [PAUSE_MS]


def test_a_full_callback_pool_does_not_lose_the_queue(monkeypatch: pytest.MonkeyPatch) -> None:
    bench = Bench()
    bench.loop.fetch(bench.state)
    monkeypatch.setattr(bench.engine, "submit", lambda _task: False)
    bench.engine.complete_pull(pulled(record(5), next_offset=6))
    monkeypatch.undo()
    assert bench.engine.run_scheduled() == [PAUSE_MS]
    assert len(bench.delivered) == 1


def test_pulls_that_our_own_end_cuts_off_are_not_told_as_failures(
    caplog: pytest.LogCaptureFixture,
) -> None:
    bench = Bench()
    bench.loop.fetch(bench.state)
    bench.engine.is_running = False
    bench.engine.complete_pull(RemotingConnectException("the client closed it"))
    assert bench.waits() == []
    assert caplog.records == []


def test_a_pull_that_cannot_be_asked_any_more_after_the_stop_is_no_failure(
    caplog: pytest.LogCaptureFixture,
) -> None:
    bench = Bench()
    bench.engine.addresses.clear()
    ask = bench.engine.update

    def stopped_meanwhile(
        topic: str, timeout_ms: float | None = None, stop: threading.Event | None = None
    ) -> bool:
        bench.loop.stop()
        return ask(topic, timeout_ms, stop)

    bench.engine.update = stopped_meanwhile  # type: ignore[method-assign] # the moment
    bench.loop.fetch(bench.state)
    assert bench.waits() == []
    assert caplog.records == []


# --- brokers whose answers lead nowhere --------------------------------------------------------


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The time of the pulls, which stands: every answer comes at once."""
    now = [1_000.0]
    monkeypatch.setattr(intake, "monotonic", lambda: now[0])
    return now


@pytest.mark.usefixtures("clock")
@pytest.mark.parametrize(
    ("answer", "asked"),
    [
        (pulled(code=ResponseCode.PULL_NOT_FOUND, next_offset=5), "5"),
        (pulled(code=ResponseCode.PULL_RETRY_IMMEDIATELY, next_offset=5), "5"),
        (pulled(code=ResponseCode.PULL_RETRY_IMMEDIATELY, next_offset=4), "4"),
        (pulled(next_offset=5), "5"),
        (pulled(record(5), next_offset=5), "5"),
    ],
    ids=["nothing", "no match", "back", "empty", "the same message"],
)
def test_a_queue_whose_answers_lead_nowhere_is_pulled_later_and_later_and_told_once(
    answer: RemotingCommand, asked: str, caplog: pytest.LogCaptureFixture
) -> None:
    bench = Bench()
    waits: list[float] = []
    for _ in range(12):
        if not bench.engine.pulls:
            bench.loop.fetch(bench.state)
        if asked == "4":  # so that each answer goes back
            bench.state.next_offset = 5
        bench.engine.complete_pull(answer)
        assert bench.engine.pulls == []
        assert "lead nowhere" in str(bench.loop.waiting)
        waits += bench.engine.run_scheduled()
        assert bench.asked()["queueOffset"] == asked
        assert len(caplog.records) == (len(waits) >= TOLD_AFTER), "a few answers are no news"
    assert waits == pytest.approx([20, 40, 80, 160, 320, 640, *[1_000] * 6])
    told = [one.getMessage() for one in caplog.records if one.levelname == "WARNING"]
    assert len(told) == 1
    assert "lead nowhere" in told[0]


@pytest.mark.usefixtures("clock")
def test_a_scan_that_moves_on_is_never_put_off() -> None:
    bench = Bench()
    bench.loop.fetch(bench.state)
    for offset in range(6, 500):
        bench.engine.complete_pull(
            pulled(code=ResponseCode.PULL_RETRY_IMMEDIATELY, next_offset=offset)
        )
        assert bench.asked()["queueOffset"] == str(offset)
    assert bench.waits() == []


@pytest.mark.usefixtures("clock")
def test_a_correction_that_corrects_nothing_lets_the_queue_be_taken_afresh_later_and_later(
    caplog: pytest.LogCaptureFixture,
) -> None:
    bench = Bench()
    waits: list[float] = []
    for number in range(12):
        bench.state = Lane(QUEUE, 5, fetched_at=0.0)  # as a rebalance takes it
        bench.loop.fetch(bench.state)
        bench.engine.complete_pull(pulled(code=ResponseCode.PULL_OFFSET_MOVED, next_offset=8))
        assert bench.state.dropped
        assert bench.engine.pulls == []
        waits += bench.engine.run_scheduled()
        assert len(bench.illegal) == number + 1
    assert waits == pytest.approx([20, 40, 80, 160, 320, 640, *[1_000] * 5])
    told = [one.getMessage() for one in caplog.records if one.levelname == "WARNING"]
    assert ["is illegal, the broker says 8" in line for line in told] == [True, False]
    assert "lead nowhere" in told[1]


def test_a_broker_that_lacks_the_queue_lets_the_route_be_asked_for() -> None:
    bench = Bench()
    bench.loop.fetch(bench.state)
    bench.engine.complete_pull(refusal(ResponseCode.TOPIC_NOT_EXIST))
    assert bench.engine.log[-1] == "look again T"


def test_what_is_remembered_of_queues_that_others_have_now_has_a_bound(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(intake, "STANDING_MAX", 10)
    bench = Bench()
    for number in range(40):
        state = Lane(MessageQueue("T", "broker-a", number), 5, fetched_at=0.0)
        bench.loop.fetch(state)
        bench.engine.complete_pull(pulled(code=ResponseCode.PULL_NOT_FOUND, next_offset=5))
    assert len(bench.loop._standing) <= 10
