"""How far each group has consumed each queue.

`table.py` holds the numbers, `deliveries.py` what was handed out and when. This room knows no
message: whether an offset makes sense is for the consumer to say. Requests 14 and 15 are in
`remoting/handlers/admin/consumer_manage.py`, 222 is in `remoting/handlers/admin/reset_offset.py`.
"""

from embedded_broker.tables.offsets.deliveries import DeliveryLog
from embedded_broker.tables.offsets.table import OffsetTable

__all__ = ["DeliveryLog", "OffsetTable"]
