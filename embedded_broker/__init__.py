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
    from embedded_broker.clock import Settled as Settled
    from embedded_broker.clock import VirtualClock as VirtualClock
    from embedded_broker.cluster import EmbeddedCluster as EmbeddedCluster
    from embedded_broker.config import BrokerConfig as BrokerConfig
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
    from embedded_broker.faults import DiskFaults as DiskFaults
    from embedded_broker.faults import Faults as Faults
    from embedded_broker.journal import Journal as Journal
    from embedded_broker.journal import JournalEntry as JournalEntry
    from embedded_broker.profiles import Limits as Limits
    from embedded_broker.profiles import Profile as Profile
    from embedded_broker.put_hooks import PutHooks as PutHooks
    from embedded_broker.recovery_report import RecoveryReport as RecoveryReport
    from embedded_broker.request_faults import Fault as Fault
    from embedded_broker.store.fault_points import DiskFault as DiskFault
    from embedded_broker.store.inner import InnerMessage as InnerMessage
    from embedded_broker.store.inner import PutHook as PutHook
    from embedded_broker.store.inner import PutRefusal as PutRefusal
    from embedded_broker.store.inner import PutStatus as PutStatus
    from embedded_broker.timer.listing import TimerKind as TimerKind
    from embedded_broker.timer.recall import RecallOutcome as RecallOutcome
    from embedded_broker.views import GroupMember as GroupMember
    from embedded_broker.views import GroupOffset as GroupOffset
    from embedded_broker.views import GroupsView as GroupsView
    from embedded_broker.views import GroupTrace as GroupTrace
    from embedded_broker.views import GroupView as GroupView
    from embedded_broker.views import HasMessageId as HasMessageId
    from embedded_broker.views import MessageState as MessageState
    from embedded_broker.views import MessagesView as MessagesView
    from embedded_broker.views import MessageTrace as MessageTrace
    from embedded_broker.views import PendingTimer as PendingTimer
    from embedded_broker.views import Retry as Retry
    from embedded_broker.views import SentMessage as SentMessage
    from embedded_broker.views import StageView as StageView
    from embedded_broker.views import StoredMessage as StoredMessage
    from embedded_broker.views import TimersView as TimersView
    from embedded_broker.views import TopicsView as TopicsView
    from embedded_broker.views import TopicView as TopicView

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
    "Advanced": "clock",
    "BrokerClock": "clock",
    "BrokerConfig": "config",
    "BrokerStateError": "errors",
    "ClockError": "errors",
    "DiskFault": "store.fault_points",
    "DiskFaults": "faults",
    "DoorReentryError": "errors",
    "EmbeddedBroker": "broker",
    "EmbeddedCluster": "cluster",
    "Fault": "request_faults",
    "FaultNotUsedError": "errors",
    "Faults": "faults",
    "GroupMember": "views",
    "GroupOffset": "views",
    "GroupTrace": "views",
    "GroupView": "views",
    "GroupsView": "views",
    "HasMessageId": "views",
    "InnerMessage": "store.inner",
    "Journal": "journal",
    "JournalEntry": "journal",
    "Limits": "profiles",
    "MessageNotFound": "errors",
    "MessageState": "views",
    "MessageTrace": "views",
    "MessagesView": "views",
    "NextDeadline": "clock",
    "PendingTimer": "views",
    "Profile": "profiles",
    "PutHook": "store.inner",
    "PutHooks": "put_hooks",
    "PutRefusal": "store.inner",
    "PutStatus": "store.inner",
    "RecallOutcome": "timer.recall",
    "RecoveryReport": "recovery_report",
    "Retry": "views",
    "SentMessage": "views",
    "SettleTimeout": "errors",
    "Settled": "clock",
    "StageView": "views",
    "StoreError": "errors",
    "StoreLockedError": "errors",
    "StoredMessage": "views",
    "TimerKind": "timer.listing",
    "TimerNotPending": "errors",
    "TimersView": "views",
    "TopicSpec": "arguments",
    "TopicView": "views",
    "TopicsView": "views",
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
