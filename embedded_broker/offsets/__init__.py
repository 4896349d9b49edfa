"""How far each group has consumed each queue.

`table.py` holds the numbers. This room knows no message: whether an offset makes sense is for
the consumer to say. Requests 14 and 15 are in `handlers/consumer_manage.py`.
"""

from embedded_broker.offsets.table import OffsetTable

__all__ = ["OffsetTable"]
