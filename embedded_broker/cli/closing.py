"""Exit status of `serve`: whether a broker that has ended left everything on its disk.

Answers: what is missing there, for the exit status of `serve`. Must not know: how things are saved.
A node forgets nothing when it closes, but its broker forgets the node, so whoever asks takes the
nodes first.
"""

from collections.abc import Iterator

from embedded_broker.api.cluster import EmbeddedCluster
from embedded_broker.lifecycle.node import BrokerNode


def nodes_of(cluster: EmbeddedCluster) -> dict[str, BrokerNode]:
    """Give what runs behind each broker that is there now, by its name."""
    return {
        broker.broker_name: broker.slot.node
        for broker in cluster.brokers
        if broker.slot.node is not None
    }


def unsaved_lines(nodes: dict[str, BrokerNode]) -> Iterator[str]:
    """Say of each closed node that could not save everything why the last save failed."""
    for name, node in nodes.items():
        parts = node.parts
        problem = node.unsaved or parts.store.health.problem or parts.table_files.unsaved
        if problem is not None:
            yield f"not everything of {name} is saved: {problem}"
