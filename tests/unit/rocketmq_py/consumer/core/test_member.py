from __future__ import annotations

import logging
from collections.abc import Sequence

import pytest

from rocketmq_py.consumer.assembly import Basis, push_member
from rocketmq_py.consumer.hooks import Hooks
from rocketmq_py.consumer.listener import (
    ConsumeConcurrentlyContext,
    ConsumeConcurrentlyStatus,
    listening_of,
)
from rocketmq_py.consumer.settings import PushConsumerConfig
from rocketmq_py.consumer.subscriptions import SubscriptionTable
from rocketmq_py.errors import MQClientException
from rocketmq_py.message import MessageExt
from rocketmq_py.protocol.bodies.document import MessageQueueKey
from rocketmq_py.protocol.bodies.groups import ResetOffsetBody
from rocketmq_py.protocol.codes import RequestCode, ResponseCode
from rocketmq_py.protocol.command import RemotingCommand
from tests.unit.rocketmq_py.consumer.fake_engine import (
    GROUP,
    ME,
    FakeClock,
    FakeEngine,
    InlinePool,
    member_list,
    ok,
    pulled,
    queues_of,
    record,
    refusal,
)

RETRY = f"%RETRY%{GROUP}"
DONE = ConsumeConcurrentlyStatus.CONSUME_SUCCESS


class Bench:
    def __init__(self, topics: tuple[str, ...] = ("T",)) -> None:
        self.engine = FakeEngine()
        self.engine.name_server = {topic: queues_of(topic, 1) for topic in (*topics, RETRY)}
        self.engine.answers[RequestCode.GET_CONSUMER_LIST_BY_GROUP] = member_list(ME)
        self.stored: dict[str, int] = {}
        self.engine.answers[RequestCode.QUERY_CONSUMER_OFFSET] = lambda command: (
            ok({"offset": str(self.stored[command.ext_fields["topic"]])})
            if command.ext_fields["topic"] in self.stored
            else refusal(ResponseCode.QUERY_NOT_FOUND)
        )
        self.engine.answers[RequestCode.GET_MAX_OFFSET] = lambda _: ok({"offset": "5"})
        self.subscriptions = SubscriptionTable(FakeClock())
        for topic in (*topics, RETRY):
            self.subscriptions.put(topic, "*")
        self.seen: list[int] = []
        basis = Basis(
            GROUP,
            self.engine,
            PushConsumerConfig(),
            self.subscriptions,
            clock=FakeClock(),
            hooks=Hooks(),
        )
        self.member = push_member(basis, listening_of(self.listen))
        self.member.dispatch.pool = InlinePool()

    def listen(
        self, messages: Sequence[MessageExt], context: ConsumeConcurrentlyContext
    ) -> ConsumeConcurrentlyStatus:
        self.seen += [message.queue_offset for message in messages]
        return DONE


def test_a_start_joins_takes_queues_and_pulls_before_it_returns() -> None:
    bench = Bench()
    bench.member.start()
    asked = [(c.ext_fields["topic"], c.ext_fields["queueOffset"]) for c, _ in bench.engine.pulls]
    assert asked == [("T", "5"), (RETRY, "0")]
    assert [handle.delay_ms for handle in bench.engine.periodic] == [15 * 60_000, 27_000]


def test_nothing_is_pulled_before_a_broker_has_taken_the_condition() -> None:
    bench = Bench()
    bench.subscriptions.put("T", "size > '5'", "SQL92")

    def refuse(_: RemotingCommand) -> RemotingCommand:
        bench.member.rebalance()  # as the client does in background when a route is new
        return refusal(23, "it cannot be compared")

    bench.engine.answers[RequestCode.CHECK_CLIENT_CONFIG] = refuse
    with pytest.raises(MQClientException, match="it cannot be compared"):
        bench.member.start()
    assert bench.engine.pulls == []


def test_a_message_goes_from_pull_to_listener_to_offset() -> None:
    bench = Bench()
    bench.member.start()
    bench.engine.complete_pull(pulled(record(5), next_offset=6), at=0)
    assert bench.seen == [5]
    assert ("T", 0, 6) in bench.engine.stored_offsets()
    assert bench.member.told() is None


def test_a_correction_of_a_queue_that_was_taken_afresh_meanwhile_changes_nothing() -> None:
    bench = Bench()
    bench.member.start()
    (old,) = (one for one in bench.member.rebalancer.lanes if one.queue.topic == "T")
    bench.member.rebalancer.drop(old)
    bench.member.rebalance()
    old.next_offset = 3
    bench.member._corrected(old)
    (new,) = (one for one in bench.member.rebalancer.lanes if one.queue.topic == "T")
    assert not new.dropped
    bench.member.offsets.update(new.queue, 9)
    assert bench.member.offsets.in_memory(new.queue) == 9


def test_an_illegal_offset_is_frozen_written_and_the_queue_taken_afresh() -> None:
    bench = Bench()
    bench.member.start()
    moved = pulled(code=ResponseCode.PULL_OFFSET_MOVED, next_offset=2)
    bench.engine.complete_pull(moved, at=0)
    assert ("T", 0, 2) in bench.engine.stored_offsets()
    assert bench.engine.rebalances == 1
    bench.stored["T"] = 2
    bench.member.rebalance()
    assert bench.engine.pulls[-1][0].ext_fields["queueOffset"] == "2"


def test_leaving_writes_the_offsets_and_drops_the_queues() -> None:
    bench = Bench()
    bench.member.start()
    states = bench.member.rebalancer.lanes
    bench.engine.complete_pull(pulled(record(5), next_offset=6), at=0)
    bench.engine.oneways.clear()
    bench.member.end(1.0)
    assert ("T", 0, 6) in bench.engine.stored_offsets()
    assert all(state.dropped for state in states)
    assert bench.engine.periodic[0].cancelled
    bench.engine.complete_pull(pulled(record(6), next_offset=7))
    assert bench.seen == [5]


def test_a_heartbeat_learns_what_the_member_wants() -> None:
    bench = Bench(("T", "U"))
    assert bench.member.consume_type == "CONSUME_PASSIVELY"
    assert bench.member.message_model == "CLUSTERING"
    assert bench.member.consume_from_where == "CONSUME_FROM_LAST_OFFSET"
    assert [s.topic for s in bench.member.subscriptions()] == ["T", "U", RETRY]


def test_a_member_with_cached_messages_or_unwritten_offsets_is_busy() -> None:
    bench = Bench()
    bench.member.start()
    bench.engine.complete_pull(pulled(record(5), next_offset=6), at=0)
    bench.engine.complete_pull(pulled(record(6), next_offset=7))
    assert bench.member.told() == "1 offsets not written"
    bench.engine.run_tasks()
    assert ("T", 0, 7) not in bench.engine.stored_offsets()
    bench.member.hasten()
    bench.engine.run_tasks()
    assert ("T", 0, 7) in bench.engine.stored_offsets()
    assert bench.member.told() is None
    bench.engine.run_scheduled()
    assert bench.member.told() is None
    bench.member.rebalancer.lanes[0].put([MessageExt("T", b"b", queue_offset=9)])
    reason = bench.member.told()
    assert reason is not None
    assert reason.endswith(
        "of T queue 0 waits for its listener; 1 messages cached, 0 listener calls"
    )


@pytest.mark.case("T81")
def test_an_administrator_moves_the_offset_and_the_queue_is_pulled_from_there() -> None:
    bench = Bench()
    bench.member.start()
    bench.engine.complete_pull(pulled(record(5), next_offset=6), at=0)
    (queue,) = queues_of("T", 1)
    others = MessageQueueKey("T", "another-broker", 0)
    mine = MessageQueueKey("T", queue.broker_name, 0)
    command = RemotingCommand(
        code=RequestCode.RESET_CONSUMER_CLIENT_OFFSET,
        ext_fields={"topic": "T", "group": GROUP, "timestamp": "-1", "isForce": "true"},
        body=ResetOffsetBody({others: 1, mine: 2}).encode(),
    )

    answer = bench.member.handle_broker_request(command)

    assert answer is not None
    assert answer.code == ResponseCode.SUCCESS
    assert [state.queue.topic for state in bench.member.rebalancer.lanes] == [RETRY]
    assert bench.engine.stored_offsets()[-1] == ("T", 0, 2)
    assert bench.engine.rebalances == 1
    bench.stored["T"] = 2
    bench.member.rebalance()
    assert bench.engine.pulls[-1][0].ext_fields["queueOffset"] == "2"


def test_broker_requests_that_are_not_built_are_logged_and_left_to_the_instance(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with caplog.at_level(logging.WARNING):
        assert Bench().member.handle_broker_request(RemotingCommand(code=999)) is None
    assert "999 is not served" in caplog.text
