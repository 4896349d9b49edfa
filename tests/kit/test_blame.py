"""Which test is blamed for what it left, on brokers of every making: runs of pytest in a test."""

from __future__ import annotations

import pytest

from tests.kit.conftest import SOURCES, RunKit

OWN_MAKING = """
@pytest.fixture
def rocketmq_broker():
    with EmbeddedBroker(tcp=False, clock=VirtualClock()) as broker:
        yield broker
"""


@pytest.mark.parametrize(
    ("end", "outcome"),
    [
        ("pytest.skip('not today')", "skipped"),
        ("pytest.xfail('one day')", "xfailed"),
        ("assert 1 == 2", "failed"),
    ],
)
@pytest.mark.parametrize("scope", ["function", "module"])
def test_only_a_test_that_passed_is_blamed_for_what_it_left(
    run_kit: RunKit, end: str, outcome: str, scope: str
) -> None:
    result = run_kit(
        f"""
LEFT = []

@pytest.mark.rocketmq_crash(after="SEND_MESSAGE_V2")
def test_ends(rocketmq_faults):
    rocketmq_faults.on("PULL_MESSAGE").drop()
    LEFT.append(EmbeddedBroker(tcp=False).start())
    {end}

def test_next(rocketmq_broker):
    assert not LEFT[0].is_running
""",
        f"--rocketmq-scope={scope}",
    )
    result.assert_outcomes(passed=1, **{outcome: 1})


def test_a_run_that_is_interrupted_ends_without_a_complaint(
    run_kit: RunKit, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(SOURCES))
    result = run_kit(
        """
@pytest.mark.rocketmq_crash(after="SEND_MESSAGE_V2")
def test_interrupted(rocketmq_recorder):
    rocketmq_recorder()
    raise KeyboardInterrupt
""",
        separate=True,
    )
    assert result.ret == pytest.ExitCode.INTERRUPTED
    text = result.stdout.str() + result.stderr.str()
    assert "never happened" not in text
    assert "Traceback" not in text


def test_a_broker_of_a_project_s_own_making_has_what_the_marks_say(run_kit: RunKit) -> None:
    result = run_kit(f"""
import threading

{OWN_MAKING}

@pytest.mark.rocketmq(topics=["Orders"])
def test_topics(rocketmq_broker):
    assert "Orders" in rocketmq_broker.topics

@pytest.mark.rocketmq_crash(after="SEND_MESSAGE_V2")
def test_crash(rocketmq_broker):
    with DefaultMQProducer("shop", namesrv_addr=rocketmq_broker.namesrv_addr) as producer:
        producer.send(Message("Orders", b"x"))
    rocketmq_broker.wait_for(lambda broker: not broker.recovery.clean)

@pytest.mark.rocketmq_crash(after="SEND_MESSAGE_V2", nth=7)
def test_no_crash(rocketmq_broker):
    pass

def test_fault(rocketmq_faults):
    rocketmq_faults.on("PULL_MESSAGE").drop()

def test_no_thread_is_left():
    assert "rocketmq-crash" not in [one.name for one in threading.enumerate()]
""")
    result.assert_outcomes(passed=5, errors=2)
    result.stdout.fnmatch_lines(["*ERROR at teardown of test_no_crash*", "*nth=7) never happened*"])
    result.stdout.fnmatch_lines(["*ERROR at teardown of test_fault*", "*drop, 0 hits>*"])


def test_a_broker_of_own_making_goes_before_one_that_the_run_shares(run_kit: RunKit) -> None:
    own = OWN_MAKING.replace("\n", "\n    ").replace(
        "def rocketmq_broker()", "def rocketmq_broker(self)"
    )
    result = run_kit(
        f"""
def test_shared(rocketmq_topic):
    pass

class TestOwn:
    {own}
    def test_own(self, rocketmq_broker, rocketmq_topic):
        assert rocketmq_broker.topics.names() == [rocketmq_topic]
""",
        "--rocketmq-scope=session",
    )
    result.assert_outcomes(passed=2)


def test_a_fixture_of_another_kind_by_the_same_name_is_left_alone(run_kit: RunKit) -> None:
    result = run_kit("""
@pytest.fixture
def rocketmq_broker():
    return "broker.example:9876"

def test_theirs(rocketmq_broker):
    assert rocketmq_broker == "broker.example:9876"
""")
    result.assert_outcomes(passed=1)


def test_a_shared_broker_that_is_asked_for_late_is_empty_and_lives_on(run_kit: RunKit) -> None:
    result = run_kit(
        """
brokers = []

@pytest.fixture(scope="module")
def app(rocketmq_broker):
    with DefaultMQProducer("app", namesrv_addr=rocketmq_broker.namesrv_addr) as producer:
        producer.fetch_publish_message_queues("Orders")
        yield producer

@pytest.mark.rocketmq(timers=True, topics=["Orders"])
@pytest.mark.parametrize("number", range(2))
def test_late(request, number):
    brokers.append(request.getfixturevalue("rocketmq_broker"))
    assert brokers[0] is brokers[-1]
    assert brokers[0].is_running
    topic = request.getfixturevalue("rocketmq_topic")
    assert set(brokers[0].topics.names()) == {"Orders", topic}
    request.getfixturevalue("app").send(Message("Orders", b"x"))

def test_only_the_broker(request):
    assert request.getfixturevalue("rocketmq_broker").topics.names() == []
""",
        "--rocketmq-scope=module",
    )
    result.assert_outcomes(passed=3)


def test_a_crash_is_not_forgotten_where_there_is_no_broker(run_kit: RunKit) -> None:
    result = run_kit("""
@pytest.mark.rocketmq_crash(after="SEND_MESSAGE_V2")
def test_none():
    pass
""")
    result.assert_outcomes(passed=1, errors=1)
    result.stdout.fnmatch_lines(["*never happened*has no broker: take rocketmq_broker"])


@pytest.mark.parametrize(
    ("mark", "told"),
    [
        ("afer='SEND_MESSAGE_V2'", "*of after, nth, topic, group, lose_unsynced, restart, as in*"),
        ("after='SEND_MESAGE'", "*did you mean SEND_MESSAGE*"),
        ("after='SEND_MESSAGE', nth=0", "*1 or more*"),
    ],
)
@pytest.mark.parametrize("scope", ["function", "module"])
def test_a_wrong_plan_of_a_crash_is_told_in_a_sentence_and_leaves_no_thread(
    run_kit: RunKit, mark: str, told: str, scope: str
) -> None:
    result = run_kit(
        f"""
import threading
from embedded_broker.lifecycle.running_brokers import running

@pytest.mark.rocketmq_crash(after="SEND_MESSAGE_V2")
@pytest.mark.rocketmq_crash({mark})
def test_wrong(rocketmq_broker):
    pass

def test_no_thread_is_left():
    assert "rocketmq-crash" not in [one.name for one in threading.enumerate()]
    assert running() == ()
""",
        f"--rocketmq-scope={scope}",
    )
    result.assert_outcomes(passed=1, errors=1)
    result.stdout.fnmatch_lines([told])
    result.stdout.no_fnmatch_line("*Error:*")
