"""Who is connected, to which groups they belong, and what a group is allowed to do.

`groups.py` holds the settings of consumer groups, `registry.py` the live consumers and their
subscriptions, `producers.py` the live producers, `locks.py` the queue locks of orderly consumers.
None of them knows a request or sends anything; `remoting/handlers/admin/client_manage.py` and
`core/liveness.py` act on what they say.
"""

from embedded_broker.tables.consumers.groups import GroupTable
from embedded_broker.tables.consumers.locks import QueueLocks
from embedded_broker.tables.consumers.producers import ProducerRegistry
from embedded_broker.tables.consumers.registry import ConsumerGroup, ConsumerRegistry, Member

__all__ = [
    "ConsumerGroup",
    "ConsumerRegistry",
    "GroupTable",
    "Member",
    "ProducerRegistry",
    "QueueLocks",
]
