"""Common part of the backends that run RocketMQ's own brokers.

Answers: what a release can do, when its broker is ready, how a topic is created at it. Must not
know: processes, containers, pytest. Read on: ``embedded_broker/kit/process.py``,
``embedded_broker/kit/container.py``.
"""

import re
from abc import abstractmethod
from collections.abc import Callable
from threading import Event
from typing import Final, Self

from embedded_broker.kit.backend import DEFAULT_QUEUES, Ability, Backend, BackendError
from rocketmq_py import DefaultMQAdminExt, DefaultMQProducer, MQBrokerException
from rocketmq_py.clock import monotonic
from rocketmq_py.errors import MQClientException, NoRouteError, RemotingException
from rocketmq_py.protocol.names import AUTO_CREATE_TOPIC

BOOT_SECONDS: Final = 120.0
ROUTE_SECONDS: Final = 30.0
LOOK_AGAIN_SECONDS: Final = 0.05
NO_TOPIC: Final = "rocketmq-kit-no-topic"
"""The pattern of the kit's own producer: with it, a missing route is an error, never borrowed."""
MASTER_ID: Final = 0
CHATTER: Final = "|-INFO in "

SINCE: Final[dict[Ability, tuple[int, ...]]] = {
    Ability.CREATE_TOPICS: (0,),
    Ability.TIMERS: (5, 0, 0),
    Ability.RECALL: (5, 3, 2),
}
"""Ability to the first release that has it; what is missing here no real broker offers."""

SETTINGS: Final[dict[str, str]] = {
    "brokerClusterName": "DefaultCluster",
    "brokerName": "broker-a",
    "brokerId": "0",
    "registerNameServerPeriod": "10000",
    "autoCreateTopicEnable": "true",
    "timerWheelEnable": "true",
    "recallMessageEnable": "true",
    "enablePropertyFilter": "true",
    # An open transaction is asked about soon. What has ended is noted before that: else it would be
    # asked about, too, and a second answer would deliver it twice.
    "transactionCheckInterval": "5000",
    "transactionOpBatchInterval": "100",
    # On a machine that other programs keep busy, messages wait instead of being refused.
    "waitTimeMillsInSendQueue": "30000",
    # Small files: a broker for a test has a few messages, and reserves a gigabyte by default.
    "mappedFileSizeCommitLog": "67108864",
    "mappedFileSizeConsumeQueue": "600000",
    "maxHashSlotNum": "50000",
    "maxIndexNum": "200000",
    "mappedFileSizeTimerLog": "1048576",
}
"""Settings of a real broker that serves tests. A release ignores the names it does not know."""


def version_in(text: str) -> tuple[int, ...] | None:
    """Return the release that a text names, such as an image's tag or ``V5_3_3``."""
    found = re.search(r"(?<!\d)(\d+)[._](\d+)[._](\d+)(?!\d)", text)
    return tuple(int(part) for part in found.groups()) if found else None


def abilities_of(version: tuple[int, ...] | None) -> frozenset[Ability]:
    """Return what a release can do; of one that nobody knows, what every release can."""
    return frozenset(ability for ability, first in SINCE.items() if (version or (0,)) >= first)


def settings_text(settings: dict[str, str]) -> str:
    """Write settings the way ``mqbroker -c`` reads them."""
    return "".join(f"{name}={value}\n" for name, value in settings.items())


def without_chatter(lines: list[str]) -> list[str]:
    """Leave out what 5.x prints while it sets up its own logging."""
    return [line for line in lines if CHATTER not in line]


def wait_until(condition: Callable[[], object], what: str, *, timeout: float) -> None:
    """Return when the condition holds; answers that are missing or refused count as not yet."""
    deadline_s = monotonic() + timeout
    last: Exception | None = None
    while True:
        try:
            if condition():
                return
        except (MQBrokerException, MQClientException, RemotingException) as error:
            last = error
        if monotonic() > deadline_s:
            raise BackendError(f"{what}: not in {timeout:g} s" + (f" ({last})" if last else ""))
        Event().wait(LOOK_AGAIN_SECONDS)


def wait_until_registered(
    namesrv_addr: str,
    broker_addr: str | None = None,
    *,
    timeout: float = BOOT_SECONDS,
    still: Callable[[], object] = lambda: None,
) -> None:
    """Return when the name server knows the broker, or any when none is named.

    ``still`` is asked on the way, and may raise.
    """

    def registered() -> bool:
        still()
        known = admin.examine_broker_cluster_info(namesrv_addr).broker_addr_table.values()
        return any(broker_addr in {None, *broker.broker_addrs.values()} for broker in known)

    what = f"{broker_addr or 'a broker'} registers at {namesrv_addr}"
    with DefaultMQAdminExt(timeout_millis=2_000) as admin:
        wait_until(registered, what, timeout=timeout)


def version_at(namesrv_addr: str) -> tuple[int, ...] | None:
    """Ask the first master what it is; None when it does not tell."""
    told: list[str] = []

    def tells() -> bool:
        cluster = admin.examine_broker_cluster_info(namesrv_addr)
        for broker in cluster.broker_addr_table.values():  # none, while it registers anew
            address = broker.broker_addrs[MASTER_ID]
            told.append(admin.fetch_broker_runtime_stats(address).get("brokerVersionDesc", ""))
            return True
        return False

    with DefaultMQAdminExt(timeout_millis=2_000) as admin:
        wait_until(tells, "the broker tells its version", timeout=BOOT_SECONDS)
    return version_in(told[0])


class RealBackend(Backend):
    """A broker of RocketMQ itself, whose abilities follow from its release.

    A start that failed is not tried again: every further test would wait for the same.
    """

    def __init__(self, name: str, version: tuple[int, ...] | None) -> None:
        self.name = name
        self.version = version
        self.abilities = abilities_of(version)
        self._failure: BackendError | None = None
        self._producer: DefaultMQProducer | None = None
        self._topics: set[str] = set()

    def start(self) -> Self:
        """Start, and return when clients can send. `BackendError` when that is impossible."""
        if self._failure is not None:
            raise BackendError(str(self._failure))
        if self._producer is None:
            try:
                self._start()
            except BackendError as error:
                self._failure = error
                raise
            producer = DefaultMQProducer(
                "rocketmq-kit", namesrv_addr=self.namesrv_addr, create_topic_key=NO_TOPIC
            )
            producer.start()
            self._producer = producer
        return self

    def stop(self) -> None:
        """Stop, and leave nothing behind. Idempotent."""
        producer, self._producer = self._producer, None
        self._topics.clear()
        if producer is not None:
            producer.shutdown()
        self._stop()

    @abstractmethod
    def _start(self) -> None:
        """Start the servers."""

    @abstractmethod
    def _stop(self) -> None:
        """Stop the servers, if they run."""

    def create_topic(self, name: str, queues: int = DEFAULT_QUEUES) -> None:
        """Create a topic, and return when routes show it. One that exists stays as it is."""
        producer = self._producer
        if producer is None:
            raise BackendError(f"{self.name} is not started")
        if name in self._topics:
            return
        try:
            producer.fetch_publish_message_queues(name)
        except NoRouteError:
            producer.create_topic(AUTO_CREATE_TOPIC, name, queues)
            wait_until(
                lambda: producer.fetch_publish_message_queues(name),
                f"routes show topic {name}",
                timeout=ROUTE_SECONDS,
            )
        self._topics.add(name)

    def why_not(self, ability: Ability) -> str:
        """Say which release would have the ability, if one has."""
        first = SINCE.get(ability)
        if first is None or self.version is None:
            return super().why_not(ability)
        release = ".".join(map(str, first))
        return f"{super().why_not(ability)}: RocketMQ has them since {release}"
