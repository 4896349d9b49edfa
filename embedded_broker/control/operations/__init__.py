"""The table of all operations, in the order in which pages show them."""

from typing import Final

from embedded_broker.control.operation import Operation
from embedded_broker.control.operations.brokers import BROKERS
from embedded_broker.control.operations.clock import CLOCK
from embedded_broker.control.operations.faults import FAULTS
from embedded_broker.control.operations.groups import GROUPS
from embedded_broker.control.operations.journal import JOURNAL
from embedded_broker.control.operations.messages import MESSAGES
from embedded_broker.control.operations.stages import STAGES
from embedded_broker.control.operations.timers import TIMERS
from embedded_broker.control.operations.topics import TOPICS

FAMILIES: Final[dict[str, tuple[Operation, ...]]] = {
    "Time": CLOCK,
    "What waits": TIMERS,
    "Messages": MESSAGES,
    "Topics": TOPICS,
    "Groups": GROUPS,
    "Faults": FAULTS,
    "Journal": JOURNAL,
    "Brokers": BROKERS,
    "Services of the timer store": STAGES,
}
"""Title of a family to its operations."""
OPERATIONS: Final = tuple(one for family in FAMILIES.values() for one in family)
