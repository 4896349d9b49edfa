"""Messages that depend on local work, against the embedded broker, whose clock is ours."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from datetime import timedelta
from queue import Queue
from typing import Any

import pytest

from embedded_broker import EmbeddedBroker, VirtualClock
from rocketmq_py import (
    ClientConfig,
    DefaultMQProducer,
    LocalTransactionState,
    Message,
    MessageExt,
    TransactionListener,
    TransactionMQProducer,
    TransactionSendResult,
)
from rocketmq_py.client.hooks import EndTransactionContext
from rocketmq_py.errors import (
    ConfigError,
    DelayConflictError,
    DelayValueError,
    MQClientException,
    UnsupportedOperationError,
)
from rocketmq_py.message import MessageBatch
from rocketmq_py.protocol.codes import RequestCode, ResponseCode
from rocketmq_py.protocol.command import RemotingCommand
from rocketmq_py.protocol.properties import decode_properties
from rocketmq_py.send_result import SendStatus
from tests.unit.rocketmq_py.conftest import ClusterMaker
from tests.unit.rocketmq_py.scripted import Peer
from tests.waiting import until

COMMIT = LocalTransactionState.COMMIT_MESSAGE
ROLLBACK = LocalTransactionState.ROLLBACK_MESSAGE
UNKNOW = LocalTransactionState.UNKNOW
TIMEOUT_S, INTERVAL_S = 6, 30
WAIT_S = 20.0

Start = Callable[..., TransactionMQProducer]


class Bank:
    """A listener: local work gives what it is told, checks give ``answer``."""

    def __init__(self, answer: object = COMMIT) -> None:
        self.answer = answer
        self.worked: list[tuple[Message, object]] = []
        self.asked: Queue[MessageExt] = Queue()

    def execute_local_transaction(self, message: Message, arg: object) -> LocalTransactionState:
        self.worked.append((message, arg))
        return result_of(arg)

    def check_local_transaction(self, message: MessageExt) -> LocalTransactionState:
        self.asked.put(message)
        return result_of(self.answer)


def result_of(answer: object) -> LocalTransactionState:
    if isinstance(answer, Exception):
        raise answer
    return answer  # type: ignore[return-value] # a test may let a listener return anything


@pytest.fixture
def broker() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker(clock=VirtualClock(), topics=["T"]) as made:
        yield made


@pytest.fixture
def bank() -> Bank:
    return Bank()


@pytest.fixture
def start(broker: EmbeddedBroker, bank: Bank) -> Iterator[Start]:
    with ExitStack() as ends:

        def make(
            listener: TransactionListener | None = bank, **settings: object
        ) -> TransactionMQProducer:
            settings.setdefault("namesrv_addr", broker.namesrv_addr)
            producer = TransactionMQProducer(
                "bank",
                transaction_listener=listener,
                **settings,  # type: ignore[arg-type] # whatever a test wants to try
            )
            return ends.enter_context(producer)

        yield make


def ended(broker: EmbeddedBroker, count: int = 1) -> list[dict[str, str]]:
    """Wait for so many requests 37 and give their headers."""
    code = RequestCode.END_TRANSACTION
    broker.wait_for(lambda b: len(b.journal.requests(code=code)) >= count)
    return [dict(entry.fields) for entry in broker.journal.requests(code=code)]


@pytest.mark.case("T58")
def test_a_committed_message_is_delivered_once(
    broker: EmbeddedBroker, start: Start, bank: Bank
) -> None:
    producer = start()
    message = Message("T", b"pay", tags="a", keys=["k"])

    result = producer.send_message_in_transaction(message, COMMIT)

    assert isinstance(result, TransactionSendResult)
    assert (result.send_status, result.local_transaction_state) == (SendStatus.SEND_OK, COMMIT)
    broker.wait_delivered("T")
    (stored,) = broker.messages.in_topic("T")
    assert (stored.body, stored.tags, stored.keys) == (b"pay", "a", ("k",))
    assert stored.msg_id == result.msg_id == result.transaction_id
    assert bank.worked == [(message, COMMIT)]
    (fields,) = ended(broker)
    assert (fields["commitOrRollback"], fields["fromTransactionCheck"]) == ("8", "false")
    assert (fields["producerGroup"], fields["topic"]) == ("bank", "T")
    assert fields["tranStateTableOffset"] == str(result.queue_offset)
    (sent,) = broker.journal.requests(code=RequestCode.SEND_MESSAGE_V2)
    assert sent.fields["f"] == "4"


def test_a_program_may_end_what_it_has_begun_by_itself(
    broker: EmbeddedBroker, start: Start
) -> None:
    producer = start()
    kept, given_up = (producer.begin(Message("T", body)) for body in (b"kept", b"given up"))
    kept.end(COMMIT).result(10)
    given_up.end(ROLLBACK).result(10)
    ended(broker, 2)
    broker.wait_delivered("T")
    assert [one.body for one in broker.messages.in_topic("T")] == [b"kept"]


@pytest.mark.case("T58")
def test_a_rolled_back_message_is_never_delivered(broker: EmbeddedBroker, start: Start) -> None:
    result = start().send_message_in_transaction(Message("T", b"x"), ROLLBACK)

    assert result.local_transaction_state is ROLLBACK
    assert ended(broker)[0]["commitOrRollback"] == "12"
    broker.clock.advance(days=2)
    assert broker.topics["T"].count() == 0


@pytest.mark.case("T58")
@pytest.mark.parametrize(("answer", "delivered"), [(COMMIT, 1), (ROLLBACK, 0)])
def test_an_unknown_outcome_is_asked_about_and_the_answer_counts(
    broker: EmbeddedBroker, start: Start, bank: Bank, answer: object, delivered: int
) -> None:
    bank.answer = answer
    result = start().send_message_in_transaction(Message("T", b"x", keys=["k"]), UNKNOW)
    assert ended(broker)[0]["commitOrRollback"] == "0"
    assert broker.topics["T"].count() == 0

    broker.clock.advance(TIMEOUT_S)

    asked = bank.asked.get(timeout=WAIT_S)
    assert (asked.topic, asked.body, asked.keys) == ("T", b"x", ["k"])
    assert asked.transaction_id == asked.msg_id == result.msg_id
    fields = ended(broker, 2)[1]
    assert fields["fromTransactionCheck"] == "true"
    broker.wait_for(lambda b: b._parts().transactions.count() == 0)
    assert broker.topics["T"].count() == delivered


def test_while_the_answer_is_unknown_the_broker_goes_on_asking(
    broker: EmbeddedBroker, start: Start, bank: Bank
) -> None:
    bank.answer = UNKNOW
    start().send_message_in_transaction(Message("T", b"x"), UNKNOW)
    broker.clock.advance(TIMEOUT_S)
    bank.asked.get(timeout=WAIT_S)
    ended(broker, 2)
    bank.answer = COMMIT
    broker.clock.advance(INTERVAL_S)
    broker.wait_delivered("T")
    assert [fields["commitOrRollback"] for fields in ended(broker, 3)] == ["0", "0", "8"]


@pytest.mark.case("T59")
def test_after_a_crash_another_producer_of_the_group_is_asked_even_if_it_sends_nothing(
    broker: EmbeddedBroker,
) -> None:
    with TransactionMQProducer(
        "bank", transaction_listener=Bank(), namesrv_addr=broker.namesrv_addr
    ) as first:
        first.send_message_in_transaction(Message("T", b"x"), UNKNOW)
    heir = Bank(COMMIT)
    with TransactionMQProducer("bank", transaction_listener=heir, namesrv_addr=broker.namesrv_addr):
        broker.wait_for(lambda b: b._parts().tables.producers.members("bank"))
        broker.clock.advance(TIMEOUT_S)
        assert heir.asked.get(timeout=WAIT_S).body == b"x"
        broker.wait_delivered("T")


class Recorder:
    """An RPC hook that keeps the remarks of requests 37."""

    def __init__(self) -> None:
        self.remarks: Queue[str | None] = Queue()

    def before_request(self, address: str, request: RemotingCommand) -> None:
        del address
        if request.code == RequestCode.END_TRANSACTION:
            self.remarks.put(request.remark)

    def after_response(
        self, address: str, request: RemotingCommand, response: RemotingCommand
    ) -> None:
        """Nothing to see."""


@pytest.mark.case("T60")
def test_an_exception_of_the_listener_counts_as_unknown_and_is_told_in_the_remark(
    broker: EmbeddedBroker, start: Start, bank: Bank
) -> None:
    recorder = Recorder()
    bank.answer = KeyError("account")
    producer = start(rpc_hooks=[recorder])

    result = producer.send_message_in_transaction(Message("T", b"x"), ValueError("no money"))

    assert result.local_transaction_state is UNKNOW
    remark = recorder.remarks.get(timeout=WAIT_S) or ""
    assert "executeLocalTransactionBranch" in remark
    assert "no money" in remark
    broker.clock.advance(TIMEOUT_S)
    remark = recorder.remarks.get(timeout=WAIT_S) or ""
    assert "checkLocalTransactionState" in remark
    assert "account" in remark


@pytest.mark.parametrize("answer", [None, "COMMIT_MESSAGE", ValueError("broken")])
def test_whatever_is_no_state_counts_as_unknown(
    broker: EmbeddedBroker,
    start: Start,
    bank: Bank,
    answer: object,
    caplog: pytest.LogCaptureFixture,
) -> None:
    bank.answer = answer
    result = start().send_message_in_transaction(Message("T", b"x"), answer)

    assert result.local_transaction_state is UNKNOW
    assert f"id={result.msg_id} topic=T" in caplog.text
    broker.clock.advance(TIMEOUT_S)
    assert ended(broker, 2)[1]["commitOrRollback"] == "0"


@pytest.mark.case("T55")
@pytest.mark.parametrize(
    "message",
    [
        Message("T", b"x", delay=timedelta(seconds=5)),
        Message("T", b"x").set_delay_time_level(3),
        Message("T", b"x").set_start_deliver_time(1_700_000_000_000),
    ],
    ids=["timer", "level", "aliyun"],
)
def test_a_delay_and_a_transaction_are_refused_before_anything_is_sent(
    broker: EmbeddedBroker, start: Start, bank: Bank, message: Message
) -> None:
    with pytest.raises(DelayConflictError, match="transaction_delay"):
        start().send_message_in_transaction(message, COMMIT)

    assert bank.worked == []
    assert broker.journal.requests(code=RequestCode.SEND_MESSAGE_V2) == []


@pytest.mark.case("T55")
def test_a_delay_can_be_dropped(broker: EmbeddedBroker, start: Start) -> None:
    producer = start(transaction_delay="drop")
    message = Message("T", b"x", delay=timedelta(seconds=5)).set_delay_time_level(3)

    producer.send_message_in_transaction(message, COMMIT)

    broker.wait_delivered("T")
    (sent,) = broker.journal.requests(code=RequestCode.SEND_MESSAGE_V2)
    assert not decode_properties(sent.fields["i"]).keys() & {"DELAY", "TIMER_DELAY_MS"}
    assert message.get_delay_time_level() == 3


@pytest.mark.case("T55")
def test_a_delay_can_begin_at_the_commit(broker: EmbeddedBroker, start: Start) -> None:
    producer = start(transaction_delay="at_commit")

    producer.send_message_in_transaction(Message("T", b"x", delay=timedelta(seconds=5)), COMMIT)

    broker.wait_for(lambda b: b.timers.count() == 1)
    broker.clock.advance(4.999)
    assert broker.topics["T"].count() == 0
    broker.clock.advance(0.001)
    assert broker.topics["T"].count() == 1


def test_the_callers_message_can_be_sent_again(broker: EmbeddedBroker, start: Start) -> None:
    producer = start()
    message = Message("T", b"x")
    first = producer.send_message_in_transaction(message, COMMIT)

    assert message.transaction_id == first.msg_id
    assert not message.properties.keys() & {"TRAN_MSG", "PGROUP"}
    producer.send(message)
    broker.wait_delivered("T", 2)


def test_a_large_message_travels_compressed_and_comes_back_whole_in_a_check(
    broker: EmbeddedBroker, start: Start, bank: Bank
) -> None:
    body = b"0123456789" * 1000
    start().send_message_in_transaction(Message("T", body), UNKNOW)
    broker.clock.advance(TIMEOUT_S)

    assert bank.asked.get(timeout=WAIT_S).body == body
    broker.wait_delivered("T")
    assert broker.messages.in_topic("T")[0].body == body


def test_what_cannot_be_a_transaction_is_refused(start: Start, broker: EmbeddedBroker) -> None:
    with pytest.raises(MQClientException, match="transaction_listener"):
        start(None).send_message_in_transaction(Message("T", b"x"))
    with (
        DefaultMQProducer("plain", namesrv_addr=broker.namesrv_addr) as plain,
        pytest.raises(MQClientException, match="TransactionMQProducer"),
    ):
        plain.send_message_in_transaction(Message("T", b"x"))
    producer = start(instance_name="second")
    with pytest.raises(UnsupportedOperationError, match="batch"):
        producer.send_message_in_transaction(MessageBatch([Message("T", b"x")]))
    with pytest.raises(MQClientException, match="empty"):
        producer.send_message_in_transaction(Message("T", b""))
    producer.transaction_delay = "at_commit"
    with pytest.raises(DelayValueError):
        producer.send_message_in_transaction(Message("T", b"x").set_delay_time_level(19))
    assert broker.journal.requests(code=RequestCode.SEND_MESSAGE_V2) == []


def test_a_half_message_that_is_refused_is_an_error_and_the_work_is_not_done(
    broker: EmbeddedBroker, start: Start, bank: Bank
) -> None:
    producer = start()
    producer.retry_times_when_send_failed = 0
    broker.config.update(rejectTransactionMessage=True)

    with pytest.raises(MQClientException, match="rejectTransactionMessage"):
        producer.send_message_in_transaction(Message("T", b"x"), COMMIT)
    producer.retry_response_codes = frozenset()
    with pytest.raises(MQClientException, match="not stored") as caught:
        producer.send_message_in_transaction(Message("T", b"x"), COMMIT)

    assert caught.value.response_code == ResponseCode.NO_PERMISSION
    assert bank.worked == []


def test_a_half_message_that_is_not_safely_stored_is_rolled_back_without_the_work(
    clusters: ClusterMaker,
) -> None:
    cluster = clusters(1)
    server = cluster.brokers[0]
    server.on(
        RequestCode.SEND_MESSAGE_V2,
        lambda request, _: request.answer(
            ResponseCode.FLUSH_DISK_TIMEOUT,
            None,
            {"msgId": "7F00000100002A9F0000000000000000", "queueId": "0", "queueOffset": "4"},
        ),
    )
    bank = Bank()
    told: Queue[RemotingCommand] = Queue()

    def note(request: RemotingCommand, _peer: Peer) -> None:
        told.put(request)

    server.on(RequestCode.END_TRANSACTION, note)
    with TransactionMQProducer(
        "bank", transaction_listener=bank, namesrv_addr=cluster.namesrv_addr
    ) as producer:
        result = producer.send_message_in_transaction(Message("T", b"x"), COMMIT)
        request = told.get(timeout=WAIT_S)

    assert result.local_transaction_state is ROLLBACK
    assert bank.worked == []
    assert request.is_oneway
    assert request.ext_fields["commitOrRollback"] == "12"
    assert request.ext_fields["tranStateTableOffset"] == "4"


class Watch:
    """An end-transaction hook that keeps what it saw, and fails."""

    def __init__(self) -> None:
        self.seen: Queue[EndTransactionContext] = Queue()

    def end(self, context: EndTransactionContext) -> None:
        self.seen.put(context)
        raise RuntimeError("hooks cannot break transactions")


def test_hooks_see_every_end_and_cannot_break_it(
    broker: EmbeddedBroker, start: Start, bank: Bank
) -> None:
    producer, watch = start(), Watch()
    producer.register_end_transaction_hook(watch)
    result = producer.send_message_in_transaction(Message("T", b"x"), UNKNOW)
    broker.clock.advance(TIMEOUT_S)
    bank.asked.get(timeout=WAIT_S)

    own, asked = (watch.seen.get(timeout=WAIT_S) for _ in range(2))
    assert (own.state, own.from_check, own.message_id) == (UNKNOW, False, result.msg_id)
    assert (asked.state, asked.from_check, asked.message_id) == (COMMIT, True, result.msg_id)
    assert own.broker_address == asked.broker_address == broker.addr
    broker.wait_delivered("T")


def test_checks_run_on_the_executor_that_was_given(
    broker: EmbeddedBroker, start: Start, bank: Bank
) -> None:
    names: Queue[str] = Queue()

    class Named(Bank):
        def check_local_transaction(self, message: MessageExt) -> LocalTransactionState:
            names.put(threading.current_thread().name)
            return COMMIT

    with ThreadPoolExecutor(1, thread_name_prefix="mine") as executor:
        start(Named(), executor=executor).send_message_in_transaction(Message("T", b"x"), UNKNOW)
        broker.clock.advance(TIMEOUT_S)
        assert names.get(timeout=WAIT_S).startswith("mine")
        broker.wait_delivered("T")


def test_more_questions_than_may_wait_are_dropped_and_asked_again(
    broker: EmbeddedBroker, start: Start, caplog: pytest.LogCaptureFixture
) -> None:
    entered, leave = threading.Event(), threading.Event()

    class Slow(Bank):
        def check_local_transaction(self, message: MessageExt) -> LocalTransactionState:
            entered.set()
            leave.wait(WAIT_S)
            return COMMIT

    producer = start(Slow(), check_request_hold_max=1)
    producer.send_message_in_transaction(Message("T", b"x"), UNKNOW)
    ended(broker)
    broker.clock.advance(TIMEOUT_S)
    assert entered.wait(WAIT_S)
    for _ in range(3):
        producer.send_message_in_transaction(Message("T", b"x"), UNKNOW)
    ended(broker, 4)
    broker.clock.advance(TIMEOUT_S)
    broker.wait_for(lambda _: caplog.text.count("check_request_hold_max") == 2)
    leave.set()
    broker.wait_delivered("T", 2)
    # Of two questions at once the second may find the first still waiting.
    broker.clock.advance(INTERVAL_S)
    broker.wait_delivered("T", 3)
    broker.clock.advance(INTERVAL_S)
    broker.wait_delivered("T", 4)


def test_a_settling_clock_waits_for_the_answer_to_a_check(
    broker: EmbeddedBroker, start: Start, bank: Bank
) -> None:
    start().send_message_in_transaction(Message("T", b"x"), UNKNOW)
    broker.clock.advance(TIMEOUT_S)
    broker.clock.settle()
    assert broker.topics["T"].count() == 1


def test_an_executor_that_was_shut_down_leaves_the_question_to_the_next_round(
    broker: EmbeddedBroker, start: Start, bank: Bank, caplog: pytest.LogCaptureFixture
) -> None:
    executor = ThreadPoolExecutor(1)
    start(executor=executor).send_message_in_transaction(Message("T", b"x"), UNKNOW)
    executor.shutdown()
    broker.clock.advance(TIMEOUT_S)
    broker.clock.settle()
    assert "the executor takes no work" in caplog.text
    assert bank.asked.empty()


@pytest.mark.parametrize("own_executor", [False, True])
def test_a_listener_that_still_works_is_named(
    broker: EmbeddedBroker, start: Start, own_executor: bool
) -> None:
    entered, leave = threading.Event(), threading.Event()

    class Slow(Bank):
        def check_local_transaction(self, message: MessageExt) -> LocalTransactionState:
            entered.set()
            leave.wait(WAIT_S)
            return COMMIT

    with ThreadPoolExecutor(1) as executor:
        producer = start(Slow(), executor=executor if own_executor else None)
        producer.send_message_in_transaction(Message("T", b"x"), UNKNOW)
        broker.clock.advance(TIMEOUT_S)
        assert entered.wait(WAIT_S)
        settled = broker.clock.settle(0, check=False)
        assert not settled.ok
        assert "producer bank: 1 transactions undecided" in " ".join(settled.busy)
        leave.set()
        broker.clock.settle()
        assert broker.topics["T"].count() == 1


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        ("check_thread_pool_max", 0),
        ("check_thread_pool_max", 5000),
        ("check_thread_pool_min", 2),
        ("check_request_hold_max", 0),
        ("transaction_delay", "maybe"),
    ],
)
def test_a_setting_that_cannot_be_is_refused(setting: str, value: object) -> None:
    with pytest.raises(ConfigError, match=setting):
        TransactionMQProducer("bank", **{setting: value})  # type: ignore[arg-type]


def test_shutdown_is_bounded_and_ends_every_thread(broker: EmbeddedBroker, bank: Bank) -> None:
    before = set(threading.enumerate())
    producer = TransactionMQProducer.of(
        ClientConfig(namesrv_addr=broker.namesrv_addr),
        "bank",
        transaction_listener=bank,
        check_thread_pool_min=2,
        check_thread_pool_max=2,
    )
    assert repr(producer) == "TransactionMQProducer('bank', new)"
    producer.start()
    names = {thread.name for thread in set(threading.enumerate()) - before}
    assert {"rocketmq-transaction-check-1", "rocketmq-transaction-check-2"} <= names
    producer.shutdown()
    producer.shutdown()

    def is_alone() -> bool:
        left = set(threading.enumerate()) - before
        return not any(thread.name.startswith("rocketmq-") for thread in left)

    until(is_alone)


class JavaBank:
    def executeLocalTransaction(self, msg: Message, arg: object) -> LocalTransactionState:  # noqa: N802
        return UNKNOW

    def checkLocalTransaction(self, msg: MessageExt) -> LocalTransactionState:  # noqa: N802
        return COMMIT


class HalfBank(TransactionListener):
    def execute_local_transaction(self, message: Message, arg: object) -> LocalTransactionState:
        return COMMIT


class JavaBankOfTheProtocol(JavaBank, TransactionListener):
    """Inherits the protocol's methods, which are empty."""


@pytest.mark.parametrize("listener", [Bank, object(), "bank", lambda *_: COMMIT, HalfBank()])  # type: ignore[abstract]
def test_a_listener_without_the_two_methods_is_refused_where_it_is_set(listener: Any) -> None:
    with pytest.raises(TypeError, match="transaction_listener"):
        TransactionMQProducer("bank", transaction_listener=listener)
    producer = TransactionMQProducer("bank")
    with pytest.raises(TypeError, match="transaction_listener"):
        producer.transaction_listener = listener
    assert producer.transaction_listener is None


@pytest.mark.parametrize(
    "listener",
    [JavaBank(), JavaBankOfTheProtocol()],  # type: ignore[abstract] # what checkers tell
)
def test_a_listener_with_javas_names_is_asked_too(
    broker: EmbeddedBroker, start: Start, listener: Any
) -> None:
    result = start(listener).send_message_in_transaction(Message("T", b"x"))
    assert result.local_transaction_state is UNKNOW
    broker.clock.advance(TIMEOUT_S)
    assert ended(broker, 2)[1]["commitOrRollback"] == "8"


def test_a_listener_that_returns_nothing_is_told_in_the_log(
    start: Start, caplog: pytest.LogCaptureFixture
) -> None:
    start().send_message_in_transaction(Message("T", b"x"), None)
    (told,) = [record for record in caplog.records if "returned None" in record.message]
    assert told.levelname == "WARNING"
    assert "return a LocalTransactionState" in told.message
