"""Administration of a running broker, each change once: handlers, views and `cli/` call it.

`settings.py` has topics, groups and options, `removals.py` their end, `offsets.py` how far groups
are, `consumption.py` what tools ask about that, `clients.py` who is connected, `relays.py` what is
handed on to them. Every call has values, is made under the door, and refuses with
`core/refusals.Refused`.
"""

from attrs import frozen

from embedded_broker.core.administration.clients import Clients
from embedded_broker.core.administration.consumption import Consumption
from embedded_broker.core.administration.offsets import GroupOffsets
from embedded_broker.core.administration.relays import Relays
from embedded_broker.core.administration.removals import Removals
from embedded_broker.core.administration.settings import Settings

__all__ = [
    "Administration",
    "Clients",
    "Consumption",
    "GroupOffsets",
    "Relays",
    "Removals",
    "Settings",
]


@frozen
class Administration:
    """The acts on one broker."""

    settings: Settings
    removals: Removals
    offsets: GroupOffsets
    consumption: Consumption
    clients: Clients
    relays: Relays
