"""Rows reach the brokers whole, in order where it was asked for, and failures are told apart."""

from __future__ import annotations

import threading
import traceback
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pyarrow as pa
import pytest
from attrs import evolve

from embedded_broker import EmbeddedBroker, EmbeddedCluster, VirtualClock
from rocketmq_py import MQClientException, NoRouteError, RemotingSendRequestException
from rocketmq_py.protocol.codes import RequestCode, ResponseCode
from rocketmq_py.protocol.command import RemotingCommand
from rocketmq_py.protocol.frame import Frame
from rocketmq_py.raw import QueueAccess, RawMessages, RunOutcome, SendRun
from spark_connector.errors import InvalidRowError, WeaklyStoredError
from spark_connector.options.write_options import write_options
from spark_connector.writing.queue_choice import QueueChoice
from spark_connector.writing.requests import Request
from spark_connector.writing.sending import Report, Sender
from spark_connector.writing.window import BATCHES_WAITING, Window
from spark_connector.writing.write_columns import check_columns


@pytest.fixture
def broker() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker(clock=VirtualClock()) as started:
        started.topics.create("T", queues=4)
        yield started


def send(
    access: QueueAccess,
    *batches: dict[str, pa.Array],
    dedupe: str | None = None,
    planned: bool = False,
    **given: object,
) -> Report:
    texts = {"nameServer": "h:1", "topic": "T"} | {name: str(one) for name, one in given.items()}
    options = write_options(texts, streaming=False)
    frames = [pa.RecordBatch.from_pydict(one) for one in batches]
    meanings = check_columns(frames[0].schema, options)
    sender = Sender(access, options, meanings, dedupe=dedupe, planned=planned)
    for frame in frames:
        if not sender.send(frame):
            break
    return sender.finish()


def bodies(broker: EmbeddedBroker, topic: str = "T") -> list[bytes]:
    return sorted(message.body for message in broker.messages.in_topic(topic))


def answered(run: SendRun, code: int) -> RunOutcome:
    """What a broker says that answers each message with one code."""
    fields = {"msgId": "", "queueId": "0", "queueOffset": "0"}
    return RunOutcome(run.queue, "T", "", [RemotingCommand(code, ext_fields=fields)] * len(run))


def rows(count: int) -> pa.Array:
    return pa.array([b"%05d" % number for number in range(count)])


@pytest.mark.case("SP22")
def test_many_rows_travel_in_few_requests_to_all_queues(
    broker: EmbeddedBroker, access: QueueAccess
) -> None:
    report = send(access, {"body": rows(5_000)})
    assert (report.stored, report.failure) == (5_000, None)
    assert bodies(broker) == rows(5_000).to_pylist()
    assert len({message.queue_id for message in broker.messages.in_topic("T")}) == 4
    assert len(broker.journal.requests(code=RequestCode.SEND_BATCH_MESSAGE)) <= 8


@pytest.mark.case("SP34")
def test_delayed_rows_go_alone_and_the_others_in_batches(
    broker: EmbeddedBroker, access: QueueAccess
) -> None:
    delays = pa.array([5_000 if number % 2 else None for number in range(1_000)])
    report = send(access, {"body": rows(1_000), "delay_ms": delays}, maxInFlight=50)
    assert report.stored == 1_000
    assert bodies(broker) == rows(1_000).to_pylist()[::2]
    assert len(broker.journal.requests(code=RequestCode.SEND_MESSAGE_V2)) == 500
    assert isinstance(broker.clock, VirtualClock)
    broker.clock.advance(6)
    assert bodies(broker) == rows(1_000).to_pylist()


@pytest.mark.case("SP25")
@pytest.mark.parametrize("batch_send", [True, False])
def test_keys_have_one_queue_and_keep_their_order_with_delays_among_them(
    broker: EmbeddedBroker, access: QueueAccess, batch_send: bool
) -> None:
    keys = pa.array([f"k{number % 7}" for number in range(400)])
    send(access, {"body": rows(400), "sharding_key": keys}, batchSend=batch_send, batchBytes=1024)
    by_queue: dict[int, list[bytes]] = {}
    for message in broker.messages.in_topic("T"):
        by_queue.setdefault(message.queue_id, []).append(message.body)
    for queue, found in by_queue.items():
        assert found == sorted(found)
        mine = {f"k{int(body) % 7}" for body in found}
        assert {RawMessages.hash_of_key(key) % 4 for key in mine} == {queue}
    assert sum(map(len, by_queue.values())) == 400


def test_a_busy_broker_is_asked_again_and_every_row_is_stored(
    broker: EmbeddedBroker, access: QueueAccess
) -> None:
    broker.faults.on(RequestCode.SEND_BATCH_MESSAGE).respond(ResponseCode.SYSTEM_BUSY).times(2)
    assert send(access, {"body": rows(100)}).stored == 100
    assert bodies(broker) == rows(100).to_pylist()


def test_a_broker_that_stays_busy_fails_the_task_so_that_spark_repeats_it(
    broker: EmbeddedBroker, access: QueueAccess
) -> None:
    busy = broker.faults.on(RequestCode.SEND_BATCH_MESSAGE).always()
    busy.respond(ResponseCode.SYSTEM_BUSY)
    with pytest.raises(MQClientException, match="not stored after 1 tries"):
        send(access, {"body": rows(10)}, sendRetries=0, sendDeadlineMs=0)


def test_an_answer_that_says_nothing_about_now_is_not_waited_for(
    broker: EmbeddedBroker, access: QueueAccess
) -> None:
    odd = broker.faults.on(RequestCode.SEND_BATCH_MESSAGE).always()
    odd.respond(ResponseCode.SYSTEM_ERROR, "odd")
    with pytest.raises(MQClientException, match="not stored after 3 tries"):
        send(access, {"body": rows(1)}, sendRetries=2)


def test_what_no_repetition_can_help_comes_back_in_the_report(
    broker: EmbeddedBroker, access: QueueAccess
) -> None:
    refused = broker.faults.on(RequestCode.SEND_BATCH_MESSAGE).always()
    refused.respond(ResponseCode.MESSAGE_ILLEGAL, "no")
    report = send(access, {"body": rows(10)}, {"body": rows(10)})
    assert report.failure is not None
    assert "code 13" in str(report.failure)
    assert bodies(broker) == []


def test_a_status_that_is_not_ok_counts_as_stored_only_when_that_is_accepted(
    access: QueueAccess, monkeypatch: pytest.MonkeyPatch
) -> None:
    def slave_is_away(run: SendRun, told: Any, **_given: object) -> None:
        told(answered(run, ResponseCode.SLAVE_NOT_AVAILABLE))

    monkeypatch.setattr(access, "send_run", slave_is_away)
    assert send(access, {"body": rows(3)}, acceptStatus="stored").stored == 3
    report = send(access, {"body": rows(3)})
    assert "SLAVE_NOT_AVAILABLE" in str(report.failure)


@pytest.mark.parametrize("alone", [False, True])
def test_what_is_stored_less_safely_is_not_sent_again(
    broker: EmbeddedBroker, access: QueueAccess, monkeypatch: pytest.MonkeyPatch, alone: bool
) -> None:
    send_run = access.send_run

    def flush_late(run: SendRun, told: Any, **more: Any) -> None:
        def weakly(_outcome: RunOutcome) -> None:
            told(answered(run, ResponseCode.FLUSH_DISK_TIMEOUT))

        send_run(run, weakly, **more)

    monkeypatch.setattr(access, "send_run", flush_late)
    report = send(access, {"body": rows(1)}, batchSend=not alone)
    assert isinstance(report.failure, WeaklyStoredError)
    for told in ("FLUSH_DISK_TIMEOUT", "the message IS stored", "acceptStatus=stored"):
        assert told in str(report.failure)
    assert report.stored == len(broker.messages.in_topic("T")) == 1


@pytest.mark.case("SP33")
def test_a_delay_that_only_the_broker_refuses_names_the_option_and_no_body(
    broker: EmbeddedBroker, access: QueueAccess
) -> None:
    refused = broker.faults.on(RequestCode.SEND_MESSAGE_V2).always()
    refused.respond(ResponseCode.MESSAGE_ILLEGAL, "timer message illegal")
    columns = {"body": pa.array([b"hush"] * 2), "delay_ms": pa.array([60_000, None])}
    report = send(access, columns)
    assert isinstance(report.failure, InvalidRowError)
    text = "".join(traceback.format_exception(report.failure))
    assert "refuses 1 rows of topic T for good" in text
    assert "timerMaxDelaySec: with that as maxDelayMs" in text
    assert "hush" not in text


@pytest.mark.case("SP25")
def test_what_waits_behind_others_of_its_queue_is_bounded_in_bytes(
    broker: EmbeddedBroker, access: QueueAccess, monkeypatch: pytest.MonkeyPatch
) -> None:
    waiting: list[int] = []
    start = Window._start

    def noting(window: Window, request: Request) -> None:
        waiting.append(window._bytes_behind)
        start(window, request)

    monkeypatch.setattr(Window, "_start", noting)
    columns = {"body": rows(4_000), "queue_id": pa.array([0] * 4_000)}
    assert send(access, columns, batchBytes=1024).stored == 4_000
    found = [message.body for message in broker.messages.in_topic("T")]
    assert found == sorted(found)
    assert 0 < max(waiting) <= (BATCHES_WAITING + 1) * 1024
    assert waiting[-1] == 0


def test_a_topic_that_cannot_exist_is_such_a_failure() -> None:
    with (
        EmbeddedBroker(config={"autoCreateTopicEnable": False}) as broker,
        QueueAccess(namesrv_addr=broker.namesrv_addr) as access,
    ):
        failure = send(access, {"body": rows(1)}).failure
        assert isinstance(failure, NoRouteError)
        assert "create the topic" in str(failure)


@pytest.mark.case("SP27")
def test_nothing_of_an_arrow_batch_with_a_bad_row_is_sent(
    broker: EmbeddedBroker, access: QueueAccess
) -> None:
    bad = pa.array([b"x"] * 900 + [None] + [b"x"] * 99)
    report = send(access, {"body": rows(10)}, {"body": bad}, {"body": rows(10)})
    assert isinstance(report.failure, InvalidRowError)
    assert (report.failure.row, report.stored) == (900, 10)
    assert bodies(broker) == rows(10).to_pylist()
    skipped = send(access, {"body": bad}, onInvalidRow="skip")
    assert (skipped.stored, skipped.skipped) == (999, 1)


@pytest.mark.case("SP26")
def test_a_queue_that_does_not_exist_is_an_invalid_row(
    broker: EmbeddedBroker, access: QueueAccess
) -> None:
    columns = {"body": rows(3), "queue_id": pa.array([1, 9, None])}
    report = send(access, columns, onInvalidRow="skip")
    assert (report.stored, report.skipped) == (2, 1)
    assert 1 in {message.queue_id for message in broker.messages.in_topic("T")}


@pytest.mark.case("SP26")
def test_a_broker_name_and_a_queue_id_say_where_a_row_is_stored() -> None:
    with (
        EmbeddedCluster(brokers=2, topics=["T"]) as cluster,
        QueueAccess(namesrv_addr=cluster.namesrv_addr) as access,
    ):
        names = ["broker-a", "broker-b", "broker-b", None, "broker-c"]
        queue_ids = [2, 2, 3, 1, 0]
        columns = {
            "body": rows(5),
            "queue_id": pa.array(queue_ids),
            "broker_name": pa.array(names),
        }
        report = send(access, columns, onInvalidRow="skip")
        found = {
            one.body: (broker.broker_name, one.queue_id)
            for broker in cluster.brokers
            for one in broker.messages.in_topic("T")
        }
    assert (report.stored, report.skipped) == (4, 1)
    assert found.pop(b"00003")[1] == 1
    assert found == {b"%05d" % row: (names[row], queue_ids[row]) for row in range(3)}


def test_ids_against_repetition_are_the_same_for_the_same_rows(
    broker: EmbeddedBroker, access: QueueAccess
) -> None:
    for _ in range(2):
        send(access, {"body": rows(5)}, {"body": rows(5)}, dedupe="q-3-0")
    found = [message.properties["DEDUPE_ID"] for message in broker.messages.in_topic("T")]
    assert (len(found), len(set(found))) == (20, 10)
    assert {one.rsplit("-", 1)[0] for one in found} == {f"q-3-0-{number}" for number in range(10)}


def test_large_bodies_are_compressed_when_asked_for(
    broker: EmbeddedBroker, access: QueueAccess
) -> None:
    send(access, {"body": pa.array([b"x" * 10_000, b"y"])}, compression="zlib", compressOver=100)
    assert bodies(broker) == [b"x" * 10_000, b"y"]
    pulled = [access.pull(queue, 0).result(30) for queue in access.read_queues("T")]
    assert sum(len(one.records) for one in pulled) < 1_000


def test_rows_that_go_alone_leave_together_but_each_has_its_own_outcome(
    broker: EmbeddedBroker, access: QueueAccess, monkeypatch: pytest.MonkeyPatch
) -> None:
    groups: list[int] = []
    send_run = access.send_run

    def counted(run: SendRun, *given: Any, **more: Any) -> None:
        groups.append(len(run))
        send_run(run, *given, **more)

    monkeypatch.setattr(access, "send_run", counted)
    broker.faults.on(RequestCode.SEND_MESSAGE_V2).respond(ResponseCode.SYSTEM_BUSY).times(3)
    delays = pa.array([5_000] * 400)
    report = send(access, {"body": rows(400), "delay_ms": delays}, maxInFlight=40)
    assert report.stored == 400
    assert groups[:2] == [20, 20]  # what may be under way, in two halves
    assert sum(groups) == 403
    assert len(groups) <= 20 + 3  # a refused row goes again by itself, or with others
    assert isinstance(broker.clock, VirtualClock)
    broker.clock.advance(6)
    assert bodies(broker) == rows(400).to_pylist()
    assert len({message.queue_id for message in broker.messages.in_topic("T")}) == 4


def test_rows_that_go_alone_do_not_wait_for_the_next_batch(
    broker: EmbeddedBroker, access: QueueAccess
) -> None:
    given = {"nameServer": "h:1", "topic": "T", "delayMs": "5000"}
    sender = Sender(access, write_options(given, streaming=False), {"body": "body"})
    assert sender.send(pa.RecordBatch.from_pydict({"body": rows(3)}))
    broker.wait_for(lambda started: started.timers.count(topic="T") == 3)
    assert sender.finish().stored == 3


def test_a_row_of_a_group_that_is_refused_for_good_fails_the_task(
    broker: EmbeddedBroker, access: QueueAccess
) -> None:
    broker.faults.on(RequestCode.SEND_MESSAGE_V2).respond(ResponseCode.MESSAGE_ILLEGAL).times(1)
    delays = pa.array([5_000] * 10)
    report = send(access, {"body": rows(10), "delay_ms": delays})
    assert report.failure is not None
    assert "code 13" in str(report.failure)
    assert report.stored == broker.timers.count(topic="T") == 9


def test_exactly_the_rows_of_a_run_that_were_not_stored_go_again(
    broker: EmbeddedBroker, access: QueueAccess, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Busy answers, a connection that ends and stored rows in one run: each row by itself."""
    sent: list[list[bytes]] = []
    send_run = access.send_run

    def partly(run: SendRun, told: Any, **more: Any) -> None:
        sent.append([bytes(body) for body in run.bodies])
        if len(sent) > 1:
            send_run(run, told, **more)
            return
        kept = [0, 2, 5]
        good = evolve(
            run,
            bodies=[run.bodies[number] for number in kept],
            properties=[run.properties[number] for number in kept],
        )

        def mixed(_outcome: RunOutcome) -> None:
            outcomes: list[Any] = [Frame(0, b"", b"")] * len(run)
            outcomes[1] = outcomes[3] = RemotingCommand(ResponseCode.SYSTEM_BUSY)
            outcomes[4] = RemotingSendRequestException("it ended")
            told(RunOutcome(run.queue, "T", "", outcomes))

        send_run(good, mixed, **more)

    monkeypatch.setattr(access, "send_run", partly)
    columns = {"body": rows(6), "delay_ms": pa.array([5_000] * 6)}
    broker.topics.create("One", queues=1)
    assert send(access, columns, topic="One").stored == 6
    assert sent[0] == rows(6).to_pylist()
    assert sorted(sent[1:]) == [[b"00001", b"00003"], [b"00004"]]
    assert broker.timers.count(topic="One") == 6


def test_without_a_deadline_there_are_as_many_tries_as_asked_for(
    broker: EmbeddedBroker, access: QueueAccess
) -> None:
    access.write_queues("T")
    broker.close()
    with pytest.raises(MQClientException, match="not stored after 3 tries"):
        send(access, {"body": rows(1)}, sendRetries=2, sendDeadlineMs=0)


def test_another_broker_gets_at_once_what_one_did_not_take(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(
        "spark_connector.writing.send_errors.WAIT_AGAIN_S", 900.0
    )  # a rest would not end
    monkeypatch.setattr("spark_connector.writing.send_errors.WAIT_MOST_S", 900.0)
    with (
        EmbeddedCluster(brokers=2, topics=["T"]) as cluster,
        QueueAccess(namesrv_addr=cluster.namesrv_addr) as access,
    ):
        before = access.write_queues("T")
        cluster.stop("broker-a")
        monkeypatch.setattr(access, "write_queues", lambda _topic: before)
        assert send(access, {"body": rows(100)}).stored == 100
        assert cluster["broker-b"].topics["T"].count() == 100


@pytest.mark.case("SP39")
@pytest.mark.parametrize("batch_send", [True, False])
def test_rows_in_a_write_wait_for_the_only_broker_and_keep_their_order(
    monkeypatch: pytest.MonkeyPatch, batch_send: bool
) -> None:
    refused = threading.Event()
    look_again = QueueChoice.look_again

    def noting(spread: QueueChoice, topic: str) -> None:
        look_again(spread, topic)
        refused.set()

    monkeypatch.setattr(QueueChoice, "look_again", noting)
    in_flight: list[int] = []
    launch = Window._launch

    def counting(window: Window, request: Request) -> None:
        in_flight.append(window._in_flight)
        launch(window, request)

    monkeypatch.setattr(Window, "_launch", counting)
    with (
        EmbeddedCluster(brokers=1, topics=["T"]) as cluster,
        QueueAccess(namesrv_addr=cluster.namesrv_addr) as access,
        ThreadPoolExecutor(1) as other,
    ):
        access.write_queues("T")
        cluster.stop("broker-a")
        keyed = pa.array([f"k{number % 7}" if number % 2 else None for number in range(400)])
        columns = {"body": rows(400), "sharding_key": keyed}
        sent = other.submit(
            send, access, columns, sendRetries=0, batchSend=batch_send, maxInFlight=20
        )
        assert refused.wait(30)
        cluster.start("broker-a")
        assert sent.result(60).stored == 400
        found = cluster["broker-a"].messages.in_topic("T")
    assert sorted(message.body for message in found) == rows(400).to_pylist()
    for queue_id in range(4):
        mine = [one.body for one in found if one.queue_id == queue_id and int(one.body) % 2]
        assert mine == sorted(mine)
    assert max(in_flight) <= 20


@pytest.mark.case("SP39")
def test_a_broker_that_restarts_in_the_middle_gets_every_row_at_least_once(
    broker: EmbeddedBroker,
) -> None:
    keys = [f"id-{number}" for number in range(5_000)]
    batches = [
        pa.RecordBatch.from_pydict(
            {"body": rows(1_000), "dedupe_key": pa.array(keys[first : first + 1_000])}
        )
        for first in range(0, 5_000, 1_000)
    ]
    given = {"nameServer": "h:1", "topic": "T", "sendRetries": "5", "sendTimeoutMs": "1000"}
    options = write_options(given, streaming=False)
    with QueueAccess(namesrv_addr=broker.namesrv_addr, transport="tcp") as access:
        sender = Sender(access, options, check_columns(batches[0].schema, options))
        for number, batch in enumerate(batches):
            assert sender.send(batch)
            if number == 2:
                broker.restart()
        assert sender.finish().stored == 5_000
    found = {message.properties["DEDUPE_ID"] for message in broker.messages.in_topic("T")}
    assert found == set(keys)


# --- brokers before 5.0 -------------------------------------------------------------------------


@pytest.fixture
def old_broker() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker(clock=VirtualClock(), profile="rocketmq-4.9") as started:
        started.topics.create("T", queues=2)
        yield started


def test_delays_that_an_old_broker_does_not_know_end_the_write_and_levels_do_not(
    old_broker: EmbeddedBroker,
) -> None:
    with QueueAccess(namesrv_addr=old_broker.namesrv_addr) as access:
        levels = send(access, {"body": rows(3), "delay_level": pa.array([3, 18, None])})
        assert (levels.stored, levels.failure) == (3, None)
        report = send(access, {"body": rows(2), "delay_ms": pa.array([9_000, 9_000])})
    assert report.stored == 0
    assert isinstance(report.failure, InvalidRowError)
    assert report.failure.__cause__ is None
    for part in ("4.9.4", "level 3 (10s)", "delayPolicy"):
        assert part in str(report.failure)
    assert old_broker.topics["T"].count() == 1


@pytest.mark.parametrize(("policy", "warnings"), [("warn", 3), ("as_java", 0)])
def test_a_write_may_send_what_will_not_be_kept(
    old_broker: EmbeddedBroker, policy: str, warnings: int, caplog: pytest.LogCaptureFixture
) -> None:
    columns = {
        "body": rows(4),
        "delay_ms": pa.array([9_000, None, None, None]),
        "delay_level": pa.array([None, -1, None, None], pa.int32()),
        "TIMER_DELAY_SECS": pa.array([None, None, "5", None]),
    }
    with QueueAccess(namesrv_addr=old_broker.namesrv_addr) as access:
        report = send(access, columns, delayPolicy=policy, extraColumns="properties")
    assert (report.stored, report.failure) == (4, None)
    assert old_broker.topics["T"].count() == 4
    told = [one for one in caplog.records if "delay_policy" in one.getMessage()]
    assert len(told) == warnings
