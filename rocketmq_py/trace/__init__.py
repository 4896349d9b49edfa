r"""Message trace: what producers and consumers note about the way of each message.

Clients with ``enable_trace=True`` send such records to a trace topic, in the format of the original
client. `rocketmq_py.admin.AdminClient.trace` finds those of one message, and `read_records` takes
the body of a trace message apart:

>>> from rocketmq_py.trace import Pub, read_records
>>> body = b"\x01".join(
...     [b"Pub", b"1700000000000", b"DefaultRegion", b"shop", b"Orders", b"0A01", b"null", b"42"]
...     + [b"127.0.0.1:10911", b"9", b"3", b"0", b"0A02", b"true\x02"]
... )
>>> (sent,) = read_records(body)
>>> isinstance(sent, Pub), sent.group, sent.keys, sent.tags
(True, 'shop', ('42',), None)
"""

from rocketmq_py.trace.records import (
    ConsumeEnd,
    EndTransaction,
    MessageKind,
    Pub,
    Recall,
    SubAfter,
    SubBefore,
    TraceRecord,
    read_records,
)

__all__ = [
    "ConsumeEnd",
    "EndTransaction",
    "MessageKind",
    "Pub",
    "Recall",
    "SubAfter",
    "SubBefore",
    "TraceRecord",
    "read_records",
]
