"""RocketMQ's own benchmark programs against our broker: nothing fails, and all that is sent comes.

They are classes of ``rocketmq-example``, run as its scripts run them. The registry has that jar for
some releases only; the newest of them and one of 4.x stand for all.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Generator, Sequence
from functools import partial
from itertools import dropwhile

from embedded_broker.kit.backend import BackendError
from embedded_broker.kit.jvm import Jvm, running
from embedded_broker.kit.real import wait_until
from rocketmq_py import MessageQueue, QueueAccess
from tests.interop.conftest import serving
from tests.interop.java_tools import QUICK, jars
from tests.waiting import HANG_S

TOPIC = "BenchmarkTest"
GROUP = "benchmark_consumer"
OPENED = ("--add-opens", "java.base/java.nio=ALL-UNNAMED")
"""What the Netty of old releases needs on a Java of today."""
DIED = "java.lang.IllegalStateException: org.apache.rocketmq.remoting.exception"
STARTS = 5


def benchmark(
    version: str, program: str, namesrv: str, *options: str
) -> contextlib.AbstractContextManager[Jvm]:
    """Run a program of the release."""
    name = f"org.apache.rocketmq.example.benchmark.{program}"
    path = jars(version, "rocketmq-example")
    program_options = ("-cp", path, name, "-n", namesrv, "-t", TOPIC)
    return running(["-Xmx256m", *QUICK, *OPENED, *program_options, *options])


def has_died(program: Jvm) -> bool:
    """Say whether a thread ended because its first question for a route took more than 3 s.

    A JVM that starts on a busy machine is that slow, and its program does not begin again.
    """
    return any(DIED in line for line in program.said())


@contextlib.contextmanager
def program_that(
    goes: Callable[[Jvm], object],
    program: str,
    namesrv: str,
    *options: str,
    before: Callable[[], object] = lambda: None,
) -> Generator[Jvm]:
    """Run a program of the newest release until it goes as told; one that died starts again.

    ``before`` is called before each start.
    """

    def is_decided(run: Jvm) -> bool:
        return has_died(run) or bool(goes(run))

    for _ in range(STARTS):
        before()
        with benchmark("5.5.0", program, namesrv, *options) as run:
            wait_until(partial(is_decided, run), f"{program} goes as it should", timeout=HANG_S)
            if not has_died(run):
                yield run
                return
    raise BackendError(f"{program} died {STARTS} times")


def counted(line: str) -> dict[str, int]:
    """Read the counts of a line such as ``Send TPS: 12 | Send Failed: 0``."""
    return {name.strip(): int(count) for name, count in re.findall(r"([A-Za-z ]+): +(\d+)\b", line)}


def told_of(program: Jvm, part: str) -> list[dict[str, int]]:
    """Read the counts of each line so far that has this part."""
    return [counted(line) for line in program.said() if part in line]


def settled(program: Jvm, *, some: Sequence[str], none: Sequence[str]) -> list[dict[str, int]]:
    """Give the counts from the first line on that has all of ``some`` and none of ``none``.

    Each line is about the ten seconds before it. Lines before the first are not judged: on a slow
    machine the first send of a program that starts takes longer than it may.
    """

    def is_unsettled(told: dict[str, int]) -> bool:
        return not all(told[name] for name in some) or any(told[name] for name in none)

    return list(dropwhile(is_unsettled, told_of(program, "Send TPS:")))


def is_complete(program: Jvm) -> bool:
    return any("[Complete]" in line for line in program.said())


def check_complete(program: Jvm) -> None:
    told = counted(program.wait_for_line("[Complete]", HANG_S))
    assert (told["Send Failed"], told["Response Failed"]) == (0, 0)


def check_settled(program: Jvm, *, some: Sequence[str], none: Sequence[str]) -> None:
    """Check that a program that went well once has gone well since."""
    for told in settled(program, some=some, none=none):
        assert not any(told[name] for name in none), told


def backlog(access: QueueAccess) -> int:
    """How many messages of the topic the consumers have not finished."""
    bounds = access.bounds(TOPIC)
    done = access.group_offsets(GROUP, list(bounds))

    def finished(queue: MessageQueue) -> int:
        offset = done[queue]
        return offset if isinstance(offset, int) else 0

    return sum(one.max_offset - finished(queue) for queue, one in bounds.items())


def wait_for_consumers(access: QueueAccess) -> None:
    """Wait until every message is finished; how far a group is, it tells the broker every 5 s."""
    wait_until(lambda: not backlog(access), "every message is consumed", timeout=HANG_S)


def sent(access: QueueAccess) -> int:
    return sum(one.max_offset for one in access.bounds(TOPIC).values())


def test_the_programs_of_the_newest_release_find_no_fault() -> None:
    with (
        serving("--topic", TOPIC) as namesrv,
        QueueAccess(namesrv_addr=namesrv) as access,
        benchmark("5.5.0", "Consumer", namesrv, "-w", "4", "-ri", "1000") as consumer,
    ):
        consumer.wait_for_line("Consumer Started.", HANG_S)
        options = ("-w", "4", "-q", "3000", "-s", "200", "-k", "true", "-l", "3")
        stored: list[int] = []
        with program_that(
            is_complete, "Producer", namesrv, *options, before=lambda: stored.append(sent(access))
        ) as producer:
            check_complete(producer)
        assert sent(access) - stored[-1] == 3_000

        few = ("-w", "1", "-s", "100", "-ri", "1000")
        unsure = ("-sr", "0.2", "-su", "0.2", "-cu", "0.2", "-cr", "0.2", "-i", "5")
        batches_go = partial(
            settled, some=("Send MPS",), none=("Send Failed", "Send Message Failed")
        )
        transactions_go = partial(
            settled,
            some=("Send TPS", "Check"),
            none=("Send Failed", "UnexpectedCheck", "DuplicatedCheck"),
        )
        without_waiting = ("-y", "true", "-q", "2000")
        with (
            program_that(batches_go, "BatchProducer", namesrv, *few, "-b", "16") as batches,
            program_that(transactions_go, "TransactionProducer", namesrv, *few, *unsure) as asked,
            program_that(is_complete, "Producer", namesrv, *without_waiting) as producer,
        ):
            check_complete(producer)
            check_settled(batches, **batches_go.keywords)
            check_settled(asked, **transactions_go.keywords)
        wait_for_consumers(access)
        consumer.wait_for_line("Consume TPS:", HANG_S)
        assert {told["Consume Fail"] for told in told_of(consumer, "Consume TPS:")} == {0}


def test_the_producer_of_an_old_release_is_consumed_by_its_consumer() -> None:
    """Its options are fewer, and it sends until it is ended."""
    with (
        serving("--topic", TOPIC) as namesrv,
        QueueAccess(namesrv_addr=namesrv) as access,
        benchmark("4.7.0", "Consumer", namesrv, "-p", "false", "-g", GROUP) as consumer,
    ):
        consumer.wait_for_line("Consumer Started.", HANG_S)
        with benchmark("4.7.0", "Producer", namesrv, "-w", "2", "-s", "128") as producer:
            told = counted(producer.wait_for_line("Send TPS:", HANG_S))
            assert (told["Send Failed"], told["Response Failed"]) == (0, 0)
        assert sent(access) > 0
        wait_for_consumers(access)
