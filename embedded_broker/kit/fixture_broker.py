"""Fixture broker: the broker of a test as the fixtures use it, whatever stands behind it.

Answers: how a fixture makes a topic, waits, goes forward in time and looks in, on an embedded
broker and on one that can only be reached. Must not know: pytest, fixtures. Read on:
``embedded_broker/kit/remote.py`` for brokers that are not embedded, ``leftovers.py`` for what is
checked at the end of a test.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime, timedelta
from difflib import get_close_matches
from pathlib import Path
from threading import Event
from typing import Final

from attrs import frozen

from embedded_broker.api.broker import EmbeddedBroker
from embedded_broker.api.cluster import EmbeddedCluster
from embedded_broker.api.views import MisreadClock, PendingTimer, StoredMessage
from embedded_broker.clocks.clock import VirtualClock
from embedded_broker.clocks.settle import notes_of
from embedded_broker.errors import WaitTimeoutError
from embedded_broker.kit.backend import Ability
from embedded_broker.lifecycle.arguments import TopicSpec
from rocketmq_py.clock import monotonic
from rocketmq_py.errors import ConfigError
from rocketmq_py.protocol.names import is_group_topic

GROUP_TOPIC_QUEUES: Final = 1
"""A broker's own number for the retries and the dead letters of a group."""
LATENCY_S: Final = 10.0
"""How long a message that is due may take on its way, in wall time."""
QUIET_S: Final = 1.0
"""How long nothing may come, in wall time, until it counts as nothing."""
COMES_BACK_S: Final = 3.0
"""How long a broker that is down may take to come back, in wall time, until it counts as down."""
LOOK_AGAIN_S: Final = 0.01
DOWN: Final = "no broker is running: restart() starts one again"
CONSUMER_SETTINGS: Final = {"pull_time_delay_millis_when_exception": 10}
"""Settings of the kit's consumers: after a crash of the broker they ask again soon."""


@frozen
class Reached:
    """How a wait ended: whether it came true, and if not, what was in the way, in words."""

    ok: bool
    trouble: str = ""


class FixtureBroker(ABC):
    """What the fixtures do with a broker."""

    name: str
    abilities: frozenset[Ability]
    strict: bool = False
    is_shared: bool = False

    @property
    def is_virtual(self) -> bool:
        """Whether the kit moves its clock."""
        return False

    @property
    @abstractmethod
    def namesrv_addr(self) -> str:
        """Where its clients begin."""

    @abstractmethod
    def is_of(self, broker: object) -> bool:
        """Whether a ``rocketmq_broker`` is the one it serves."""

    @abstractmethod
    def now(self) -> datetime:
        """Give the broker's time."""

    @abstractmethod
    def topic_names(self) -> list[str] | None:
        """Name the topics; None when nobody can be asked."""

    @abstractmethod
    def create_topic(self, spec: TopicSpec) -> None:
        """Create a topic unless it is there."""

    @abstractmethod
    def ready_topic(self, name: str) -> None:
        """Let a topic be there before a client asks for it; in strict mode it must be there.

        The retries and dead letters of a group are there as soon as they are asked for, in strict
        mode, too: a broker makes their topics by itself, with the first message.
        """

    @abstractmethod
    def until(
        self, holds: Callable[[], object], within: timedelta, *, grace_s: float = LATENCY_S
    ) -> Reached:
        """Go forward by ``within`` at most, and stop as soon as ``holds()``.

        Goes in virtual time where the clock can be moved. Else it waits, and ``grace_s`` seconds
        longer for what is on its way.
        """

    @abstractmethod
    def wait(self, holds: Callable[[], object], what: str) -> None:
        """Wait in wall time; ``WaitTimeoutError`` says ``what`` was waited for."""

    def waiting(self, topic: str) -> list[PendingTimer] | None:
        """Give what waits for its time to go to a topic; None when nobody can be asked."""
        del topic
        return None

    def why_unknown(self) -> str:
        """Say why nobody knows what waits."""
        return f"{self.name} cannot be asked"

    def lost(self) -> tuple[int, int]:
        """Count the timers and the messages that the last crash of each broker lost."""
        return (0, 0)

    def misread_clock(self) -> MisreadClock | None:
        """Give a deliver time that a program computed by another clock than the broker's."""
        return None

    def stored(self, topic: str) -> list[StoredMessage] | None:
        """Give what became visible in a topic; None when nobody can be asked."""
        del topic
        return None

    def dead_letters(self, group: str) -> list[StoredMessage]:
        """Give what a group gave up."""
        raise ConfigError("dead_letters", group, self.why_not(Ability.VIEWS))

    def calm(self) -> None:
        """Let the broker answer again, so that clients can say good-bye."""
        return  # only an embedded broker can be paused

    def why_not(self, ability: Ability) -> str:
        """Say that the broker lacks an ability."""
        return f"{self.name} does not offer {ability.value}"

    def log_tail(self, lines: int) -> list[str]:  # noqa: ARG002
        """Give the last lines that real servers wrote; an embedded broker has a journal."""
        return []


class EmbeddedFixtureBroker(FixtureBroker):
    """An embedded broker, or a cluster of them behind one name server."""

    abilities = frozenset(Ability)

    def __init__(
        self,
        broker: EmbeddedBroker,
        *,
        cluster: EmbeddedCluster | None = None,
        strict: bool = False,
        is_shared: bool = False,
    ) -> None:
        self.name = "embedded"
        self.broker = broker
        self.cluster = cluster
        self.strict = strict
        self.is_shared = is_shared
        self.clock = broker.clock
        self.store_path: Path | None = None
        """The directory of its files, if it has one of its own."""

    @property
    def is_virtual(self) -> bool:
        """Whether the kit moves its clock."""
        return isinstance(self.clock, VirtualClock)

    @property
    def brokers(self) -> Sequence[EmbeddedBroker]:
        """All brokers that may hold messages."""
        return [self.broker] if self.cluster is None else self.cluster.brokers

    @property
    def running(self) -> list[EmbeddedBroker]:
        """Those that can be asked now."""
        return [one for one in self.brokers if one.is_running]

    @property
    def namesrv_addr(self) -> str:
        """Where its clients begin."""
        return self.broker.namesrv_addr

    def is_of(self, broker: object) -> bool:
        """Whether a ``rocketmq_broker`` is the one it serves."""
        return broker is self.broker

    def now(self) -> datetime:
        """Give the broker's time."""
        return self.clock.now()

    def topic_names(self) -> list[str]:
        """Name the topics."""
        return sorted({name for one in self.running for name in one.topics.names()})

    def create_topic(self, spec: TopicSpec) -> None:
        """Create a topic unless it is there."""
        for one in self.running:
            if spec.name not in one.topics:
                one.topics.create(
                    spec.name,
                    queues=spec.queues,
                    message_type=spec.message_type,
                    queue_type=spec.queue_type,
                )

    def ready_topic(self, name: str) -> None:
        """Let a topic be there before a client asks for it; in strict mode it must be there."""
        if any(name in one.topics for one in self.running):  # those of every broker, too
            return
        if is_group_topic(name):
            self.create_topic(TopicSpec(name, GROUP_TOPIC_QUEUES))
        elif not self.strict:
            self.create_topic(TopicSpec(name))
        else:
            close = get_close_matches(name, self.topic_names(), n=1)
            hint = f"; did you mean {close[0]!r}?" if close else ""
            raise ConfigError(
                "topic",
                name,
                "in strict mode a topic that exists. Take rocketmq_topic, or name it in "
                f"@pytest.mark.rocketmq(topics=[{name!r}]){hint}",
            )

    def until(
        self, holds: Callable[[], object], within: timedelta, *, grace_s: float = LATENCY_S
    ) -> Reached:
        """Go forward as ``clock.run_until`` does; on a wall clock wait."""
        if not isinstance(self.clock, VirtualClock):
            return self._wait_for_it(holds, within.total_seconds() + grace_s)
        if not (self.running or self._comes_back()):
            return Reached(ok=False, trouble=DOWN)
        try:
            self.clock.run_until(holds, at_most=within)
        except WaitTimeoutError as error:
            # What the clients were busy with matters; how far the clock came is told anyway.
            return Reached(ok=False, trouble="" if "ran until" in str(error) else str(error))
        return Reached(ok=True)

    def _wait_for_it(self, holds: Callable[[], object], seconds: float) -> Reached:
        try:
            self.broker.wait_for(lambda _: holds(), timeout=seconds)
        except WaitTimeoutError:
            return Reached(ok=False)
        return Reached(ok=True)

    def _comes_back(self) -> bool:
        """Wait for a broker that was started again meanwhile, as by a planned crash."""
        end, pause = monotonic() + COMES_BACK_S, Event()
        while not self.running and monotonic() < end:
            pause.wait(LOOK_AGAIN_S)
        return bool(self.running)

    def wait(self, holds: Callable[[], object], what: str) -> None:
        """Wait in wall time, and look after every change of the broker."""
        if not self._wait_for_it(holds, LATENCY_S).ok:
            raise WaitTimeoutError(f"waited {LATENCY_S:g} s for {what}\nseen: {self.broker.seen()}")

    def waiting(self, topic: str) -> list[PendingTimer] | None:
        """Give what waits for its time to go to a topic; None while no broker runs."""
        if not self.running:
            return None
        found = [
            timer
            for one in self.running
            if topic in one.topics
            for timer in one.timers.pending(topic=topic)
        ]
        return sorted(found, key=lambda timer: timer.due_at)

    def why_unknown(self) -> str:
        """Say that no broker runs."""
        return "no broker is running"

    def lost(self) -> tuple[int, int]:
        """Count what the crashes lost that came last."""
        reports = [one.recovery for one in self.running]
        return sum(one.timers_lost for one in reports), sum(one.messages_lost for one in reports)

    def misread_clock(self) -> MisreadClock | None:
        """Give a deliver time that a program computed by another clock than the broker's."""
        found = (one.timers.misread_clock for one in self.running if self.is_virtual)
        return next((one for one in found if one is not None), None)

    def stored(self, topic: str) -> list[StoredMessage]:
        """Give what became visible in a topic."""
        return [
            message
            for one in self.running
            if topic in one.topics
            for message in one.messages.in_topic(topic)
        ]

    def dead_letters(self, group: str) -> list[StoredMessage]:
        """Give what a group gave up; nothing for a group that nobody knows yet."""
        return [
            message
            for one in self.running
            if group in one.groups
            for message in one.groups[group].dead_letters()
        ]

    def calm(self) -> None:
        """Let a paused broker answer again, so that clients can say good-bye."""
        if self.broker.is_running:
            self.broker.resume()

    def members(self, group: str) -> int:
        """Count the consumers of a group that are connected."""
        known = [one.groups[group] for one in self.running if group in one.groups]
        return max((len(one.members) for one in known), default=0)

    def disagreements(self) -> Iterable[str]:
        """Say which subscriptions contradict each other, or are to nothing."""
        return notes_of(self.clock.residents(), None) if self.running else ()
