"""Ready-made topics: those that a broker has before anybody created one.

The list of RocketMQ's TopicConfigManager (`init`), as a table: name, queues, permission.
Names that depend on the cluster or the broker are filled in when the broker starts. This module
knows no state; read on in `table.py`.
"""

from collections.abc import Iterator
from typing import Final

from attrs import frozen

from embedded_broker.settings.config import BrokerConfig
from rocketmq_py.protocol.bodies.topics import TopicConfig
from rocketmq_py.protocol.codes import PERM_INHERIT, PERM_READ, PERM_WRITE, MQVersion
from rocketmq_py.protocol.names import (
    AUTO_CREATE_TOPIC,
    BENCHMARK_TOPIC,
    HALF_TOPIC,
    OFFSET_MOVED_TOPIC,
    OP_HALF_TOPIC,
    REPLY_TOPIC_SUFFIX,
    REVIVE_TOPIC_PREFIX,
    SCHEDULE_TOPIC,
    SELF_TEST_TOPIC,
    SLICE_TIMER_TOPIC,
    TIMER_TOPIC,
)

READ_WRITE: Final = PERM_READ | PERM_WRITE
_TEMPLATE: Final = READ_WRITE | PERM_INHERIT
_SYNC_MEMBER_PREFIX: Final = "rmq_sys_SYNC_BROKER_MEMBER_"
_V5: Final = int(MQVersion.V5_0_0)


@frozen
class ReadyMade:
    """One row: a topic that every fresh broker has.

    `queues` is a number or the option that holds it; `needs` an option without which the topic
    is missing; `opened_by` an option that adds read and write permission; `since` a version;
    `engine` the timer engine (timerEngine) that has it.
    """

    name: str
    queues: int | str = 1
    perm: int = READ_WRITE
    needs: str | None = None
    opened_by: str | None = None
    since: int = 0
    engine: str | None = None


READY_MADE: Final = (
    ReadyMade(AUTO_CREATE_TOPIC, "defaultTopicQueueNums", _TEMPLATE, needs="autoCreateTopicEnable"),
    ReadyMade("{cluster}", 16, PERM_INHERIT, opened_by="clusterTopicEnable"),
    ReadyMade("{broker}", 1, PERM_INHERIT, opened_by="brokerTopicEnable"),
    ReadyMade(SELF_TEST_TOPIC),
    ReadyMade(BENCHMARK_TOPIC, 1024),
    ReadyMade(OFFSET_MOVED_TOPIC),
    ReadyMade(SCHEDULE_TOPIC, 18),
    ReadyMade(HALF_TOPIC),
    ReadyMade(OP_HALF_TOPIC, since=_V5),
    ReadyMade("{cluster}" + REPLY_TOPIC_SUFFIX),
    ReadyMade("{trace}", needs="traceTopicEnable"),
    ReadyMade(REVIVE_TOPIC_PREFIX + "{cluster}", "reviveQueueNum", since=_V5),
    ReadyMade(_SYNC_MEMBER_PREFIX + "{broker}", 1, PERM_INHERIT, since=_V5),
    ReadyMade(TIMER_TOPIC, needs="timerWheelEnable", since=_V5),
    ReadyMade(SLICE_TIMER_TOPIC, needs="timerWheelEnable", since=_V5, engine="sliced"),
)


def ready_made_topics(
    config: BrokerConfig, *, version: int, cluster_name: str, broker_name: str
) -> Iterator[TopicConfig]:
    """Give the topics of a fresh broker of `version` (an `MQVersion` number)."""
    names = {
        "cluster": cluster_name,
        "broker": broker_name,
        "trace": config.text("msgTraceTopicName"),
    }
    for row in READY_MADE:
        if version < row.since or (row.needs is not None and not config.flag(row.needs)):
            continue
        if row.engine is not None and row.engine != config.text("timerEngine"):
            continue
        queues = config.int(row.queues) if isinstance(row.queues, str) else row.queues
        opened = row.opened_by is not None and config.flag(row.opened_by)
        yield TopicConfig(
            topic_name=row.name.format_map(names),
            read_queue_nums=queues,
            write_queue_nums=queues,
            perm=row.perm | READ_WRITE if opened else row.perm,
        )
