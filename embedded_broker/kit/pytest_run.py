"""One run of pytest: the broker that its tests share, and what each test asks for.

Answers: which broker a test gets, started with what, and what is checked and told at its end.
Must not know: the names of fixtures. It is made when the first test asks for a broker, so that
pytest starts without importing one. Read on: ``embedded_broker/kit/fixtures.py``, ``plugin.py``.
"""

import re
import shlex
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from random import SystemRandom
from typing import Any, Final, cast
from zlib import crc32

import pytest
from attrs import define, field

from embedded_broker.api.broker import EmbeddedBroker
from embedded_broker.api.cluster import EmbeddedCluster
from embedded_broker.clocks.clock import VirtualClock
from embedded_broker.kit.backend import Ability, Backend, parse_backend
from embedded_broker.kit.backends import make_backend
from embedded_broker.kit.crash import CrashPlan, crash_plans
from embedded_broker.kit.fixture_broker import EmbeddedFixtureBroker, FixtureBroker
from embedded_broker.kit.leftovers import clients_left_open, faults_never_hit, running_clients
from embedded_broker.kit.mark_options import MarkOptions, RunOptions, Scope, mark_options_of
from embedded_broker.kit.real import SINCE
from embedded_broker.kit.remote import RemoteFixtureBroker
from embedded_broker.kit.report import told_of_fixture
from rocketmq_py.errors import ConfigError

NAME_MAX: Final = 40
"""Names of topics and groups begin with that of their test; longer ones make reports unreadable."""
UNSYNCED: Final[Mapping[str, object]] = {
    "flushIntervalCommitLog": 86_400_000,
    "timerFlushIntervalMs": 86_400_000,
}
"""No sync by wall time: on a slow machine a test would find less lost after a power loss."""


@define(eq=False)
class Trial:
    """One test while it runs on a broker."""

    fixture: FixtureBroker
    mark_options: MarkOptions
    plans: list[CrashPlan] = field(factory=list)

    def end_plans(self) -> None:
        """Let no planned crash come any more; idempotent."""
        for plan in self.plans:
            plan.end()

    def complaints(self) -> list[str]:
        """Say what is wrong with what a test has left. Asked when its clients ended."""
        fixture = self.fixture
        if not isinstance(fixture, EmbeddedFixtureBroker):
            return []
        told = list(faults_never_hit(fixture, self.plans))
        if not (fixture.is_shared or self.mark_options.leave_open):
            told += clients_left_open(
                one for one in running_clients() if one.namesrv_addr == fixture.namesrv_addr
            )
        return told


@define(eq=False)
class PytestRun:
    """The brokers of one run. ``trials`` are those of tests that run now, by test id."""

    options: RunOptions
    _backend: Backend | None = None
    _remote: RemoteFixtureBroker | None = None
    _own_salt: int = field(factory=lambda: SystemRandom().randrange(1 << 32))
    shared: list[EmbeddedFixtureBroker] = field(factory=list)
    trials: dict[str, Trial] = field(factory=dict)
    current: pytest.Item | None = None
    """The test that is being set up or runs, if it is known to want a broker."""

    # -- what a test may ask for ---------------------------------------------------------------

    @property
    def is_embedded(self) -> bool:
        """Whether brokers are started in this process."""
        return self.options.backend.kind == "embedded"

    @property
    def backend(self) -> Backend:
        """The broker that is not embedded; it may not be started yet."""
        if self._backend is None:
            self._backend = make_backend(self.options.backend)
        return self._backend

    def lacks(self, ability: Ability) -> str | None:
        """Say why the broker of this run cannot do something; None when it can."""
        if self.is_embedded:
            return None
        if self.backend.version is None and ability in SINCE:
            self.remote_fixture()  # its release is known when it runs
        return None if ability in self.backend.abilities else self.backend.why_not(ability)

    # -- brokers ---------------------------------------------------------------------------------

    def remote_fixture(self) -> RemoteFixtureBroker:
        """Give the broker that is not embedded. It is started once."""
        if self._remote is None:
            self.backend.start()
            self._remote = RemoteFixtureBroker(
                self.backend,
                strict=self.options.strict,
                patience_s=self.options.patience_s,
            )
        return self._remote

    @contextmanager
    def own_broker(
        self,
        test: str,
        mark_options: MarkOptions,
        *,
        store: Path | None = None,
        in_cluster: bool = False,
    ) -> Iterator[EmbeddedFixtureBroker]:
        """Start a broker, or a cluster, as marks ask for it; close it at the end."""
        strict = self.options.strict if mark_options.strict is None else mark_options.strict
        config: dict[str, object] = {} if mark_options.wall_clock else dict(UNSYNCED)
        if strict:
            config["autoCreateTopicEnable"] = False
        config |= mark_options.config
        given: dict[str, Any] = {  # Any: arguments of the broker, which checks them
            "clock": None if mark_options.wall_clock else VirtualClock(start=mark_options.start),
            "config": config,
            "topics": mark_options.topics,
            "seed": self.options.seed_of(test),
            **mark_options.arguments,
        }
        if store is not None:
            given["store"] = store
        if in_cluster:
            with EmbeddedCluster(brokers=mark_options.brokers, **given) as cluster:
                yield EmbeddedFixtureBroker(cluster.brokers[0], cluster=cluster, strict=strict)
        else:
            with EmbeddedBroker(**given) as broker:
                yield EmbeddedFixtureBroker(broker, strict=strict)

    @contextmanager
    def shared_broker(
        self, name: str, mark_options: MarkOptions
    ) -> Iterator[EmbeddedFixtureBroker]:
        """Start a broker that several tests share; ``renew`` empties it before each of them."""
        with self.own_broker(name, mark_options) as fixture:
            fixture.is_shared = True
            self.shared.append(fixture)
            try:
                if self.current is not None:
                    self.begin(self.current, fixture)
                yield fixture
            finally:
                self.shared.remove(fixture)

    def close(self) -> None:
        """Stop the broker of the run."""
        if self._backend is not None:
            self._backend.stop()

    # -- tests -----------------------------------------------------------------------------------

    def prepare(self, item: pytest.Item) -> None:
        """Let a test that wants a broker begin on the one that is there already."""
        self.current = item
        if not self.is_embedded:
            self.begin(item, self.remote_fixture())
        for fixture in self.shared:
            self.begin(item, fixture)

    def renew_shared(self) -> None:
        """Empty what tests share, before each of them: a test may ask for it while it runs."""
        self.current = None
        for fixture in self.shared:
            renew(fixture)

    def takes(self, broker: object) -> bool:
        """Whether a ``rocketmq_broker`` is of a kind that the fixtures can use."""
        return isinstance(broker, EmbeddedBroker) or (
            self._remote is not None and self._remote.is_of(broker)
        )

    def fixture_of(self, broker: object) -> FixtureBroker:
        """Give what serves a ``rocketmq_broker``, also of one that a project makes by itself."""
        if isinstance(broker, EmbeddedBroker):
            shared = (one for one in self.shared if one.broker is broker)
            # One that a project makes may be there for several tests; nobody can tell.
            return next(shared, None) or EmbeddedFixtureBroker(
                broker, strict=self.options.strict, is_shared=True
            )
        if not self.is_embedded:
            return self.remote_fixture()
        raise TypeError(f"rocketmq_broker is to give an EmbeddedBroker, not {broker!r}")

    def trial_on(self, item: pytest.Item, broker: object) -> Trial:
        """Give the trial of a test on its ``rocketmq_broker``, begun here at the latest.

        A test may ask for the broker while it runs, and a project may make one by itself.
        """
        trial = self.trials.get(item.nodeid)
        if trial is not None and trial.fixture.is_of(broker):
            return trial
        if trial is not None:
            trial.end_plans()
        return self.begin(item, self.fixture_of(broker))

    def begin(self, item: pytest.Item, fixture: FixtureBroker) -> Trial:
        """Let a test begin on a broker: its topics are there, its crash is planned."""
        mark_options = mark_options_of_node(item)
        trial = Trial(fixture, mark_options)
        for spec in mark_options.topics:
            fixture.create_topic(spec)
        if isinstance(fixture, EmbeddedFixtureBroker):
            trial.plans = crash_plans(fixture.broker, crashes_of(item))
        self.trials[item.nodeid] = trial
        return trial

    def name_of(self, test: str, function: str, *, is_shared: bool) -> str:
        """Give a name for topics and groups of one test; on a shared broker nobody else has it."""
        name = re.sub(r"[^A-Za-z0-9_]+", "-", function).strip("-")[:NAME_MAX] or "test"
        return f"{name}-{crc32(f'{self._salt}:{test}'.encode()):08x}" if is_shared else name

    @property
    def _salt(self) -> int:
        """What sets names apart from those of other runs, which a real broker still has."""
        return self.options.seed if self.is_embedded else self._own_salt

    def report(self, test: str, *, path: str) -> str | None:
        """Tell the state of a test's broker. ``path`` is how pytest is asked for that test."""
        trial = self.trials.get(test)
        if trial is None:
            return None
        asked = [] if self.is_embedded else [f"--rocketmq={self.options.backend}"]
        command = ["pytest", path, *asked, f"--rocketmq-seed={self.options.seed}"]
        return told_of_fixture(trial.fixture, repeat=shlex.join(command))


def renew(fixture: EmbeddedFixtureBroker) -> None:
    """Empty a shared broker, and let it be the time at which it began.

    What the application of the test before had told the clock is forgotten: it may have ended.
    """
    if not fixture.broker.is_running:
        fixture.broker.restart()
    fixture.broker.reset(clock=fixture.is_virtual)
    fixture.clock.activity.clear()


def run_options(backend: str, scope: str, seed: int, patience: str, *, strict: bool) -> RunOptions:
    """Read the options of a run; ``ConfigError`` for a value that is not possible."""
    try:
        patience_s = float(patience)
    except ValueError:
        patience_s = 0.0
    if scope not in {"function", "module", "session"}:
        raise ConfigError("--rocketmq-scope", scope, "function, module or session")
    if not patience_s > 0:  # nor "nan"
        raise ConfigError("--rocketmq-patience", patience, "more than 0 seconds")
    return RunOptions(
        backend=parse_backend(backend),
        scope=cast("Scope", scope),
        strict=strict,
        seed=seed,
        patience_s=patience_s,
    )


def mark_options_of_node(node: pytest.Item | pytest.Collector) -> MarkOptions:
    """Add up the marks of a test, its class and its module."""
    return mark_options_of((mark.args, mark.kwargs) for mark in node.iter_markers("rocketmq"))


def crashes_of(item: pytest.Item) -> list[tuple[Any, Any]]:  # Any: arguments of marks
    """Give the arguments of the marks that plan a crash."""
    return [(mark.args, mark.kwargs) for mark in item.iter_markers("rocketmq_crash")]
