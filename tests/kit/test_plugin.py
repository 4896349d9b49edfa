"""What a test gets from the plugin, and why it is skipped or failed: runs of pytest in a test."""

from __future__ import annotations

from pathlib import Path

import pytest

from embedded_broker import EmbeddedBroker
from rocketmq_py import DefaultMQPushConsumer
from tests.kit.conftest import RunKit

ROOT = Path(__file__).resolve().parents[2]


def test_every_test_begins_with_an_empty_broker_at_the_same_time(run_kit: RunKit) -> None:
    result = run_kit("""
@pytest.mark.parametrize("number", range(3))
def test_new(rocketmq_broker, rocketmq_clock, rocketmq_topic, rocketmq_producer, number):
    assert rocketmq_clock.now() == datetime(2030, 1, 1, tzinfo=UTC)
    assert rocketmq_broker.topics.names() == [rocketmq_topic] == [f"test_new-{number}"]
    rocketmq_producer.send(Message(rocketmq_topic, b"x", delay=MINUTE))
    rocketmq_clock.advance(days=1)
    assert rocketmq_broker.topics[rocketmq_topic].count() == 1

@pytest.mark.rocketmq(start=datetime(2040, 5, 1, tzinfo=UTC))
def test_another_time(rocketmq_clock):
    assert rocketmq_clock.now() == datetime(2040, 5, 1, tzinfo=UTC)
""")
    result.assert_outcomes(passed=4)


def test_a_message_that_arrives_in_time_is_expected_in_virtual_time(run_kit: RunKit) -> None:
    result = run_kit("""
def test_cancel(rocketmq_clock, rocketmq_topic, rocketmq_producer, rocketmq_recorder):
    arrived = rocketmq_recorder(rocketmq_topic)
    rocketmq_producer.send(Message(rocketmq_topic, b"cancel 42", delay=30 * MINUTE))
    arrived.expect_nothing(within=29 * MINUTE)
    message = arrived.expect("cancel 42", within=MINUTE)
    assert message.store_timestamp == rocketmq_clock.now_ms
    assert rocketmq_clock.now() == datetime(2030, 1, 1, 0, 30, tzinfo=UTC)
    assert arrived.bodies == [b"cancel 42"] and not arrived.unexpected
""")
    result.assert_outcomes(passed=1)


def test_marks_say_what_a_broker_has(run_kit: RunKit) -> None:
    result = run_kit("""
pytestmark = pytest.mark.rocketmq(topics=["Orders"], config={"timerMaxDelaySec": 3_456_000})

@pytest.mark.rocketmq(topics=[TopicSpec("Bills", queues=2)], config={"maxMessageSize": 4096})
class TestMarks:
    @pytest.mark.rocketmq(profile="rocketmq-4.9", config={"maxMessageSize": 2048})
    def test_all_marks_count_and_the_nearest_decides(self, rocketmq_broker):
        assert set(rocketmq_broker.topics.names()) == {"Orders", "Bills"}
        assert rocketmq_broker.topics["Bills"].queues == 2
        assert rocketmq_broker.config["timerMaxDelaySec"] == 3_456_000
        assert rocketmq_broker.config["maxMessageSize"] == 2048
        assert rocketmq_broker.profile.name == "rocketmq-4.9"

@pytest.mark.rocketmq(virtual_clock=False)
def test_wall_time(rocketmq_broker):
    assert rocketmq_broker.clock.now() < datetime(2030, 1, 1, tzinfo=UTC)
""")
    result.assert_outcomes(passed=2)


@pytest.mark.parametrize("scope", ["function", "session"])
def test_a_mark_says_how_many_queues_a_topic_has(run_kit: RunKit, scope: str) -> None:
    result = run_kit(
        """
@pytest.mark.rocketmq(topics={"Orders": 6, "Bills": 1})
def test_queues(rocketmq_broker):
    topics = rocketmq_broker.topics
    assert (topics["Orders"].queues, topics["Bills"].queues) == (6, 1)

@pytest.mark.rocketmq(topics=[TopicSpec("Orders", 2, message_type="DELAY"), "Bills"])
def test_types(rocketmq_broker):
    from rocketmq_py.admin import AdminClient
    with AdminClient(namesrv_addr=rocketmq_broker.namesrv_addr) as admin:
        found = admin.topic_settings("Orders")["broker-a"]
    assert (found.message_type, found.read_queues) == ("DELAY", 2)
""",
        f"--rocketmq-scope={scope}",
    )
    result.assert_outcomes(passed=2)


def test_a_topic_with_a_type_skips_a_test_on_a_broker_that_is_not_embedded(
    run_kit: RunKit,
) -> None:
    with EmbeddedBroker(inproc=False) as broker:
        result = run_kit(
            """
@pytest.mark.rocketmq(topics=[TopicSpec("Orders", message_type="DELAY")])
def test_types(rocketmq_broker): pass
""",
            f"--rocketmq={broker.namesrv_addr}",
            "-rs",
        )
    result.assert_outcomes(skipped=1)
    result.stdout.fnmatch_lines(["*topic Orders: only an embedded broker*type*"])


@pytest.mark.parametrize(
    ("mark", "told"),
    [
        ("topic=['T']", "did you mean topics?"),
        ("topics='T'", "a list of names"),
        ("topics={'T': 0}", "from 1 to 1024"),
        ("start=datetime(2030, 1, 1)", "an aware datetime"),
        ("config=['x']", "a dict of options"),
        ("'T'", "keywords only"),
        ("config={'timerMaxDelay': 1}", "timerMaxDelaySec"),
    ],
)
def test_a_wrong_mark_is_named_with_what_is_right(run_kit: RunKit, mark: str, told: str) -> None:
    result = run_kit(f"""
@pytest.mark.rocketmq({mark})
def test_wrong(rocketmq_broker):
    pass
""")
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines([f"*{told}*"])


def test_a_consumer_is_ready_when_it_is_given_and_ends_with_its_test(run_kit: RunKit) -> None:
    result = run_kit("""
got, consumers = [], []

def listen(messages, context):
    got.extend((m.topic, m.body, m.tags) for m in messages)
    return ConsumeConcurrentlyStatus.CONSUME_SUCCESS

def test_given(rocketmq_consumer, rocketmq_broker, rocketmq_clock, rocketmq_group, rocketmq_topic):
    consumers.append(rocketmq_consumer("billing", "Orders", listen, tags="paid"))
    consumers.append(rocketmq_consumer(listener=listen, consume_thread_min=2))
    rocketmq_broker.send("Orders", b"no", tags="new")
    rocketmq_broker.send("Orders", b"yes", tags="paid")
    rocketmq_broker.send(rocketmq_topic, b"own")
    rocketmq_clock.settle()
    assert sorted(got) == [("Orders", b"yes", "paid"), (rocketmq_topic, b"own", None)]
    assert consumers[1].consumer_group == rocketmq_group
    assert consumers[1].consume_thread_min == 2
    assert consumers[0].pull_time_delay_millis_when_exception == 10

def test_ended():
    assert [one.is_running for one in consumers] == [False, False]

def test_a_third_member_of_two_queues_waits_for_none(rocketmq_broker, rocketmq_consumer):
    rocketmq_broker.topics.create("Two", queues=2)
    for _ in range(3):
        rocketmq_consumer("billing", "Two", done)

def test_no_listener(rocketmq_consumer):
    with pytest.raises(Exception, match="a function, as in rocketmq_consumer"):
        rocketmq_consumer("billing", "Orders")
""")
    result.assert_outcomes(passed=4)


def test_recorders_tell_duplicates_and_dead_letters(run_kit: RunKit) -> None:
    result = run_kit("""
def test_twice(rocketmq_broker, rocketmq_topic, rocketmq_recorder, rocketmq_producer):
    arrived, other = rocketmq_recorder(rocketmq_topic), rocketmq_recorder(rocketmq_topic)
    sent = rocketmq_producer.send(Message(rocketmq_topic, b"once", tags="a"))
    first = arrived.expect(b"once")
    assert other.expect("once").msg_id == sent.msg_id
    rocketmq_broker.redeliver(first)
    arrived.expect(b"once")
    assert [one.msg_id for one in arrived.duplicates] == [sent.msg_id]
    assert arrived.texts == ["once", "once"]
    other.expect(lambda message: message.tags == "a")
    rocketmq_broker.redeliver(sent, group=arrived.group)
    arrived.expect(b"once")
    other.expect_nothing()
    other.clear()
    assert other.messages == []

def test_dead(rocketmq_topic, rocketmq_recorder, rocketmq_consumer, rocketmq_producer,
              rocketmq_clock):
    rocketmq_consumer("billing", rocketmq_topic, later, max_reconsume_times=2)
    arrived = rocketmq_recorder()
    rocketmq_producer.send(Message(rocketmq_topic, b"bad"))
    assert arrived.dead_letters("billing") == []
    rocketmq_clock.run(minutes=5)
    assert [one.body for one in arrived.dead_letters("billing")] == [b"bad"]
    assert arrived.dead_letters("nobody") == []

def test_still_waiting_is_not_redelivered(rocketmq_broker, rocketmq_topic):
    sent = rocketmq_broker.send(rocketmq_topic, b"x", delay=5)
    with pytest.raises(LookupError, match="not delivered yet"):
        rocketmq_broker.redeliver(sent)
""")
    result.assert_outcomes(passed=3)


def test_a_cluster_serves_the_other_fixtures(run_kit: RunKit) -> None:
    result = run_kit("""
@pytest.mark.rocketmq(brokers=2)
def test_cluster(rocketmq_cluster, rocketmq_broker, rocketmq_topic, rocketmq_producer,
                 rocketmq_recorder):
    assert [one.broker_name for one in rocketmq_cluster.brokers] == ["broker-a", "broker-b"]
    assert rocketmq_broker is rocketmq_cluster["broker-a"]
    arrived = rocketmq_recorder()
    for number in range(8):
        rocketmq_producer.send(Message(rocketmq_topic, b"%d" % number, delay=MINUTE))
    rocketmq_cluster.stop("broker-b")
    rocketmq_cluster.start("broker-b")
    for number in range(8):
        arrived.expect(b"%d" % number, within=MINUTE)
    assert {one.broker_name for one in arrived.messages} == {"broker-a", "broker-b"}
""")
    result.assert_outcomes(passed=1)


def test_a_store_is_opened_again_and_a_broker_crashes_at_a_request(run_kit: RunKit) -> None:
    result = run_kit("""
def test_reopen(rocketmq_store, rocketmq_topic, rocketmq_producer, rocketmq_recorder):
    arrived = rocketmq_recorder()
    rocketmq_producer.send(Message(rocketmq_topic, b"kept", delay=MINUTE))
    assert rocketmq_store.reopen().timers_pending == 1
    assert not rocketmq_store.reopen(crash=True).clean
    assert (rocketmq_store.path / "commitlog").is_dir()
    arrived.expect(b"kept", within=MINUTE, after=MINUTE)

def test_power_loss(rocketmq_store, rocketmq_topic, rocketmq_producer, rocketmq_recorder):
    arrived = rocketmq_recorder()
    rocketmq_producer.send(Message(rocketmq_topic, b"lost", delay=MINUTE))
    assert rocketmq_store.reopen(lose_unsynced=True).timers_lost == 1
    arrived.expect_nothing(within=MINUTE)

def test_no_sync_by_wall_time(rocketmq_broker):
    assert rocketmq_broker.config["flushIntervalCommitLog"] == 86_400_000
    assert rocketmq_broker.config["timerFlushIntervalMs"] == 86_400_000

@pytest.mark.rocketmq(virtual_clock=False)
def test_wall_time(rocketmq_broker):
    assert rocketmq_broker.config["flushIntervalCommitLog"] == 500

@pytest.mark.rocketmq(config={"flushIntervalCommitLog": 5})
def test_own_wish(rocketmq_broker):
    assert rocketmq_broker.config["flushIntervalCommitLog"] == 5

@pytest.mark.rocketmq(config={"flushDiskType": "SYNC_FLUSH"})
def test_power_loss_of_a_careful_broker(rocketmq_store, rocketmq_topic, rocketmq_producer):
    rocketmq_producer.send(Message(rocketmq_topic, b"kept", delay=MINUTE))
    assert rocketmq_store.reopen(lose_unsynced=True).timers_pending == 1

@pytest.mark.parametrize("run", range(5))
@pytest.mark.rocketmq_crash(after="SEND_MESSAGE_V2", nth=2)
def test_crash(rocketmq_broker, rocketmq_topic, rocketmq_producer, rocketmq_recorder, run):
    arrived = rocketmq_recorder()
    first = rocketmq_producer.send(Message(rocketmq_topic, b"first", delay=MINUTE))
    second = rocketmq_producer.send(Message(rocketmq_topic, b"second", delay=MINUTE))
    arrived.expect(b"first", within=MINUTE)
    arrived.expect(b"second")
    arrived.expect(b"second")  # the answer was lost, so it was sent again
    assert [one.msg_id for one in arrived.duplicates] == [second.msg_id]
    assert not rocketmq_broker.recovery.clean
""")
    result.assert_outcomes(passed=11)


LEFT = {
    "a producer": (
        """
    producer = DefaultMQProducer("shop", namesrv_addr=rocketmq_broker.namesrv_addr)
    producer.start()
    producer.send(Message("Orders", b"x"))
    KEPT.append(producer)
""",
        "*producer of group 'shop' was left open*rocketmq_producer*",
    ),
    "a consumer": (
        """
    consumer = DefaultMQPushConsumer("billing", namesrv_addr=rocketmq_broker.namesrv_addr)
    consumer.subscribe("Orders")
    consumer.register_message_listener(done)
    consumer.start()
    KEPT.append(consumer)
""",
        "*consumer of group 'billing' was left open*call shutdown()*",
    ),
    "an administrator": (
        """
    administrator = DefaultMQAdminExt(namesrv_addr=rocketmq_broker.namesrv_addr)
    administrator.start()
    KEPT.append(administrator)
""",
        "*client * was left open: call shutdown()*",
    ),
    "a broker": ("    KEPT.append(EmbeddedBroker(tcp=False).start())\n", "*was not closed*"),
    "a fault": (
        "    rocketmq_broker.faults.on('PULL_MESSAGE').drop()\n",
        "*on(PULL_MESSAGE).drop, 0 hits> was asked for and never happened*No request came*",
    ),
    "a fault of the disk": (
        "    rocketmq_broker.faults.disk.fail_next_flush(path='timerlog')\n",
        "*the sync failed because a test asked for it*never happened*",
    ),
}


@pytest.mark.parametrize("scope", ["function", "module"])
@pytest.mark.parametrize("what", LEFT)
def test_what_is_left_behind_fails_the_test_by_name(run_kit: RunKit, what: str, scope: str) -> None:
    body, told = LEFT[what]
    tests = f"""
KEPT = []

@pytest.mark.rocketmq(topics=["Orders"])
def test_untidy(rocketmq_broker):
{body}

def test_next(rocketmq_broker):
    for one in KEPT:
        getattr(one, "shutdown", lambda: None)()
"""
    result = run_kit(tests, f"--rocketmq-scope={scope}")
    result.assert_outcomes(passed=2, errors=1)
    result.stdout.fnmatch_lines(["*ERROR at teardown of test_untidy*", told])


def test_a_client_whose_shutdown_goes_on_in_background_was_not_left_open(run_kit: RunKit) -> None:
    result = run_kit("""
import threading

def test_in_a_hurry(rocketmq_broker):
    producer = DefaultMQProducer("shop", namesrv_addr=rocketmq_broker.namesrv_addr)
    producer.start()
    producer._life.at_end(lambda timeout: threading.Event().wait(1.0))
    producer.shutdown(0)
""")
    result.assert_outcomes(passed=1)


def test_a_test_that_has_nothing_of_the_kit_is_warned_and_what_it_left_runs_on(
    run_kit: RunKit,
) -> None:
    tests = """
LAZY = []

def test_first():
    LAZY.append(EmbeddedBroker(tcp=False, topics=["Orders"]).start())
    LAZY.append(DefaultMQProducer("shop", namesrv_addr=LAZY[0].namesrv_addr))
    LAZY[1].start()
    LAZY[1].send(Message("Orders", b"x"))

def test_second():
    LAZY[1].send(Message("Orders", b"y"))
    LAZY[1].shutdown()
    LAZY[0].close()
"""
    result = run_kit(tests, "-W", "default")
    result.assert_outcomes(passed=2, warnings=2)
    result.stdout.fnmatch_lines(
        ["*PytestWarning: rocketmq: * was not closed*", "*producer of group 'shop' was left open*"]
    )


def test_a_failed_test_is_not_blamed_for_what_it_left(run_kit: RunKit) -> None:
    result = run_kit("""
def test_fails(rocketmq_faults):
    rocketmq_faults.on("PULL_MESSAGE").drop()
    assert 1 == 2

@pytest.mark.rocketmq(leave_open=True)
def test_on_purpose(rocketmq_broker):
    test_on_purpose.producer = DefaultMQProducer("shop", namesrv_addr=rocketmq_broker.namesrv_addr)
    test_on_purpose.producer.start()
    test_on_purpose.producer.send(Message("Orders", b"x"))

def test_end():
    test_on_purpose.producer.shutdown()
""")
    result.assert_outcomes(passed=2, failed=1)


def test_a_crash_that_never_came_fails_the_test(run_kit: RunKit) -> None:
    result = run_kit("""
@pytest.mark.rocketmq_crash(after="SEND_MESSAGE_V2", nth=7)
def test_calm(rocketmq_producer, rocketmq_topic):
    rocketmq_producer.send(Message(rocketmq_topic, b"x"))
""")
    result.assert_outcomes(passed=1, errors=1)
    result.stdout.fnmatch_lines(
        [
            (
                "*rocketmq_crash(after='SEND_MESSAGE_V2', nth=7) never happened*"
                "These requests came:*SEND_MESSAGE_V2 1*"
            )
        ]
    )


def test_a_crash_at_no_request_is_told_how_it_is_asked_for(run_kit: RunKit) -> None:
    result = run_kit("""
@pytest.mark.rocketmq_crash
def test_forgotten(rocketmq_broker):
    pass

@pytest.mark.rocketmq_crash(before="SEND_MESSAGE_V2")
def test_unknown(rocketmq_broker):
    pass
""")
    result.assert_outcomes(errors=2)
    result.stdout.fnmatch_lines(
        ["*rocketmq_crash(after=*nth=2)*", "*rocketmq_crash(after=*nth=2)*"]
    )


def test_a_fixture_of_a_module_is_told_how_brokers_are_shared(run_kit: RunKit) -> None:
    tests = """
@pytest.fixture(scope="module")
def address(rocketmq_broker):
    return rocketmq_broker.namesrv_addr

def test_it(address):
    assert address
"""
    result = run_kit(tests)
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["*ScopeMismatch*", "--rocketmq-scope=module (or session)*"])
    run_kit(tests, "--rocketmq-scope=module").assert_outcomes(passed=1)


def test_strict_mode_refuses_unknown_topics_and_contradicting_subscriptions(
    run_kit: RunKit,
) -> None:
    tests = """
@pytest.mark.rocketmq(topics=["Orders", "Bills"])
def test_unknown_topic(rocketmq_producer):
    rocketmq_producer.send(Message("Ordres", b"x"))

@pytest.mark.rocketmq(topics=["Orders"])
def test_unknown_subscription(rocketmq_consumer):
    rocketmq_consumer("billing", "Ordres", done)

@pytest.mark.rocketmq(topics=["Orders", "Bills"])
def test_clash(rocketmq_consumer):
    rocketmq_consumer("billing", "Orders", done)
    rocketmq_consumer("billing", "Bills", done)

@pytest.mark.rocketmq(topics=["Orders"])
def test_fine(rocketmq_topic, rocketmq_recorder, rocketmq_broker):
    arrived = rocketmq_recorder("Orders")
    rocketmq_broker.send("Orders", b"x")
    arrived.expect(b"x")
"""
    strict = run_kit(tests, "--rocketmq-strict", "--tb=short")
    strict.assert_outcomes(passed=1, failed=3)
    strict.stdout.fnmatch_lines(["*no route of topic Ordres*"])
    strict.stdout.fnmatch_lines(["*did you mean 'Orders'?*"])
    strict.stdout.fnmatch_lines(["*the members of group billing do not subscribe to the same*"])
    run_kit(tests).assert_outcomes(passed=4)


def test_strict_mode_takes_subscriptions_to_topics_that_brokers_make_by_themselves(
    run_kit: RunKit,
) -> None:
    tests = """
OWN = ["%DLQ%billing", "%RETRY%billing"]

@pytest.mark.rocketmq(topics=["Orders"])
def test_dead_letters(rocketmq_producer, rocketmq_consumer, rocketmq_recorder):
    dead = rocketmq_recorder("%DLQ%billing")
    rocketmq_consumer("billing", "Orders", later, max_reconsume_times=1)
    rocketmq_producer.send(Message("Orders", b"42"))
    dead.expect(b"42", within=60 * MINUTE)

@pytest.mark.rocketmq(topics=["Orders"])
def test_own_consumer(rocketmq_broker, rocketmq_clock, rocketmq_producer, rocketmq_consumer):
    got = []

    def listen(messages, context):
        got.extend((message.topic, message.body) for message in messages)
        return done(messages, context)

    watcher = DefaultMQPushConsumer("watcher", namesrv_addr=rocketmq_broker.namesrv_addr)
    for topic in OWN:
        watcher.subscribe(topic)
    watcher.register_message_listener(listen)
    with watcher:
        assert "%DLQ%billing" not in rocketmq_broker.topics
        rocketmq_consumer("billing", "Orders", later, max_reconsume_times=1)
        rocketmq_producer.send(Message("Orders", b"42"))
        rocketmq_clock.run(hours=1)
    assert [body for _, body in got] == [b"42", b"42"]
    assert rocketmq_broker.topics["%DLQ%billing"].count() == 1

TOPICS = [*OWN, "%RETRY%billing_Orders", "DefaultCluster_REPLY_TOPIC", "SCHEDULE_TOPIC_XXXX"]

@pytest.mark.rocketmq(config={"traceTopicEnable": True})
@pytest.mark.parametrize("topic", [*TOPICS, "RMQ_SYS_TRACE_TOPIC"])
def test_others(rocketmq_recorder, topic):
    rocketmq_recorder(topic)
"""
    run_kit(tests, "--rocketmq-strict", "--tb=short").assert_outcomes(passed=8)
    run_kit(tests).assert_outcomes(passed=8)


def test_a_name_without_a_letter_that_topics_may_have_is_replaced(
    run_kit: RunKit, pytester: pytest.Pytester
) -> None:
    pytester.makeini("[pytest]\npython_functions = проверка\n")
    result = run_kit("""
@pytest.mark.parametrize("text", ["\u00e4" * 300, ""])
def проверка(rocketmq_topic, rocketmq_recorder, text):
    rocketmq_recorder()
""")
    result.assert_outcomes(passed=2)


def test_workers_of_xdist_repeat_the_seed_of_the_run(
    run_kit: RunKit, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    tests = """
@pytest.mark.parametrize("number", range(2))
def test_seed(rocketmq_broker, number):
    assert 0
"""
    result = run_kit(tests, "-p", "xdist", "-n2", "--rocketmq=embedded", separate=True)
    (header,) = [one for one in result.outlines if one.startswith("rocketmq: ")]
    seed = header.rpartition("=")[2]
    result.stdout.fnmatch_lines([f"repeat with*--rocketmq-seed={seed}"] * 2)


def test_shared_brokers_are_emptied_and_give_each_test_its_own_names(run_kit: RunKit) -> None:
    tests = """
seen = []

@pytest.fixture(scope="module")
def app(rocketmq_broker):
    with DefaultMQProducer("app", namesrv_addr=rocketmq_broker.namesrv_addr) as producer:
        yield producer

@pytest.mark.parametrize("number", range(3))
@pytest.mark.rocketmq(topics=["Orders"])
def test_one(app, rocketmq_broker, rocketmq_clock, rocketmq_topic, rocketmq_group,
             rocketmq_recorder, number):
    assert rocketmq_clock.now() == datetime(2030, 1, 1, tzinfo=UTC)
    assert rocketmq_broker.topics["Orders"].count() == 0
    arrived = rocketmq_recorder("Orders")
    app.send(Message("Orders", b"%d" % number, delay=MINUTE))
    arrived.expect(b"%d" % number, within=MINUTE)
    seen.append((rocketmq_broker.namesrv_addr, rocketmq_topic, rocketmq_group))

def test_names():
    assert [len({one[at] for one in seen}) for at in range(3)] == [1, 3, 3]

topics = set()

class TestOne:
    def test_same_name(self, rocketmq_topic):
        topics.add(rocketmq_topic)

class TestOther:
    def test_same_name(self, rocketmq_topic):
        assert rocketmq_topic not in topics
"""
    for scope in ("module", "session"):
        run_kit(tests, f"--rocketmq-scope={scope}").assert_outcomes(passed=6)


def test_a_test_does_not_wait_for_the_application_of_the_one_before(run_kit: RunKit) -> None:
    run_kit(
        """
def test_an_application_that_never_says_that_it_is_idle(rocketmq_clock):
    rocketmq_clock.busy("left").__enter__()
    rocketmq_clock.idle_when(bool, name="outbox")
    assert len(rocketmq_clock.settle(0, check=False).busy) == 2

def test_the_next_one(rocketmq_clock):
    assert rocketmq_clock.settle(10).ok
    rocketmq_clock.idle_when(lambda: True, name="outbox")
""",
        "--rocketmq-scope=session",
        "-p",
        "no:randomly",
    ).assert_outcomes(passed=2)


@pytest.mark.parametrize("scope", ["module", "session"])
def test_what_needs_a_broker_of_its_own_says_so_where_it_is_shared(
    run_kit: RunKit, scope: str
) -> None:
    result = run_kit(
        """
@pytest.mark.rocketmq(config={"maxMessageSize": 4096})
def test_config(rocketmq_broker):
    pass

def test_store(rocketmq_store):
    pass

def test_cluster(rocketmq_cluster):
    pass
""",
        f"--rocketmq-scope={scope}",
    )
    result.assert_outcomes(errors=3)
    result.stdout.fnmatch_lines_random(
        ["*mark config: these are settings*", "*rocketmq_store belongs*", "*rocketmq_cluster is*"]
    )


def test_a_module_may_be_marked_when_it_shares_a_broker(run_kit: RunKit) -> None:
    result = run_kit(
        """
pytestmark = pytest.mark.rocketmq(config={"maxMessageSize": 4096})

def test_config(rocketmq_broker):
    assert rocketmq_broker.config["maxMessageSize"] == 4096
""",
        "--rocketmq-scope=module",
    )
    result.assert_outcomes(passed=1)


def test_a_project_may_have_a_broker_of_its_own_making(run_kit: RunKit) -> None:
    result = run_kit("""
@pytest.fixture
def rocketmq_broker():
    with EmbeddedBroker(tcp=False, clock=VirtualClock()) as broker:
        yield broker

def test_own(rocketmq_broker, rocketmq_topic, rocketmq_recorder):
    assert rocketmq_broker.namesrv_addr.endswith(".invalid:9876")
    arrived = rocketmq_recorder()
    rocketmq_broker.send(rocketmq_topic, b"x", delay=60)
    arrived.expect(b"x", within=60)
""")
    result.assert_outcomes(passed=1)


def test_options_may_stand_in_the_configuration_file(
    run_kit: RunKit, pytester: pytest.Pytester
) -> None:
    pytester.makeini("[pytest]\nrocketmq_scope = session\nrocketmq_strict = true\n")
    result = run_kit("""
brokers = []

@pytest.mark.parametrize("number", range(2))
def test_same(rocketmq_broker, number):
    brokers.append(rocketmq_broker.namesrv_addr)
    assert len(set(brokers)) == 1
    assert not rocketmq_broker.config["autoCreateTopicEnable"]
""")
    result.assert_outcomes(passed=2)


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (["--rocketmq=embeded"], "embedded, process:VERSION"),
        (["-o", "rocketmq=embeded"], "embedded, process:VERSION"),
        (["--rocketmq-scope=class"], "function, module or session"),
        (["--rocketmq-scope=odd"], "function, module or session"),
        (["-o", "rocketmq_scope=odd"], "function, module or session"),
        (["--rocketmq-patience=0"], "more than 0 seconds"),
        (["--rocketmq-patience=nan"], "more than 0 seconds"),
        (["--rocketmq-patience=long"], "more than 0 seconds"),
    ],
)
def test_a_wrong_option_is_said_at_once(run_kit: RunKit, options: list[str], told: str) -> None:
    result = run_kit("def test_any(rocketmq_broker): pass", *options)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    (line,) = [one for one in result.errlines if one]
    assert line.startswith("ERROR: setting --rocketmq")
    assert told in line
    assert "test_any" not in result.stdout.str()


def test_a_scope_that_is_right_imports_no_broker(
    pytester: pytest.Pytester, run_kit: RunKit, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    pytester.makeini("[pytest]\nrocketmq_scope = session\n")
    pytester.makeconftest("""
import sys

def pytest_unconfigure():
    print("imported:", "embedded_broker.kit.pytest_run" in sys.modules)
""")
    result = run_kit("", "-p", "no:hypothesispytest", separate=True)
    result.stdout.fnmatch_lines(["imported: False"])


def test_the_seed_of_pytest_randomly_counts_where_a_value_is_checked_at_once(
    pytester: pytest.Pytester, run_kit: RunKit
) -> None:
    pytester.syspathinsert()
    # What is named with -p is there before what is installed, so it is asked last.
    pytester.makepyfile(
        seeds="""
def pytest_configure(config):
    config.option.randomly_seed = 7  # as pytest-randomly does it
"""
    )
    tests = "def test_bad(rocketmq_broker): assert 0"
    result = run_kit(tests, "-p", "seeds", "--rocketmq-patience=30")
    result.stdout.fnmatch_lines(["repeat with*--rocketmq-seed=7"])


def test_pytest_starts_without_importing_a_broker(
    pytester: pytest.Pytester, run_kit: RunKit, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    pytester.makeconftest("""
import sys

def pytest_unconfigure():
    ours = [one for one in sys.modules if one.startswith(("embedded_broker.", "rocketmq_py"))]
    print("imported:", *sorted(ours))
""")
    result = run_kit("", "-p", "no:hypothesispytest", separate=True)
    result.stdout.fnmatch_lines(
        ["imported: embedded_broker.kit embedded_broker.kit.fixtures embedded_broker.kit.*"]
    )
    (line,) = [one for one in result.outlines if one.startswith("imported:")]
    assert {one.split(".")[1] for one in line.split()[1:]} == {"kit", "pytest_plugin"}
    assert len(line.split()) == 7


def test_each_test_keeps_its_seed_in_any_order_and_the_report_tells_how_to_repeat_it(
    run_kit: RunKit,
) -> None:
    tests = """
@pytest.mark.parametrize("number", range(2))
def test_seed(rocketmq_broker, number):
    print(f"seed {number} {rocketmq_broker.seed}")
"""
    outs = [
        [line for line in run_kit(tests, "-s", *options).outlines if "seed " in line]
        for options in (
            ["--rocketmq-seed=7"],
            ["--rocketmq-seed=7", "-k", "seed[1]"],
            ["--rocketmq-seed=8"],
        )
    ]
    assert len(outs[0]) == 2
    assert outs[1][0].split()[-2:] == outs[0][1].split()[-2:]
    assert outs[2] != outs[0]
    failed = run_kit("def test_bad(rocketmq_broker): assert 0", "--rocketmq-seed=7")
    failed.stdout.fnmatch_lines(["repeat with*--rocketmq-seed=7"])


def test_fixtures_and_options_explain_themselves(run_kit: RunKit) -> None:
    shown = run_kit("def test_any(): pass", "--fixtures", "-v").stdout.str()
    for name in ("broker", "cluster", "clock", "topic", "producer", "consumer", "recorder"):
        assert f"rocketmq_{name}" in shown
    assert "no docstring" not in shown[shown.index("rocketmq_") :].split("fixtures defined")[0]
    assert "pull_time_delay_millis_when_exception" in shown
    assert "pull_time_delay_millis_when_exception" in (DefaultMQPushConsumer.__doc__ or "")
    helped = run_kit("def test_any(): pass", "--help").stdout.str()
    for option in ("--rocketmq=BROKER", "--rocketmq-scope", "--rocketmq-strict", "--rocketmq-seed"):
        assert option in helped
    marks = run_kit("def test_any(): pass", "--markers").stdout.str()
    assert "rocketmq_crash(after=" in marks
