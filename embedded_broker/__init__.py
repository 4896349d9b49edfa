"""A RocketMQ name server and broker inside the test process, whose clock a test owns.

Start with ``EmbeddedBroker``. With a ``VirtualClock`` the test decides what time it is. Importing
this package starts nothing and loads a module only when one of its names is used.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from embedded_broker.api.broker import EmbeddedBroker
    from embedded_broker.api.cluster import EmbeddedCluster
    from embedded_broker.api.faults import DiskFaults, Faults
    from embedded_broker.api.views import (
        GroupMember,
        GroupOffset,
        GroupsView,
        GroupTrace,
        GroupView,
        GrpcClientInfo,
        GrpcClientKind,
        HasMessageId,
        MessageState,
        MessagesView,
        MessageTrace,
        MisreadClock,
        PendingTimer,
        Retry,
        SentMessage,
        StageView,
        StoredMessage,
        TimersView,
        TopicsView,
        TopicView,
    )
    from embedded_broker.clocks.clock import BrokerClock, VirtualClock
    from embedded_broker.clocks.clock_run import Advanced, NextDeadline
    from embedded_broker.clocks.settle import Settled
    from embedded_broker.core.put_hooks import PutHooks
    from embedded_broker.errors import (
        BrokerStateError,
        ClockError,
        DoorReentryError,
        FaultNotUsedError,
        MessageNotFound,
        SettleTimeout,
        StoreDamagedError,
        StoreError,
        StoreLockedError,
        TimerNotPending,
        WaitTimeoutError,
    )
    from embedded_broker.lifecycle.arguments import TopicSpec
    from embedded_broker.lifecycle.recovery_report import RecoveryReport
    from embedded_broker.lifecycle.reset import Connected
    from embedded_broker.remoting.journal import Journal, JournalEntry
    from embedded_broker.remoting.request_faults import Fault
    from embedded_broker.settings.config import BrokerConfig
    from embedded_broker.settings.grpc import GrpcOptions
    from embedded_broker.settings.profiles import Limits, Profile
    from embedded_broker.settings.tls import Tls
    from embedded_broker.store.fault_points import DiskFault
    from embedded_broker.store.put_values import InnerMessage, PutHook, PutRefusal, PutStatus
    from embedded_broker.tables.accounts.plain import PlainAccount, PlainAcl
    from embedded_broker.tables.accounts.users import AuthPolicy, AuthUser, UserAcl
    from embedded_broker.timer.listing import TimerKind
    from embedded_broker.timer.outcomes import RecallOutcome

_NAMES_OF = {
    "api.broker": "EmbeddedBroker",
    "api.cluster": "EmbeddedCluster",
    "api.faults": "DiskFaults Faults",
    "api.views": (
        "GroupMember GroupOffset GroupTrace GroupView GroupsView GrpcClientInfo GrpcClientKind "
        "HasMessageId MessageState MessageTrace MessagesView MisreadClock PendingTimer Retry "
        "SentMessage StageView StoredMessage TimersView TopicView TopicsView"
    ),
    "clocks.clock": "BrokerClock VirtualClock",
    "clocks.clock_run": "Advanced NextDeadline",
    "clocks.settle": "Settled",
    "core.put_hooks": "PutHooks",
    "errors": (
        "BrokerStateError ClockError DoorReentryError FaultNotUsedError MessageNotFound "
        "SettleTimeout StoreDamagedError StoreError StoreLockedError TimerNotPending "
        "WaitTimeoutError"
    ),
    "lifecycle.arguments": "TopicSpec",
    "lifecycle.recovery_report": "RecoveryReport",
    "lifecycle.reset": "Connected",
    "remoting.journal": "Journal JournalEntry",
    "remoting.request_faults": "Fault",
    "settings.config": "BrokerConfig",
    "settings.grpc": "GrpcOptions",
    "settings.profiles": "Limits Profile",
    "settings.tls": "Tls",
    "store.fault_points": "DiskFault",
    "store.put_values": "InnerMessage PutHook PutRefusal PutStatus",
    "tables.accounts.plain": "PlainAccount PlainAcl",
    "tables.accounts.users": "AuthPolicy AuthUser UserAcl",
    "timer.listing": "TimerKind",
    "timer.outcomes": "RecallOutcome",
}
_MODULE_OF = {name: module for module, names in _NAMES_OF.items() for name in names.split()}

__all__ = [
    "Advanced",
    "AuthPolicy",
    "AuthUser",
    "BrokerClock",
    "BrokerConfig",
    "BrokerStateError",
    "ClockError",
    "Connected",
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
    "GrpcClientInfo",
    "GrpcClientKind",
    "GrpcOptions",
    "HasMessageId",
    "InnerMessage",
    "Journal",
    "JournalEntry",
    "Limits",
    "MessageNotFound",
    "MessageState",
    "MessageTrace",
    "MessagesView",
    "MisreadClock",
    "NextDeadline",
    "PendingTimer",
    "PlainAccount",
    "PlainAcl",
    "Profile",
    "PutHook",
    "PutHooks",
    "PutRefusal",
    "PutStatus",
    "RecallOutcome",
    "RecoveryReport",
    "Retry",
    "SentMessage",
    "SettleTimeout",
    "Settled",
    "StageView",
    "StoreDamagedError",
    "StoreError",
    "StoreLockedError",
    "StoredMessage",
    "TimerKind",
    "TimerNotPending",
    "TimersView",
    "Tls",
    "TopicSpec",
    "TopicView",
    "TopicsView",
    "UserAcl",
    "VirtualClock",
    "WaitTimeoutError",
]


def __getattr__(name: str) -> object:
    """Load the module of a public name on its first use (PEP 562)."""
    module = _MODULE_OF.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value: object = getattr(import_module(f"{__name__}.{module}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
