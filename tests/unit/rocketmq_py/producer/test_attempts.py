"""What a send does after each kind of failed attempt: blocking sends, and the policy alone."""

from __future__ import annotations

import socket
from contextlib import closing
from typing import Any

import pytest

from rocketmq_py import Message, SendStatus
from rocketmq_py.errors import (
    FlowControlError,
    MQBrokerException,
    MQClientException,
    PermissionDeniedError,
    RemotingConnectException,
    RemotingTimeoutException,
    RemotingTooMuchRequestException,
    SendFailedError,
    SendTimeoutError,
)
from rocketmq_py.producer.attempts import ASYNC, SYNC, Attempts, Choose, Mode, failed_code
from rocketmq_py.producer.config import ProducerConfig
from rocketmq_py.producer.fault import BrokerFaults, FaultTable
from rocketmq_py.producer.selection import QueueSelection
from rocketmq_py.protocol.codes import RETRY_RESPONSE_CODES, RequestCode, ResponseCode
from rocketmq_py.protocol.command import RemotingCommand
from rocketmq_py.send_result import MessageQueue, SendResult
from tests.unit.rocketmq_py.conftest import ClusterMaker
from tests.unit.rocketmq_py.producer.conftest import ProducerMaker
from tests.unit.rocketmq_py.scripted import Peer, ScriptedCluster, stored

SEND = RequestCode.SEND_MESSAGE_V2


def unique_key(request: RemotingCommand) -> str:
    text = request.ext_fields["i"]
    return next(item[9:] for item in text.split("\x02") if item.startswith("UNIQ_KEY\x01"))


@pytest.mark.case("W50")
def test_a_broker_without_service_is_left_for_another_one_with_the_same_id(
    clusters: ClusterMaker, start: ProducerMaker
) -> None:
    cluster = clusters(2)
    producer = start(cluster.namesrv_addr)
    cluster.brokers[0].answer(SEND, ResponseCode.SERVICE_NOT_AVAILABLE, "shutting down")
    for _ in range(8):  # whichever broker has the first turn
        result = producer.send(Message("T", b"x"))
        assert result.message_queue.broker_name == "broker-b"
    refused = {unique_key(request) for request in cluster.brokers[0].of(SEND)}
    taken = {unique_key(request) for request in cluster.brokers[1].of(SEND)}
    assert refused
    assert refused <= taken


@pytest.mark.case("T13")
def test_a_refused_connection_costs_one_attempt_and_the_other_broker_stores(
    clusters: ClusterMaker, start: ProducerMaker
) -> None:
    cluster = clusters(2)
    with closing(socket.create_server(("127.0.0.1", 0))) as unused:
        nobody = f"127.0.0.1:{unused.getsockname()[1]}"
    cluster.routes["T"].broker_datas[0].broker_addrs = {0: nobody}
    producer = start(cluster.namesrv_addr)
    results = [producer.send(Message("T", b"x")) for _ in range(4)]
    assert {result.message_queue.broker_name for result in results} == {"broker-b"}


@pytest.mark.case("T14")
def test_the_only_broker_is_tried_again_with_the_same_id_after_a_silent_attempt(
    cluster: ScriptedCluster, start: ProducerMaker
) -> None:
    answers = iter([False, True])
    cluster.brokers[0].on(SEND, lambda request, _: stored(request) if next(answers) else None)
    producer = start(cluster.namesrv_addr, send_msg_max_timeout_per_request=50)
    assert producer.send(Message("T", b"x")).send_status is SendStatus.SEND_OK
    first, second = cluster.sends()
    assert unique_key(first) == unique_key(second)


@pytest.mark.case("T15")
def test_the_budget_of_the_call_bounds_all_attempts(
    cluster: ScriptedCluster, start: ProducerMaker
) -> None:
    cluster.brokers[0].silent(SEND)
    producer = start(cluster.namesrv_addr)
    with pytest.raises(RemotingTooMuchRequestException, match="broker-a") as caught:
        producer.send(Message("T", b"x"), timeout=100)
    assert caught.value.response_code == 10002
    assert isinstance(caught.value.__cause__, RemotingTimeoutException)
    assert len(cluster.sends()) == 1


@pytest.mark.case("T16")
def test_a_cap_per_request_leaves_budget_for_the_next_broker(
    clusters: ClusterMaker, start: ProducerMaker
) -> None:
    cluster = clusters(2)
    cluster.brokers[0].silent(SEND)
    producer = start(
        cluster.namesrv_addr, send_msg_max_timeout_per_request=50, send_msg_timeout=20_000
    )
    for _ in range(2):
        assert producer.send(Message("T", b"x")).message_queue.broker_name == "broker-b"


@pytest.mark.case("T17")
def test_a_busy_broker_is_left_and_the_final_error_tells_the_whole_story(
    clusters: ClusterMaker, start: ProducerMaker
) -> None:
    cluster = clusters(2)
    for broker in cluster.brokers:
        broker.answer(SEND, ResponseCode.SYSTEM_BUSY, "[PC_SYNCHRONIZED] busy")
    with pytest.raises(SendFailedError) as caught:
        start(cluster.namesrv_addr).send(Message("T", b"x"))
    error = caught.value
    assert (error.response_code, error.attempt, error.topic) == (2, 3, "T")
    assert isinstance(error.__cause__, FlowControlError)
    text = str(error)
    for part in ("[3] times", "Topic: T", "broker-a", "broker-b", "PC_SYNCHRONIZED", "send later"):
        assert part.split()[0] in text
    assert len(cluster.sends()) == 3
    assert {unique_key(request) for request in cluster.sends()} == {unique_key(cluster.sends()[0])}


@pytest.mark.case("T18")
def test_an_illegal_message_is_not_tried_elsewhere(
    clusters: ClusterMaker, start: ProducerMaker
) -> None:
    cluster = clusters(2)
    for broker in cluster.brokers:
        broker.answer(SEND, ResponseCode.MESSAGE_ILLEGAL, "too long")
    with pytest.raises(MQBrokerException) as caught:
        start(cluster.namesrv_addr).send(Message("T", b"x"))
    assert caught.value.code == 13
    assert len(cluster.sends()) == 1


def test_a_code_that_was_added_is_worth_another_broker(
    clusters: ClusterMaker, start: ProducerMaker
) -> None:
    cluster = clusters(2)
    cluster.brokers[0].answer(SEND, ResponseCode.MESSAGE_ILLEGAL)
    producer = start(cluster.namesrv_addr)
    producer.add_retry_response_code(ResponseCode.MESSAGE_ILLEGAL)
    results = [producer.send(Message("T", b"x")) for _ in range(2)]
    assert {result.message_queue.broker_name for result in results} == {"broker-b"}


def slave_missing(request: RemotingCommand, _: Peer) -> RemotingCommand:
    return stored(request, ResponseCode.FLUSH_SLAVE_TIMEOUT)


@pytest.mark.case("T19")
def test_a_message_stored_less_safely_is_returned_or_sent_elsewhere_by_setting(
    clusters: ClusterMaker, start: ProducerMaker
) -> None:
    cluster = clusters(2)
    cluster.brokers[0].on(SEND, slave_missing)
    producer = start(cluster.namesrv_addr)
    statuses = {producer.send(Message("T", b"x")).send_status for _ in range(8)}
    assert statuses == {SendStatus.FLUSH_SLAVE_TIMEOUT, SendStatus.SEND_OK}
    producer.retry_another_broker_when_not_store_ok = True
    assert {producer.send(Message("T", b"x")).send_status for _ in range(8)} == {SendStatus.SEND_OK}


@pytest.mark.case("W49")
@pytest.mark.parametrize(
    ("code", "status"),
    [
        (10, SendStatus.FLUSH_DISK_TIMEOUT),
        (11, SendStatus.SLAVE_NOT_AVAILABLE),
        (12, SendStatus.FLUSH_SLAVE_TIMEOUT),
    ],
)
def test_a_stored_message_with_another_code_is_no_failure_and_not_repeated(
    cluster: ScriptedCluster, start: ProducerMaker, code: int, status: SendStatus
) -> None:
    cluster.brokers[0].on(SEND, lambda request, _: stored(request, code))
    result = start(cluster.namesrv_addr).send(Message("T", b"x"))
    assert (result.send_status, result.queue_offset) == (status, 7)
    assert result.offset_msg_id
    assert len(cluster.sends()) == 1


def test_a_worse_outcome_does_not_hide_a_stored_message(
    clusters: ClusterMaker, start: ProducerMaker
) -> None:
    cluster = clusters(1)
    answers = iter([12, 13])

    def next_code(request: RemotingCommand, _: Peer) -> RemotingCommand:
        return stored(request, next(answers))

    cluster.brokers[0].on(SEND, next_code)
    producer = start(cluster.namesrv_addr, retry_another_broker_when_not_store_ok=True)
    result = producer.send(Message("T", b"x"))
    assert result.send_status is SendStatus.FLUSH_SLAVE_TIMEOUT


def test_a_broker_without_master_is_an_attempt_that_failed(
    clusters: ClusterMaker, start: ProducerMaker
) -> None:
    cluster = clusters(1)
    producer = start(cluster.namesrv_addr)
    producer.send(Message("T", b"x"))
    cluster.routes["T"].broker_datas[0].broker_addrs = {1: cluster.brokers[0].address}
    engine = producer._engine
    assert engine is not None
    engine.instance.routes._brokers.clear()
    with pytest.raises(SendFailedError, match="no address") as caught:
        producer.send(Message("T", b"x"), timeout=2_000)
    assert caught.value.response_code == 10003


def test_client_local_codes_say_which_part_failed() -> None:
    assert failed_code(RemotingConnectException()) == 10001
    assert failed_code(RemotingTimeoutException()) == 10002
    assert failed_code(MQBrokerException(2)) == 2
    assert failed_code(None) == 10003


# --- the policy alone ------------------------------------------------------------------------

QUEUES = (MessageQueue("T", "a", 0), MessageQueue("T", "b", 0))
BOTH = pytest.mark.parametrize("mode", [SYNC, ASYNC], ids=["blocking", "asynchronous"])


def attempts(
    mode: Mode,
    faults: BrokerFaults | None = None,
    *,
    timeout_ms: float = 60_000,
    choose: Choose | None = None,
    **settings: Any,
) -> Attempts:
    config = ProducerConfig(**settings)
    book = faults or fault_book()
    return Attempts("T", timeout_ms, mode, config, QueueSelection(book), choose)


def fault_book() -> BrokerFaults:
    return BrokerFaults(
        enabled=True, detecting=False, table=FaultTable.V5, detect_interval_ms=2_000
    )


def a_result(status: SendStatus = SendStatus.SEND_OK) -> SendResult:
    return SendResult(
        send_status=status, msg_id="1", offset_msg_id="2", message_queue=QUEUES[0], queue_offset=7
    )


@BOTH
def test_each_attempt_leaves_the_broker_of_the_last_one(mode: Mode) -> None:
    send = attempts(mode)
    first = send.next(QUEUES)
    assert first is not None
    send.failed(RemotingTimeoutException("silent"))
    second = send.next(QUEUES)
    assert second is not None
    assert second.broker_name != first.broker_name
    send.stored(a_result())
    assert send.is_over
    assert (send.next(QUEUES), send.outcome()) == (None, a_result())


@BOTH
def test_attempts_are_counted_by_the_setting_of_the_mode(mode: Mode) -> None:
    send = attempts(mode, retry_times_when_send_failed=1, retry_times_when_send_async_failed=1)
    for _ in range(2):
        assert send.next(QUEUES) is not None
        send.failed(RemotingConnectException("refused"))
    assert send.next(QUEUES) is None
    error = send.error()
    assert type(error) is SendFailedError
    assert isinstance(error.__cause__, RemotingConnectException)
    assert (error.response_code, error.attempt) == (10001, 2)


@BOTH
def test_the_cap_of_one_attempt_counts_while_another_remains(mode: Mode) -> None:
    send = attempts(
        mode,
        send_msg_max_timeout_per_request=500,
        retry_times_when_send_failed=1,
        retry_times_when_send_async_failed=1,
    )
    send.next(QUEUES)
    assert send.left_ms <= 500
    send.failed(RemotingTimeoutException("silent"))
    send.next(QUEUES)
    assert send.left_ms > 500


@BOTH
def test_what_an_account_may_not_do_is_told_at_once(mode: Mode) -> None:
    send = attempts(mode)
    send.next(QUEUES)
    send.failed(PermissionDeniedError(1, "AclException: no"))
    assert send.is_over
    with pytest.raises(PermissionDeniedError):
        send.outcome()


@BOTH
def test_a_broker_that_forbids_leaves_the_others_to_be_asked(mode: Mode) -> None:
    send = attempts(mode)
    while send.next(QUEUES) is not None:
        send.failed(PermissionDeniedError(16, "read-only"))
    with pytest.raises(PermissionDeniedError):
        send.outcome()
    assert len(send._failed) == 3


@BOTH
def test_a_prohibition_does_not_hide_that_a_message_may_be_stored(mode: Mode) -> None:
    send = attempts(mode)
    send.next(QUEUES)
    send.failed(RemotingTimeoutException("silent"))
    send.next(QUEUES)
    send.failed(PermissionDeniedError(1, "AclException: no"))
    with pytest.raises(SendFailedError) as caught:
        send.outcome()
    assert caught.value.possibly_stored


@BOTH
def test_only_an_attempt_that_others_follow_turns_away_from_a_silent_host(mode: Mode) -> None:
    send = attempts(mode, retry_times_when_send_failed=1, retry_times_when_send_async_failed=1)
    turns = []
    while send.next(QUEUES) is not None:
        turns.append(send.share_of_time().can_turn)
        send.failed(RemotingConnectException("refused"))
    assert turns == [True, False]
    bound = attempts(mode, choose=lambda queues: queues[0])
    bound.next(QUEUES)
    assert not bound.share_of_time().can_turn


@BOTH
def test_a_budget_that_is_used_up_ends_a_send_before_an_attempt(mode: Mode) -> None:
    send = attempts(mode, timeout_ms=0)
    assert (send.is_over, send.next(QUEUES)) == (True, None)
    with pytest.raises(SendTimeoutError, match="no broker") as caught:
        send.outcome()
    assert caught.value.response_code == 10002


@BOTH
def test_a_queue_without_master_and_an_unsafe_store_are_left_for_another_queue(
    mode: Mode,
) -> None:
    send = attempts(mode, retry_another_broker_when_not_store_ok=True)
    send.next(QUEUES)
    send.failed(MQClientException("no master"), asked=False)
    send.next(QUEUES)
    send.stored(a_result(SendStatus.FLUSH_SLAVE_TIMEOUT))
    assert send.next(QUEUES) is not None
    send.failed(MQBrokerException(13, "illegal"))
    assert send.is_over
    assert send.outcome().send_status is SendStatus.FLUSH_SLAVE_TIMEOUT


@BOTH
@pytest.mark.parametrize("code", sorted(RETRY_RESPONSE_CODES))
def test_an_answer_of_the_retry_codes_is_tried_again_at_another_broker(
    mode: Mode, code: int
) -> None:
    send = attempts(mode)
    first = send.next(QUEUES)
    send.failed(MQBrokerException(code, "not now"))
    assert not send.is_over
    second = send.next(QUEUES)
    assert first is not None
    assert second is not None
    assert second.broker_name != first.broker_name


@BOTH
def test_the_retry_codes_are_those_of_the_setting(mode: Mode) -> None:
    send = attempts(mode, retry_response_codes={7})
    send.next(QUEUES)
    send.failed(MQBrokerException(7, "a code of an own broker"))
    assert not send.is_over
    send.next(QUEUES)
    send.failed(MQBrokerException(2, "busy"))
    assert send.is_over


def test_only_a_send_with_a_thread_of_its_own_tries_a_full_connection_again() -> None:
    refusal = RemotingTooMuchRequestException("too many calls in flight")
    blocking, asynchronous = attempts(SYNC), attempts(ASYNC)
    for send in (blocking, asynchronous):
        send.next(QUEUES)
        send.failed(refusal)
    assert (blocking.is_over, asynchronous.is_over) == (False, True)
    error = asynchronous.error()
    assert isinstance(error, SendFailedError)
    assert error.__cause__ is refusal
    assert not error.possibly_stored


@BOTH
def test_a_queue_that_the_caller_chose_is_tried_once_and_leaves_no_fault_record(
    mode: Mode,
) -> None:
    faults, failure = fault_book(), RemotingTimeoutException("silent")
    send = attempts(mode, faults, choose=lambda queues: queues[1])
    assert send.next(QUEUES) == QUEUES[1]
    send.failed(failure)
    assert send.is_over
    error = send.error()
    assert isinstance(error, SendTimeoutError)
    assert error.__cause__ is failure
    assert faults.is_available("b")


@BOTH
def test_a_broker_that_failed_is_avoided_and_one_that_was_not_asked_is_not(mode: Mode) -> None:
    faults = fault_book()
    send = attempts(mode, faults)
    failed = send.next(QUEUES)
    assert failed is not None
    send.failed(MQBrokerException(2, "busy"))
    assert not faults.is_available(failed.broker_name)
    send = attempts(mode, faults)
    spared = send.next(QUEUES)
    assert spared is not None
    send.failed(MQClientException("no master"), asked=False)
    assert faults.is_available(spared.broker_name)


# --- a route that is out of date ---------------------------------------------------------------

OUTDATED = [
    MQBrokerException(29, "request queueId[7] is illegal"),
    MQBrokerException(17, "topic not exist"),
    MQBrokerException(501, "not the leader"),
    MQBrokerException(1, "request queueId[7] is illegal"),
]
REFUSED = pytest.mark.parametrize("refusal", OUTDATED, ids=lambda one: str(one.code))


@BOTH
@REFUSED
def test_a_queue_that_is_refused_and_has_left_the_route_is_left_for_another(
    mode: Mode, refusal: MQBrokerException
) -> None:
    send = attempts(mode)
    first = send.next(QUEUES)
    send.failed(refusal)
    assert (send.doubts_route, send.is_over) == (True, False)
    second = send.next(tuple(queue for queue in QUEUES if queue != first))
    assert second not in {first, None}
    assert not send.doubts_route


@BOTH
def test_a_refused_queue_that_is_still_in_the_route_ends_the_send(mode: Mode) -> None:
    send = attempts(mode)
    send.next(QUEUES)
    send.failed(OUTDATED[0])
    assert send.next(QUEUES) is None
    with pytest.raises(MQBrokerException) as caught:
        send.outcome()
    assert caught.value is OUTDATED[0]


@BOTH
@REFUSED
def test_a_refused_queue_waits_once_for_the_next_route_unless_that_comes_too_late(
    mode: Mode, refusal: MQBrokerException
) -> None:
    late, waits = attempts(mode, timeout_ms=900), attempts(mode, timeout_ms=9_000)
    for send in (late, waits):
        send.next(QUEUES)
        send.failed(refusal)
    assert late.pause_ms(QUEUES, 950) < 100
    assert waits.pause_ms(QUEUES, 950) == 951
    assert waits.pause_ms(QUEUES, 950) < 100


@BOTH
@pytest.mark.parametrize(
    ("failure", "doubts"),
    [
        (RemotingConnectException("refused"), True),
        (MQClientException("no master", response_code=10003), True),
        (PermissionDeniedError(16, "read-only"), True),
        (PermissionDeniedError(1, "AclException: no"), False),
        (MQBrokerException(2, "busy"), False),
        (MQBrokerException(13, "illegal"), False),
        (RemotingTimeoutException("silent"), False),
    ],
)
def test_only_failures_that_a_newer_route_may_explain_ask_for_one(
    mode: Mode, failure: Exception, doubts: bool
) -> None:
    send = attempts(mode)
    send.next(QUEUES)
    send.failed(failure)  # type: ignore[arg-type] # all are ours
    assert send.doubts_route is doubts
    assert send.pause_ms(QUEUES, 950) < 100, "only a missing queue is worth a wait"
    chosen = attempts(mode, choose=lambda queues: queues[0])
    chosen.next(QUEUES)
    chosen.failed(failure)  # type: ignore[arg-type]
    assert (chosen.doubts_route, chosen.is_over) == (doubts, True)
