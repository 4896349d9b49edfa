"""Administration of one broker, made of the parts that it has.

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
from embedded_broker.lifecycle.parts import BrokerParts


def administration_of(parts: BrokerParts) -> Administration:
    """Make what administers a broker that has its tables and its waiting pulls."""
    offsets = _offsets(parts)

    def let_old_go() -> None:
        parts.let_old_go()  # who knows what is old comes later

    return Administration(
        _settings(parts),
        Removals(
            config=parts.config,
            store=parts.store,
            topics=parts.topics,
            groups=parts.groups,
            offsets=parts.offsets,
            deliveries=parts.deliveries,
            deleted=parts.deleted_topics,
            let_old_go=let_old_go,
        ),
        offsets,
        Consumption(
            address=parts.address,
            broker_name=parts.broker_name,
            profile=parts.profile,
            clock=parts.clock,
            store=parts.store,
            topics=parts.topics,
            groups=parts.groups,
            consumers=parts.consumers,
            filters=parts.consumer_filters,
            offsets=parts.offsets,
            progress=offsets,
        ),
        _clients(parts),
        Relays(
            broker_name=parts.broker_name,
            store=parts.store,
            topics=parts.topics,
            groups=parts.groups,
            consumers=parts.consumers,
            calls=parts.calls,
        ),
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
        config=parts.config,
        profile=parts.profile,
        clock=parts.clock,
        topics=parts.topics,
        groups=parts.groups,
        health=parts.store.health,
        arguments=arguments,
        new_type=parts.new_topic_type,
    )


def _offsets(parts: BrokerParts) -> GroupOffsets:
    return GroupOffsets(
        broker_name=parts.broker_name,
        config=parts.config,
        profile=parts.profile,
        store=parts.store,
        topics=parts.topics,
        groups=parts.groups,
        consumers=parts.consumers,
        offsets=parts.offsets,
        deliveries=parts.deliveries,
        calls=parts.calls,
        figures=parts.figures,
        wake=parts.consume.waiters.wake,
    )


def _clients(parts: BrokerParts) -> Clients:
    return Clients(
        door=parts.door,
        session=parts.session,
        config=parts.config,
        profile=parts.profile,
        topics=parts.topics,
        groups=parts.groups,
        consumers=parts.consumers,
        filters=parts.consumer_filters,
        producers=parts.producers,
        calls=parts.calls,
        forget=[parts.consume.waiters.forget, parts.calls.forget],
    )
