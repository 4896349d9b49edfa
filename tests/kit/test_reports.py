"""What a test that failed says: what was expected, what arrived, what waits, and until when."""

from __future__ import annotations

import re

import pytest

from embedded_broker.kit.report import short_log
from tests.kit.conftest import RunKit

SCREEN_LINES = 40
SCREEN_COLUMNS = 80
SANE_COLUMNS = 180


def rows_on_screen(lines: list[str]) -> int:
    """Count the rows that the report of one failed test takes on a screen of 80 columns.

    A warning counts as one: it is shown whole, since what to do stands in it.
    """
    first = next(at for at, one in enumerate(lines) if "FAILURES" in one)
    last = next(at for at, one in enumerate(lines) if one.startswith("repeat with"))
    return sum(
        1 if one.startswith("WARNING") else 1 + max(0, len(one) - 1) // SCREEN_COLUMNS
        for one in lines[first : last + 1]
    )


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


def test_one_screen_shows_what_matters(run_kit: RunKit) -> None:
    result = run_kit(ORDERS, "--rocketmq-seed=7")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        [
            '>*arrived.expect(b"cancel 42", within=10 * MINUTE)',
            "E*b'cancel 42' did not arrive in topic test_orders within 10 min",
            "E*expected*b'cancel 42'",
            "E*from 2030-01-01 00:00:00 up to 00:10:00 (+10 min)",
            "E*arrived*2030-01-01 00:00:00  b'cancel 41'  (tags late, expected before)",
            "E*2030-01-01 00:05:00  b'cancel 43'",
            "E*still waiting*until 2030-01-01 00:30:00 (in 20 min)  b'cancel 42'",
            "E*hint*it is due 20 min later: within=timedelta(minutes=30) waits for it",
            "*- rocketmq -*",
            "broker*embedded at 127.0.0.1:*, time 2030-01-01 00:10:00",
            "topics*test_orders 2",
            "still waiting*until 2030-01-01 00:30:00 (in 20 min)  b'cancel 42'  for test_orders",
            "consumers*reads test_orders: 1 connected, lag 0",
            "last requests*00:00:00  SEND_MESSAGE_V2 test_orders of *: SUCCESS, 3 times",
            "repeat with*pytest *.py::test_orders --rocketmq-seed=7",
        ]
    )
    assert rows_on_screen(result.outlines) <= SCREEN_LINES
    assert max(map(len, result.outlines)) < SANE_COLUMNS
    assert not any("recorder.py" in one or "%RETRY%" in one for one in result.outlines)


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
            "E*b'x' arrived in topic test_nothing, where nothing was expected",
            "E*expected*nothing",
            "E*from 2030-01-01 00:00:00 up to 00:05:00 (+5 min)",
            "E*arrived*00:01:00  b'x'  (not expected)",
            "E*a message for which is_paid is true did not arrive*",
        ]
    )


WALL_CLOCK = """
EARLY = datetime(2020, 1, 1, tzinfo=UTC)
LONG = {"timerMaxDelaySec": 2**31 - 1}

def in_half_an_hour():
    return Message("Orders", b"x", deliver_at=datetime.now(UTC) + 30 * MINUTE)

@pytest.mark.rocketmq(topics=["Orders"], start=datetime(2130, 1, 1, tzinfo=UTC))
def test_later_clock(rocketmq_producer, rocketmq_recorder):
    arrived = rocketmq_recorder("Orders")
    rocketmq_producer.send(in_half_an_hour())
    arrived.expect_nothing(within=MINUTE)

@pytest.mark.rocketmq(topics=["Orders"], start=EARLY, config=LONG)
def test_earlier_clock(rocketmq_producer, rocketmq_recorder):
    arrived = rocketmq_recorder("Orders")
    rocketmq_producer.send(in_half_an_hour())
    arrived.expect(b"x", within=31 * MINUTE)

@pytest.mark.rocketmq(topics=["Orders"], start=EARLY)
def test_refused(rocketmq_producer):
    rocketmq_producer.send(in_half_an_hour())

@pytest.mark.rocketmq(topics=["Orders"])
def test_own_assertion(rocketmq_producer, rocketmq_broker):
    rocketmq_producer.send(in_half_an_hour())
    assert rocketmq_broker.timers.count() == 1

@pytest.mark.rocketmq(topics=["Orders"])
def test_injected(rocketmq_clock, rocketmq_producer, rocketmq_recorder):
    arrived = rocketmq_recorder("Orders")
    when = rocketmq_clock.now() + 30 * MINUTE
    rocketmq_producer.send(Message("Orders", b"x", deliver_at=when))
    arrived.expect(b"x", within=29 * MINUTE)
"""


@pytest.mark.parametrize(
    ("test", "rows"),
    [
        (
            "test_later_clock",
            [
                "E*hint*your program reads the wall clock: give it the broker's,",
                "E*such as now=rocketmq_clock.now. 30 min after the",
                "E*wall clock a message is due, and * d before the broker's",
                "hint*your program reads the wall clock*",
            ],
        ),
        (
            "test_earlier_clock",
            ["E*hint*your program reads the wall clock*", "E*, and * d after the broker's"],
        ),
        ("test_refused", ["hint*your program reads the wall clock*", "*, and * d after the *"]),
        ("test_own_assertion", ["hint*your program reads the wall clock*"]),
    ],
)
def test_a_deliver_time_by_the_wall_clock_is_named(
    run_kit: RunKit, test: str, rows: list[str]
) -> None:
    result = run_kit(WALL_CLOCK, "-k", test, "-p", "no:logging")
    result.assert_outcomes(failed=1, deselected=4)
    result.stdout.fnmatch_lines(rows)
    assert "it is due" not in result.stdout.str()


def test_a_deliver_time_by_the_brokers_clock_gets_no_such_hint(run_kit: RunKit) -> None:
    result = run_kit(WALL_CLOCK, "-k", "test_injected")
    result.assert_outcomes(failed=1, deselected=4)
    assert "wall clock" not in result.stdout.str()


def test_a_shared_broker_hints_again_in_the_next_test(run_kit: RunKit) -> None:
    shared = """
@pytest.mark.parametrize("number", [1, 2])
def test_shared(rocketmq_producer, rocketmq_broker, rocketmq_topic, number):
    message = Message(rocketmq_topic, b"x", deliver_at=datetime.now(UTC) + 30 * MINUTE)
    rocketmq_producer.send(message)
    assert number == 0
"""
    result = run_kit(shared, "--rocketmq-scope=session")
    result.assert_outcomes(failed=2)
    assert result.stdout.str().count("hint           your program reads") == 2


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
    assert max(map(len, result.outlines)) < SANE_COLUMNS


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


def test_work_of_the_application_that_does_not_end_is_named(run_kit: RunKit) -> None:
    result = run_kit("""
def test_stuck(rocketmq_clock, rocketmq_topic, rocketmq_recorder):
    arrived = rocketmq_recorder(rocketmq_topic)
    rocketmq_clock.watchdog = 0.05
    rocketmq_clock.busy().hand_over(print)  # nobody holds it: it does not count
    with rocketmq_clock.idle_when(lambda: False, name="outbox"):
        arrived.expect_nothing(within=60)
""")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        [
            "E*not everybody was idle in topic*",
            "E*in the way*the application was not idle within*idle_when('outbox')*is not true*",
        ]
    )


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


LONG = "x" * 60

MISTAKES = {
    "a wrong body": (
        f"""
    arrived = rocketmq_recorder("Orders")
    send(b'{{"text": "{LONG}", "state": "payed", "by": "card"}}', delay=30 * MINUTE)
    arrived.expect(b'{{"text": "{LONG}", "state": "paid", "by": "card"}}', within=30 * MINUTE)
""",
        [
            "E*hint*what came is alike up to byte 85, and then it has",
            """E*b'tate": "payed", "by": "card"}' where""",
            """E*b'tate": "paid", "by": "card"}' was expected""",
        ],
    ),
    "a wrong body that still waits": (
        """
    send(b"cancel 42", delay=30 * MINUTE)
    rocketmq_recorder("Orders").expect(b"cancel 43")
""",
        [
            "E*hint*what waits is alike up to byte 8*",
            "E*b'cancel 42' where*",
            "E*b'cancel 43' was*",
        ],
    ),
    "a delay that is longer": (
        """
    arrived = rocketmq_recorder("Orders")
    send(b"cancel 42", delay=timedelta(hours=36))
    arrived.expect(b"cancel 42", within=30 * MINUTE)
""",
        [
            "E*did not arrive in topic Orders within 30 min",
            "E*still waiting*until 2030-01-02 12:00:00 (in 1 d 11 h 30 min)  b'cancel 42'",
            "E*hint*within=timedelta(days=1, hours=12) waits for it",
        ],
    ),
    "one group with two subscriptions": (
        """
    rocketmq_consumer("billing", "Orders", done)
    rocketmq_consumer("billing", "Bills", done)
    assert False
""",
        ["note*the members of group billing do not subscribe to the same*"],
    ),
    "two messages of one body": (
        """
    arrived = rocketmq_recorder("Orders")
    for _ in range(2):
        send(b"cancel 42", delay=30 * MINUTE)
    arrived.expect(b"cancel 42", within=30 * MINUTE)
    arrived.expect_nothing(within=60 * MINUTE)
""",
        [
            "E*b'cancel 42' arrived in topic Orders, where nothing was expected",
            "E*arrived*b'cancel 42'  (expected before)",
            "E*b'cancel 42'  (not expected)",
            "E*hint*the same body came before under another id: it was sent twice",
        ],
    ),
    "one message twice": (
        """
    arrived = rocketmq_recorder("Orders")
    send(b"cancel 42")
    rocketmq_broker.redeliver(arrived.expect(b"cancel 42"))
    arrived.expect_nothing(within=MINUTE)
""",
        ["E*b'cancel 42'  (a duplicate, not expected)", "E*hint*it was delivered again: *"],
    ),
    "a power loss": (
        """
    arrived = rocketmq_recorder("Orders")
    send(b"cancel 42", delay=30 * MINUTE)
    send(b"now")
    rocketmq_store.reopen(lose_unsynced=True)
    arrived.expect(b"cancel 42", within=30 * MINUTE)
""",
        [
            "E*hint*the crash lost 1 timer and 1 message that were not synced",
            "recovered*after a crash: 1 timer and 1 message lost",
        ],
    ),
    "a broker that stays down": (
        """
    arrived = rocketmq_recorder("Orders")
    send(b"cancel 42", delay=30 * MINUTE)
    rocketmq_broker.crash()
    arrived.expect(b"cancel 42", within=30 * MINUTE)
""",
        [
            "E*still waiting*unknown: no broker is running",
            "E*in the way*no broker is running: restart() starts one again",
            "*broker-a is down",
        ],
    ),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_told(run_kit: RunKit, mistake: str) -> None:
    body, told = MISTAKES[mistake]
    body = f"    send = sender(rocketmq_producer){body}"
    fixtures = ", ".join(dict.fromkeys(re.findall(r"rocketmq_[a-z]+", body)))
    result = run_kit(f"""
def sender(producer):
    return lambda body, **how: producer.send(Message("Orders", body, **how))

@pytest.mark.rocketmq(topics=["Orders", "Bills"])
def test_it({fixtures}):
{body}
""")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(told)
    assert rows_on_screen(result.outlines) <= SCREEN_LINES, result.stdout.str()


def test_logs_are_cut_unless_asked_for(run_kit: RunKit) -> None:
    tests = """
import logging

def listen(messages, context):
    raise ZeroDivisionError("of the listener")

@pytest.mark.rocketmq(topics=["Orders"])
def test_it(rocketmq_broker, rocketmq_consumer, rocketmq_clock):
    rocketmq_consumer("billing", "Orders", listen)
    logging.getLogger("shop").warning("of the test's own")
    for number in range(20):
        log = logging.getLogger("rocketmq_py.consumer.core.intake")
        log.warning("pull %d %s", number, "x" * 400)
    for _ in range(3):
        rocketmq_broker.send("Orders", b"x")
    rocketmq_clock.settle()
    logging.getLogger("shop").warning("at the end")
    assert False
"""
    short = run_kit(tests)
    short.stdout.fnmatch_lines(
        [
            "*of the test's own",
            "WARNING  pull 0 x*…x*x",
            "*ZeroDivisionError: of the listener",
            "*at the end",
            "*19 more lines of the same loggers, the middle of 1 long lines (pytest -v shows*",
        ]
    )
    assert not any("pull 1" in one for one in short.outlines)
    assert sum("ZeroDivisionError: of" in one for one in short.outlines) == 1
    run_kit(tests, "-v").stdout.fnmatch_lines([f"*pull 19 {'x' * 400}"])


def test_a_warning_that_says_what_to_do_is_shown_whole(run_kit: RunKit) -> None:
    result = run_kit("""
@pytest.mark.rocketmq(topics=["Orders"])
def test_it(rocketmq_broker, rocketmq_consumer, rocketmq_clock):
    rocketmq_consumer("billing", "Orders", lambda messages, context: None)
    rocketmq_broker.send("Orders", b"x")
    rocketmq_clock.settle()
    assert False
""")
    told = (
        "WARNING  group billing: the listener returned None instead of a *Status for message *"
        "attempt 1; it comes again later: return ConsumeConcurrentlyStatus.CONSUME_SUCCESS"
    )
    result.stdout.fnmatch_lines([told])
    assert "…" not in result.stdout.str()


def test_how_much_of_the_logs_is_left_out_is_told() -> None:
    ours = "WARNING  rocketmq_py.one:one.py:1 "
    assert short_log(f"{ours}short") == f"{ours}short"
    assert short_log(ours + "x" * 100) == "WARNING  " + "x" * 100
    cut = short_log(f"{ours}begins {'x' * 400} ends").splitlines()
    assert cut[0].startswith("WARNING  begins")
    assert cut[0].endswith("x ends")
    assert len(cut[0]) == 319
    assert cut[1] == "… the middle of 1 long lines (pytest -v shows them all)"
    twice = short_log(f"{ours}a\n{ours}{'x' * 400}").splitlines()
    assert twice[1:] == ["… 1 more lines of the same loggers (pytest -v shows them all)"]


def test_the_command_that_repeats_a_test_names_its_file_from_here(
    run_kit: RunKit, pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytester.makeini("[pytest]")
    path = pytester.makepyfile("def test_it(rocketmq_broker): assert False")
    folder = pytester.mkdir("orders")
    path.rename(folder / "test_orders.py")
    monkeypatch.chdir(folder)
    result = run_kit("def test_plain(): pass", "test_orders.py")
    result.stdout.fnmatch_lines(["repeat with*pytest test_orders.py::test_it *"])


def test_a_traceback_ends_at_the_line_of_the_test_unless_all_is_asked_for(run_kit: RunKit) -> None:
    tests = """
@pytest.mark.rocketmq(topics=["Orders"], strict=True)
def test_it(rocketmq_producer):
    rocketmq_producer.send(Message("Ordres", b"x"))
"""
    short = run_kit(tests)
    short.stdout.fnmatch_lines(
        ['>*send(Message("Ordres", b"x"))', "E*no route of topic Ordres*", "*.py:*: NoRouteError"]
    )
    assert not any("routes.py" in one for one in short.outlines)
    assert rows_on_screen(short.outlines) <= SCREEN_LINES
    for option in ("-v", "--full-trace"):
        run_kit(tests, option).stdout.fnmatch_lines(["*routes.py:*: NoRouteError"])


def test_a_broker_that_cannot_be_asked_does_not_end_the_run(run_kit: RunKit) -> None:
    result = run_kit("""
def test_broken(rocketmq_broker, monkeypatch):
    monkeypatch.setattr(type(rocketmq_broker), "timers", property(lambda broker: 1 / 0))
    assert False

def test_next(rocketmq_broker):
    pass
""")
    result.assert_outcomes(failed=1, passed=1)
    result.stdout.fnmatch_lines(["the state of the broker cannot be told: ZeroDivisionError*"])


def test_a_span_that_no_clock_goes_is_refused(run_kit: RunKit) -> None:
    result = run_kit("""
SPANS = [-1, timedelta(seconds=-1), 1e12, float("nan"), float("inf"), timedelta.max]

@pytest.mark.parametrize("span", SPANS)
def test_span(rocketmq_recorder, span):
    arrived = rocketmq_recorder()
    with pytest.raises(Exception, match="within = .* from 0 to 36500 days"):
        arrived.expect("x", within=span)
    with pytest.raises(Exception, match="after = .* from 0 to 36500 days"):
        arrived.expect("x", after=span)
    with pytest.raises(Exception, match="within = .* from 0 to 36500 days"):
        arrived.expect_nothing(within=span)

def test_after_alone(rocketmq_recorder):
    with pytest.raises(AssertionError, match="did not arrive in topic .* within 1 min"):
        rocketmq_recorder().expect("x", after=60)
""")
    result.assert_outcomes(passed=7)
