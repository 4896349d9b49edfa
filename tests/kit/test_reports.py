"""What a test that failed says: what was expected, what arrived, what waits, and until when."""

from __future__ import annotations

from tests.kit.conftest import RunKit

SCREEN_LINES = 50
SCREEN_COLUMNS = 180

ORDERS = """
def test_orders(rocketmq_producer, rocketmq_topic, rocketmq_recorder):
    arrived = rocketmq_recorder(rocketmq_topic)
    send = lambda body, **how: rocketmq_producer.send(Message(rocketmq_topic, body, **how))
    send(b"cancel 41", tags="late")
    arrived.expect(b"cancel 41")
    send(b"cancel 42", delay=30 * MINUTE)
    send(b"cancel 43", delay=5 * MINUTE)
    arrived.expect(b"cancel 42", within=10 * MINUTE)
"""


def test_a_failed_expectation_shows_all_that_matters_on_one_screen(run_kit: RunKit) -> None:
    result = run_kit(ORDERS, "--rocketmq-seed=7")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        [
            '>*arrived.expect(b"cancel 42", within=10 * MINUTE)',
            "E*b'cancel 42' did not arrive in topic test_orders within 10 min",
            "E*expected*b'cancel 42' from 2030-01-01 00:00:00 up to 2030-01-01 00:10:00 (+10 min)",
            "E*arrived*2030-01-01 00:00:00  b'cancel 41'  (tags late, expected before)",
            "E*2030-01-01 00:05:00  b'cancel 43'",
            "E*still waiting*until 2030-01-01 00:30:00 (in 20 min)  b'cancel 42'*",
            "E*hint*it is due 20 min later: within=timedelta(seconds=1800) waits for it",
            "E*time now*2030-01-01 00:10:00",
            "*- rocketmq -*",
            "broker*embedded at 127.0.0.1:*",
            "time*2030-01-01 00:10:00, seed *",
            "topics*test_orders 2",
            "still waiting*until 2030-01-01 00:30:00 (in 20 min)  b'cancel 42'  for test_orders",
            "consumers*reads test_orders: 1 connected, lag 0",
            "last requests*SEND_MESSAGE_V2 test_orders of test_orders-producer: SUCCESS",
            "repeat with*--rocketmq-seed=7",
        ]
    )
    lines = result.outlines
    shown = lines[lines.index(next(one for one in lines if "FAILURES" in one)) :]
    assert len(shown) < SCREEN_LINES
    assert max(map(len, shown)) < SCREEN_COLUMNS
    assert not any("recorder.py" in one for one in shown)


def test_the_likely_mistake_is_named(run_kit: RunKit) -> None:
    result = run_kit("""
def test_tags(rocketmq_broker, rocketmq_topic, rocketmq_recorder):
    arrived = rocketmq_recorder(rocketmq_topic, tags="paid")
    rocketmq_broker.send(rocketmq_topic, b"x", tags="piad")
    arrived.expect(b"x")

@pytest.mark.rocketmq(topics=["Orders", "Bills"])
def test_topic(rocketmq_broker, rocketmq_recorder):
    arrived = rocketmq_recorder("Orders")
    rocketmq_broker.send("Bills", b"x")
    arrived.expect("x")

def test_taken(rocketmq_broker, rocketmq_topic, rocketmq_recorder):
    arrived = rocketmq_recorder(rocketmq_topic)
    rocketmq_broker.send(rocketmq_topic, b"x")
    arrived.expect("x")
    arrived.expect("x")

def test_early(rocketmq_broker, rocketmq_topic, rocketmq_recorder):
    arrived = rocketmq_recorder(rocketmq_topic)
    rocketmq_broker.send(rocketmq_topic, b"x", delay=60)
    arrived.expect("x", within=300, after=120)

def test_nothing(rocketmq_broker, rocketmq_topic, rocketmq_recorder):
    arrived = rocketmq_recorder(rocketmq_topic)
    rocketmq_broker.send(rocketmq_topic, b"x", delay=60)
    arrived.expect_nothing(within=300)

def is_paid(message):
    return message.tags == "paid"

def test_function(rocketmq_topic, rocketmq_recorder):
    rocketmq_recorder(rocketmq_topic).expect(is_paid)
""")
    result.assert_outcomes(failed=6)
    result.stdout.fnmatch_lines_random(
        [
            "E*did not arrive in topic test_tags with tags paid without moving time",
            "E*hint*it is in the topic, but was not delivered: its tags are piad",
            "E*hint*it arrived in topic Bills",
            "E*hint*it arrived once, and an earlier expectation took it",
            "E*'x' arrived too early in topic test_early: +1 min after the look",
            "E*and not before 2030-01-01 00:02:00",
            "E*a message arrived in topic test_nothing",
            "E*expected*nothing from 2030-01-01 00:00:00 up to 2030-01-01 00:05:00 (+5 min)",
            "E*a message for which is_paid is true did not arrive*",
        ]
    )


def test_of_many_messages_the_last_are_shown_and_long_bodies_are_cut(run_kit: RunKit) -> None:
    result = run_kit("""
def test_many(rocketmq_broker, rocketmq_topic, rocketmq_recorder):
    arrived = rocketmq_recorder(rocketmq_topic)
    for number in range(30):
        rocketmq_broker.send(rocketmq_topic, b"%d " % number + bytes(1000), queue=0)
        rocketmq_broker.send(rocketmq_topic, b"late", delay=3600 + number)
    arrived.expect("none")
""")
    result.stdout.fnmatch_lines(
        [
            "E*arrived*22 more, then",
            "E*b'29 *…",
            "E*still waiting*(in 1 h)*",
            "E*  22 more",
            "topics*test_many 30*",
            "still waiting*(in 1 h)*",
            "  *22 more",
        ]
    )
    assert max(map(len, result.outlines)) < SCREEN_COLUMNS


def test_clients_that_are_stuck_are_named(run_kit: RunKit) -> None:
    result = run_kit("""
import threading

def test_stuck(rocketmq_broker, rocketmq_topic, rocketmq_recorder, rocketmq_consumer):
    go_on = threading.Event()

    def listen(messages, context):
        go_on.wait(30)
        return ConsumeConcurrentlyStatus.CONSUME_SUCCESS

    rocketmq_consumer("billing", rocketmq_topic, listen)
    arrived = rocketmq_recorder(rocketmq_topic)
    rocketmq_broker.send(rocketmq_topic, b"x")
    rocketmq_broker.clock.watchdog = 0.5
    try:
        arrived.expect("y", within=60)
    finally:
        go_on.set()
""")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["E*in the way*clients were not idle*billing*is in its listener*"])


def test_retries_dead_letters_and_a_broker_that_is_down_are_told(run_kit: RunKit) -> None:
    result = run_kit("""
def test_retries(rocketmq_broker, rocketmq_clock, rocketmq_topic, rocketmq_consumer):
    rocketmq_consumer("billing", rocketmq_topic, later)
    rocketmq_consumer("audit", rocketmq_topic, later, max_reconsume_times=0)
    rocketmq_broker.send(rocketmq_topic, b"bad")
    rocketmq_clock.settle()
    assert False

def test_down(rocketmq_broker):
    rocketmq_broker.crash()
    assert False

@pytest.mark.rocketmq(brokers=2)
def test_cluster(rocketmq_cluster):
    rocketmq_cluster.stop("broker-b")
    assert False

def test_set_up(rocketmq_broker, request):
    request.getfixturevalue("broken")

@pytest.fixture
def broken(rocketmq_broker):
    rocketmq_broker.send("Orders", b"x")
    assert False
""")
    result.assert_outcomes(failed=4)
    result.stdout.fnmatch_lines_random(
        [
            "retries*billing: b'bad' again at 2030-01-01 00:00:10 (failed 1 times)",
            "dead letters*audit: b'bad'",
            "*broker-a is down",
            "*broker-b is down",
            "topics*Orders 1",
        ]
    )


def test_a_test_that_passes_says_nothing(run_kit: RunKit) -> None:
    result = run_kit("def test_fine(rocketmq_topic): pass", "-rA")
    assert "last requests" not in result.stdout.str()
