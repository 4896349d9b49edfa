"""Which topic a trace goes to, and which messages are trace themselves.

One topic for all records, or one for each region where brokers are a vendor's cloud
(``AccessChannel.CLOUD`` of the original). Must not know records or who sends them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from attrs import frozen

from rocketmq_py.errors import ConfigError
from rocketmq_py.protocol.names import DEFAULT_REGION, TRACE_DATA_PREFIX, TRACE_TOPIC

if TYPE_CHECKING:
    from rocketmq_py.config import AccessChannel


class TraceSettings(Protocol):
    """The settings of a client that are about its trace."""

    enable_trace: bool
    trace_topic: str
    access_channel: AccessChannel


@frozen
class Places:
    """Where the trace of one client goes; ``in_cloud``: to a topic of the message's region."""

    topic: str
    in_cloud: bool

    @classmethod
    def of(cls, settings: TraceSettings) -> Places:
        """Read the settings; `ConfigError` for a topic that would never be used."""
        in_cloud = settings.access_channel == "CLOUD"
        if in_cloud and settings.trace_topic != TRACE_TOPIC:
            raise ConfigError(
                "trace_topic",
                settings.trace_topic,
                f'has no effect with access_channel="CLOUD", where traces go to the topic '
                f"{TRACE_DATA_PREFIX}<region>: leave it out",
            )
        return cls(settings.trace_topic, in_cloud)

    def topic_of(self, region: str) -> str:
        """Give the topic for records about messages of a region."""
        return f"{TRACE_DATA_PREFIX}{region or DEFAULT_REGION}" if self.in_cloud else self.topic

    def holds(self, topic: str) -> bool:
        """Whether messages of a topic are trace, of which there is no trace: it would not end."""
        return topic == self.topic or topic.startswith(TRACE_DATA_PREFIX)
