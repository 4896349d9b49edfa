"""What becomes of clients when their program ends: real programs, and a broker beside them."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from embedded_broker import EmbeddedBroker
from rocketmq_py import DefaultLitePullConsumer, DefaultMQPushConsumer
from rocketmq_py.protocol.codes import RequestCode
from tests.unit.rocketmq_py.scripted import ScriptedCluster

PROGRAM = "tests.unit.rocketmq_py.client.leaving_program"
ROOT = Path(__file__).parents[4]
WAIT_S = 50


def remedy(block: str, to_stay: str) -> re.Pattern[str]:
    """Give what is said of one consumer of group G."""
    return re.compile(
        rf"client \S+ was not shut down: call shutdown\(\), or use it in {block}\. The program has "
        rf"ended, so nothing more arrives at consumer of group G: to stay alive, {to_stay}"
    )


REMEDY = remedy("a with block", r"end it with consumer\.run\(\), which waits for SIGINT or SIGTERM")


@pytest.fixture
def broker() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker(topics=["T"]) as made:
        yield made


def outcome_of(what: str, address: str) -> subprocess.CompletedProcess[str]:
    """Run a program to its end."""
    return subprocess.run(
        [sys.executable, "-m", PROGRAM, what, address],
        cwd=ROOT,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=WAIT_S,
        check=False,
    )


# --- consumers ----------------------------------------------------------------------------------


def test_a_program_whose_consumer_runs_when_main_ends_says_so_once_with_the_remedy(
    broker: EmbeddedBroker,
) -> None:
    done = outcome_of("forgets_consumer", broker.namesrv_addr)
    assert (done.returncode, done.stdout) == (0, "main ends\n")
    (line,) = done.stderr.splitlines()
    assert REMEDY.fullmatch(line)


@pytest.mark.parametrize(
    ("what", "block", "to_stay"),
    [
        ("forgets_lite_pull_consumer", "a with block", "poll it in a loop"),
        (
            "forgets_aio_consumer",
            "an async with block",
            "iterate over it there, or await asyncio.Event().wait() when it has a listener",
        ),
        (
            "forgets_aio_lite_pull_consumer",
            "an async with block",
            "iterate over consumer.batches() there",
        ),
    ],
)
def test_the_remedy_fits_the_face_of_the_consumer(
    broker: EmbeddedBroker, what: str, block: str, to_stay: str
) -> None:
    done = outcome_of(what, broker.namesrv_addr)
    assert (done.returncode, done.stdout) == (0, "main ends\n")
    (line,) = done.stderr.splitlines()
    assert remedy(block, re.escape(to_stay)).fullmatch(line)


def test_consumers_with_one_remedy_are_named_together(broker: EmbeddedBroker) -> None:
    done = outcome_of("forgets_two_of_each", broker.namesrv_addr)
    (line,) = done.stderr.splitlines()
    assert line.count("to stay alive") == 2
    lite = "at consumer of group A, consumer of group B: to stay alive, poll it in a loop"
    assert f"nothing more arrives {lite}" in line
    assert "nothing more arrives at consumer of group G: to stay alive, end it with" in line


def test_the_status_of_a_program_that_forgets_its_consumer_stays_as_it_is(
    broker: EmbeddedBroker,
) -> None:
    done = outcome_of("forgets_consumer_and_fails", broker.namesrv_addr)
    assert done.returncode == 3
    assert REMEDY.fullmatch(done.stderr.strip())


def test_a_program_that_ends_its_consumer_says_nothing(broker: EmbeddedBroker) -> None:
    done = outcome_of("ends_consumer", broker.namesrv_addr)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_forgotten_consumer_leaves_its_group_and_has_written_its_offsets(
    broker: EmbeddedBroker,
) -> None:
    outcome_of("forgets_consumer", broker.namesrv_addr)
    left = broker.journal.requests(code=RequestCode.UNREGISTER_CLIENT)
    assert [entry.fields["consumerGroup"] for entry in left] == ["G"]


# --- producers ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("what", "count"), [("forgets_fifty_sends", 50), ("forgets_fifty_batches", 100)]
)
def test_sends_that_nobody_has_waited_for_are_finished_when_the_program_ends(
    broker: EmbeddedBroker, what: str, count: int
) -> None:
    done = outcome_of(what, broker.namesrv_addr)
    assert done.returncode == 0
    (line,) = done.stderr.splitlines()
    assert "was not shut down" in line
    assert broker.topics["T"].count() == count


def test_their_callbacks_are_told_before_the_program_ends(broker: EmbeddedBroker) -> None:
    done = outcome_of("forgets_sends_with_callbacks", broker.namesrv_addr)
    assert done.stdout == "stored\n" * 5


def test_sends_without_an_answer_are_counted_and_keep_no_program_alive() -> None:
    cluster = ScriptedCluster()
    try:
        cluster.brokers[0].silent(RequestCode.SEND_MESSAGE_V2)
        done = outcome_of("forgets_what_is_not_answered", cluster.namesrv_addr)
    finally:
        cluster.close()
    assert done.returncode == 0
    assert (
        "producer P ends with 7 messages of send_async that no broker has confirmed" in done.stderr
    )


def test_a_thread_that_is_no_daemon_may_send_when_main_has_ended(broker: EmbeddedBroker) -> None:
    done = outcome_of("sends_from_another_thread", broker.namesrv_addr)
    assert (done.returncode, done.stderr) == (0, "")
    assert broker.topics["T"].count() == 1


# --- until a signal -----------------------------------------------------------------------------


def test_a_consumer_that_must_be_polled_has_no_run_because_it_would_receive_nothing() -> None:
    assert hasattr(DefaultMQPushConsumer, "run")
    assert not hasattr(DefaultLitePullConsumer, "run")


def ended_by(what: str, broker: EmbeddedBroker, number: signal.Signals | None) -> tuple[str, int]:
    """Run a consumer until it has received, end it, and give what it printed then and its status.

    Without a signal it gets a line of input.
    """
    broker.send("T", b"x")
    with subprocess.Popen(
        [sys.executable, "-m", PROGRAM, what, broker.namesrv_addr],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as program:
        assert program.stdout is not None
        for line in program.stdout:
            if line == "received\n":
                break
        if number is not None:
            program.send_signal(number)
        try:
            said, _ = program.communicate("\n", timeout=WAIT_S)
        finally:
            program.kill()  # leaving the block waits for it
        return said, program.returncode


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("what", ["runs", "runs_where_sigint_is_ignored"])
def test_run_ends_by_a_signal_and_shuts_the_consumer_down(
    broker: EmbeddedBroker, what: str, number: signal.Signals
) -> None:
    assert ended_by(what, broker, number) == ("ended False True ()\n", 0)
    left = broker.journal.requests(code=RequestCode.UNREGISTER_CLIENT)
    assert [entry.fields["consumerGroup"] for entry in left] == ["G"]


def test_run_takes_a_consumer_that_runs_already(broker: EmbeddedBroker) -> None:
    said, status = ended_by("runs_what_runs_already", broker, signal.SIGTERM)
    assert (said, status) == ("ended False True ()\n", 0)


def test_run_ends_when_another_thread_shuts_the_consumer_down(broker: EmbeddedBroker) -> None:
    said, status = ended_by("runs_until_another_thread_ends_it", broker, None)
    assert (said, status) == ("ended False True ()\n", 0)


def test_run_outside_the_main_thread_is_an_error_that_names_start(broker: EmbeddedBroker) -> None:
    done = outcome_of("runs_in_another_thread", broker.namesrv_addr)
    assert (done.returncode, done.stderr) == (0, "")
    assert "only the main thread gets: call start() in this thread" in done.stdout


def test_run_raises_what_start_raises_and_restores_the_handlers(broker: EmbeddedBroker) -> None:
    done = outcome_of("fails_to_run", broker.namesrv_addr)
    assert done.stdout == (
        "there is no listener: call register_message_listener before start\nTrue\n"
    )
