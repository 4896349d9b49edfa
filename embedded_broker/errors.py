"""Errors that only the embedded broker raises.

Answers: what can go wrong while a test owns the broker, its clock and its disk. Must not know:
the wire (``rocketmq_py.protocol``) or any state. Read on: ``rocketmq_py/errors.py`` for the root
and the client's branches.

::

    RocketMQError
    ├── ClockError            the clock was asked for something it cannot do
    ├── StoreError            the files under the broker are not what they should be
    │   └── StoreLockedError  another broker holds the directory
    ├── BrokerStateError      the broker is not in the state that the call needs
    │   └── DoorReentryError  code running inside the broker entered it again
    └── WaitTimeoutError      a bounded wait ended without what it waited for (TimeoutError too)
"""

from rocketmq_py.errors import RocketMQError

__all__ = [
    "BrokerStateError",
    "ClockError",
    "DoorReentryError",
    "StoreError",
    "StoreLockedError",
    "WaitTimeoutError",
]


class ClockError(RocketMQError):
    """The clock cannot do what was asked: time never goes back, and a wall clock never jumps."""


class StoreError(RocketMQError):
    """A file of the store has a size, a name or a content that the broker cannot use."""


class StoreLockedError(StoreError):
    """The store is in use by another broker, of this process or another; the text names it."""


class BrokerStateError(RocketMQError):
    """The broker is not started, already closed, or belongs to the parent of a forked process."""


class DoorReentryError(BrokerStateError):
    """Code that runs inside the broker (a put hook, a handler) tried to enter it a second time."""


class WaitTimeoutError(RocketMQError, TimeoutError):
    """A wait ended: the text says what was expected, what was seen and what happened last."""
