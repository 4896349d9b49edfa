"""Who is connected, to which groups they belong, and what a group is allowed to do.

`groups.py` holds the settings of consumer groups, `registry.py` the live consumers and their
subscriptions, `producers.py` the live producers, `locks.py` the queue locks of orderly
consumers. None of them knows a request or sends anything; `handlers/client_manage.py` and
`handlers/liveness.py` act on what they say.
"""

from embedded_broker.consumers.groups import GroupTable
from embedded_broker.consumers.locks import QueueLocks
from embedded_broker.consumers.producers import ProducerRegistry
from embedded_broker.consumers.registry import ConsumerGroup, ConsumerRegistry, Member

__all__ = [
    "ConsumerGroup",
    "ConsumerRegistry",
    "GroupTable",
    "Member",
    "ProducerRegistry",
    "QueueLocks",
]
