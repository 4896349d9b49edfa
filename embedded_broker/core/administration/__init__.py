"""What can be changed on a running broker, each act once: handlers, views and `cli/` call it.

`settings.py` has topics, groups and options, `offsets.py` how far groups are, `clients.py` who is
connected. Every call has values, is made under the door, and refuses with `core/refusals.Refused`.
"""

from attrs import frozen

from embedded_broker.core.administration.clients import Clients
from embedded_broker.core.administration.offsets import GroupOffsets
from embedded_broker.core.administration.settings import Settings

__all__ = ["Administration", "Clients", "GroupOffsets", "Settings"]


@frozen
class Administration:
    """The acts on one broker."""

    settings: Settings
    offsets: GroupOffsets
    clients: Clients
