"""Tools for programs that move many messages: queues by offset, stored bytes, blocks of ids.

The public names for bulk work, such as that of the Spark connector, and for other API shapes
(`java_hash`), and nothing else. Each is imported from its module when it is first used. Whoever
sends and consumes single messages needs none of them but `MessageIds`. Begin with `QueueAccess`.

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
    from rocketmq_py.protocol.tag_hash import java_hash

_NAMES_OF = {
    "client.queue_access": "NamespacedQueueAccess QueueAccess",
    "client.queue_pulls": "PulledRun",
    "client.queue_requests": "RawPull",
    "client.queue_sends": "RawSend RunOutcome SendOutcome SendRun",
    "client.raw_messages": "MessageIds RawMessages",
    "client.topic_questions": "QueueBounds",
    "protocol.tag_hash": "java_hash",
}
_MODULE_OF = {
    name: f"rocketmq_py.{module}" for module, names in _NAMES_OF.items() for name in names.split()
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
    "java_hash",
]

if not TYPE_CHECKING:
    __getattr__ = on_first_use(globals(), _MODULE_OF)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
