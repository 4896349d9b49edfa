"""Which producers are connected, by group.

State of RocketMQ's ProducerManager, filled by heartbeats and emptied by request 35, by a closed
socket and by silence. It knows no request; read on in `remoting/handlers/admin/client_manage.py`.
"""

from collections.abc import Iterator

from embedded_broker.tables.consumers.registry import Member
from embedded_broker.tables.peer import Peer


class ProducerRegistry:
    """Producer group to its members by connection. Every call is made under the door."""

    def __init__(self) -> None:
        self._groups: dict[str, dict[Peer, Member]] = {}

    def register(self, group: str, member: Member) -> None:
        """Add a producer or renew it."""
        self._groups.setdefault(group, {})[member.connection] = member

    def unregister(self, group: str, connection: Peer) -> None:
        """Remove a producer from one group; an unknown one is no error."""
        members = self._groups.get(group)
        if members is not None and members.pop(connection, None) is not None and not members:
            del self._groups[group]

    def drop(self, connection: Peer) -> None:
        """Remove a connection from every group."""
        for group in list(self._groups):
            self.unregister(group, connection)

    def members(self, group: str) -> list[Member]:
        """Give the live producers of a group, oldest first."""
        return list(self._groups.get(group, {}).values())

    def groups(self) -> list[str]:
        """Name the groups with a live producer."""
        return list(self._groups)

    def take_over(self, other: "ProducerRegistry") -> None:
        """Go on with the members of another registry, which is not used any more."""
        self._groups = other._groups  # noqa: SLF001 - of the same class

    def all_members(self) -> Iterator[Member]:
        """Give every live membership; a connection in two groups comes twice."""
        for members in self._groups.values():
            yield from members.values()
