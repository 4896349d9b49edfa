"""Request modes: whether a group pulls or pops the messages of a topic.

State of RocketMQ's MessageRequestModeManager, kept in ``config/messageRequestMode.json``. Every
call is made under the door. Must not know: who is connected. Read on:
`embedded_broker/core/pop/assignment.py`.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from embedded_broker.tables.files import Table
from rocketmq_py.protocol.bodies.pop import MessageRequestMode


class RequestModeTable(Table):
    """What was set, by topic and group."""

    document_key = "messageRequestModeMap"

    def __init__(self) -> None:
        super().__init__()
        self._modes: dict[str, dict[str, MessageRequestMode]] = {}

    def find(self, topic: str, group: str) -> MessageRequestMode | None:
        """Give what was set for a group in a topic."""
        return self._modes.get(topic, {}).get(group)

    def put(self, mode: MessageRequestMode) -> None:
        """Set a mode, or another one."""
        self._modes.setdefault(mode.topic, {})[mode.consumer_group] = mode
        self.note_change(mode.topic)

    def everything(self) -> dict[str, dict[str, MessageRequestMode]]:
        """Give a copy of what was set, by topic and group."""
        return {topic: dict(groups) for topic, groups in self._modes.items()}

    def keys(self) -> Iterable[str]:
        """Give the topics."""
        return self._modes

    def value(self, key: str) -> dict[str, MessageRequestMode]:
        """Give a copy of what was set in a topic; another mode takes the place of one."""
        return dict(self._modes[key])

    def entry(self, key: str, value: dict[str, MessageRequestMode]) -> tuple[str, Any]:
        """Give an entry of the file: groups by topic."""
        return key, {group: mode.to_document() for group, mode in value.items()}

    def load_document(self, stored: Mapping[str, Any]) -> None:
        """Take over what the file holds."""
        for topic, groups in (stored.get(self.document_key) or {}).items():
            self._modes[str(topic)] = {
                str(group): MessageRequestMode.from_document(mode) for group, mode in groups.items()
            }
