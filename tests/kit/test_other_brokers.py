"""The same tests on a broker that can only be reached, and what is said of those that cannot run.

The broker behind the address is an embedded one with wall time, which the tests reach over TCP as
they would reach a stranger's. `pytest tests/kit/shop --rocketmq=process:5.3.3` is the real thing.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from embedded_broker import EmbeddedBroker, TopicSpec
from embedded_broker.kit.address import AddressBackend
from embedded_broker.kit.remote import RemoteStore
from tests.kit.conftest import RunKit


@pytest.fixture
def address() -> Iterator[str]:
    with EmbeddedBroker(inproc=False) as broker:
        yield broker.namesrv_addr


def test_a_test_runs_unchanged_on_a_broker_with_wall_time(run_kit: RunKit, address: str) -> None:
    result = run_kit(
        """
@pytest.mark.rocketmq(timers=True, recall=True, topics=["Fixed"])
def test_send(rocketmq_broker, rocketmq_producer, rocketmq_topic, rocketmq_recorder,
              rocketmq_consumer):
    rocketmq_consumer(listener=done)
    fixed = rocketmq_recorder("Fixed")
    arrived = rocketmq_recorder(rocketmq_topic)
    rocketmq_producer.send(Message("Fixed", b"now"))
    rocketmq_producer.send(Message(rocketmq_topic, b"x", delay=timedelta(milliseconds=300)))
    arrived.expect(b"x", within=1, after=0.3)
    fixed.expect("now")
    assert rocketmq_broker.namesrv_addr in repr(rocketmq_broker)
    assert rocketmq_broker.version is None

names = []

@pytest.mark.parametrize("number", range(2))
def test_own_names(rocketmq_topic, rocketmq_group, number):
    names.extend([rocketmq_topic, rocketmq_group])
    assert len(set(names)) == 2 * (number + 1)
""",
        f"--rocketmq={address}",
        "--rocketmq-seed=3",
    )
    result.assert_outcomes(passed=3)
    result.stdout.fnmatch_lines([f"rocketmq: {address}, --rocketmq-seed=3"])


def test_what_a_broker_lacks_skips_a_test_with_the_reason(run_kit: RunKit, address: str) -> None:
    result = run_kit(
        """
def test_clock(rocketmq_clock): pass
def test_faults(rocketmq_faults): pass
def test_store(rocketmq_store): pass
def test_cluster(rocketmq_cluster): pass

@pytest.mark.rocketmq(virtual_clock=True)
def test_mark(rocketmq_broker): pass

@pytest.mark.rocketmq(config={"maxMessageSize": 4096})
def test_config(rocketmq_broker): pass

@pytest.mark.rocketmq_crash(after="SEND_MESSAGE_V2")
def test_crash(rocketmq_broker): pass

def test_views(rocketmq_broker):
    rocketmq_broker.timers.count()

def test_dead_letters(rocketmq_recorder):
    rocketmq_recorder().dead_letters("billing")

def test_patience(rocketmq_recorder):
    rocketmq_recorder().expect("x", within=30 * MINUTE)

def test_typo(rocketmq_broker):
    with pytest.raises(AttributeError):
        rocketmq_broker.topcis

def test_late(request):
    request.getfixturevalue("rocketmq_clock")
""",
        f"--rocketmq={address}",
        "-rs",
    )
    result.assert_outcomes(passed=1, skipped=11)
    result.stdout.fnmatch_lines_random(
        [
            f"SKIPPED* test_*.py:*: rocketmq_clock: {address} does not offer a*",
            f"SKIPPED*rocketmq_faults: {address} does not offer faults on purpose",
            f"SKIPPED*rocketmq_store: {address} does not offer a store that is opened again",
            f"SKIPPED*rocketmq_cluster: {address} does not offer several brokers*",
            f"SKIPPED*mark virtual_clock: {address} does not offer a clock*",
            f"SKIPPED*mark config: {address} does not offer settings of the test's own",
            f"SKIPPED*mark rocketmq_crash: {address} does not offer crashes on purpose",
            f"SKIPPED*broker.timers: {address} does not offer a look inside*",
            f"SKIPPED*dead letters of billing: {address} does not offer*",
            "SKIPPED* test_*.py:*waits for 30 min of real time, and --rocketmq-patience is 60 s",
        ]
    )


def test_an_expectation_that_fails_says_what_nobody_can_tell(run_kit: RunKit, address: str) -> None:
    result = run_kit(
        """
def test_in_vain(rocketmq_recorder, rocketmq_producer, rocketmq_topic):
    arrived = rocketmq_recorder()
    rocketmq_producer.send(Message(rocketmq_topic, b"x"))
    arrived.expect_nothing()
""",
        f"--rocketmq={address}",
    )
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        [
            "E*arrived in topic test_in_vain-*, where nothing was expected",
            f"E*still waiting*unknown: {address} cannot be asked",
            f"broker*{address} at {address}, time *",
        ]
    )


def test_a_broker_that_is_not_there_is_named_without_a_traceback(run_kit: RunKit) -> None:
    result = run_kit("def test_any(rocketmq_broker): pass", "--rocketmq=127.0.0.1:1")
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["--rocketmq=127.0.0.1:1: no broker can be reached there: *"])
    result.stdout.no_fnmatch_line("*address.py*")


def test_a_topic_that_is_there_already_stays_as_it_is(run_kit: RunKit) -> None:
    with EmbeddedBroker(inproc=False, topics=[TopicSpec("Theirs", queues=16)]) as broker:
        result = run_kit(
            """
@pytest.mark.rocketmq(topics=["Theirs"])
def test_use(rocketmq_recorder):
    rocketmq_recorder("Theirs")
""",
            f"--rocketmq={broker.namesrv_addr}",
        )
        assert broker.topics["Theirs"].queues == 16
    result.assert_outcomes(passed=1)


def test_a_run_that_is_repeated_meets_nothing_of_the_first(run_kit: RunKit, address: str) -> None:
    tests = """
def test_send(rocketmq_topic, rocketmq_recorder, rocketmq_producer):
    arrived = rocketmq_recorder()
    arrived.expect_nothing()
    rocketmq_producer.send(Message(rocketmq_topic, b"x", delay=timedelta(milliseconds=500)))
"""
    for _ in range(2):
        run_kit(tests, f"--rocketmq={address}", "--rocketmq-seed=7").assert_outcomes(passed=1)


def test_wall_time_is_what_a_real_broker_has(run_kit: RunKit, address: str) -> None:
    result = run_kit(
        """
@pytest.mark.rocketmq(virtual_clock=False)
def test_wall(rocketmq_broker):
    pass
""",
        f"--rocketmq={address}",
    )
    result.assert_outcomes(passed=1)


def test_what_a_store_elsewhere_cannot_do_skips_the_test() -> None:
    store = RemoteStore(AddressBackend("here"))
    with pytest.raises(pytest.skip.Exception, match=r"store\.path: here does not offer a look"):
        _ = store.path
    with pytest.raises(pytest.skip.Exception, match="lose_unsynced=True"):
        store.reopen(lose_unsynced=True)
    assert repr(store) == "<store of here>"
