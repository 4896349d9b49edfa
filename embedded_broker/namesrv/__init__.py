"""Which brokers are there, and which of them hold a topic.

`routes.py` is the state, `name_server.py` answers the requests that clients send to a name
server. Brokers of the same process register by a call (`register_broker`), not by request 103.
This room knows no message and no queue offset.
"""

from embedded_broker.namesrv.name_server import NameServer
from embedded_broker.namesrv.routes import RouteTable

__all__ = ["NameServer", "RouteTable"]
