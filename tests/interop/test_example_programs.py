"""The programs of the documents and of this package's examples on a real 5.3.3 broker.

`make test` runs the same under a clock that is moved. Here time passes: all programs are started
one after the other, and each test looks at what one of them has left. What cannot be done here:

* ``v5/send_delayed`` by itself waits ten minutes: it is told five seconds.
* The jump of ``delayed_messages``, 30 days: a real broker refuses more than three, and its clock is
  the machine's. The refusal is tested.
* ``delayed_messages --store`` opens a store by this package's broker. That a real one goes on with
  such a store, and ours with a real one's, is tested in ``test_store_exchange.py``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import AbstractContextManager, ExitStack
from datetime import UTC, datetime
from types import ModuleType, SimpleNamespace

import pytest
from attrs import frozen

from rocketmq_py import DefaultMQProducer, Message, MessageExt, MQBrokerException, SystemClock
from rocketmq_py.admin import AdminClient, TopicMessageType
from tests.interop.real_broker import RealCluster
from tests.programs import begin, load, programs_in
from tests.waiting import HANG_S, until

CLOCK = SystemClock()
PRECISION_MS = 1000
"""5.3.3 cuts due times to whole seconds (``timerPrecisionMs``)."""
QUEUES = 4


@frozen
class Row:
    """A program that sends, and what is to be in its topic when it and the time have passed.

    ``wait_s``: nobody can have one of the messages earlier after the program began.
    """

    program: str
    topic: str
    messages: int
    wait_s: int = 0
    arguments: tuple[object, ...] = ()

    def __str__(self) -> str:
        return "-".join([self.program, *map(str, self.arguments)])


ROWS = (
    Row("java_spelling/ordinary_message", "mq-test4", 1),
    Row("java_spelling/delay_level", "mq-test4", 1, 10),
    Row("java_spelling/ordered_messages", "Topic-test", 100),
    Row("java_spelling/timer_message_producer", "TimerTopic", 10, 10),
    Row("java_spelling/timer_message_producer_4_9_4", "TimerTopic", 100, 10, (100,)),
    Row("java_spelling/transaction_messages", "TopicTest1234", 7),
    Row("ons/timer_producer", "TopicTestMQ", 1, 10),
    Row("v5/send_delayed", "DelayTopic", 1, 5, ("DelayTopic", "5")),  # without the 5: ten minutes
    Row("v5/transactions", "Payments", 1, arguments=("Payments", "commit")),
    Row("v5/transactions", "Payments", 0, arguments=("Payments", "rollback")),
    Row("v5/transactions", "Payments", 1, arguments=("Payments", "crash")),  # when it is asked
    Row("v5/fifo_messages", "Orders", 9, arguments=("Orders", "OrderGroup")),
)
CREATES = ("v5/create_delay_topic", "DelayTopic")
CONSUMERS: dict[str, tuple[object, ...]] = {
    "java_spelling/timer_message_consumer": (),
    "ons/timer_consumer": (),
    "v5/push_consumer": ("DelayTopic", "MailGroup"),
    "v5/simple_consumer": ("DelayTopic", "SimpleGroup"),
}
NEEDS_NO_BROKER = "java_spelling/settings_tables"
TOPICS = {
    **dict.fromkeys(row.topic for row in ROWS if row.topic != CREATES[1]),
    "TopicTestMQ-Other": None,
    "Payments": TopicMessageType.TRANSACTION,
    "Orders": TopicMessageType.FIFO,
}


@frozen
class Run:
    """A program that was started: from when to when it sent, what it returns and what it says."""

    began_ms: int
    ended_ms: int
    ended: Future[object]
    told: list[str]


class Stage:
    """Where the programs run, side by side on one broker."""

    def __init__(self, namesrv_addr: str, ends: ExitStack) -> None:
        self.namesrv_addr = namesrv_addr
        self.admin = ends.enter_context(AdminClient(namesrv_addr=namesrv_addr))
        self.runs: dict[str, Run] = {}
        self.next_run_told: list[str] = []
        self._began = datetime.now(UTC)
        self._ends = ends
        self._patch = ends.enter_context(pytest.MonkeyPatch.context())

    def load(self, program: str) -> tuple[ModuleType, list[str]]:
        """Load a program, and give what it prints from now on."""
        told: list[str] = []
        module = load(program, self.namesrv_addr, self._patch)
        self._patch.setattr(
            module, "print", lambda *words: told.append(" ".join(map(str, words))), raising=False
        )
        return module, told

    def start(self, name: str, program: str, *arguments: object, waits: bool) -> None:
        """Start a program, and wait for its end if it has one by itself."""
        module, told = self.load(program)
        if program.startswith("v5/"):
            arguments = (self.namesrv_addr, *arguments)
        began_ms = CLOCK.now_ms
        ended = begin(lambda: module.main(*arguments), program)
        if waits:
            made = ended.result(HANG_S)
            if isinstance(made, AbstractContextManager):  # a client that goes on
                self._ends.enter_context(made)
        self.runs[name] = Run(began_ms, CLOCK.now_ms, ended, told)

    def begin_the_next_run(self) -> None:
        """Keep a producer of ``v5/transactions`` that is asked what another run left open."""
        module, self.next_run_told = self.load("v5/transactions")
        configuration = module.ClientConfiguration(self.namesrv_addr)
        self._ends.enter_context(
            module.Producer(configuration, ("Payments",), checker=module.Ledger())
        )

    def stored(self, topic: str) -> list[MessageExt]:
        """What consumers of a topic can have."""
        end = datetime.fromtimestamp(CLOCK.now_ms / 1000 + HANG_S, UTC)
        return [*self.admin.messages_by_time(topic, self._began, end, max_messages=1000)]


@pytest.fixture(scope="module")
def stage(real: RealCluster) -> Iterator[Stage]:
    with ExitStack() as ends:
        made = Stage(real.namesrv_addr, ends)
        for topic, kind in TOPICS.items():
            made.admin.ensure_topic(topic, queues=QUEUES, message_type=kind)
        made.start(CREATES[0], *CREATES, waits=True)
        for program, arguments in CONSUMERS.items():
            made.start(program, program, *arguments, waits=not program.startswith("v5/"))
        for row in ROWS:
            made.start(str(row), row.program, *row.arguments, waits=True)
        made.begin_the_next_run()
        yield made


def test_every_program_is_run_here() -> None:
    there = {f"{one}/{name}" for one in ("java_spelling", "ons", "v5") for name in programs_in(one)}
    assert {row.program for row in ROWS} | {*CONSUMERS, CREATES[0], NEEDS_NO_BROKER} == there


@pytest.mark.parametrize("row", ROWS, ids=str)
def test_a_program_leaves_its_messages_and_none_is_there_early(stage: Stage, row: Row) -> None:
    everything = sum(other.messages for other in ROWS if other.topic == row.topic)
    until(lambda: len(stage.stored(row.topic)) >= everything, HANG_S)
    run = stage.runs[str(row)]
    left = [
        message.store_timestamp
        for message in stage.stored(row.topic)
        if run.began_ms <= message.born_timestamp <= run.ended_ms
    ]
    assert len(left) == row.messages
    not_before = run.began_ms + row.wait_s * 1000 - PRECISION_MS
    assert [stored for stored in left if stored < not_before] == []


def test_a_topic_is_created_for_delayed_messages(stage: Stage) -> None:
    (settings,) = stage.admin.topic_settings("DelayTopic").values()
    assert settings.message_type == "DELAY"


def test_messages_of_an_order_lie_in_one_queue_in_order(stage: Stage) -> None:
    numbers: dict[int, list[int]] = {queue: [] for queue in range(QUEUES)}
    until(lambda: len(stage.stored("Topic-test")) == 100, HANG_S)
    for message in sorted(stage.stored("Topic-test"), key=lambda one: one.queue_offset):
        numbers[message.queue_id].append(int(message.body.split()[-1]))
    assert numbers == {
        queue: [number for number in range(100) if number % 10 % QUEUES == queue]
        for queue in range(QUEUES)
    }


def test_the_java_consumer_gets_what_both_producers_sent(stage: Stage) -> None:
    told = stage.runs["java_spelling/timer_message_consumer"].told
    until(lambda: len(told) >= 110, HANG_S)
    received = re.findall(r"Receive message\[msgId=(\w+) \d+  ms later\]", "\n".join(told))
    rows = [row for row in ROWS if row.topic == "TimerTopic"]
    sent = "\n".join(line for row in rows for line in stage.runs[str(row)].told)
    assert len({*received}) == len(received) == 110
    assert [one for one in received if one not in sent] == []


def test_the_ons_consumer_gets_each_topic_by_its_listener(stage: Stage) -> None:
    with DefaultMQProducer("others", namesrv_addr=stage.namesrv_addr) as producer:
        producer.send(Message("TopicTestMQ-Other", b"x"))
    told = stage.runs["ons/timer_consumer"].told
    until(lambda: len(told) >= 4, HANG_S)
    (sent,) = re.findall(
        r"send message success\. topic=TopicTestMQ, msgId=(\w+)",
        "\n".join(stage.runs["ons/timer_producer"].told),
    )
    assert told[0] == "Consumer Started"
    for kind in (
        "Receive: Message [topic=TopicTestMQ, tag=TagA, key=ORDERID_100",
        "Receive: Message [topic=TopicTestMQ-Other,",
        f"Receive message[msgId={sent} ",
    ):
        assert len([line for line in told if line.startswith(kind)]) == 1, told


def test_the_consumers_of_the_5_0_documents_tell_when_a_message_was_due(stage: Stage) -> None:
    runs = [stage.runs[program] for program in CONSUMERS if program.startswith("v5/")]
    until(lambda: all(run.told for run in runs), HANG_S)
    with DefaultMQProducer("stops", namesrv_addr=stage.namesrv_addr) as producer:
        producer.send(Message("DelayTopic", b"stop"))
    for run in runs:
        assert run.ended.result(HANG_S) == 0
        delayed, stop = run.told
        assert re.fullmatch(r"b'messageBody' was due at \d{13}", delayed)
        assert stop == "b'stop' was due at None"


def test_the_programs_are_asked_about_transactions_that_they_left_open(stage: Stage) -> None:
    java = stage.runs["java_spelling/transaction_messages"].told
    open_ones = {"asked about KEY2", "asked about KEY5", "asked about KEY8"}
    until(lambda: open_ones <= {*java}, HANG_S)
    assert {line for line in java if line.startswith("asked")} == open_ones
    until(lambda: "asked about b'paid 42'" in stage.next_run_told, HANG_S)


def test_steps_of_an_order_are_followed_one_after_the_other(stage: Stage) -> None:
    (fifo,) = (row for row in ROWS if row.program == "v5/fifo_messages")
    assert stage.runs[str(fifo)].told == [
        f"order-{number}: created, paid, shipped" for number in (1, 2, 3)
    ]


def test_the_tables_of_settings_need_no_broker(stage: Stage) -> None:
    module, told = stage.load(NEEDS_NO_BROKER)
    module.main()
    assert told[1].split()[:2] == ["namesrvAddr", "127.0.0.1:9876;127.0.0.1:9877"]


def test_every_way_of_the_demonstration_to_ask_for_a_delay(stage: Stage) -> None:
    """But for its jump of 30 days: 5.3.3 takes three, and nobody moves its clock."""
    demo, _ = stage.load("delayed_messages")
    stage.admin.ensure_topic(demo.TOPIC, queues=QUEUES)
    there, board = SimpleNamespace(namesrv_addr=stage.namesrv_addr, clock=CLOCK), demo.Board()
    with DefaultMQProducer("demo", namesrv_addr=stage.namesrv_addr) as producer:
        with demo.listening(there, board):
            demo.send_all(there, board, producer)
            until(lambda: board.count() >= len(board.rows) - 1, HANG_S)
        with pytest.raises(MQBrokerException, match="delay"):
            demo.jump(there, board, producer)
    arrivals = {asked: row.arrivals for asked, row in board.rows.items()}
    assert arrivals.pop(demo.RECALLED) == arrivals.pop(demo.LAST) == []
    assert len(arrivals) == len(demo.WAYS) + 1  # and Aliyun's
    for asked, arrived in arrivals.items():
        (at_ms,) = arrived
        assert at_ms >= board.rows[asked].due_ms - PRECISION_MS, asked
