"""Tools for programs that move many messages: queues by offset, stored bytes, blocks of ids.

The public names for bulk work, such as that of the Spark connector, and nothing else. Each is
imported from its module when it is first used. Whoever sends and consumes single messages needs
none of them but `MessageIds`. Begin with `QueueAccess`.

>>> from rocketmq_py.raw import MessageIds
>>> len(MessageIds().next())
32
"""

from rocketmq_py.lazy_names import on_first_use

TYPE_CHECKING = False  # type checkers know the name; typing itself takes 8 ms to import

if TYPE_CHECKING:
    from rocketmq_py.client.queue_access import NamespacedQueueAccess, QueueAccess
    from rocketmq_py.client.queue_pulls import PulledRun
    from rocketmq_py.client.queue_requests import RawPull
    from rocketmq_py.client.queue_sends import RawSend, RunOutcome, SendOutcome, SendRun
    from rocketmq_py.client.raw_messages import MessageIds, RawMessages
    from rocketmq_py.client.topic_questions import QueueBounds

_NAMES_OF = {
    "queue_access": "NamespacedQueueAccess QueueAccess",
    "queue_pulls": "PulledRun",
    "queue_requests": "RawPull",
    "queue_sends": "RawSend RunOutcome SendOutcome SendRun",
    "raw_messages": "MessageIds RawMessages",
    "topic_questions": "QueueBounds",
}
_MODULE_OF = {
    name: f"rocketmq_py.client.{module}"
    for module, names in _NAMES_OF.items()
    for name in names.split()
}

__all__ = [
    "MessageIds",
    "NamespacedQueueAccess",
    "PulledRun",
    "QueueAccess",
    "QueueBounds",
    "RawMessages",
    "RawPull",
    "RawSend",
    "RunOutcome",
    "SendOutcome",
    "SendRun",
]

if not TYPE_CHECKING:
    __getattr__ = on_first_use(globals(), _MODULE_OF)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
