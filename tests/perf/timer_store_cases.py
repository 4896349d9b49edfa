"""One measurement of the timer store in a process of its own: `... timer_store_cases NAME ARGS`.

Prints the numbers as JSON. A fresh process for each, so that memory and caches are comparable and
nobody pays for the garbage of the one before. CPU seconds are those of the whole process, so what
other programs do beside counts little; wall seconds stand beside them.
"""

from __future__ import annotations

import gc
import json
import os
import random
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import Self
from unittest.mock import patch

from embedded_broker import EmbeddedBroker, VirtualClock
from embedded_broker.api.views.timers import PendingTimer
from embedded_broker.door import Door
from embedded_broker.lifecycle.parts import BrokerParts
from embedded_broker.remoting.requests import Connection
from embedded_broker.store.put_values import InnerMessage
from embedded_broker.timer.wheel.timer_log import RECORD_SIZE
from rocketmq_py.protocol.codes import PullSysFlag, RequestCode
from rocketmq_py.protocol.command import RemotingCommand
from rocketmq_py.protocol.frame import Frame, FrameDecoder
from rocketmq_py.protocol.headers.consume import PullMessageRequestHeader
from rocketmq_py.protocol.headers.send import SendMessageRequestHeader

Numbers = dict[str, float]

TOPIC = "Timers"
BODY = b"x" * 100
DAY_MS = 86_400_000
FORTY_DAYS = {"timerMaxDelaySec": 3_456_000}
PER_TURN = 256
LISTED_PAGES = 12


class Stopwatch:
    """CPU and wall seconds since it was made; what was built before is no garbage to look at."""

    def __init__(self) -> None:
        gc.collect()
        gc.freeze()
        self._cpu, self._wall = time.process_time(), time.perf_counter()

    @property
    def cpu(self) -> float:
        return time.process_time() - self._cpu

    @property
    def wall(self) -> float:
        return time.perf_counter() - self._wall


class Peer(Connection):
    """A client that keeps the last answers."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 1), ("127.0.0.1", 2))
        self.frames: list[bytes] = []

    def deliver(self, frames: list[bytes]) -> None:
        self.frames = frames

    def close(self) -> None:
        raise RuntimeError("the broker closed the connection")


def broker(
    store: str | None = None, *, rate: int = 0, config: Mapping[str, object] | None = None
) -> EmbeddedBroker:
    """A broker that clients of this process could reach; its clock is frozen, or flows (1)."""
    clock = VirtualClock(rate=rate)
    return EmbeddedBroker(store=store, clock=clock, tcp=False, topics=[TOPIC], config=config)


def core_of(one: EmbeddedBroker) -> BrokerParts:
    node = one.slot.node
    if node is None:
        raise RuntimeError("the broker does not run")
    return node.parts


def due_times(start_ms: int, count: int, spread_ms: int) -> Iterator[int]:
    """Due times in no order, the same in every run."""
    chance = random.Random(1)
    return (start_ms + (chance.randrange(spread_ms) if spread_ms else 0) for _ in range(count))


def properties_of(number: int, due_ms: int | None) -> dict[str, str]:
    """What a producer's message carries."""
    properties = {"UNIQ_KEY": f"7F00000100002A9F4D4B{number:012X}", "WAIT": "true"}
    if due_ms is not None:
        properties["TIMER_DELIVER_MS"] = str(due_ms)
    return properties


def fill(parts: BrokerParts, count: int, first_ms: int, spread_ms: int) -> None:
    """Put timers, some in each hold of the door."""
    numbers = iter(enumerate(due_times(first_ms, count, spread_ms)))
    left = count
    while left:
        with parts.door:
            for _ in range(min(PER_TURN, left)):
                number, due_ms = next(numbers)
                message = InnerMessage(TOPIC, number & 3, BODY, properties_of(number, due_ms))
                if not parts.store.put(message).ok:
                    raise RuntimeError("a timer was refused")
        left -= min(PER_TURN, left)


def send_frames(parts: BrokerParts, count: int, delays: Iterator[int] | None) -> list[Frame]:
    """Requests of code 310 as they come from a connection."""
    decoder = FrameDecoder()
    frames: list[Frame] = []
    for number in range(count):
        text = "".join(
            f"{name}\1{value}\2"
            for name, value in properties_of(number, next(delays) if delays else None).items()
        )
        header = SendMessageRequestHeader(
            producer_group="P",
            topic=TOPIC,
            default_topic="TBW102",
            default_topic_queue_nums=4,
            queue_id=number & 3,
            sys_flag=0,
            born_timestamp=parts.clock.now_ms,
            flag=0,
            properties=text,
            reconsume_times=0,
            unit_mode=False,
            batch=False,
        )
        request = RemotingCommand(
            code=RequestCode.SEND_MESSAGE_V2, ext_fields=header.to_ext_v2(), body=BODY
        )
        frames += decoder.feed(request.encode())
    return frames


def pull(parts: BrokerParts, peer: Peer, queue_id: int, offset: int) -> int:
    """Pull once, without waiting; gives the next offset."""
    header = PullMessageRequestHeader(
        consumer_group="C",
        topic=TOPIC,
        queue_id=queue_id,
        queue_offset=offset,
        max_msg_nums=32,
        sys_flag=PullSysFlag.SUBSCRIPTION,
        commit_offset=0,
        suspend_timeout_millis=0,
        subscription="*",
        sub_version=0,
        expression_type="TAG",
    )
    request = RemotingCommand(code=RequestCode.PULL_MESSAGE, ext_fields=header.to_ext())
    parts.endpoint.receive(peer, FrameDecoder().feed(request.encode()))
    answer = RemotingCommand.decode(FrameDecoder().feed(peer.frames[-1])[0])
    return int((answer.ext_fields or {})["nextBeginOffset"])


def pull_all(parts: BrokerParts, peer: Peer) -> int:
    """Pull every queue to its end; gives the number of messages."""
    total = 0
    for queue_id in range(4):
        offset = 0
        while (following := pull(parts, peer, queue_id, offset)) != offset:
            offset = following
        total += offset
    return total


# --- accepting ---------------------------------------------------------------------------------


def put(count: int) -> Numbers:
    """From the put of the store to the wheel slot."""
    with broker(rate=1) as one:
        parts = core_of(one)
        first_ms = parts.clock.now_ms + 600_000
        messages = [
            InnerMessage(TOPIC, number & 3, BODY, properties_of(number, due_ms))
            for number, due_ms in enumerate(due_times(first_ms, count, DAY_MS))
        ]
        watch = Stopwatch()
        with parts.door:
            for message in messages:
                parts.store.put(message)
        taken = watch.cpu
        if parts.timers.count() != count:
            raise RuntimeError("not every timer was accepted")
    return {"rate": count / taken, "us": taken / count * 1e6}


def frames(count: int, together: int, timers: int) -> Numbers:
    """From the request's frame to the slot, so many frames at a time; `timers` 0: no delay."""
    with broker(rate=1) as one:
        parts = core_of(one)
        delays = due_times(parts.clock.now_ms + 600_000, count, DAY_MS) if timers else None
        requests = send_frames(parts, count, delays)
        batches = [requests[at : at + together] for at in range(0, count, together)]
        peer = Peer()
        watch = Stopwatch()
        for batch in batches:
            parts.endpoint.receive(peer, batch)
        taken = watch.cpu
        if parts.timers.count() != (count if timers else 0):
            raise RuntimeError("not every message was accepted")
    return {"rate": count / taken, "us": taken / count * 1e6}


def pulls(count: int) -> Numbers:
    """What a pull costs for each message, 32 at a time."""
    with broker() as one:
        parts = core_of(one)
        parts.endpoint.receive(Peer(), send_frames(parts, count, None))
        watch = Stopwatch()
        if pull_all(parts, Peer()) != count:
            raise RuntimeError("not every message was pulled")
        return {"us": watch.cpu / count * 1e6}


# --- releasing ---------------------------------------------------------------------------------


class MeteredDoor(Door):
    """A door that notes how long each hold takes: wall milliseconds, and the holder's CPU."""

    __slots__ = ("_since", "cpu", "wall")

    def __init__(self) -> None:
        super().__init__()
        self.wall: list[float] = []
        self.cpu: list[float] = []
        self._since = (0.0, 0.0)

    def __enter__(self) -> Self:
        super().__enter__()
        self._since = (time.perf_counter(), time.thread_time())
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        wall, cpu = self._since
        self.cpu.append((time.thread_time() - cpu) * 1000)
        self.wall.append((time.perf_counter() - wall) * 1000)
        super().__exit__(kind, error, trace)


def burst(count: int) -> Numbers:
    """From the due instant of all of them to the answer of the last pull."""
    with broker() as one:
        parts = core_of(one)
        fill(parts, count, parts.clock.now_ms + 100_000, 0)
        peer = Peer()
        watch = Stopwatch()
        one.clock.advance(99.999)
        loaded = watch.cpu
        watch = Stopwatch()
        one.clock.advance(0.001)
        released = watch.cpu
        if pull_all(parts, peer) != count:
            raise RuntimeError("not every timer was released")
        return {
            "load_cpu": loaded,
            "release_cpu": released,
            "cpu": watch.cpu,
            "wall": watch.wall,
            "load_us": loaded / count * 1e6,
            "release_us": released / count * 1e6,
        }


def turns(count: int) -> Numbers:
    """Gates of the door while one slot is loaded and released."""
    with patch("embedded_broker.lifecycle.runtime.Door", MeteredDoor), broker() as one:
        parts = core_of(one)
        fill(parts, count, parts.clock.now_ms + 100_000, 0)
        door = parts.door
        if not isinstance(door, MeteredDoor):
            raise TypeError("doors are made elsewhere now")
        door.wall.clear()
        door.cpu.clear()
        one.clock.advance(100)
        cpu, wall = sorted(door.cpu), sorted(door.wall)
    return {
        "turns": len(cpu),
        "cpu_p99": cpu[len(cpu) * 99 // 100],
        "cpu_max": cpu[-1],
        "wall_p99": wall[len(wall) * 99 // 100],
        "wall_max": wall[-1],
    }


def jump(count: int, first_day: int, last_day: int, days: int) -> Numbers:
    """A jump over timers that are due between two days."""
    with broker(config=FORTY_DAYS) as one:
        parts = core_of(one)
        spread_ms = (last_day - first_day) * DAY_MS
        fill(parts, count, parts.clock.now_ms + max(first_day * DAY_MS, 5000) - 1, spread_ms)
        watch = Stopwatch()
        fired = one.clock.advance(days=days).fired
        if fired != count:
            raise RuntimeError(f"{fired} timers were released")
        return {"cpu": watch.cpu, "wall": watch.wall, "us": watch.cpu / count * 1e6}


def records_of(parts: BrokerParts) -> int:
    """How many records the timer log has got."""
    return parts.timers.stages["TimerEnqueuePutService"].counters["enqueued"]


def hops(count: int) -> Numbers:
    """A jump of 40 days that rolls every timer as often as real time would."""
    with broker(config=FORTY_DAYS) as one:
        parts = core_of(one)
        fill(parts, count, parts.clock.now_ms + 40 * DAY_MS - 1, 0)
        log_before = parts.store.log.max_offset
        records_before = records_of(parts)
        watch = Stopwatch()
        fired = one.clock.advance(days=40, roll_elision=False).fired
        if fired != count:
            raise RuntimeError(f"{fired} timers were released")
        taken = watch.cpu
        copies = parts.store.max_offset("rmq_sys_wheel_timer", 0)
        return {
            "hops": copies / count - 1,
            "us": taken / copies * 1e6,
            "cpu": taken,
            "log_mb": (parts.store.log.max_offset - log_before) / 1e6,
            "timer_log_mb": (records_of(parts) - records_before) * RECORD_SIZE / 1e6,
        }


# --- many timers on a disk ---------------------------------------------------------------------


def anonymous_bytes() -> int:
    """Memory of this process that no file backs."""
    status = Path("/proc/self/status").read_text(encoding="ascii")
    line = next(line for line in status.splitlines() if line.startswith("RssAnon:"))
    return int(line.split()[1]) * 1024


def build(folder: str, count: int, days: int, roll: int) -> Numbers:
    """Fill a store, say what it costs in memory, and die without a word."""
    with broker(folder, config=FORTY_DAYS) as one:
        parts = core_of(one)
        empty = anonymous_bytes()
        watch = Stopwatch()
        if roll:
            fill(parts, count, parts.clock.now_ms + (days + roll) * DAY_MS, DAY_MS)
            one.clock.advance(days=roll, roll_elision=False)
        else:
            fill(parts, count, parts.clock.now_ms + 5000, days * DAY_MS)
        numbers = {
            "build_cpu": watch.cpu,
            "bytes_each": (anonymous_bytes() - empty) / count,
            "pending": float(one.timers.count()),
        }
        print(json.dumps(numbers), flush=True)
        os._exit(0)


def reopen(folder: str) -> Numbers:
    """Open what is there, list the next hundred, and stop cleanly."""
    watch = Stopwatch()
    with broker(folder, config=FORTY_DAYS) as one:
        opened, opened_cpu = watch.wall, watch.cpu
        pending = float(one.timers.count())
        pages = []
        page: list[PendingTimer] = []
        for _ in range(LISTED_PAGES):
            watch = Stopwatch()
            page = one.timers.pending(limit=100, after=page[-1] if page else None)
            pages.append(watch.cpu * 1000)
        return {
            "open_wall": opened,
            "open_cpu": opened_cpu,
            "pending": pending,
            "first_listing_ms": pages[0],
            "listing_ms": statistics.median(pages[1:]),
        }


def reopen_and_die(folder: str) -> Numbers:
    """Open what a killed broker left, with all its checks, and die without a word as it did."""
    watch = Stopwatch()
    with broker(folder, config=FORTY_DAYS) as one:
        numbers = {
            "open_wall": watch.wall,
            "open_cpu": watch.cpu,
            "pending": float(one.timers.count()),
            "problems": float(len(one.recovery.problems) if one.recovery else 0),
        }
        print(json.dumps(numbers), flush=True)
        os._exit(0)


_ALL = (put, frames, pulls, burst, turns, jump, hops, build, reopen, reopen_and_die)
CASES: dict[str, Callable[..., Numbers]] = {case.__name__: case for case in _ALL}


def main(name: str, *arguments: str) -> None:
    """Run one case."""
    numbers = CASES[name](*[int(one) if one.isdecimal() else one for one in arguments])
    print(json.dumps(numbers))


if __name__ == "__main__":
    main(*sys.argv[1:])
