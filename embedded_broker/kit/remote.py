"""Fixture broker of a broker that is not embedded.

Answers: what a test can do with a broker that it can only reach, and what is said, as a skip, of
what it cannot. Time is wall time: what waits is waited for. Must not know: how the broker was
started. Read on: ``embedded_broker/kit/fixture_broker.py``, ``backend.py``.
"""

from collections.abc import Callable
from datetime import datetime, timedelta
from threading import Event
from typing import Final, NoReturn

from embedded_broker.api.broker import EmbeddedBroker
from embedded_broker.api.views import StoredMessage
from embedded_broker.errors import WaitTimeoutError
from embedded_broker.kit.backend import Ability, Backend
from embedded_broker.kit.failure_text import plain
from embedded_broker.kit.fixture_broker import GROUP_TOPIC_QUEUES, LATENCY_S, FixtureBroker, Reached
from embedded_broker.kit.skipping import skip
from embedded_broker.lifecycle.arguments import TopicSpec
from rocketmq_py.clock import SystemClock, monotonic
from rocketmq_py.protocol.names import is_group_topic

LOOK_AGAIN_S: Final = 0.01
JOIN_S: Final = 30.0
"""A consumer of a group that has members already gets its queues at their next rebalance."""

_ABILITY_OF: Final = {
    "clock": Ability.VIRTUAL_CLOCK,
    "faults": Ability.FAULTS,
    "crash": Ability.CRASH,
    "restart": Ability.REOPEN,
    "config": Ability.CONFIG,
}


class RemoteBroker:
    """``rocketmq_broker`` on a broker that is not embedded.

    It has ``namesrv_addr``, ``name`` and ``version``. What only an embedded broker has skips the
    test, with the reason.
    """

    def __init__(self, backend: Backend) -> None:
        self._backend = backend

    def __repr__(self) -> str:
        return f"<{self.name} at {self.namesrv_addr}>"

    @property
    def name(self) -> str:
        """The value of ``--rocketmq``."""
        return self._backend.name

    @property
    def version(self) -> tuple[int, ...] | None:
        """RocketMQ's version, if it is known."""
        return self._backend.version

    @property
    def namesrv_addr(self) -> str:
        """``host:port`` of the name server: what a client is configured with."""
        return self._backend.namesrv_addr

    def __getattr__(self, name: str) -> NoReturn:
        if name.startswith("_") or not hasattr(EmbeddedBroker, name):
            raise AttributeError(f"{type(self).__name__} has no {name}")
        skip_without(self._backend, _ABILITY_OF.get(name, Ability.VIEWS), f"broker.{name}")


class RemoteFixtureBroker(FixtureBroker):
    """What the fixtures do with a broker that can only be reached."""

    is_shared = True

    def __init__(self, backend: Backend, *, strict: bool, patience_s: float) -> None:
        self.backend = backend
        self.name = backend.name
        self.abilities = backend.abilities
        self.strict = strict
        self._patience_s = patience_s
        self._clock = SystemClock()

    @property
    def namesrv_addr(self) -> str:
        """Where its clients begin."""
        return self.backend.namesrv_addr

    def is_of(self, broker: object) -> bool:
        """Whether a ``rocketmq_broker`` is the one it serves."""
        return isinstance(broker, RemoteBroker)

    def now(self) -> datetime:
        """Give this machine's time, which is near enough to the broker's."""
        return self._clock.now()

    def topic_names(self) -> None:
        """Nobody is asked."""
        return

    def create_topic(self, spec: TopicSpec) -> None:
        """Create a topic, or skip the test where a test cannot."""
        if Ability.CREATE_TOPICS not in self.abilities:
            skip_without(self.backend, Ability.CREATE_TOPICS, f"topic {spec.name}")
        if spec.message_type or spec.queue_type:
            skip(f"topic {spec.name}: only an embedded broker is given topics with a type")
        self.backend.create_topic(spec.name, spec.queues)

    def ready_topic(self, name: str) -> None:
        """Let a topic be there before a client asks for it; in strict mode it must be there."""
        if Ability.CREATE_TOPICS not in self.abilities:
            return
        if is_group_topic(name):
            self.backend.create_topic(name, GROUP_TOPIC_QUEUES)
        elif not self.strict:
            self.backend.create_topic(name)

    def until(
        self, holds: Callable[[], object], within: timedelta, *, grace_s: float = LATENCY_S
    ) -> Reached:
        """Wait for as long as it takes; a wait that is too long skips the test."""
        seconds = within.total_seconds()
        if seconds > self._patience_s:
            skip(
                f"{self.name}: this test waits for {plain(within)} of real time, and "
                f"--rocketmq-patience is {self._patience_s:g} s"
            )
        return Reached(ok=_wait(holds, seconds + grace_s))

    def wait(self, holds: Callable[[], object], what: str) -> None:
        """Wait in wall time."""
        if not _wait(holds, JOIN_S):
            raise WaitTimeoutError(f"{self.name}: waited {JOIN_S:g} s for {what}")

    def dead_letters(self, group: str) -> list[StoredMessage]:
        """Skip the test: a real broker lets nobody read them without more permission."""
        skip_without(self.backend, Ability.VIEWS, f"dead letters of {group}")

    def log_tail(self, lines: int) -> list[str]:
        """Give the last lines that the servers wrote."""
        return self.backend.log_tail(lines)

    def why_not(self, ability: Ability) -> str:
        """Say that the broker lacks an ability."""
        return self.backend.why_not(ability)


class RemoteStore:
    """``rocketmq_store`` on a broker that is not embedded: opened again, and not looked into."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend

    def __repr__(self) -> str:
        return f"<store of {self._backend.name}>"

    @property
    def path(self) -> NoReturn:
        """Skip the test: where the files are is known to the broker alone."""
        skip_without(self._backend, Ability.VIEWS, "store.path")

    def reopen(self, *, crash: bool = False, lose_unsynced: bool = False) -> None:
        """End the broker, and start it again; see ``Store.reopen``. Nothing tells what it found."""
        if lose_unsynced:
            skip_without(self._backend, Ability.CRASH, "reopen(lose_unsynced=True)")
        self._backend.reopen(crash=crash)


def skip_without(backend: Backend, ability: Ability, what: str) -> NoReturn:
    """Skip the test, and say what it wanted and what the broker lacks."""
    skip(f"{what}: {backend.why_not(ability)}")


def _wait(holds: Callable[[], object], seconds: float) -> bool:
    end, pause = monotonic() + seconds, Event()
    while not holds():
        if monotonic() > end:
            return False
        pause.wait(LOOK_AGAIN_S)
    return True
