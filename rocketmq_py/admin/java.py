"""Administration under the names that the original's `DefaultMQAdminExt` has, in Python's spelling.

Each call is an act of ``../administration`` or one request of its table; what Java calls `addr` is
the ``host:port`` of a broker. What is missing here is in `AdminClient`, which says what it changes,
too. Must not know headers. Read on: ``client.py``.
"""

from collections.abc import Mapping
from datetime import datetime
from typing import TypeVar

from attrs import define, setters

from rocketmq_py.admin.blocking import BlockingAdmin
from rocketmq_py.administration import broker_addresses, brokers, groups, messages, progress, topics
from rocketmq_py.administration.table import (
    ASK_AGAIN,
    CLUSTER,
    DELAY_OFFSETS,
    DELETE_GROUP,
    DELETE_TOPIC,
    FORGET_ROUTE,
    RUNTIME,
    TIMER_CHECK_POINT,
    TIMER_COUNTS,
    Row,
)
from rocketmq_py.administration.values import (
    ConsumedNow,
    GroupMembers,
    GroupProgress,
    GroupSettings,
    Member,
    MemberState,
    MessageTrack,
    Place,
    TopicPlace,
    TopicSettings,
    moment,
)
from rocketmq_py.client.asking import Address, AnyOf
from rocketmq_py.client.queue_requests import group_offset_is
from rocketmq_py.client.topic_questions import QueueBounds
from rocketmq_py.config import explained, split_host_port
from rocketmq_py.errors import ConfigError
from rocketmq_py.message import MessageExt
from rocketmq_py.protocol.bodies.timers import DelayOffsets, TimerCheckpoint, TimerCounts
from rocketmq_py.protocol.bodies.topics import ClusterInfo
from rocketmq_py.send_result import MessageQueue

_T = TypeVar("_T")


@explained
@define(kw_only=True, eq=False, repr=False, slots=False, on_setattr=setters.NO_OP)
class DefaultMQAdminExt(BlockingAdmin):
    """Asks and changes brokers and name servers. Every call is safe from any thread.

    Arguments
    ---------
    timeout_millis
        Budget of one request in milliseconds, from 1, or a timedelta.
    cluster
        Only brokers of this cluster are looked up; None: those of all.

    The other arguments are the settings of every client; ``namesrv_addr`` is needed by calls that
    name no address.

    Calls raise `RemotingException` when the address does not answer in time,
    `MQBrokerException` when it refuses, `ConfigError` when it is no ``host:port``, `BodyError`
    or `RecordError` when its answer cannot be read.

    >>> from embedded_broker import EmbeddedBroker
    >>> with EmbeddedBroker() as broker, DefaultMQAdminExt() as admin:
    ...     admin.get_timer_metrics(broker.addr).timing_count
    {}
    """

    # --- brokers ---------------------------------------------------------------------------

    def fetch_broker_runtime_stats(self, addr: str) -> dict[str, str]:
        """Ask a broker for everything it says about itself, texts by name (28).

        A real 5.3.3 broker refuses with code 1 during the first second of its life.
        """
        return self._ask(addr, RUNTIME).table

    def get_all_delay_offset(self, addr: str) -> DelayOffsets:
        """Ask a broker how far each delay level has come (45)."""
        return self._ask(addr, DELAY_OFFSETS)

    def get_timer_check_point(self, addr: str) -> TimerCheckpoint:
        """Ask a 5.x broker for its timers' last check point (60)."""
        return self._ask(addr, TIMER_CHECK_POINT)

    def get_timer_metrics(self, addr: str) -> TimerCounts:
        """Ask a 5.x broker how many timers wait, by topic (61)."""
        return self._ask(addr, TIMER_COUNTS)

    def examine_broker_cluster_info(self, addr: str | None = None) -> ClusterInfo:
        """Ask a name server, or those of the settings, for every broker (106)."""
        if addr is None:
            return self._do(broker_addresses.learned(self._servers, CLUSTER))
        split_host_port(addr)
        return self._do(self._servers.one(CLUSTER.at(AnyOf((addr,)))))

    def get_broker_config(self, addr: str) -> dict[str, str]:
        """Ask a broker for its options (26)."""
        split_host_port(addr)
        return self._do(brokers.options(self._servers, addr))[addr]

    def update_broker_config(self, addr: str, properties: Mapping[str, str]) -> None:
        """Change options of a running broker (25)."""
        split_host_port(addr)
        self._do(brokers.alter(self._servers, properties, addr, dry_run=False))

    def put_kv_config(self, namespace: str, key: str, value: str) -> None:
        """Let every name server keep a value (100)."""
        self._do(brokers.put_key_value(self._servers, namespace, key, value))

    # --- topics ----------------------------------------------------------------------------

    def fetch_all_topic_list(self) -> list[str]:
        """Ask a name server for the names of all topics (206)."""
        return list(self._do(topics.names(self._servers)))

    def create_and_update_topic_config(self, addr: str, topic: str, config: TopicSettings) -> None:
        """Create a topic at a broker, or change it (17)."""
        split_host_port(addr)
        self._do(topics.put(self._servers, topic, config, {addr: addr}))

    def examine_topic_config(self, addr: str, topic: str) -> TopicSettings | None:
        """Ask a broker for the settings of a topic (351, or 21 before 5.0); None: it has none."""
        split_host_port(addr)
        found = self._do(topics.configs(self._servers, topic, {addr: addr}))[addr]
        return None if found is None else topics.settings_of(found)

    def examine_topic_route_info(self, topic: str) -> tuple[TopicPlace, ...]:
        """Ask name servers where a topic is (105); () when none knows it."""
        return self._do(broker_addresses.route(self._servers, topic))

    def examine_topic_stats(self, topic: str) -> dict[MessageQueue, QueueBounds]:
        """Ask the masters of a topic for the bounds of its queues (202)."""
        return self._do(topics.bounds(self._servers, topic))

    def query_topic_consume_by_who(self, topic: str) -> tuple[str, ...]:
        """Name the groups that subscribe to a topic, or have committed in it (300)."""
        return self._do(topics.readers(self._servers, topic))

    def delete_topic_in_broker(self, addrs: set[str], topic: str) -> None:
        """Delete a topic at brokers (215)."""
        for addr in addrs:
            self._ask(addr, DELETE_TOPIC, topic=topic)

    def delete_topic_in_name_server(self, addrs: set[str], topic: str) -> None:
        """Let name servers forget a topic (216)."""
        for addr in addrs:
            self._ask(addr, FORGET_ROUTE, topic=topic)

    # --- groups ----------------------------------------------------------------------------

    def create_and_update_subscription_group_config(
        self, addr: str, group: str, config: GroupSettings
    ) -> None:
        """Create a group at a broker, or change it (200)."""
        split_host_port(addr)
        self._do(groups.put(self._servers, group, config, {addr: addr}))

    def delete_subscription_group(self, addr: str, group: str, remove_offset: bool = False) -> None:
        """Delete a group at a broker, with its offsets if that is wished (207)."""
        self._ask(
            addr,
            DELETE_GROUP,
            group_name=group,
            remove_offset=remove_offset,
            clean_offset=remove_offset,
        )

    def examine_consume_stats(self, group: str, topic: str | None = None) -> GroupProgress:
        """Ask masters how far a group is (208)."""
        return self._do(progress.of_group(self._servers, group, topic))

    def examine_consumer_connection_info(self, group: str) -> GroupMembers:
        """Ask masters who is online in a consumer group (203)."""
        return self._do(groups.members(self._servers, group))

    def examine_producer_connection_info(self, group: str) -> tuple[Member, ...]:
        """Ask masters who is online in a producer group (204)."""
        return self._do(groups.producers(self._servers, group))

    def get_consumer_running_info(
        self, group: str, client_id: str, jstack: bool = False
    ) -> MemberState:
        """Let a member of a group say how it is (307)."""
        return self._do(groups.state(self._servers, group, client_id, stacks=jstack))

    def reset_offset_by_timestamp(
        self, topic: str, group: str, timestamp: int | datetime
    ) -> dict[MessageQueue, int]:
        """Let a group go on at a store time, epoch ms or an aware datetime; -1 is the end (222)."""
        to: Place = timestamp if isinstance(timestamp, datetime) else _place_of(timestamp)
        moves = self._do(progress.reset(self._servers, group, topic, to, dry_run=False)).moves
        return {queue: one.after for queue, one in moves.items()}

    def update_consume_offset(self, group: str, queue: MessageQueue, offset: int) -> None:
        """Store an offset of a group (15)."""
        self._do(self._servers.one(group_offset_is(queue, group, offset)))

    def set_message_request_mode(
        self, addr: str, topic: str, group: str, mode: str, share_queues: int = 0
    ) -> None:
        """Set at one broker whether a group pulls a topic or pops it: ``PULL`` or ``POP`` (401).

        It counts for consumers with ``client_rebalance=False``; every broker of the topic needs
        it. ``share_queues``: how many members pop a queue besides its own one; 0: all do.
        """
        split_host_port(addr)
        self._do(groups.set_request_mode(self._servers, topic, group, mode, share_queues, addr))

    # --- messages --------------------------------------------------------------------------

    def view_message(self, topic: str, msg_id: str) -> MessageExt:
        """Give a message by its id of either kind (33, 12)."""
        return self._do(messages.by_id(self._servers, topic, msg_id))

    def message_track_detail(self, message: MessageExt) -> tuple[MessageTrack, ...]:
        """Say what became of a message in every group that reads its topic."""
        return self._do(messages.track(self._servers, message))

    def consume_message_directly(
        self, group: str, client_id: str, topic: str, msg_id: str
    ) -> ConsumedNow:
        """Let a member consume a stored message now (309)."""
        message = self.view_message(topic, msg_id)
        return self._do(groups.consume_now(self._servers, group, client_id, message))

    def resume_check_half_message(self, addr: str, topic: str, msg_id: str) -> None:
        """Let a broker ask again about a half message that it gave up; by its offset id (323)."""
        self._ask(addr, ASK_AGAIN, topic=topic, msg_id=msg_id)

    def _ask(self, addr: str, row: Row[_T], **fields: object) -> _T:
        split_host_port(addr)
        return self._do(self._servers.one(row.at(Address(addr), body=b"", **fields)))


def _place_of(timestamp: int) -> Place:
    """Read Java's time of a reset: epoch milliseconds, or -1 for the end."""
    if timestamp < 0:
        return "last"
    at = moment(max(1, timestamp))
    if at is None:
        raise ConfigError("timestamp", timestamp, "must be epoch milliseconds of a known year")
    return at
