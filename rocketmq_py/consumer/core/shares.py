"""Which queues of a topic belong to a consumer: shared by a strategy, all of them, or a fixed set.

A `Share` is asked by the `Rebalancer` about one topic after the other. It must not know lanes,
offsets or fetches. Facts: ``RebalanceImpl.rebalanceByTopic``.
"""

from __future__ import annotations

from collections.abc import Iterable
from collections.abc import Set as AbstractSet
from typing import TYPE_CHECKING, NamedTuple, Protocol

from attrs import define, field

from rocketmq_py.clock import monotonic
from rocketmq_py.errors import RocketMQError
from rocketmq_py.logs import get_logger

if TYPE_CHECKING:
    from rocketmq_py.client.instance import ClientInstance
    from rocketmq_py.consumer.allocate import AllocateMessageQueueStrategy
    from rocketmq_py.consumer.calls import ConsumerCalls
    from rocketmq_py.send_result import MessageQueue

logger = get_logger(__name__)

LEAST_S = 0.05
UNLISTED_WAIT_FIRST_MS = 1_000
UNLISTED_WAIT_MAX_MS = 10_000
"""Pauses between questions to a broker that does not list this member double up to this."""


class Mine(NamedTuple):
    """The queues of one topic that belong to this consumer.

    `listed`: the broker knows this member of the group. `lost_rival`: a member has left, whose last
    offsets are still on their way. `popped`: those queues whose messages are popped, not pulled.
    """

    queues: list[MessageQueue]
    listed: bool = True
    lost_rival: bool = False
    popped: AbstractSet[MessageQueue] = frozenset()


class Share(Protocol):
    """Divides the queues of a group's topics. Called by one thread at a time."""

    def begin(self, deadline: float) -> None:
        """Begin a round of questions, that ends at a monotonic second."""

    def of(self, topic: str, queues: tuple[MessageQueue, ...]) -> Mine | None:
        """Return the own queues of a topic; None: there is no broker that could be asked.

        Raises RocketMQError when none answers.
        """

    def waits(self) -> dict[str, float]:
        """Return the topics of which it is better asked later, and the seconds until then."""

    def keep_only(self, topics: AbstractSet[str]) -> None:
        """Forget all other topics."""


class SharedByStrategy:
    """Queues are divided among the group's members by a strategy that is the same in each."""

    def __init__(
        self,
        engine: ClientInstance,
        calls: ConsumerCalls,
        group: str,
        settings: StrategySettings,
    ) -> None:
        self._engine = engine
        self._calls = calls
        self._group = group
        self._settings = settings
        self._deadline = 0.0
        self._asked: dict[tuple[str, ...], list[str]] = {}
        self._members: dict[str, list[str]] = {}
        self._unlisted: dict[str, tuple[float, int]] = {}

    def begin(self, deadline: float) -> None:
        """Ask for the members anew, once for topics on the same brokers."""
        self._deadline = deadline
        self._asked.clear()

    def of(self, topic: str, queues: tuple[MessageQueue, ...]) -> Mine | None:
        """Ask who the members are, and divide."""
        addresses = self._engine.routes.addresses_to_ask(topic)
        if not addresses:
            return None
        members = self._members_at(tuple(sorted(addresses)), addresses)
        mine: list[MessageQueue] = []
        if queues and members:
            mine = self._settings.allocate_strategy.allocate(
                self._group, self._engine.client_id, sorted(queues), members
            )
        lost_rival = not set(self._members.get(topic, ())) <= set(members)
        self._members[topic] = members
        return Mine(mine, self._note_listed(topic, members), lost_rival)

    def waits(self) -> dict[str, float]:
        """Return the topics whose brokers do not list this member, and when to ask again."""
        now = monotonic()
        return {topic: due - now for topic, (due, _) in self._unlisted.items() if due > now}

    def keep_only(self, topics: AbstractSet[str]) -> None:
        """Forget the members of all other topics."""
        for known in (self._members, self._unlisted):
            for topic in known.keys() - topics:
                del known[topic]

    def _members_at(self, brokers: tuple[str, ...], addresses: list[str]) -> list[str]:
        members = self._asked.get(brokers)
        if members is None:
            left_s = max(LEAST_S, self._deadline - monotonic())
            timeout_ms = min(left_s * 1000, self._settings.mq_client_api_timeout)
            members = self._asked[brokers] = self._calls.consumer_ids(addresses, timeout_ms)
        return members

    def _note_listed(self, topic: str, members: list[str]) -> bool:
        """Say whether the broker lists this member; plan when to ask again while it does not."""
        if self._engine.client_id in members:
            self._unlisted.pop(topic, None)
            return True
        now = monotonic()
        due, wait_ms = self._unlisted.get(topic, (0.0, UNLISTED_WAIT_FIRST_MS))
        if topic in self._unlisted:  # once is what follows from a restart of the broker
            problem = RocketMQError(
                f"the broker lists {len(members)} members without this one, "
                f"{self._engine.client_id}, although it was sent a heartbeat: no queues there. It "
                f"is asked again, with pauses up to {UNLISTED_WAIT_MAX_MS / 1000:g} s",
                address=self._calls.informant,
            )
            self._engine.unreachable.failed(topic, f"group {self._group}: joining", problem)
        if now >= due:
            self._unlisted[topic] = (now + wait_ms / 1000, min(wait_ms * 2, UNLISTED_WAIT_MAX_MS))
        return False


class StrategySettings(Protocol):
    """How the members share queues, and how long a question may take in ms."""

    allocate_strategy: AllocateMessageQueueStrategy
    mq_client_api_timeout: int


class Everything:
    """Every member has all queues: broadcasting."""

    def begin(self, deadline: float) -> None:
        """Nobody is asked."""

    def of(self, topic: str, queues: tuple[MessageQueue, ...]) -> Mine | None:  # noqa: ARG002
        """Return all queues."""
        return Mine(sorted(queues))

    def waits(self) -> dict[str, float]:
        """Return that nothing is waited for."""
        return {}

    def keep_only(self, topics: AbstractSet[str]) -> None:
        """Nothing is remembered."""


@define(eq=False)
class Assigned(Everything):
    """The queues that the program has assigned to this consumer by itself."""

    _queues: tuple[MessageQueue, ...] = field(default=(), init=False)

    def assign(self, queues: Iterable[MessageQueue]) -> None:
        """Replace the assignment."""
        self._queues = tuple(sorted(set(queues)))

    @property
    def queues(self) -> tuple[MessageQueue, ...]:
        """The assignment, sorted."""
        return self._queues

    def of(self, topic: str, queues: tuple[MessageQueue, ...]) -> Mine | None:  # noqa: ARG002
        """Return the assigned queues of the topic, also those that no route names now."""
        return Mine([queue for queue in self._queues if queue.topic == topic])
