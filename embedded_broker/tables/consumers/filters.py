"""Consumer filters other than tags: the last right expression of a group's heartbeats.

State of RocketMQ's ConsumerFilterManager, kept in ``config/consumerFilter.json``. A filter outlives
its group for ``filterDataCleanTimeSpan`` of session time: it is dead, and lives again when the same
version comes back. Every call is made under the door. Must not know: who is connected, how an
expression is read. Read on: `embedded_broker/core/consume.py` for the pulls that use them.
"""

from collections import OrderedDict
from collections.abc import Callable, Collection, Generator, Iterable, Mapping
from functools import partial
from typing import Any, Final, Self

from attrs import evolve, frozen

from embedded_broker.clocks.session import Session, SessionTimer
from embedded_broker.settings.config import BrokerConfig
from embedded_broker.tables.consumers.bloom import BIT_COUNT, bit_positions
from embedded_broker.tables.files import Table
from rocketmq_py.protocol.bodies.heartbeat import TAG, SubscriptionData

Registering = Generator[Callable[[], str | None] | None, str | None, None]

SAVED_EVERY_MS: Final = 10_000
DEAD_MAX: Final = 1_000
"""So many filters of groups that are gone are kept: an expression may be long."""
_DIED_BEFORE_START_MS: Final = 30_000
"""So long before its start a broker believes the groups of its file to have died."""


@frozen(kw_only=True)
class ConsumerFilterData:
    """One filter; `dead_ms` is 0 while its group is there."""

    topic: str
    group: str
    expression: str
    expression_type: str
    client_version: int
    """The largest subVersion with which it came."""
    born_ms: int
    dead_ms: int = 0

    @property
    def is_dead(self) -> bool:
        """Whether its group is gone, or reads the topic no more."""
        return self.dead_ms > 0

    def to_document(self) -> dict[str, Any]:
        """Give the object that file and tools show."""
        positions = bit_positions(f"{self.group}#{self.topic}")
        return {
            "bloomFilterData": {"bitNum": BIT_COUNT, "bitPos": positions},
            "bornTime": self.born_ms,
            "clientVersion": self.client_version,
            "consumerGroup": self.group,
            "dead": self.is_dead,
            "deadTime": self.dead_ms,
            "expression": self.expression,
            "expressionType": self.expression_type,
            "topic": self.topic,
        }

    @classmethod
    def from_document(cls, stored: Mapping[str, Any]) -> Self:
        """Read what a file holds."""
        return cls(
            topic=str(stored["topic"]),
            group=str(stored["consumerGroup"]),
            expression=str(stored["expression"]),
            expression_type=str(stored["expressionType"]),
            client_version=int(stored["clientVersion"]),
            born_ms=int(stored["bornTime"]),
            dead_ms=int(stored.get("deadTime") or 0),
        )


class ConsumerFilterTable(Table):
    """The filters of all groups, by topic.

    `problem(type, expression)` says what is wrong with an expression.
    """

    document_key = "filterDataByTopic"

    def __init__(
        self, config: BrokerConfig, session: Session, problem: Callable[[str, str], str | None]
    ) -> None:
        super().__init__()
        self._config = config
        self._session = session
        self._problem = problem
        self._filters: dict[str, dict[str, ConsumerFilterData]] = {}
        self._topics: dict[str, dict[str, None]] = {}
        """The topics of each group."""
        self._dead: OrderedDict[tuple[str, str], None] = OrderedDict()
        """Topic and group of the dead filters, in the order of their death."""
        self._cleaning: SessionTimer | None = None

    def find(self, topic: str, group: str) -> ConsumerFilterData | None:
        """Give the filter of a group in a topic, dead or alive."""
        return self._filters.get(topic, {}).get(group)

    def register(self, group: str, wanted: Collection[SubscriptionData]) -> Registering:
        """Take over the expressions of a heartbeat, one in each step.

        Filters of topics that it lacks are dead at the first step. A step may yield a call that
        needs no broker, and is sent what it gives.
        """
        gone = self._topics.get(group, {}).keys() - {data.topic for data in wanted}
        self._let_die(gone, group)
        for data in wanted:
            if (data.expression_type or TAG) != TAG and data.sub_string:
                yield from self._take(group, data)
                yield None

    def unregister(self, group: str) -> None:
        """Note that a group is gone."""
        self._let_die(list(self._topics.get(group, ())), group)

    def take_over(self, other: Self) -> None:
        """Go on with the filters of another table, which is not used any more."""
        for groups in other._filters.values():
            for data in groups.values():
                self._put(data)
        self._bury(other._dead)

    # -- one filter -------------------------------------------------------------------------

    def _take(self, group: str, data: SubscriptionData) -> Registering:
        """Keep a newer expression if it is right; a wrong one takes the kept one away."""
        known = self.find(data.topic, group)
        version = data.sub_version
        if known is not None and version <= known.client_version:
            if version == known.client_version and known.is_dead:
                self._put(evolve(known, dead_ms=0))
            return
        kind, expression = data.expression_type, data.sub_string
        if known is not None and (kind, expression) == (known.expression_type, known.expression):
            self._put(evolve(known, client_version=version, dead_ms=0))
            return
        problem = yield partial(self._problem, kind, expression)
        known = self.find(data.topic, group)
        if known is not None and version <= known.client_version:
            return  # a later heartbeat was faster
        if problem is None:
            self._put(
                ConsumerFilterData(
                    topic=data.topic,
                    group=group,
                    expression=expression,
                    expression_type=kind,
                    client_version=version,
                    born_ms=self._session.now_ms,
                )
            )
        elif known is not None:
            self._forget(data.topic, group)

    def _put(self, data: ConsumerFilterData) -> None:
        if data == self.find(data.topic, data.group):
            return
        self._filters.setdefault(data.topic, {})[data.group] = data
        self._topics.setdefault(data.group, {})[data.topic] = None
        self._dead.pop((data.topic, data.group), None)
        self.note_change(data.topic)

    def _forget(self, topic: str, group: str) -> None:
        for outer, inner, table in ((topic, group, self._filters), (group, topic, self._topics)):
            entries: dict[str, Any] = table[outer]
            del entries[inner]
            if not entries:
                del table[outer]
        self._dead.pop((topic, group), None)
        self.note_change(topic)

    # -- death ------------------------------------------------------------------------------

    def _let_die(self, topics: Iterable[str], group: str) -> None:
        dead = []
        for topic in topics:
            data = self._filters[topic][group]
            if not data.is_dead:
                self._put(evolve(data, dead_ms=max(self._session.now_ms, data.born_ms, 1)))
                dead.append((topic, group))
        self._bury(dead)

    def _bury(self, dead: Iterable[tuple[str, str]]) -> None:
        """Let dead filters wait until they are forgotten."""
        self._dead.update(dict.fromkeys(dead))
        while len(self._dead) > DEAD_MAX:
            self._forget(*next(iter(self._dead)))
        self._clean()

    def _clean(self) -> None:
        """Forget who has been dead for too long, and look again when the next one will have."""
        kept_ms = self._config.int("filterDataCleanTimeSpan")
        while self._dead:
            topic, group = next(iter(self._dead))
            due_ms = self._filters[topic][group].dead_ms + kept_ms
            if due_ms > self._session.now_ms:
                if self._cleaning is None:
                    self._cleaning = self._session.at(due_ms, self._clean_in_time, "dead filters")
                return
            self._forget(topic, group)

    def _clean_in_time(self) -> None:
        self._cleaning = None
        self._clean()

    # -- the file ---------------------------------------------------------------------------

    def keys(self) -> Iterable[str]:
        """Give the topics."""
        return self._filters

    def value(self, key: str) -> dict[str, ConsumerFilterData] | None:
        """Give a copy of the filters of a topic; another one takes the place of one."""
        groups = self._filters.get(key)
        return None if groups is None else dict(groups)

    def entry(self, key: str, value: dict[str, ConsumerFilterData]) -> tuple[str, Any]:
        """Give an entry of the file: groups by topic."""
        groups = {group: data.to_document() for group, data in value.items()}
        return key, {"groupFilterData": groups, "topic": key}

    def load_document(self, stored: Mapping[str, Any]) -> None:
        """Take over what the file holds; nobody is there yet. What cannot be read is left out."""
        died_ms = self._session.now_ms - _DIED_BEFORE_START_MS
        loaded = []
        for of_topic in (stored.get(self.document_key) or {}).values():
            for fields in of_topic["groupFilterData"].values():
                data = ConsumerFilterData.from_document(fields)
                if self._problem(data.expression_type, data.expression) is None:
                    dead_ms = data.dead_ms or max(died_ms, data.born_ms, 1)
                    loaded.append(evolve(data, dead_ms=dead_ms))
        loaded.sort(key=lambda data: data.dead_ms)
        for data in loaded:
            self._put(data)
        self._bury((data.topic, data.group) for data in loaded if data.is_dead)
