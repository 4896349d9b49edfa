"""How far each group has consumed each queue.

`table.py` holds the numbers, `deliveries.py` what was handed out and when. This room knows no
message: whether an offset makes sense is for the consumer to say. Requests 14 and 15 are in
`handlers/consumer_manage.py`, 222 is in `handlers/reset_offset.py`.
"""

from embedded_broker.offsets.deliveries import DeliveryLog
from embedded_broker.offsets.table import OffsetTable

__all__ = ["DeliveryLog", "OffsetTable"]
