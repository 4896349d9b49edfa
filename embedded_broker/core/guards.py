"""Who may say no to a request before anything else looks at it.

Answers: what a guard is told of a request, in which order guards are asked, and that the first
refusal counts. Access control, rate limits and maintenance modes are guards. Must not know: wires,
messages. Every wire asks ``Guards.check`` once for each request; sends that are taken as a run are
asked about one by one.

Read on: ``embedded_broker/remoting/code_meanings.py`` for what request codes ask for.
"""

from collections.abc import Sequence
from enum import Enum
from typing import NamedTuple, Protocol

from embedded_broker.core.refusals import Reason, Refused
from embedded_broker.settings.config import BrokerConfig
from embedded_broker.tables.peer import Peer, is_loopback


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


class Guard(Protocol):
    """Refuses requests. Called under the door: it must not wait and not call the broker.

    A guard with a set `actions` is asked about these only; others are asked about all.
    """

    def check(self, peer: Peer, action: Action, resources: Sequence[Resource]) -> Refused | None:
        """Give the refusal of a request, or None to let it pass."""


class Guards(list[Guard]):
    """The guards of a broker, in the order in which they are asked."""

    def check(self, peer: Peer, action: Action, resources: Sequence[Resource]) -> Refused | None:
        """Give the first refusal, or None when everybody lets the request pass."""
        for guard in self:
            refused = guard.check(peer, action, resources)
            if refused is not None:
                return refused
        return None

    def concern(self, action: Action) -> bool:
        """Say whether any guard wants to be asked about an action."""
        return any(action in getattr(guard, "actions", Action) for guard in self)


class RemoteAdministration:
    """Lets only peers of this host administer the broker, unless allowRemoteAdmin is set.

    For a broker that other hosts can reach. They may send, pull and commit, and what comes to be by
    that (topics and groups of first use) is no administration.
    """

    actions = frozenset({Action.CREATE, Action.UPDATE, Action.DELETE})

    def __init__(self, config: BrokerConfig) -> None:
        self._config = config

    def check(self, peer: Peer, action: Action, resources: Sequence[Resource]) -> Refused | None:
        """Refuse an act of administration that comes from another host."""
        host = peer.remote[0]
        if action not in self.actions or is_loopback(host) or self._config.flag("allowRemoteAdmin"):
            return None
        names = ", ".join(f"{one.kind.value} {one.name}".rstrip() for one in resources)
        return Refused(
            Reason.NO_PERMISSION,
            f"{action.value} of {names} from {host} is refused: a broker is administered over "
            "loopback only (allowRemoteAdmin=false; --allow-remote-admin admits others)",
        )
