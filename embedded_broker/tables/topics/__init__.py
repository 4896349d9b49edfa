"""Which topics exist on one broker, with how many queues and which permissions.

`table.py` is the state, `ready_made.py` the topics of a fresh broker, `attributes.py` the
`+key=value` language of request 17. This room knows no request, no socket and no message; the
handlers of `remoting/handlers/send/send_message.py` and `remoting/handlers/admin/admin_broker.py`
decide when to change it.
"""

from embedded_broker.tables.topics.table import TopicTable

__all__ = ["TopicTable"]
