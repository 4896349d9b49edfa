from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

from rocketmq_py.client.unreachable_servers import UnreachableServers
from rocketmq_py.consumer.calls import ConsumerCalls
from rocketmq_py.consumer.core import rebalance, shares
from rocketmq_py.consumer.core.broker_offsets import BrokerOffsets
from rocketmq_py.consumer.core.lane import Lane
from rocketmq_py.consumer.core.limits import QueueLimits
from rocketmq_py.consumer.core.progress import OffsetProgress
from rocketmq_py.consumer.core.rebalance import Ownership, Rebalancer, Unguarded
from rocketmq_py.consumer.core.shares import SharedByStrategy
from rocketmq_py.consumer.send_back import SendBack
from rocketmq_py.consumer.settings import PushConsumerConfig
from rocketmq_py.consumer.subscriptions import SubscriptionTable
from rocketmq_py.errors import MQClientException, NameServerUnavailableError
from rocketmq_py.protocol.codes import RequestCode
from rocketmq_py.protocol.command import RemotingCommand
from rocketmq_py.send_result import MessageQueue
from tests.unit.rocketmq_py.consumer.fake_engine import (
    GROUP,
    ME,
    RIVAL,
    FakeClock,
    FakeEngine,
    member_list,
    queues_of,
    refusal,
)

RETRY = f"%RETRY%{GROUP}"


class Bench:
    def __init__(
        self, config: PushConsumerConfig | None = None, ownership: Ownership | None = None
    ) -> None:
        self.engine = FakeEngine()
        self.engine.name_server = {"T": queues_of("T", 4), RETRY: queues_of(RETRY, 1)}
        self.config = config or PushConsumerConfig()
        calls = ConsumerCalls(self.engine, GROUP, self.config)
        self.offsets = BrokerOffsets(self.engine, calls)
        self.subscriptions = SubscriptionTable(FakeClock())
        self.subscriptions.put("T", "*")
        self.subscriptions.put(RETRY, "*")
        self.pulled: list[Lane] = []
        self.no_offset: set[MessageQueue] = set()
        self.share = SharedByStrategy(self.engine, calls, GROUP, self.config)
        self.rebalancer = Rebalancer(
            group=GROUP,
            engine=self.engine,
            share=self.share,
            progress=OffsetProgress(
                self.offsets, SendBack(GROUP, calls, self.config), self.first_offset
            ),
            offsets=self.offsets,
            subscriptions=self.subscriptions,
            fetch=self.fetch,
            ownership=ownership or Unguarded(),
        )
        self.members(ME)

    def members(self, *ids: str) -> None:
        self.engine.answers[RequestCode.GET_CONSUMER_LIST_BY_GROUP] = member_list(*ids)

    def first_offset(self, queue: MessageQueue) -> int:
        if queue in self.no_offset:
            raise MQClientException("nobody knows")
        self.engine.log.append("first offset")
        self.offsets.update(queue, 10)
        return 10

    def fetch(self, state: Lane) -> None:
        self.engine.log.append("pull")
        self.pulled.append(state)

    def mine(self, topic: str = "T") -> list[int]:
        return sorted(q.queue_id for q in self.rebalancer.queues() if q.topic == topic)


def test_a_lone_member_takes_every_queue_and_pulls_at_once() -> None:
    bench = Bench()
    assert bench.rebalancer.run()
    assert bench.mine() == [0, 1, 2, 3]
    assert bench.mine(RETRY) == [0]
    assert {state.next_offset for state in bench.pulled} == {10}
    assert len(bench.pulled) == 5
    assert bench.engine.scheduled == []


def test_the_first_run_asks_in_the_order_that_a_broker_needs() -> None:
    bench = Bench()
    bench.rebalancer.run()
    log = bench.engine.log
    assert log[:4] == ["route T", "HEART_BEAT", f"route {RETRY}", "GET_CONSUMER_LIST_BY_GROUP"]
    # The raised versions reach the broker before any pull that carries them.
    assert log[4:] == ["HEART_BEAT"] + ["first offset"] * 5 + ["pull"] * 5


def test_a_changed_assignment_raises_the_subscription_version() -> None:
    bench = Bench()
    before = bench.subscriptions.get("T")
    bench.rebalancer.run()
    after = bench.subscriptions.get("T")
    assert before is not None
    assert after is not None
    assert after.sub_version > before.sub_version
    heartbeats = bench.engine.heartbeats
    bench.rebalancer.run()
    assert bench.subscriptions.get("T") == after
    assert bench.engine.heartbeats == heartbeats


def test_queues_that_go_to_a_rival_are_dropped_and_their_offsets_written() -> None:
    bench = Bench()
    bench.rebalancer.run()
    bench.members(ME, RIVAL)
    assert bench.rebalancer.run()
    assert bench.mine() == [0, 1]
    dropped = [state for state in bench.pulled if state.dropped]
    assert {(state.queue.topic, state.queue.queue_id) for state in dropped} == {("T", 2), ("T", 3)}
    assert bench.engine.stored_offsets() == [("T", 2, 10), ("T", 3, 10)]
    assert bench.offsets.in_memory(dropped[0].queue) == -1


def test_queues_of_a_rival_that_left_are_taken_half_a_second_later(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = [100.0]
    monkeypatch.setattr(rebalance, "monotonic", lambda: now[0])
    monkeypatch.setattr(shares, "monotonic", lambda: now[0])
    bench = Bench()
    bench.members(ME, RIVAL)
    bench.rebalancer.run()
    assert bench.mine() == [0, 1]
    bench.members(ME)
    assert not bench.rebalancer.run()
    assert bench.mine() == [0, 1]
    (again,) = bench.engine.scheduled
    assert again.delay_ms == 500
    now[0] += 0.51
    assert bench.rebalancer.run()
    assert bench.mine() == [0, 1, 2, 3]


def test_a_topic_without_a_route_is_asked_again_from_100_ms_up_to_a_second(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = [100.0]
    monkeypatch.setattr(rebalance, "monotonic", lambda: now[0])
    monkeypatch.setattr(shares, "monotonic", lambda: now[0])
    bench = Bench()
    bench.engine.name_server = {}
    waits = []
    for _ in range(6):
        assert not bench.rebalancer.run()
        wait_ms = bench.engine.scheduled[-1].delay_ms
        waits.append(wait_ms)
        now[0] += wait_ms / 1000
    assert waits == [100, 200, 400, 800, 1000, 1000]
    asked = bench.engine.route_questions.count("T")
    bench.rebalancer.run()
    assert bench.engine.route_questions.count("T") <= asked + 1


def test_a_topic_with_a_route_of_which_no_queue_could_be_taken_is_told() -> None:
    bench = Bench()
    bench.no_offset = set(queues_of("T", 4))
    bench.rebalancer.run()
    assert bench.rebalancer.joining == "no queue of T is taken yet"
    bench.no_offset.clear()
    bench.rebalancer.run()
    assert bench.rebalancer.joining is None


def test_silent_name_servers_cost_one_time_out_per_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rebalance, "monotonic", lambda: 100.0)
    bench = Bench()
    asked: list[str] = []

    def silent(topic: str, _timeout_ms: float) -> bool:
        asked.append(topic)
        raise NameServerUnavailableError("nobody there")

    monkeypatch.setattr(bench.engine, "update", silent)
    assert not bench.rebalancer.run()
    assert asked == ["T"]
    assert bench.engine.scheduled[-1].delay_ms == pytest.approx(100, abs=1)


def test_a_topic_subscribed_later_is_announced_to_its_broker() -> None:
    bench = Bench()
    bench.rebalancer.run()
    bench.engine.name_server["U"] = queues_of("U", 1)
    bench.subscriptions.put("U", "*")
    bench.engine.log.clear()
    assert bench.rebalancer.run()
    assert bench.engine.log[:2] == ["route U", "HEART_BEAT"]
    assert bench.mine("U") == [0]


def test_a_route_that_appears_is_followed_by_heartbeat_and_retry_route(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = [100.0]
    monkeypatch.setattr(rebalance, "monotonic", lambda: now[0])
    monkeypatch.setattr(shares, "monotonic", lambda: now[0])
    bench = Bench()
    known, bench.engine.name_server = bench.engine.name_server, {}
    assert not bench.rebalancer.run()
    bench.engine.name_server = known
    bench.engine.log.clear()
    now[0] += 0.2
    assert bench.rebalancer.run()
    assert bench.engine.log[:3] == ["route T", "HEART_BEAT", f"route {RETRY}"]
    assert bench.mine(RETRY) == [0]


def test_a_member_that_the_broker_forgot_tells_it_again() -> None:
    bench = Bench()
    bench.members(RIVAL)
    assert not bench.rebalancer.run()
    assert bench.mine() == []
    heartbeats = bench.engine.heartbeats
    bench.members(ME, RIVAL)
    assert bench.rebalancer.run()
    assert bench.engine.heartbeats > heartbeats
    assert bench.mine() == [0, 1]


def test_a_broker_that_never_lists_this_member_is_asked_later_and_later_and_told_of_once(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    now = [100.0]
    monkeypatch.setattr(rebalance, "monotonic", lambda: now[0])
    monkeypatch.setattr(shares, "monotonic", lambda: now[0])
    bench = Bench()
    bench.members(RIVAL)
    waits, heartbeats = [], []
    for _ in range(8):
        assert not bench.rebalancer.run()
        waits.append(bench.engine.scheduled[-1].delay_ms)
        heartbeats.append(bench.engine.heartbeats)
        now[0] += waits[-1] / 1000
    assert waits == [1_000, 2_000, 4_000, 8_000, 10_000, 10_000, 10_000, 10_000]
    assert heartbeats == sorted(set(heartbeats)), "it says each time that it is here"
    told = [one.getMessage() for one in caplog.records if one.levelname == "WARNING"]
    assert len(told) == 1
    assert ME in told[0]
    bench.members(ME, RIVAL)
    assert bench.rebalancer.run()
    bench.members(RIVAL)
    assert not bench.rebalancer.run()
    assert bench.engine.scheduled[-1].delay_ms == 1_000, "it begins anew"


def test_runs_between_the_questions_to_such_a_broker_do_not_put_them_off(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = [100.0]
    monkeypatch.setattr(rebalance, "monotonic", lambda: now[0])
    monkeypatch.setattr(shares, "monotonic", lambda: now[0])
    bench = Bench()
    bench.members(RIVAL)
    waits = []
    for _ in range(3):
        bench.rebalancer.run()
        waits.append(bench.engine.scheduled[-1].delay_ms)
        now[0] += 0.2
    assert waits == [1_000, 800, 600]


def test_a_member_that_is_not_listed_still_asks_each_second_for_what_fails(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = [100.0]
    monkeypatch.setattr(rebalance, "monotonic", lambda: now[0])
    monkeypatch.setattr(shares, "monotonic", lambda: now[0])
    bench = Bench()
    bench.members(RIVAL)
    bench.rebalancer.run()
    now[0] += 60
    bench.engine.answers[RequestCode.GET_CONSUMER_LIST_BY_GROUP] = lambda _: refusal(1, "none")
    bench.rebalancer.run()
    assert bench.engine.scheduled[-1].delay_ms == 1_000


def test_queues_stay_when_the_member_list_cannot_be_asked() -> None:
    bench = Bench()
    bench.rebalancer.run()
    bench.engine.answers[RequestCode.GET_CONSUMER_LIST_BY_GROUP] = lambda _: refusal(1, "none")
    assert not bench.rebalancer.run()
    assert bench.mine() == [0, 1, 2, 3]
    assert bench.engine.scheduled[-1].delay_ms == 1000
    bench.members(ME)
    assert bench.rebalancer.run()


def test_a_queue_without_a_first_offset_is_tried_again() -> None:
    bench = Bench()
    bench.no_offset = {MessageQueue("T", "broker-a", 1)}
    assert not bench.rebalancer.run()
    assert bench.mine() == [0, 2, 3]
    bench.no_offset = set()
    assert bench.rebalancer.run()
    assert bench.mine() == [0, 1, 2, 3]


def test_queues_of_an_unsubscribed_topic_are_dropped() -> None:
    bench = Bench()
    bench.rebalancer.run()
    bench.subscriptions.remove("T")
    assert bench.rebalancer.run()
    assert bench.mine() == []
    assert bench.mine(RETRY) == [0]


def test_a_queue_that_was_not_pulled_for_two_minutes_is_taken_afresh() -> None:
    bench = Bench()
    bench.rebalancer.run()
    stuck = bench.pulled[0]
    stuck.fetched_at -= 121
    assert bench.rebalancer.run()
    assert stuck.dropped
    assert bench.pulled[-1].queue == stuck.queue
    assert not bench.pulled[-1].dropped


def test_a_dropped_queue_comes_back_with_the_next_run() -> None:
    bench = Bench()
    bench.rebalancer.run()
    illegal = bench.pulled[0]
    bench.rebalancer.drop(illegal)
    assert illegal.dropped
    assert illegal.queue not in bench.rebalancer.queues()
    bench.rebalancer.drop(illegal)
    assert bench.rebalancer.run()
    assert illegal.queue in bench.rebalancer.queues()


def test_after_the_stop_no_run_takes_a_queue() -> None:
    bench = Bench()
    bench.rebalancer.run()
    bench.rebalancer.stop()
    bench.rebalancer.drop_all()
    assert all(state.dropped for state in bench.pulled)
    count = len(bench.pulled)
    assert bench.rebalancer.run()
    assert len(bench.pulled) == count


@pytest.mark.parametrize(
    ("settings", "limits"),
    [
        (PushConsumerConfig(), (1000, 100)),
        (PushConsumerConfig(pull_threshold_for_topic=52), (10, 100)),
        (PushConsumerConfig(pull_threshold_size_for_topic=3), (1000, 1)),
    ],
)
def test_topic_limits_are_divided_by_the_queues_of_this_member(
    settings: PushConsumerConfig, limits: tuple[int, int]
) -> None:
    bench = Bench(settings)
    bench.rebalancer.run()
    assert QueueLimits(settings, lambda: len(bench.rebalancer.queues())).of_a_queue() == limits


@pytest.mark.parametrize("ended", [False, True])
def test_a_route_that_cannot_be_asked_for_is_told_unless_the_consumer_has_ended(
    monkeypatch: pytest.MonkeyPatch, ended: bool
) -> None:
    bench = Bench()
    told: list[str] = []

    def update(topic: str, *_: object) -> None:
        if ended:
            bench.rebalancer.stop()
        raise NameServerUnavailableError("the client is shut down")

    monkeypatch.setattr(bench.engine, "update", update)
    monkeypatch.setattr(bench.engine, "log_failure", lambda topic, _: told.append(topic))
    bench.rebalancer.run()
    assert told == ([] if ended else ["T"])


# --- queues that others must agree to -----------------------------------------------------------


class Guarded(Unguarded):
    """Owners that a test lets refuse queues, and lose them."""

    def __init__(self) -> None:
        self.refused: set[int] = set()
        self.lost: set[int] = set()
        self.asked: list[int] = []
        self.spare: list[int] = []
        self.returned: list[int] = []
        self.meanwhile: Callable[[], object] = lambda: None

    def may_take(self, queues: Sequence[MessageQueue]) -> Sequence[MessageQueue]:
        mine = [one for one in queues if one.topic == "T"]
        self.asked += [one.queue_id for one in mine]
        self.meanwhile()
        return [one for one in mine if one.queue_id not in self.refused]

    def not_taken(self, queue: MessageQueue) -> None:
        self.spare.append(queue.queue_id)

    def keeps(self, lane: Lane) -> bool:
        return lane.queue.queue_id not in self.lost

    def given_back(self, lane: Lane) -> None:
        assert lane.dropped
        self.returned.append(lane.queue.queue_id)


def test_queues_that_are_refused_are_asked_for_again_later() -> None:
    owners = Guarded()
    owners.refused = {1, 2}
    bench = Bench(ownership=owners)
    assert not bench.rebalancer.run()
    assert bench.mine() == [0, 3]
    assert bench.engine.scheduled
    assert bench.rebalancer.joining is None
    owners.refused.clear()
    owners.asked.clear()
    bench.rebalancer.run()
    assert (bench.mine(), owners.asked) == ([0, 1, 2, 3], [1, 2])
    assert owners.spare == []


def test_queues_that_nobody_gives_yet_are_no_work_that_is_waited_for() -> None:
    owners = Guarded()
    owners.refused = {0, 1, 2, 3}
    bench = Bench(ownership=owners)
    bench.rebalancer.run()
    assert (bench.mine(), bench.rebalancer.joining) == ([], None)
    owners.refused.clear()
    bench.no_offset = set(queues_of("T", 4))
    bench.rebalancer.run()
    assert bench.rebalancer.joining is not None


def test_a_queue_that_is_allowed_but_has_no_first_offset_is_not_kept_from_others() -> None:
    owners = Guarded()
    bench = Bench(ownership=owners)
    bench.no_offset = {queues_of("T", 4)[2]}
    bench.rebalancer.run()
    assert bench.mine() == [0, 1, 3]
    assert owners.spare == [2]


def test_queues_that_go_elsewhere_while_they_are_asked_for_are_not_kept_from_others() -> None:
    owners = Guarded()
    bench = Bench(ownership=owners)
    at_once: list[int] = []

    def end() -> None:
        bench.rebalancer.drop_all()
        at_once.extend(owners.spare)  # the answer may come when the client is gone

    owners.meanwhile = end
    bench.rebalancer.run()
    assert bench.mine() == []
    assert {0, 1, 2, 3} <= set(at_once)
    assert sorted(owners.spare) == sorted([*at_once, 0, 1, 2, 3])
    assert bench.pulled == []


def test_a_queue_that_was_lost_is_given_back_and_taken_afresh() -> None:
    owners = Guarded()
    bench = Bench(ownership=owners)
    bench.rebalancer.run()
    old = bench.rebalancer.lane(queues_of("T", 4)[1])
    assert old is not None
    owners.lost = {1}
    bench.rebalancer.run()
    fresh = bench.rebalancer.lane(old.queue)
    assert (old.dropped, owners.returned) == (True, [1])
    assert fresh is not None
    assert fresh is not old
    assert bench.mine() == [0, 1, 2, 3]


def test_at_the_end_every_queue_is_given_back() -> None:
    owners = Guarded()
    bench = Bench(ownership=owners)
    bench.rebalancer.run()
    bench.rebalancer.stop()
    bench.rebalancer.drop_all()
    assert sorted(owners.returned) == [0, 1, 2, 3]


def test_a_run_that_fails_because_the_member_has_left_meanwhile_is_no_warning(
    caplog: pytest.LogCaptureFixture,
) -> None:
    bench = Bench()
    unknown = refusal(1, "no consumer for this group")

    def leave(_: RemotingCommand) -> RemotingCommand:
        bench.rebalancer.stop()
        return unknown

    bench.engine.answers[RequestCode.GET_CONSUMER_LIST_BY_GROUP] = lambda _: unknown
    assert not bench.rebalancer.run()
    assert "rebalance of T" in caplog.text
    caplog.clear()
    bench.engine.unreachable = UnreachableServers()  # else the same is told once a minute only
    bench.engine.answers[RequestCode.GET_CONSUMER_LIST_BY_GROUP] = leave
    assert not bench.rebalancer.run()
    assert caplog.text == ""
