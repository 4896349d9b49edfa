"""A RocketMQ name server and broker inside the test process, whose clock a test owns.

Start with ``EmbeddedBroker``. With a ``VirtualClock`` the test decides what time it is. Importing
this package starts nothing and loads a module only when one of its names is used.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from embedded_broker.api.broker import EmbeddedBroker as EmbeddedBroker
    from embedded_broker.api.cluster import EmbeddedCluster as EmbeddedCluster
    from embedded_broker.api.faults import DiskFaults as DiskFaults
    from embedded_broker.api.faults import Faults as Faults
    from embedded_broker.api.views import GroupMember as GroupMember
    from embedded_broker.api.views import GroupOffset as GroupOffset
    from embedded_broker.api.views import GroupsView as GroupsView
    from embedded_broker.api.views import GroupTrace as GroupTrace
    from embedded_broker.api.views import GroupView as GroupView
    from embedded_broker.api.views import HasMessageId as HasMessageId
    from embedded_broker.api.views import MessageState as MessageState
    from embedded_broker.api.views import MessagesView as MessagesView
    from embedded_broker.api.views import MessageTrace as MessageTrace
    from embedded_broker.api.views import PendingTimer as PendingTimer
    from embedded_broker.api.views import Retry as Retry
    from embedded_broker.api.views import SentMessage as SentMessage
    from embedded_broker.api.views import StageView as StageView
    from embedded_broker.api.views import StoredMessage as StoredMessage
    from embedded_broker.api.views import TimersView as TimersView
    from embedded_broker.api.views import TopicsView as TopicsView
    from embedded_broker.api.views import TopicView as TopicView
    from embedded_broker.clocks.clock import Advanced as Advanced
    from embedded_broker.clocks.clock import BrokerClock as BrokerClock
    from embedded_broker.clocks.clock import NextDeadline as NextDeadline
    from embedded_broker.clocks.clock import Settled as Settled
    from embedded_broker.clocks.clock import VirtualClock as VirtualClock
    from embedded_broker.core.put_hooks import PutHooks as PutHooks
    from embedded_broker.errors import BrokerStateError as BrokerStateError
    from embedded_broker.errors import ClockError as ClockError
    from embedded_broker.errors import DoorReentryError as DoorReentryError
    from embedded_broker.errors import FaultNotUsedError as FaultNotUsedError
    from embedded_broker.errors import MessageNotFound as MessageNotFound
    from embedded_broker.errors import SettleTimeout as SettleTimeout
    from embedded_broker.errors import StoreError as StoreError
    from embedded_broker.errors import StoreLockedError as StoreLockedError
    from embedded_broker.errors import TimerNotPending as TimerNotPending
    from embedded_broker.errors import WaitTimeoutError as WaitTimeoutError
    from embedded_broker.lifecycle.arguments import TopicSpec as TopicSpec
    from embedded_broker.lifecycle.recovery_report import RecoveryReport as RecoveryReport
    from embedded_broker.remoting.journal import Journal as Journal
    from embedded_broker.remoting.journal import JournalEntry as JournalEntry
    from embedded_broker.remoting.request_faults import Fault as Fault
    from embedded_broker.settings.config import BrokerConfig as BrokerConfig
    from embedded_broker.settings.profiles import Limits as Limits
    from embedded_broker.settings.profiles import Profile as Profile
    from embedded_broker.store.fault_points import DiskFault as DiskFault
    from embedded_broker.store.inner import InnerMessage as InnerMessage
    from embedded_broker.store.inner import PutHook as PutHook
    from embedded_broker.store.inner import PutRefusal as PutRefusal
    from embedded_broker.store.inner import PutStatus as PutStatus
    from embedded_broker.timer.listing import TimerKind as TimerKind
    from embedded_broker.timer.outcomes import RecallOutcome as RecallOutcome

__all__ = [
    "Advanced",
    "BrokerClock",
    "BrokerConfig",
    "BrokerStateError",
    "ClockError",
    "DiskFault",
    "DiskFaults",
    "DoorReentryError",
    "EmbeddedBroker",
    "EmbeddedCluster",
    "Fault",
    "FaultNotUsedError",
    "Faults",
    "GroupMember",
    "GroupOffset",
    "GroupTrace",
    "GroupView",
    "GroupsView",
    "HasMessageId",
    "InnerMessage",
    "Journal",
    "JournalEntry",
    "Limits",
    "MessageNotFound",
    "MessageState",
    "MessageTrace",
    "MessagesView",
    "NextDeadline",
    "PendingTimer",
    "Profile",
    "PutHook",
    "PutHooks",
    "PutRefusal",
    "PutStatus",
    "RecallOutcome",
    "Retry",
    "SentMessage",
    "SettleTimeout",
    "Settled",
    "StageView",
    "StoreError",
    "StoreLockedError",
    "StoredMessage",
    "TimerKind",
    "TimerNotPending",
    "TimersView",
    "TopicSpec",
    "TopicView",
    "TopicsView",
    "VirtualClock",
    "WaitTimeoutError",
]

_MODULES = {
    "Advanced": "clocks.clock",
    "BrokerClock": "clocks.clock",
    "BrokerConfig": "settings.config",
    "BrokerStateError": "errors",
    "ClockError": "errors",
    "DiskFault": "store.fault_points",
    "DiskFaults": "api.faults",
    "DoorReentryError": "errors",
    "EmbeddedBroker": "api.broker",
    "EmbeddedCluster": "api.cluster",
    "Fault": "remoting.request_faults",
    "FaultNotUsedError": "errors",
    "Faults": "api.faults",
    "GroupMember": "api.views",
    "GroupOffset": "api.views",
    "GroupTrace": "api.views",
    "GroupView": "api.views",
    "GroupsView": "api.views",
    "HasMessageId": "api.views",
    "InnerMessage": "store.inner",
    "Journal": "remoting.journal",
    "JournalEntry": "remoting.journal",
    "Limits": "settings.profiles",
    "MessageNotFound": "errors",
    "MessageState": "api.views",
    "MessageTrace": "api.views",
    "MessagesView": "api.views",
    "NextDeadline": "clocks.clock",
    "PendingTimer": "api.views",
    "Profile": "settings.profiles",
    "PutHook": "store.inner",
    "PutHooks": "core.put_hooks",
    "PutRefusal": "store.inner",
    "PutStatus": "store.inner",
    "RecallOutcome": "timer.outcomes",
    "RecoveryReport": "lifecycle.recovery_report",
    "Retry": "api.views",
    "SentMessage": "api.views",
    "SettleTimeout": "errors",
    "Settled": "clocks.clock",
    "StageView": "api.views",
    "StoreError": "errors",
    "StoreLockedError": "errors",
    "StoredMessage": "api.views",
    "TimerKind": "timer.listing",
    "TimerNotPending": "errors",
    "TimersView": "api.views",
    "TopicSpec": "lifecycle.arguments",
    "TopicView": "api.views",
    "TopicsView": "api.views",
    "VirtualClock": "clocks.clock",
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
