"""Messages of a run leave together, and each has an outcome of its own, whatever happens."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from queue import SimpleQueue
from types import NoneType
from typing import Any, Literal

import pytest
from attrs import evolve

from embedded_broker import EmbeddedBroker, VirtualClock
from rocketmq_py import (
    Credentials,
    DelayPolicy,
    DelayValueError,
    FlowControlError,
    MessageQueue,
    MQBrokerException,
    MQClientException,
    RemotingSendRequestException,
    RemotingTimeoutException,
    RemotingTooMuchRequestException,
    SendStatus,
)
from rocketmq_py.protocol.codes import RequestCode, ResponseCode
from rocketmq_py.protocol.command import RemotingCommand
from rocketmq_py.protocol.frame import Frame
from rocketmq_py.protocol.properties import encode_properties
from rocketmq_py.raw import QueueAccess, RunOutcome, SendRun
from tests.unit.rocketmq_py.scripted import Peer, ScriptedCluster, ScriptedServer, stored

QUEUE = MessageQueue("T", "broker-a", 0)
SEND = RequestCode.SEND_MESSAGE_V2


@pytest.fixture
def broker() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker(clock=VirtualClock()) as started:
        started.topics.create("T", queues=2)
        yield started


@pytest.fixture
def cluster() -> Iterator[ScriptedCluster]:
    scripted = ScriptedCluster()
    yield scripted
    scripted.close()


@pytest.fixture
def server(cluster: ScriptedCluster) -> ScriptedServer:
    """The broker; it stores whatever it gets, unless a test says otherwise."""
    return cluster.brokers[0]


def text(**properties: str) -> str:
    return encode_properties({"UNIQ_KEY": "0" * 32} | properties).decode()


def run_of(bodies: Sequence[bytes], *texts: str, queue: MessageQueue = QUEUE) -> SendRun:
    return SendRun(queue, bodies, texts or [text()] * len(bodies))


def sent(access: QueueAccess, run: SendRun, timeout_ms: int = 5_000) -> RunOutcome:
    """Send a run and wait for its end, which is told once."""
    told: SimpleQueue[RunOutcome] = SimpleQueue()
    access.write_queues("T")
    access.send_run(run, told.put, timeout_ms=timeout_ms)
    found = told.get(timeout=10)
    assert told.empty()
    return found


def errors_of(outcome: RunOutcome) -> dict[int, type[Exception]]:
    return {number: type(one.error) for number, one in enumerate(outcome) if one.error is not None}


@pytest.mark.parametrize("transport", ["tcp", "auto"])
def test_the_messages_of_a_run_go_out_together_and_each_has_its_own_answer(
    broker: EmbeddedBroker, transport: Literal["tcp", "auto"]
) -> None:
    too_late = text(TIMER_DELAY_MS="99999999999999")
    texts = [text(a="1"), too_late, text(TIMER_DELAY_MS="5000"), text()]
    with QueueAccess(namesrv_addr=broker.namesrv_addr, transport=transport) as access:
        outcome = sent(access, run_of([b"a", b"refused", b"later", b"c"], *texts))
        assert errors_of(outcome) == {1: MQBrokerException}
        with pytest.raises(MQBrokerException, match="code 13"):
            outcome[1].result()
        taken = [outcome[number].result() for number in (0, 2, 3)]
        assert [one.queue_offset for one in taken if not one.recall_handle] == [0, 1]
        assert taken[1].recall_handle
        assert {one.status for one in taken} == {SendStatus.SEND_OK}
        assert len(sent(access, run_of([]))) == 0
        nowhere = MessageQueue("T", "broker-z", 0)
        assert errors_of(sent(access, run_of([b"x"] * 2, queue=nowhere))) == dict.fromkeys(
            (0, 1), MQClientException
        )
    found = broker.messages.in_topic("T")
    assert sorted(message.body for message in found) == [b"a", b"c"]
    assert found[0].properties["a"] == "1"


def test_a_plain_answer_is_not_read_before_somebody_asks(broker: EmbeddedBroker) -> None:
    with QueueAccess(namesrv_addr=broker.namesrv_addr, transport="tcp") as access:
        outcome = sent(access, run_of([b"%d" % number for number in range(300)]))
    assert outcome.unusual == []
    assert {type(one) for one in outcome._outcomes} == {Frame}
    assert [one.result().queue_offset for one in outcome] == list(range(300))
    found = broker.messages.in_topic("T")
    assert [message.body for message in found] == [b"%d" % number for number in range(300)]


def test_a_busy_answer_is_that_of_its_message_alone(broker: EmbeddedBroker) -> None:
    broker.faults.on(SEND).respond(ResponseCode.SYSTEM_BUSY).times(2)
    with QueueAccess(namesrv_addr=broker.namesrv_addr) as access:
        outcome = sent(access, run_of([b"%d" % number for number in range(5)]))
    assert errors_of(outcome) == {0: FlowControlError, 1: FlowControlError}
    assert outcome.unusual == [0, 1]
    assert [message.body for message in broker.messages.in_topic("T")] == [b"2", b"3", b"4"]


class Seeing:
    """A hook that changes what goes out and notes what comes back."""

    def __init__(self) -> None:
        self.seen: list[tuple[str, bytes]] = []
        self.answers: SimpleQueue[int] = SimpleQueue()

    def before_request(self, _address: str, request: RemotingCommand) -> None:
        if request.code == SEND:
            request.ext_fields["i"] += "seen\x01yes\x02"

    def after_response(self, _address: str, request: RemotingCommand, answer: Any) -> None:
        if request.code == SEND:
            self.answers.put(answer.code)


def test_hooks_and_keys_see_and_sign_each_message(
    cluster: ScriptedCluster, server: ScriptedServer
) -> None:
    hook = Seeing()
    key = Credentials("key", "secret")
    with QueueAccess(namesrv_addr=cluster.namesrv_addr, credentials=key) as access:
        access._instance.remoting._hooks = (hook,)
        outcome = sent(access, run_of([b"%d" % number for number in range(3)]))
        assert [one.result().queue_offset for one in outcome] == [7, 7, 7]
        assert [hook.answers.get(timeout=30) for _ in range(3)] == [0, 0, 0]
    requests = server.of(SEND)
    assert all(request.ext_fields["i"].endswith("seen\x01yes\x02") for request in requests)
    assert len({request.ext_fields["Signature"] for request in requests}) == 3


def test_go_away_means_once_more_for_the_messages_that_were_sent_away(
    cluster: ScriptedCluster, server: ScriptedServer
) -> None:
    sent_away: list[bytes] = []

    def answer(request: RemotingCommand, _peer: Peer) -> RemotingCommand:
        if request.body in {b"1", b"3"} and request.body not in sent_away:
            sent_away.append(request.body)
            return request.answer(ResponseCode.GO_AWAY)
        return stored(request)

    server.on(SEND, answer)
    with QueueAccess(namesrv_addr=cluster.namesrv_addr) as access:
        outcome = sent(access, run_of([b"%d" % number for number in range(4)]))
        assert errors_of(outcome) == {}
        assert [one.result().queue_offset for one in outcome] == [7] * 4
        assert len(server.peers) == 2
    bodies = [request.body for request in server.of(SEND)]
    assert bodies[:4] == [b"0", b"1", b"2", b"3"]
    assert sorted(bodies[4:]) == [b"1", b"3"]


def test_who_is_sent_away_twice_is_told_so(
    cluster: ScriptedCluster, server: ScriptedServer
) -> None:
    server.answer(SEND, ResponseCode.GO_AWAY)
    with QueueAccess(namesrv_addr=cluster.namesrv_addr) as access:
        outcome = sent(access, run_of([b"x", b"y"]))
    assert {type(one.error) for one in outcome} == {MQBrokerException}
    assert len(server.of(SEND)) == 4


def test_a_connection_that_ends_in_the_middle_fails_what_was_not_answered(
    cluster: ScriptedCluster, server: ScriptedServer
) -> None:
    def answer(request: RemotingCommand, peer: Peer) -> RemotingCommand | None:
        if request.body == b"3":
            peer.close()
        return stored(request) if request.body < b"2" else None

    server.on(SEND, answer)
    with QueueAccess(namesrv_addr=cluster.namesrv_addr) as access:
        outcome = sent(access, run_of([b"%d" % number for number in range(5)]))
    assert errors_of(outcome) == dict.fromkeys((2, 3, 4), RemotingSendRequestException)
    lost = [outcome[number].error for number in (2, 3, 4)]
    assert len({id(error) for error in lost}) == 3
    assert all(getattr(error, "request_left", False) for error in lost)  # it may be stored


def test_a_message_that_nobody_answers_ends_with_its_time(
    cluster: ScriptedCluster, server: ScriptedServer
) -> None:
    def answer(request: RemotingCommand, _peer: Peer) -> RemotingCommand | None:
        return None if request.body == b"1" else stored(request)

    server.on(SEND, answer)
    with QueueAccess(namesrv_addr=cluster.namesrv_addr) as access:
        outcome = sent(access, run_of([b"0", b"1", b"2"]), timeout_ms=100)
        assert errors_of(outcome) == {1: RemotingTimeoutException}
        assert errors_of(sent(access, run_of([b"0"]))) == {}  # nothing is in flight any more


def test_what_is_in_flight_is_bounded_with_runs_too(
    cluster: ScriptedCluster, server: ScriptedServer
) -> None:
    held: SimpleQueue[tuple[RemotingCommand, Peer]] = SimpleQueue()

    def hold(request: RemotingCommand, peer: Peer) -> None:
        held.put((request, peer))

    server.on(SEND, hold)
    told: SimpleQueue[RunOutcome] = SimpleQueue()
    with QueueAccess(namesrv_addr=cluster.namesrv_addr, client_async_permits=4) as access:
        access.write_queues("T")
        access.send_run(run_of([b"x"] * 3), told.put)
        refused = sent(access, run_of([b"y"] * 2))
        assert errors_of(refused) == dict.fromkeys((0, 1), RemotingTooMuchRequestException)
        for _ in range(3):
            request, peer = held.get(timeout=30)
            peer.send(stored(request))
        assert errors_of(told.get(timeout=30)) == {}
        server.on(SEND, lambda request, _: stored(request))
        assert errors_of(sent(access, run_of([b"y"] * 4))) == {}
        assert {request.body for request in server.of(SEND)} == {b"x", b"y"}


def test_large_bodies_of_runs_count_in_bytes(
    cluster: ScriptedCluster, server: ScriptedServer
) -> None:
    server.silent(SEND)
    told: SimpleQueue[RunOutcome] = SimpleQueue()
    with QueueAccess(namesrv_addr=cluster.namesrv_addr, client_async_bytes=20_000) as access:
        access.write_queues("T")
        access.send_run(run_of([b"x" * 8_000] * 2), told.put)
        refused = sent(access, run_of([b"x" * 8_000]))
        assert errors_of(refused) == {0: RemotingTooMuchRequestException}
        assert errors_of(sent(access, run_of([b"small"]), timeout_ms=100)) == {
            0: RemotingTimeoutException
        }


def test_a_message_that_cannot_be_written_fails_its_run_and_nothing_is_left(
    broker: EmbeddedBroker,
) -> None:
    with QueueAccess(namesrv_addr=broker.namesrv_addr, transport="tcp") as access:
        outcome = sent(access, run_of([b"a", b"b"], text(), "\ud800"))
        assert all(one.exception() is not None for one in outcome)
        with pytest.raises(ValueError, match="extFields"):
            outcome[0].result()
        assert errors_of(sent(access, run_of([b"c"]))) == {}
    assert [message.body for message in broker.messages.in_topic("T")] == [b"c"]


def test_a_server_that_is_gone_is_the_outcome_of_each(broker: EmbeddedBroker) -> None:
    with QueueAccess(namesrv_addr=broker.namesrv_addr) as access:
        access.write_queues("T")
        broker.close()
        told: SimpleQueue[RunOutcome] = SimpleQueue()
        access.send_run(run_of([b"x"] * 3), told.put)
        assert len(errors_of(told.get(timeout=30))) == 3


def test_an_answer_that_says_stored_but_not_where_is_an_error_for_who_asks(
    cluster: ScriptedCluster, server: ScriptedServer
) -> None:
    server.answer(SEND, 0)
    with QueueAccess(namesrv_addr=cluster.namesrv_addr) as access:
        outcome = sent(access, run_of([b"x"]))
    assert isinstance(outcome[0].error, ValueError)


# --- delays ---------------------------------------------------------------------------------------


@pytest.fixture
def old_broker() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker(clock=VirtualClock(), profile="rocketmq-4.9") as started:
        started.topics.create("T", queues=2)
        yield started


def sent_together(access: QueueAccess, run: SendRun) -> RunOutcome:
    told: SimpleQueue[RunOutcome] = SimpleQueue()
    access.send_run(run, told.put)
    return told.get(timeout=30)


def test_of_a_run_only_those_messages_are_refused_whose_delay_will_not_be_kept(
    broker: EmbeddedBroker,
) -> None:
    texts = [
        text(DELAY="19"),
        text(DELAY="3"),
        text(TIMER_DELAY_SECS="5"),
        text(TIMER_DELAY_SEC="5"),
    ]
    with QueueAccess(namesrv_addr=broker.namesrv_addr) as access:
        queue = access.write_queues("T")[0]
        outcome = sent_together(access, run_of([b"0", b"1", b"2", b"3"], *texts, queue=queue))
    assert len(outcome) == 4
    assert [type(one.error) for one in outcome] == [DelayValueError, NoneType] * 2
    assert outcome.unusual == [0, 2]
    broker.clock.advance(10)
    assert {one.body for one in broker.messages.in_topic("T")} == {b"1", b"3"}


def test_a_run_of_refused_messages_sends_nothing(broker: EmbeddedBroker) -> None:
    with QueueAccess(namesrv_addr=broker.namesrv_addr) as access:
        queue = access.write_queues("T")[0]
        outcome = sent_together(access, run_of([b"0"], text(DELAY="-1"), queue=queue))
        sending = access.send(queue, b"0", properties=text(DELAY="-1"))
        with pytest.raises(DelayValueError, match="delay_policy"):
            sending.result(30)
    assert isinstance(outcome[0].error, DelayValueError)
    assert broker.journal.requests(code=SEND) == []


@pytest.mark.parametrize("policy", ["warn", "as_java"])
def test_other_policies_send_what_will_not_be_kept(
    broker: EmbeddedBroker, policy: DelayPolicy, caplog: pytest.LogCaptureFixture
) -> None:
    with QueueAccess(namesrv_addr=broker.namesrv_addr) as access:
        queue = access.write_queues("T")[0]
        run = evolve(run_of([b"0"], text(DELAY="-1"), queue=queue), delay_policy=policy)
        assert sent_together(access, run)[0].stored
        assert access.send(queue, b"1", properties=text(DELAY="-1"), delay_policy=policy).result(30)
    assert len(caplog.records) == (2 if policy == "warn" else 0)
    assert all("0" * 32 in one.getMessage() for one in caplog.records)


def test_a_timer_for_an_old_broker_is_refused_and_a_level_sent(old_broker: EmbeddedBroker) -> None:
    with QueueAccess(namesrv_addr=old_broker.namesrv_addr) as access:
        queue = access.write_queues("T")[0]
        timer, level = text(TIMER_DELAY_SEC="9"), text(DELAY="3")
        for _ in range(2):  # the broker tells its version once
            with pytest.raises(DelayValueError, match=r"4\.9\.4.*level 3"):
                access.send(queue, b"x", properties=timer).result(30)
        assert access.send(queue, b"x", properties=level).result(30)
        outcome = sent_together(access, run_of([b"x", b"y"], timer, level, queue=queue))
        assert access.send(queue, b"x", properties=timer, delay_policy="warn").result(30)
    assert outcome.unusual == [0]
    assert isinstance(outcome[0].error, DelayValueError)
    assert len(old_broker.journal.requests(code=SEND)) == 3
    assert len(old_broker.journal.requests(code=RequestCode.HEART_BEAT)) == 1


@pytest.mark.parametrize(
    ("texts", "refused"),
    [
        ([{"DELAY": "18"}, {"DELAY": "1"}], []),
        ([{"DELAY": "18"}, {"DELAY": "19"}, {}], [1]),
        ([{"DELAY": "x"}], [0]),
        ([{"TIMER_DELAY_MS": "5"}, {}, {"TIMER_DELAY_MS": "6"}], []),
        ([{"TIMER_DELAY_MS": "5"}, {"TIMER_DELAY_MS": "-6"}], [1]),
        ([{"TIMER_DELAY_MS": "5"}, {"TIMER_DELAY_SEC": "5"}], []),
        ([{"TIMER_DELAY_MS": "5", "TIMER_DELAY_SEC": "5"}, {"TIMER_DELAY_MS": "5"}], [0]),
        ([{"TIMER_DELIVER_MS": "1900000000000"}, {"TIMER_DELIVER_MS": "1900000000"}], [1]),
        ([{"TIMER_DELIVER_MS": "0"}, {"TIMER_DELAY_SEC": "0"}, {"DELAY": "0"}], []),
        ([{"timer_delay_ms": "5"}], [0]),
        ([{"TIMER_DELAY_MS": "5", "timer_delay_ms": "5"}], [0]),
        ([{"MY_DELAY": "x", "say": "TIMER_DELAY_MS"}], []),
    ],
)
def test_each_message_of_a_run_is_judged_for_itself(
    broker: EmbeddedBroker, texts: list[dict[str, str]], refused: list[int]
) -> None:
    with QueueAccess(namesrv_addr=broker.namesrv_addr) as access:
        queue = access.write_queues("T")[0]
        run = run_of([b"x"] * len(texts), *(text(**one) for one in texts), queue=queue)
        outcome = sent_together(access, run)
    found = [isinstance(one.error, DelayValueError) for one in outcome]
    assert [number for number, one in enumerate(found) if one] == refused
    assert len(broker.journal.requests(code=SEND)) == len(texts) - len(refused)


def test_of_a_judged_run_only_the_version_of_its_broker_is_left_to_judge(
    broker: EmbeddedBroker, old_broker: EmbeddedBroker
) -> None:
    texts = [text(DELAY="19"), text(TIMER_DELAY_SEC="5"), text()]
    for asked, refused in ((broker, {}), (old_broker, {1: DelayValueError})):
        with QueueAccess(namesrv_addr=asked.namesrv_addr) as access:
            queue = access.write_queues("T")[0]
            run = evolve(run_of([b"x"] * 3, *texts, queue=queue), is_judged=True)
            assert errors_of(sent_together(access, run)) == refused
