"""Registration of clients: heartbeats, members of groups, and the end of silent ones.

RocketMQ's ClientManageProcessor, DefaultConsumerIdsChangeListener and ClientHousekeepingService. A
heartbeat registers the connection for its groups, creates the group's settings and its retry topic,
and replaces its subscriptions and filters. Every member of a changed group is told, the newcomer
too. A client that has sent no heartbeat for channelExpiredTimeout of session time loses its
connection and its memberships; the original looks every 10 s, here it happens to the millisecond.
"""

from collections.abc import Callable, Collection, Generator, Sequence
from functools import partial
from typing import Any, Final

from attrs import define, field

from embedded_broker.clocks.session import SessionTimer
from embedded_broker.core.client_calls import ClientCalls, GroupChanged
from embedded_broker.core.environment import Environment
from embedded_broker.core.guards import Action, Caller
from embedded_broker.core.refusals import Reason, Refused
from embedded_broker.tables.broker_tables import Tables
from embedded_broker.tables.consumers.registry import ConsumerGroup, Member
from embedded_broker.tables.peer import Peer
from rocketmq_py.protocol.bodies.consumption import ProducerInfo, ProducerTable
from rocketmq_py.protocol.bodies.groups import Connection, ConsumerConnection, ProducerConnection
from rocketmq_py.protocol.bodies.heartbeat import ConsumerData, HeartbeatData
from rocketmq_py.protocol.codes import TopicSysFlag
from rocketmq_py.protocol.names import retry_topic

GROUPS_MAX: Final = 5000
"""So many groups of consumers, and of producers, has one connection at most."""
SECOND_NOTICE_MS: Final = 1000
"""How long after a new retry topic its group is told again (a Java client learns the topic's
route in its first rebalance and uses it in the next, which this notice starts)."""


@define(eq=False, kw_only=True)
class Clients:
    """The clients of one broker. `forget` is told of everybody who has left."""

    _env: Environment
    _tables: Tables
    _calls: ClientCalls
    _forget: Sequence[Callable[[Peer], None]]
    _scan: SessionTimer | None = field(default=None, init=False)

    # -- coming and going -------------------------------------------------------------------

    def heartbeat(
        self, peer: Peer, data: HeartbeatData, language: int, version: int, caller: Caller
    ) -> Generator[Callable[[], Any] | None, Any, bool]:
        """Register producers and consumers of one client, a group or a filter in each step.

        Says whether it must tell its subscriptions next time, because they are not those that the
        broker knows. Refuses a client that is in too many groups. What its producers may be shown
        later is what the ``caller`` of the heartbeat may send.
        """
        peer.client_id = data.client_id
        is_outdated = not data.heartbeat_fingerprint
        member = Member(
            peer,
            data.client_id,
            language,
            version,
            self._env.session.now_ms,
            account=caller.account,
            may_publish=partial(caller.may, Action.PUB),
        )
        for consumer in data.consumer_data_set:
            _check_room(consumer.group_name, self._tables.consumers.of_peer(peer), "consumer")
            is_outdated |= self._enter(consumer, member, data)
            if not data.without_sub:
                yield from self._keep_filters(consumer, peer)
            yield None
            if peer.closed:
                return is_outdated  # it has left already
        for producer in data.producer_data_set:
            _check_room(producer.group_name, self._tables.producers.of_peer(peer), "producer")
            self._tables.producers.register(producer.group_name, member)
            yield None
            if peer.closed:
                return is_outdated
        if self._scan is None:
            self._schedule()
        return is_outdated

    def _enter(self, data: ConsumerData, member: Member, whole: HeartbeatData) -> bool:
        """Do the consumer part; a group that may not be created is passed over, as upstream.

        Says whether the group's subscriptions are not those of the heartbeat's fingerprint.
        """
        settings = self._tables.groups.find(data.group_name)
        if settings is None:
            return False
        subscribed = (self._tables.topics.get(one.topic) for one in data.subscription_data_set)
        _, is_new = self._tables.topics.ensure(
            retry_topic(data.group_name),
            settings.retry_queue_nums,
            sys_flag=TopicSysFlag.UNIT_SUB if data.unit_mode else 0,
            order=any(topic is not None and topic.order for topic in subscribed),
        )
        changed = self._tables.consumers.register(data, member, keep=bool(whole.without_sub))
        group = self._tables.consumers.get(data.group_name)
        if changed and group is not None and settings.notify_consumer_ids_changed_enable:
            self._tell(group)
        if is_new:
            self._tell_again_soon(data.group_name)
        return group is not None and group.is_outdated(whole.heartbeat_fingerprint or 0)

    def _keep_filters(
        self, data: ConsumerData, peer: Peer
    ) -> Generator[Callable[[], Any] | None, Any, None]:
        """Keep what a group filters by, as long as the client stays in it."""
        steps = self._tables.consumer_filters.register(data.group_name, data.subscription_data_set)
        result = None
        while data.group_name in self._tables.consumers.of_peer(peer):
            try:
                call = steps.send(result)
            except StopIteration:
                return
            result = yield call

    def unregister(
        self, peer: Peer, *, producer_group: str | None, consumer_group: str | None
    ) -> None:
        """Let a client leave one producer group or one consumer group."""
        if producer_group is not None:
            self._tables.producers.unregister(producer_group, peer)
        if consumer_group is not None:
            lost = self._tables.consumers.unregister(consumer_group, peer)
            settings = self._tables.groups.get(consumer_group)
            wants_notice = settings is None or settings.notify_consumer_ids_changed_enable
            if lost is not None:
                self._note_loss(lost)
                if wants_notice:
                    self._tell(lost)

    def has_left(self, peer: Peer) -> None:
        """Drop everything a connection was member of and tell the groups that lost it."""
        self._tables.producers.drop(peer)
        for group in self._tables.consumers.drop(peer):
            self._note_loss(group)
            self._tell(group)
        for forget in self._forget:
            forget(peer)

    def _note_loss(self, group: ConsumerGroup) -> None:
        """Let the filters of a group die with its last member."""
        if not group.members:
            self._tables.consumer_filters.unregister(group.name)

    # -- who is there -----------------------------------------------------------------------

    def client_ids(self, group: str) -> list[str]:
        """Give the client ids of a group's members, in order of arrival; refuses when none is."""
        live = self._tables.consumers.get(group)
        if live is None:
            raise Refused(Reason.FAILED, f"no consumer for this group, {group}")
        return live.client_ids()

    def consumer_connections(self, group: str) -> ConsumerConnection:
        """Tell who is connected in a group and to what it subscribes; refuses when none is."""
        live = self._tables.consumers.get(group)
        if live is None:
            raise Refused(Reason.CONSUMER_NOT_ONLINE, f"the consumer group[{group}] not online")
        return ConsumerConnection(
            connection_set=[_connection(member) for member in live.members.values()],
            subscription_table=dict(live.subscriptions),
            consume_type=live.consume_type,
            message_model=live.message_model,
            consume_from_where=live.consume_from_where,
        )

    def producer_connections(self, group: str) -> ProducerConnection:
        """Tell who is connected in a producer group; refuses when nobody is."""
        members = self._tables.producers.members(group)
        if not members:
            raise Refused(Reason.FAILED, f"the producer group[{group}] not exist")
        return ProducerConnection([_connection(member) for member in members])

    def producers(self) -> ProducerTable:
        """Tell who is connected in which producer group."""
        return ProducerTable(
            {
                group: [
                    ProducerInfo(
                        client_id=member.client_id,
                        remote_ip=member.address,
                        language=member.language_name,
                        version=member.version,
                        last_update_timestamp=member.last_seen_ms,
                    )
                    for member in self._tables.producers.members(group)
                ]
                for group in self._tables.producers.groups()
            }
        )

    # -- notices ----------------------------------------------------------------------------

    def _tell(self, group: ConsumerGroup) -> None:
        """Tell every member, unless the broker's or the profile's rule says not to."""
        if not self._env.config.flag("notifyConsumerIdsChangedEnable"):
            return
        if group.is_broadcasting and not self._env.profile.tells_broadcasting_groups:
            return
        for peer in group.members:
            self._calls.tell(peer, GroupChanged(group.name))

    def _tell_again_soon(self, group_name: str) -> None:
        """Tell a second time one second from now, because the group's retry topic is new."""
        if not self._env.config.flag("notifyAgainAfterRetryTopic"):
            return

        def tell() -> None:
            group = self._tables.consumers.get(group_name)
            if group is not None:
                self._tell(group)

        self._env.session.after(SECOND_NOTICE_MS, tell, "second notice of a new retry topic")

    # -- silence ----------------------------------------------------------------------------

    def drop_silent(self) -> None:
        """Close the connections whose last heartbeat is too old."""
        self._scan = None
        oldest_kept = self._env.session.now_ms - self._timeout_ms()
        silent = dict.fromkeys(
            member.connection for member in self._members() if member.last_seen_ms <= oldest_kept
        )
        for peer in silent:
            self.has_left(peer)
            self._env.door.after(peer.close)
        self._schedule()

    def _schedule(self) -> None:
        """Look again when the member that was heard of least recently would be gone."""
        seen = min((member.last_seen_ms for member in self._members()), default=None)
        if seen is not None:
            self._scan = self._env.session.at(
                seen + self._timeout_ms(), self.drop_silent, "expiry of silent clients"
            )

    def _members(self) -> list[Member]:
        return [*self._tables.consumers.all_members(), *self._tables.producers.all_members()]

    def _timeout_ms(self) -> int:
        return self._env.config.int("channelExpiredTimeout")


def _check_room(group: str, known: Collection[str], kind: str) -> None:
    """Refuse one more group of a connection that has too many."""
    if len(known) >= GROUPS_MAX and group not in known:
        raise Refused(
            Reason.FAILED,
            f"this connection is in {len(known)} {kind} groups, at most {GROUPS_MAX} are possible",
        )


def _connection(member: Member) -> Connection:
    return Connection(
        client_id=member.client_id,
        client_addr=member.address,
        language=member.language_name,
        version=member.version,
    )
