"""One run: a broker, processes that send it mutants, and what has become of these."""

from __future__ import annotations

import contextlib
import gc
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Final
from unittest.mock import patch

from attrs import define, field

from embedded_broker import EmbeddedBroker
from embedded_broker.remoting.endpoint import Endpoint
from embedded_broker.remoting.requests import Answer, Connection, GroupHandler, Handler, Request
from rocketmq_py.clock import monotonic
from rocketmq_py.protocol.codes import RequestCode
from rocketmq_py.protocol.frame import Frame
from tests.fuzz.frames import EMPTY
from tests.hostile.extreme_requests import TOPIC
from tests.unit.embedded_broker.wire_peer import WirePeer, send_fields

ROOT: Final = Path(__file__).parents[2]
GONE_S: Final = 30.0
LOOK_S: Final = 0.5
KEPT: Final = {"embedded-broker-long_0"}
"""A worker that the first long request starts, and that waits for the next one."""


@define
class Funnel:
    """How far mutants came, and what was wrong at the end."""

    sent: int = 0
    cut: int = 0
    """Frames that the splitter gave."""
    handled: int = 0
    """Requests that a handler took."""
    left_open: int = 0
    """Connections that were not ended though nothing could follow."""
    checks: int = 0
    """Questions in between; each was answered."""
    leaks: list[str] = field(factory=list)

    def lines(self) -> list[str]:
        """Show it."""
        return [
            f"{self.sent:>10,} mutants",
            f"{self.cut:>10,} passed the frame splitter ({self.cut / max(1, self.sent):.0%})",
            f"{self.handled:>10,} reached a handler ({self.handled / max(1, self.sent):.0%})",
            f"{self.left_open:>10,} connections stayed open that had to end",
            f"{self.checks:>10,} questions in between, all answered",
            *(f"leaked: {leak}" for leak in self.leaks),
        ]

    @property
    def is_good(self) -> bool:
        """Whether most got far enough to prove something, and nothing was left behind."""
        return (
            self.cut >= 0.6 * self.sent
            and self.handled >= 0.2 * self.sent
            and not self.left_open
            and not self.leaks
        )


def run(frames: int, processes: int, seed: int) -> Funnel:
    """Send so many mutants; raises when the broker does not answer."""
    funnel = Funnel()
    with EmbeddedBroker(topics=[TOPIC, EMPTY], seed=1) as broker:
        check(broker)  # what the first request starts is no leak
        endpoint = broker._parts().endpoint
        before = held()
        with counted(endpoint, funnel), senders(broker, frames, processes, seed) as running:
            while any(sender.poll() is None for sender in running):
                check(broker)
                funnel.checks += 1
                with contextlib.suppress(subprocess.TimeoutExpired):
                    running[0].wait(LOOK_S)
            for sender in running:
                if sender.returncode:
                    raise RuntimeError(f"a sender ended with {sender.returncode}")
                sent, left_open = map(int, sender.communicate()[0].split())
                funnel.sent += sent
                funnel.left_open += left_open
        funnel.leaks = list(left_behind(broker, endpoint, before))
        broker.reset()  # settings may have been changed by some
        with WirePeer(broker._parts().address) as peer:
            stored = peer.ask(RequestCode.SEND_MESSAGE_V2, send_fields("Afterwards"), b"body")
            if stored.code:
                funnel.leaks.append(f"a send after the reset is answered {stored}")
    return funnel


@contextlib.contextmanager
def senders(
    broker: EmbeddedBroker, frames: int, processes: int, seed: int
) -> Iterator[list[subprocess.Popen[str]]]:
    """Processes that share the work; none outlives the block."""
    program = [sys.executable, "-m", "tests.fuzz.sender", broker._parts().address]
    running = []
    try:
        for number in range(processes):
            count = frames // processes + (number < frames % processes)
            command = [*program, str(seed * 1000 + number), str(count)]
            running.append(subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True))
        yield running
    finally:
        for sender in running:
            if sender.poll() is None:
                sender.kill()
            sender.wait()
            if sender.stdout is not None:
                sender.stdout.close()


@contextlib.contextmanager
def counted(endpoint: Endpoint, funnel: Funnel) -> Iterator[None]:
    """Count the frames of an endpoint, and the requests that its handlers take."""
    receive, handlers = Endpoint.receive, endpoint.handlers

    def count_frames(
        self: Endpoint, connection: Connection, frames: list[Frame], arrived_ns: int | None = None
    ) -> None:
        if arrived_ns is None:  # else it is the rest of some that are counted
            funnel.cut += len(frames) * (self is endpoint)
        receive(self, connection, frames, arrived_ns)

    class CountingGroups(GroupHandler):
        def __init__(self, groups: GroupHandler) -> None:
            self._groups = groups

        def take(self, requests: Sequence[Request]) -> Sequence[Answer | None]:
            funnel.handled += len(requests)
            return self._groups.take(requests)

    def counting(handler: Handler | GroupHandler) -> Handler | GroupHandler:
        if isinstance(handler, GroupHandler):
            return CountingGroups(handler)

        def handle(request: Request) -> Answer | None:
            funnel.handled += 1
            return handler(request)

        return handle

    endpoint.handlers = {code: counting(handler) for code, handler in handlers.items()}
    try:
        with patch.object(Endpoint, "receive", count_frames):
            yield
    finally:
        endpoint.handlers = handlers


def check(broker: EmbeddedBroker) -> None:
    """Ask the broker something; raises when no answer comes."""
    with WirePeer(broker._parts().address) as peer:
        answer = peer.ask(RequestCode.GET_BROKER_RUNTIME_INFO)
    if answer.code:
        raise RuntimeError(f"the broker answers {answer}")


def held() -> tuple[int, set[str]]:
    """What a process can leak: how many descriptors, and threads by name."""
    gc.collect()
    descriptors = len(list(Path("/proc/self/fd").iterdir()))
    return descriptors, {thread.name for thread in threading.enumerate()} - KEPT


def left_behind(
    broker: EmbeddedBroker, endpoint: Endpoint, before: tuple[int, set[str]]
) -> Iterator[str]:
    """Say what is still there of senders that are gone."""
    waiters = broker._parts().consume.waiters
    looks: dict[str, Callable[[], object]] = {
        "connections": lambda: len(endpoint.connections),
        "parked requests": lambda: len(waiters),
        "descriptors": lambda: max(0, held()[0] - before[0]),
        "threads": lambda: held()[1] - before[1],
    }
    end = monotonic() + GONE_S
    pause = threading.Event()
    for name, look in looks.items():
        while look() and monotonic() < end:
            pause.wait(0.05)
        if left := look():
            yield f"{name}: {left}"
