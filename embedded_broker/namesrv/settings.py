"""Key-value settings of a name server by namespace, and its own options.

State of RocketMQ's KVConfigManager, and of the part of NamesrvConfig that has an effect here. Both
are kept in memory: a name server that starts knows nothing. Must not know: requests. Every call is
made under the door.
"""

from collections.abc import Mapping
from typing import Final

from embedded_broker.core.refusals import Reason, Refused

ORDER_TOPICS: Final = "ORDER_TOPIC_CONFIG"
"""The namespace in which the queues of ordered topics are fixed."""
BLACK_LIST: Final = frozenset(
    {"configBlackList", "configStorePath", "kvConfigPath", "rocketmqHome"}
)
"""Options that nobody may change by request."""
OPTIONS: Final = {
    "orderMessageEnable": "false",
    "enableAllTopicList": "true",
    "enableTopicList": "true",
    "supportActingMaster": "false",
}
"""The options that have an effect, with RocketMQ's defaults: routes tell the fixed queues of
ordered topics; all topics are listed (206); those of a cluster or unit are (224, 311 to 313); a
slave that acts as master stands in routes in its master's place."""


class KeyValues:
    """Texts by namespace and key."""

    def __init__(self) -> None:
        self._values: dict[str, dict[str, str]] = {}

    def put(self, namespace: str, key: str, value: str) -> None:
        """Set a value."""
        self._values.setdefault(namespace, {})[key] = value

    def get(self, namespace: str, key: str) -> str | None:
        """Give a value, None when there is none."""
        return self._values.get(namespace, {}).get(key)

    def delete(self, namespace: str, key: str) -> None:
        """Remove a value, if it is there."""
        self._values.get(namespace, {}).pop(key, None)

    def all_of(self, namespace: str) -> Mapping[str, str] | None:
        """Give the values of a namespace, None when nothing was ever set in it."""
        return self._values.get(namespace)


class NameServerOptions:
    """The options of a name server."""

    def __init__(self) -> None:
        self._values = OPTIONS.copy()

    def flag(self, name: str) -> bool:
        """Say whether an option is on."""
        return self._values[name] == "true"

    def items(self) -> Mapping[str, str]:
        """Give every option with its value."""
        return self._values

    def update(self, values: Mapping[str, str]) -> None:
        """Change options; names that have no effect are passed over, as the original does.

        Refuses a black-listed name; then nothing is changed.
        """
        if not BLACK_LIST.isdisjoint(values):
            raise Refused(Reason.NO_PERMISSION, "Can not update config in black list.")
        self._values |= {
            name: str(value.lower() == "true").lower()
            for name, value in values.items()
            if name in OPTIONS
        }
