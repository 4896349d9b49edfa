"""Half messages by themselves, as faces without a listener use them."""

from __future__ import annotations

import gc
import os
import threading
import weakref
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from queue import Queue

import pytest

from embedded_broker import EmbeddedBroker, VirtualClock
from rocketmq_py import DefaultMQProducer, LocalTransactionState, Message, MessageExt
from rocketmq_py.client.hooks import EndTransactionHook
from rocketmq_py.errors import (
    ClientClosedError,
    DelayConflictError,
    ForkedClientError,
    IllegalStateError,
    MQClientException,
    UnsupportedOperationError,
)
from rocketmq_py.message import MessageBatch
from rocketmq_py.producer.checking import Checking
from rocketmq_py.producer.halves import AskedHalf, BegunHalf, Halves
from rocketmq_py.protocol.codes import RequestCode, ResponseCode
from rocketmq_py.protocol.command import RemotingCommand
from rocketmq_py.send_result import SendStatus
from tests.unit.rocketmq_py.conftest import ClusterMaker
from tests.unit.rocketmq_py.scripted import Peer

COMMIT = LocalTransactionState.COMMIT_MESSAGE
ROLLBACK = LocalTransactionState.ROLLBACK_MESSAGE
UNKNOW = LocalTransactionState.UNKNOW
ASKED_AFTER_S = 6
TIMEOUT_MS = 20_000
WAIT_S = 20.0

Check = Callable[[MessageExt], LocalTransactionState]


class Transaction:
    """What a face with blocks or coroutines gives out: no listener, ended from anywhere."""

    def __init__(self, half: BegunHalf) -> None:
        self.half = half

    def commit(self) -> None:
        self.half.end(COMMIT).result(WAIT_S)

    def rollback(self) -> None:
        self.half.end(ROLLBACK).result(WAIT_S)


class BlockProducer(DefaultMQProducer):
    """Another API shape over half messages, in as few lines as it takes."""

    def __init__(
        self,
        check: Check | None = None,
        *,
        hooks: Iterable[EndTransactionHook] = (),
        **settings: object,
    ) -> None:
        super().__init__("bank", **settings)  # type: ignore[arg-type] # those of a test
        self._end_hooks = list(hooks)
        self._check = check
        self.questions: Queue[AskedHalf] = Queue()

    def _start(self, *, check: bool) -> None:
        super()._start(check=check)
        engine = self._running()
        self.halves = Halves(engine, self._end_hooks)
        if self._check is None:
            self.halves.answer_by(self.questions.put, self._life)
        else:
            checking = Checking(self.halves, self._check)
            self._life.at_end(checking.close)
            self.halves.answer_by(checking.ask, self._life)
        engine.warm_up(["T"])

    def begin(self, message: Message) -> Future[BegunHalf]:
        return self.halves.begin(message, timeout_ms=TIMEOUT_MS)

    @contextmanager
    def transaction(self, message: Message) -> Iterator[Transaction]:
        made = Transaction(self.begin(message).result(WAIT_S))
        try:
            yield made
        except BaseException:
            made.rollback()
            raise
        if made.half.state is None:
            made.commit()


@pytest.fixture
def broker() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker(clock=VirtualClock(), topics=["T"]) as made:
        yield made


Start = Callable[..., BlockProducer]


@pytest.fixture
def start(broker: EmbeddedBroker) -> Iterator[Start]:
    with ExitStack() as ends:

        def make(check: Check | None = None, **settings: object) -> BlockProducer:
            settings.setdefault("namesrv_addr", broker.namesrv_addr)
            return ends.enter_context(BlockProducer(check, **settings))  # type: ignore[arg-type]

        yield make


def ends_of(broker: EmbeddedBroker, count: int = 1) -> list[str]:
    """Wait for so many requests 37 and give what they say."""
    code = RequestCode.END_TRANSACTION
    broker.wait_for(lambda b: len(b.journal.requests(code=code)) >= count)
    return [entry.fields["commitOrRollback"] for entry in broker.journal.requests(code=code)]


# --- begin and end ------------------------------------------------------------------------------


def test_a_half_that_was_begun_without_a_listener_is_committed_by_another_thread(
    broker: EmbeddedBroker, start: Start
) -> None:
    message = Message("T", b"pay")
    half = start().begin(message).result(WAIT_S)
    assert (half.state, half.result.send_status) == (None, SendStatus.SEND_OK)
    assert message.transaction_id == half.message_id == half.result.msg_id
    assert not message.properties.keys() & {"TRAN_MSG", "PGROUP"}
    assert broker.topics["T"].count() == 0

    with ThreadPoolExecutor(1) as other:
        told = other.submit(half.end, COMMIT).result(WAIT_S)

    assert told.result(WAIT_S) is None
    assert half.state is COMMIT
    broker.wait_delivered("T")
    assert broker.messages.in_topic("T")[0].body == b"pay"


def test_a_half_that_is_rolled_back_is_never_delivered(
    broker: EmbeddedBroker, start: Start
) -> None:
    half = start().begin(Message("T", b"pay")).result(WAIT_S)
    half.end(ROLLBACK, remark="no money").result(WAIT_S)
    assert ends_of(broker) == ["12"]
    broker.clock.advance(days=2)
    assert broker.topics["T"].count() == 0


def test_a_block_commits_at_its_end_and_rolls_back_when_it_fails(
    broker: EmbeddedBroker, start: Start
) -> None:
    producer = start()
    with producer.transaction(Message("T", b"good")):
        pass
    with (
        pytest.raises(ZeroDivisionError),
        producer.transaction(Message("T", b"bad")),
    ):
        raise ZeroDivisionError
    with producer.transaction(Message("T", b"left")) as left:
        left.half.end(UNKNOW)
    assert ends_of(broker, 3) == ["8", "12", "0"]
    broker.wait_delivered("T")
    assert [one.body for one in broker.messages.in_topic("T")] == [b"good"]


def test_many_halves_are_open_at_once_and_end_in_any_order(
    broker: EmbeddedBroker, start: Start
) -> None:
    producer = start()
    begun = [producer.begin(Message("T", bytes([number]))) for number in range(50)]
    halves = [future.result(WAIT_S) for future in begun]
    for half in reversed(halves):
        half.end(COMMIT)
    broker.wait_delivered("T", 50)


@pytest.mark.parametrize("second", [COMMIT, ROLLBACK, UNKNOW])
def test_a_half_that_was_ended_cannot_be_ended_again(
    broker: EmbeddedBroker, start: Start, second: LocalTransactionState
) -> None:
    half = start().begin(Message("T", b"x")).result(WAIT_S)
    half.end(COMMIT).result(WAIT_S)
    with pytest.raises(IllegalStateError, match="was ended with COMMIT_MESSAGE already") as caught:
        half.end(second)
    assert half.message_id in str(caught.value)
    assert half.state is COMMIT
    assert ends_of(broker) == ["8"]


def test_of_many_threads_that_end_a_half_one_does(broker: EmbeddedBroker, start: Start) -> None:
    half = start().begin(Message("T", b"x")).result(WAIT_S)
    together = threading.Barrier(8)

    def end() -> str:
        together.wait(WAIT_S)
        try:
            half.end(COMMIT)
        except IllegalStateError:
            return "refused"
        return "ended"

    with ThreadPoolExecutor(8) as threads:
        outcomes = [threads.submit(end) for _ in range(8)]
    assert sorted(one.result() for one in outcomes) == ["ended", *["refused"] * 7]
    assert ends_of(broker) == ["8"]


def test_what_is_no_state_ends_nothing(start: Start) -> None:
    half = start().begin(Message("T", b"x")).result(WAIT_S)
    with pytest.raises(TypeError, match="'commit'"):
        half.end("commit")  # type: ignore[arg-type]
    assert half.state is None


# --- what goes wrong ----------------------------------------------------------------------------


def test_what_cannot_be_a_half_message_is_refused_before_anything_is_sent(
    broker: EmbeddedBroker, start: Start
) -> None:
    producer = start()
    with pytest.raises(UnsupportedOperationError, match="one by one"):
        producer.begin(MessageBatch([Message("T", b"x")]))
    with pytest.raises(DelayConflictError, match="transaction_delay"):
        producer.begin(Message("T", b"x").set_delay_time_level(3))
    with pytest.raises(MQClientException, match="empty"):
        producer.begin(Message("T", b""))
    assert broker.journal.requests(code=RequestCode.SEND_MESSAGE_V2) == []


def test_a_half_message_that_is_refused_is_the_outcome_of_its_begin(
    broker: EmbeddedBroker, start: Start
) -> None:
    producer = start()
    broker.config.update(rejectTransactionMessage=True)
    with pytest.raises(MQClientException, match="not stored") as caught:
        producer.begin(Message("T", b"x")).result(WAIT_S)
    assert caught.value.response_code == ResponseCode.NO_PERMISSION


UNSAFE = {"msgId": "7F00000100002A9F0000000000000000", "queueId": "0", "queueOffset": "4"}


def test_a_half_message_that_is_not_safely_stored_is_rolled_back_and_cannot_be_committed(
    clusters: ClusterMaker,
) -> None:
    cluster = clusters(1)
    server = cluster.brokers[0]
    server.on(
        RequestCode.SEND_MESSAGE_V2,
        lambda request, _: request.answer(ResponseCode.FLUSH_DISK_TIMEOUT, None, UNSAFE),
    )
    told: Queue[RemotingCommand] = Queue()

    def note(request: RemotingCommand, _peer: Peer) -> None:
        told.put(request)

    server.on(RequestCode.END_TRANSACTION, note)
    with BlockProducer(namesrv_addr=cluster.namesrv_addr) as producer:
        half = producer.begin(Message("T", b"x")).result(WAIT_S)
        assert half.state is ROLLBACK
        assert told.get(timeout=WAIT_S).ext_fields["commitOrRollback"] == "12"
        with pytest.raises(IllegalStateError, match="FLUSH_DISK_TIMEOUT"):
            half.end(COMMIT)


class Refusing:
    """An RPC hook that lets no request 37 through until it is told otherwise."""

    def __init__(self) -> None:
        self.refuses = True

    def before_request(self, address: str, request: RemotingCommand) -> None:
        del address
        if self.refuses and request.code == RequestCode.END_TRANSACTION:
            raise RuntimeError("not now")

    def after_response(
        self, address: str, request: RemotingCommand, response: RemotingCommand
    ) -> None:
        """Nothing to see."""


def test_an_end_that_was_not_handed_over_may_be_repeated_but_not_changed(
    broker: EmbeddedBroker, start: Start, caplog: pytest.LogCaptureFixture
) -> None:
    hook = Refusing()
    half = start(rpc_hooks=[hook]).begin(Message("T", b"x")).result(WAIT_S)
    with pytest.raises(RuntimeError, match="not now"):
        half.end(COMMIT).result(WAIT_S)
    assert f"it will ask state=COMMIT_MESSAGE id={half.message_id}: not now" in caplog.text
    hook.refuses = False
    with pytest.raises(IllegalStateError, match="only the same may be repeated, not ROLLBACK"):
        half.end(ROLLBACK)
    half.end(COMMIT).result(WAIT_S)
    broker.wait_delivered("T")


def test_an_end_without_a_connection_waits_for_it_elsewhere(
    broker: EmbeddedBroker, start: Start
) -> None:
    producer = start(transport="tcp")
    half = producer.begin(Message("T", b"x")).result(WAIT_S)
    instance = producer._running().instance
    instance.connections.keep_only(())
    assert instance.connections.get(broker.addr) is None
    half.end(COMMIT).result(WAIT_S)
    broker.wait_delivered("T")


def test_an_end_after_the_shutdown_is_told_by_its_future(
    broker: EmbeddedBroker, start: Start, caplog: pytest.LogCaptureFixture
) -> None:
    producer = start()
    half = producer.begin(Message("T", b"x")).result(WAIT_S)
    producer.shutdown()
    with pytest.raises(ClientClosedError, match="shut down"):
        half.end(COMMIT).result(WAIT_S)
    assert "it will ask" in caplog.text


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_child_cannot_end_a_half_of_its_parent(
    broker: EmbeddedBroker, start: Start
) -> None:
    half = start().begin(Message("T", b"x")).result(WAIT_S)
    child = os.fork()
    if child == 0:
        try:
            half.end(COMMIT)
        except ForkedClientError:
            os._exit(0)
        finally:
            os._exit(1)
    assert os.waitpid(child, 0)[1] == 0
    half.end(COMMIT).result(WAIT_S)
    broker.wait_delivered("T")


class Holding:
    """An end-transaction hook that lets nothing go on until it is released."""

    def __init__(self) -> None:
        self.entered, self.leave = threading.Event(), threading.Event()

    def end(self, _context: object) -> None:
        self.entered.set()
        self.leave.wait(WAIT_S)


def test_a_shutdown_waits_for_an_end_that_is_under_way(
    broker: EmbeddedBroker, start: Start
) -> None:
    hook = Holding()
    producer = start(hooks=[hook], transport="tcp")
    half = producer.begin(Message("T", b"x")).result(WAIT_S)
    engine = producer._running()
    engine.instance.connections.keep_only(())
    told = half.end(COMMIT)
    assert hook.entered.wait(WAIT_S)
    ending = threading.Thread(target=producer.shutdown, args=(WAIT_S,))
    ending.start()
    broker.wait_for(lambda _: producer._engine is None)
    assert not told.done()
    hook.leave.set()
    ending.join(WAIT_S)
    assert told.result(0) is None
    broker.wait_delivered("T")


# --- being asked --------------------------------------------------------------------------------


@pytest.mark.parametrize(("answer", "delivered"), [(COMMIT, 1), (ROLLBACK, 0)])
def test_a_half_that_is_never_ended_is_asked_about_and_the_checker_decides(
    broker: EmbeddedBroker, start: Start, answer: LocalTransactionState, delivered: int
) -> None:
    asked: Queue[MessageExt] = Queue()

    def check(message: MessageExt) -> LocalTransactionState:
        asked.put(message)
        return answer

    half = start(check).begin(Message("T", b"x")).result(WAIT_S)
    broker.clock.advance(ASKED_AFTER_S)
    question = asked.get(timeout=WAIT_S)
    assert (question.body, question.msg_id) == (b"x", half.message_id)
    broker.clock.settle()
    assert broker.topics["T"].count() == delivered


def test_a_question_is_a_half_that_any_thread_may_end_later(
    broker: EmbeddedBroker, start: Start
) -> None:
    producer = start()
    begun = producer.begin(Message("T", b"x")).result(WAIT_S)
    broker.clock.advance(ASKED_AFTER_S)
    asked = producer.questions.get(timeout=WAIT_S)
    assert (asked.message_id, asked.message.body, asked.state) == (begun.message_id, b"x", None)
    asked.end(COMMIT).result(WAIT_S)
    with pytest.raises(IllegalStateError, match="already"):
        asked.end(COMMIT)
    broker.wait_delivered("T")


def test_open_halves_are_not_kept_by_the_client(broker: EmbeddedBroker, start: Start) -> None:
    producer = start()
    seen = []
    for number in range(20):
        half = producer.begin(Message("T", bytes([number]))).result(WAIT_S)
        seen.append(weakref.ref(half))
        del half
    broker.clock.settle()
    gc.collect()
    assert [one() for one in seen] == [None] * 20
