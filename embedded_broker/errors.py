"""Errors that only the embedded broker raises.

Answers: what can go wrong while a test owns the broker, its clock and its disk. Must not know:
the wire (``rocketmq_py.protocol``) or any state. Read on: ``rocketmq_py/errors.py`` for the root
and the client's branches.

::

    RocketMQError
    ├── ClockError            the clock was asked for something it cannot do
    ├── StoreError            the files under the broker are not what they should be
    │   ├── StoreDamagedError a file holds damaged bytes, and opening would lose what is behind
    │   └── StoreLockedError  another broker holds the directory
    ├── BrokerStateError      the broker is not in the state that the call needs
    │   └── DoorReentryError  code that runs inside the broker called it again
    ├── MessageNotFound       no stored message has the id (LookupError too)
    ├── TimerNotPending       no timer waits under the id (LookupError too)
    ├── FaultNotUsedError     a fault was asked for and never happened (AssertionError too)
    └── WaitTimeoutError      what a wait waited for did not happen in time (TimeoutError too)
        └── SettleTimeout     clients were still busy: the text names group, message and client
"""

from rocketmq_py.errors import RocketMQError


class ClockError(RocketMQError):
    """The clock cannot do what was asked: time never goes back, and a wall clock never jumps."""


class StoreError(RocketMQError):
    """A file of the store has a size, a name or a content that the broker cannot use.

    ``disk_full`` says that there was no room for what was to be written.
    """

    disk_full = False


class StoreDamagedError(StoreError):
    """Bytes of the store are damaged. The text names the place and the command that mends it."""


class StoreLockedError(StoreError):
    """The store is in use by another broker, of this process or another; the text names it."""


class BrokerStateError(RocketMQError):
    """The broker is not started, already closed, or belongs to the parent of a forked process."""


class DoorReentryError(BrokerStateError):
    """Code that runs inside the broker (a put hook, a handler) called the broker."""


class MessageNotFound(RocketMQError, LookupError):  # noqa: N818 - reads as what a test catches
    """No stored message has this id, and the index remembers none that had it."""


class TimerNotPending(RocketMQError, LookupError):  # noqa: N818 - reads as what a test catches
    """The timer that was to be changed does not wait. The text says what is known of it."""


class FaultNotUsedError(RocketMQError, AssertionError):
    """A fault that a test asked for never happened, so it proved nothing. The text names it."""


class WaitTimeoutError(RocketMQError, TimeoutError):
    """A wait timed out. The text says what was expected, what was seen and what was asked last."""


class SettleTimeout(WaitTimeoutError):  # noqa: N818 - a time-out, named as its call
    """Clients did not become idle in time. ``busy`` says what each of them was still doing."""

    def __init__(self, text: str, busy: tuple[str, ...] = ()) -> None:
        super().__init__(text)
        self.busy = busy
