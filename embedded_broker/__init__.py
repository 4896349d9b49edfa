"""A RocketMQ name server and broker inside the test process, whose clock a test owns.

``EmbeddedBroker`` is where to start; ``VirtualClock`` makes time the test's own. Importing this
package starts nothing and loads a module only when one of its names is used.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from embedded_broker.arguments import TopicSpec as TopicSpec
    from embedded_broker.broker import EmbeddedBroker as EmbeddedBroker
    from embedded_broker.clock import Advanced as Advanced
    from embedded_broker.clock import BrokerClock as BrokerClock
    from embedded_broker.clock import NextDeadline as NextDeadline
    from embedded_broker.clock import VirtualClock as VirtualClock
    from embedded_broker.cluster import EmbeddedCluster as EmbeddedCluster
    from embedded_broker.config import BrokerConfig as BrokerConfig
    from embedded_broker.errors import BrokerStateError as BrokerStateError
    from embedded_broker.errors import ClockError as ClockError
    from embedded_broker.errors import DoorReentryError as DoorReentryError
    from embedded_broker.errors import StoreError as StoreError
    from embedded_broker.errors import StoreLockedError as StoreLockedError
    from embedded_broker.errors import WaitTimeoutError as WaitTimeoutError
    from embedded_broker.journal import Journal as Journal
    from embedded_broker.journal import JournalEntry as JournalEntry
    from embedded_broker.timer.recall import RecallOutcome as RecallOutcome
    from embedded_broker.views import SentMessage as SentMessage
    from embedded_broker.views import StoredMessage as StoredMessage

__all__ = [
    "Advanced",
    "BrokerClock",
    "BrokerConfig",
    "BrokerStateError",
    "ClockError",
    "DoorReentryError",
    "EmbeddedBroker",
    "EmbeddedCluster",
    "Journal",
    "JournalEntry",
    "NextDeadline",
    "RecallOutcome",
    "SentMessage",
    "StoreError",
    "StoreLockedError",
    "StoredMessage",
    "TopicSpec",
    "VirtualClock",
    "WaitTimeoutError",
]

_MODULES = {
    "Advanced": "clock",
    "BrokerClock": "clock",
    "BrokerConfig": "config",
    "BrokerStateError": "errors",
    "ClockError": "errors",
    "DoorReentryError": "errors",
    "EmbeddedBroker": "broker",
    "EmbeddedCluster": "cluster",
    "Journal": "journal",
    "JournalEntry": "journal",
    "NextDeadline": "clock",
    "RecallOutcome": "timer.recall",
    "SentMessage": "views",
    "StoreError": "errors",
    "StoreLockedError": "errors",
    "StoredMessage": "views",
    "TopicSpec": "arguments",
    "VirtualClock": "clock",
    "WaitTimeoutError": "errors",
}


def __getattr__(name: str) -> object:
    """Load the module of a public name on its first use (PEP 562)."""
    module = _MODULES.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value: object = getattr(import_module(f"{__name__}.{module}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
