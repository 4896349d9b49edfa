"""Consumer groups: what each is allowed to do, and how often it may retry.

State of RocketMQ's SubscriptionGroupManager: retry and permission settings, with groups that
are there from the start and creation on first use. This module knows no live client (that is
`registry.py`) and no request; request 200 is in `remoting/handlers/admin/admin_broker.py`.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from attrs import evolve

from embedded_broker.settings.config import BrokerConfig
from embedded_broker.settings.profiles import Profile
from embedded_broker.tables.files import VersionedTable
from rocketmq_py.clock import Clock
from rocketmq_py.protocol.bodies.groups import SubscriptionGroupConfig
from rocketmq_py.protocol.codes import PERM_READ
from rocketmq_py.protocol.names import READY_MADE_GROUPS, group_problem, is_system_group


class GroupTable(VersionedTable):
    """Group name to settings. Every call is made under the door."""

    document_key = "subscriptionGroupTable"

    def __init__(self, config: BrokerConfig, profile: Profile, clock: Clock) -> None:
        super().__init__(clock, profile)
        self._config = config
        self._groups = {
            name: SubscriptionGroupConfig(group_name=name) for name in READY_MADE_GROUPS
        }
        self._forbidden: dict[str, dict[str, int]] = {}
        self.listeners: list[Callable[[str], None]] = []
        """Called under the door with the name of a group whose settings are new or changed."""

    def __contains__(self, name: object) -> bool:
        return name in self._groups

    def __iter__(self) -> Iterator[SubscriptionGroupConfig]:
        return iter(self._groups.values())

    def get(self, name: str) -> SubscriptionGroupConfig | None:
        """Give the settings of a group that exists."""
        return self._groups.get(name)

    def find(self, name: str) -> SubscriptionGroupConfig | None:
        """Give the settings of a group, creating it with the defaults when that is allowed.

        None means autoCreateSubscriptionGroup is off or the name is not legal
        (SubscriptionGroupManager.findSubscriptionGroupConfig).
        """
        group = self._groups.get(name)
        if group is not None:
            return group
        if not self._config.flag("autoCreateSubscriptionGroup") and not is_system_group(name):
            return None
        if self.problem(name) is not None:
            return None
        group = SubscriptionGroupConfig(group_name=name)
        self.put(group)
        return group

    def problem(self, name: str | None) -> str | None:
        """Tell what is wrong with a group name under this profile, or None."""
        return group_problem(name, length_max=self._profile.group_length_max)

    def put(self, group: SubscriptionGroupConfig) -> None:
        """Create or replace the settings of a group."""
        self._groups[group.group_name] = group
        self.note_change(group.group_name)
        for listener in self.listeners:
            listener(group.group_name)

    def remove(self, name: str) -> None:
        """Forget the settings of a group; a member that is there makes it anew."""
        banned = self._forbidden.pop(name, None)
        if self._groups.pop(name, None) is not None or banned is not None:
            self.note_change(name)

    def forbid(self, group: str, topic: str, *, reading: bool) -> None:
        """Say whether a group is forbidden to read a topic."""
        topics = self._forbidden.setdefault(group, {})
        if reading:
            topics[topic] = PERM_READ
        else:
            topics.pop(topic, None)
        if not topics:
            del self._forbidden[group]
        self.note_change(group)

    def is_forbidden(self, group: str, topic: str) -> bool:
        """Say whether a group may not read a topic."""
        return bool(self._forbidden.get(group, {}).get(topic, 0) & PERM_READ)

    def forbidden(self) -> dict[str, dict[str, int]]:
        """Give what groups may not do with topics, as bits of permissions."""
        return {group: dict(topics) for group, topics in self._forbidden.items()}

    def keys(self) -> Iterable[str]:
        """Give the names of all groups."""
        return self._groups

    def value(self, key: str) -> SubscriptionGroupConfig | None:
        """Give the settings of a group; they are never changed, others take their place."""
        return self._groups.get(key)

    def entry(self, key: str, value: SubscriptionGroupConfig) -> tuple[str, Any]:
        """Give what `config/subscriptionGroup.json` holds of a group."""
        return key, value.to_document()

    def head(self) -> dict[str, Any]:
        """Give what stands beside the groups."""
        return {"dataVersion": self.data_version(), "forbiddenTable": self.forbidden()}

    def load_document(self, stored: Mapping[str, Any]) -> None:
        """Take over what `config/subscriptionGroup.json` holds."""
        for name, fields in (stored.get("subscriptionGroupTable") or {}).items():
            group = SubscriptionGroupConfig.from_document(fields)
            self._groups[str(name)] = evolve(group, group_name=str(name))
        for name, topics in (stored.get("forbiddenTable") or {}).items():
            self._forbidden[str(name)] = {str(topic): int(bits) for topic, bits in topics.items()}
        self.take_version(stored)
