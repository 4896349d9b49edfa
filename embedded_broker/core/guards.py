"""Guards: who may refuse a request before anything else looks at it.

Answers: what a guard is told of a request, in which order guards are asked, and that the first
refusal counts. Access control, rate limits and maintenance modes are guards. Must not know: wires,
messages. Every wire asks ``Guards.check`` once for each request; sends that are taken as a run are
asked about one by one.

Read on: ``embedded_broker/remoting/code_meanings.py`` for what request codes ask for,
``embedded_broker/core/access/`` for the guards that know accounts.
"""

from collections.abc import Sequence
from enum import Enum
from typing import Final, NamedTuple, Protocol

from attrs import frozen

from embedded_broker.core.refusals import Reason, Refused
from embedded_broker.settings.config import BrokerConfig
from embedded_broker.tables.peer import Peer, is_loopback
from rocketmq_py.protocol.message_codec import MessageRecord
from rocketmq_py.protocol.names import (
    HOLDING_TOPICS,
    RETRY_PREFIX,
    is_broker_topic,
    is_system_group,
)
from rocketmq_py.protocol.properties import Prop


class Action(Enum):
    """What a request wants to do; the names of the original's ``Action`` (RocketMQ 5 ACL)."""

    PUB = "Pub"
    SUB = "Sub"
    CREATE = "Create"
    UPDATE = "Update"
    DELETE = "Delete"
    GET = "Get"
    LIST = "List"


class ResourceKind(Enum):
    """What a request can be about; after the original's ``ResourceType``."""

    CLUSTER = "Cluster"
    TOPIC = "Topic"
    GROUP = "Group"


class Resource(NamedTuple):
    """One topic or group that a request names; the cluster itself has no name here."""

    kind: ResourceKind
    name: str = ""


def topic_resource(name: str) -> Resource:
    """Give what a right to a topic must name.

    Where messages of all topics wait is the cluster's, and so is what a broker notes for itself,
    such as the pops of all groups. A retry topic stays one: whose it is depends on the groups and
    topics that there are (``core/access/retry_owners.py``).
    """
    if is_broker_topic(name):
        return Resource(ResourceKind.CLUSTER)
    return Resource(ResourceKind.TOPIC, name)


def group_resource(name: str) -> Resource:
    """Give what a right to a group must name; the name may be that of its retry topic.

    The groups in whose name a broker reads its own topics are the cluster's.
    """
    group = name.removeprefix(RETRY_PREFIX)
    if is_system_group(group):
        return Resource(ResourceKind.CLUSTER)
    return Resource(ResourceKind.GROUP, group)


class Claim(Protocol):
    """Who a request says it comes from, and how it proves that; each wire has its own form."""

    @property
    def account(self) -> str | None:
        """The name of the account, None when the request names none."""

    @property
    def call(self) -> str:
        """What the wire calls the request: its code, in refusals and white lists."""

    def is_signed_with(self, secret: str) -> bool:
        """Say whether the request was signed with this secret. Takes the same time for any."""


class _Nobody:
    """The claim of a wire that knows no accounts."""

    account = None
    call = "unknown"

    def is_signed_with(self, secret: str) -> bool:  # noqa: ARG002 - nothing was signed
        return False


NOBODY: Final[Claim] = _Nobody()


class Asked(NamedTuple):
    """One request, as guards see it.

    ``action`` is what it does. A right to do one of ``also`` instead is as good. It must be allowed
    for each of the ``resources``. Without any it is about nothing that a right could name: it
    belongs to whoever has some right.
    """

    peer: Peer
    action: Action
    resources: Sequence[Resource]
    also: Sequence[Action] = ()
    claim: Claim = NOBODY


class Guard(Protocol):
    """Refuses requests. Called under the door: it must not wait and not call the broker.

    A guard with a set `actions` is asked about these only; others are asked about all.
    """

    def check(self, asked: Asked) -> Refused | None:
        """Give the refusal of a request, or None to let it pass."""


class Guards(list[Guard]):
    """The guards of a broker, in the order in which they are asked."""

    def check(
        self,
        peer: Peer,
        action: Action,
        resources: Sequence[Resource],
        *,
        also: Sequence[Action] = (),
        claim: Claim = NOBODY,
    ) -> Refused | None:
        """Give the first refusal, or None when everybody lets the request pass."""
        asked = Asked(peer, action, resources, also, claim)
        for guard in self:
            refused = guard.check(asked)
            if refused is not None:
                return refused
        return None

    def concern(self, action: Action) -> bool:
        """Say whether any guard wants to be asked about an action."""
        for guard in self:
            actions = getattr(guard, "actions", None)
            if actions is None or action in actions:
                return True
        return False


@frozen(eq=False)
class Caller:
    """Who asks, for acts that learn only from the store what they are about."""

    _guards: Guards
    _peer: Peer
    _claim: Claim = NOBODY

    @property
    def account(self) -> str | None:
        """The name of the account that asks."""
        return self._claim.account

    def refusal(self, action: Action, topic: str, *also: Action) -> Refused | None:
        """Say why this caller may not do something with a topic; None: it may."""
        return self._refusal(action, (topic_resource(topic),), also)

    def _refusal(
        self, action: Action, resources: Sequence[Resource], also: Sequence[Action] = ()
    ) -> Refused | None:
        if not self._guards.concern(action):
            return None
        return self._guards.check(self._peer, action, resources, also=also, claim=self._claim)

    def may(self, action: Action, topic: str) -> bool:
        """Say whether this caller may do something with a topic."""
        return self.refusal(action, topic) is None

    def demand(self, action: Action, topic: str, *also: Action) -> None:
        """Refuse an act on a topic that this caller has no right to."""
        refused = self.refusal(action, topic, *also)
        if refused is not None:
            raise refused

    def demand_all(self, action: Action, resources: Sequence[Resource]) -> None:
        """Refuse an act that needs rights to what the request does not name."""
        refused = self._refusal(action, resources) if resources else None
        if refused is not None:
            raise refused

    def demand_to_read(self, record: MessageRecord) -> None:
        """Refuse to show a record whose topic this caller may not read."""
        self.demand(Action.SUB, record.topic, Action.GET)
        real = record.properties.get(Prop.REAL_TOPIC)
        if real and record.topic in HOLDING_TOPICS:
            self.demand(Action.SUB, real, Action.GET)


class RemoteAdministration:
    """Lets only peers of this host administer the broker, unless allowRemoteAdmin is set.

    For a broker that other hosts can reach. They may send, pull and commit, and what comes to be by
    that (topics and groups of first use) is no administration.
    """

    actions = frozenset({Action.CREATE, Action.UPDATE, Action.DELETE})

    def __init__(self, config: BrokerConfig) -> None:
        self._config = config

    def check(self, asked: Asked) -> Refused | None:
        """Refuse an act of administration that comes from another host."""
        host = asked.peer.remote[0]
        if (
            asked.action not in self.actions
            or is_loopback(host)
            or self._config.flag("allowRemoteAdmin")
        ):
            return None
        names = ", ".join(f"{one.kind.value} {one.name}".rstrip() for one in asked.resources)
        return Refused(
            Reason.NO_PERMISSION,
            f"{asked.action.value} of {names} from {host} is refused: a broker is administered "
            "over loopback only (allowRemoteAdmin=false; --allow-remote-admin admits others)",
        )
