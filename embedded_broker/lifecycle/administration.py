"""Wiring of administration: which parts each class of `core/administration/` gets.

Answers: which part each of the classes of `core/administration/` gets. Must not know: requests.
Read on: ``assembly.py``, which makes the parts.
"""

from embedded_broker.core.administration import (
    Administration,
    Clients,
    Consumption,
    GroupOffsets,
    Relays,
    Removals,
    Settings,
)
from embedded_broker.core.broker_stats import BrokerStats
from embedded_broker.lifecycle.parts import BrokerParts


def administration_of(parts: BrokerParts, broker_stats: BrokerStats) -> Administration:
    """Make what administers a broker that has its tables and its waiting pulls."""
    tables, calls, waiters = parts.tables, parts.calls, parts.consume.waiters
    offsets = GroupOffsets(
        env=parts, tables=tables, calls=calls, broker_stats=broker_stats, wake=waiters.wake
    )

    def let_old_go() -> None:
        parts.let_old_go()  # who knows what is old comes later

    return Administration(
        _settings(parts),
        Removals(env=parts, tables=tables, let_old_go=let_old_go),
        offsets,
        Consumption(env=parts, tables=tables, progress=offsets),
        Clients(env=parts, tables=tables, calls=calls, forget=[waiters.forget, calls.forget]),
        Relays(env=parts, tables=tables, calls=calls),
    )


def _settings(parts: BrokerParts) -> Settings:
    host, _, port = parts.address.rpartition(":")
    arguments = {
        "brokerClusterName": parts.cluster_name,
        "brokerName": parts.broker_name,
        "brokerIP1": host,
        "listenPort": port,
    }
    return Settings(
        env=parts,
        tables=parts.tables,
        health=parts.store.health,
        arguments=arguments,
        new_type=parts.new_topic_type,
    )
