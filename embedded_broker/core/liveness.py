"""Who must hear that a group has changed, and when a silent client is gone.

RocketMQ's DefaultConsumerIdsChangeListener and ClientHousekeepingService. Request 40 goes to every
socket of a changed group, the newcomer's included. A client that has sent no heartbeat for
channelExpiredTimeout of session time loses its connection and its memberships; the original looks
every 10 s, here it happens to the millisecond. Request handling is in
`remoting/handlers/admin/client_manage.py`.
"""

from typing import Final

from embedded_broker.clocks.timeline import SessionTimer
from embedded_broker.core.broker_core import BrokerCore
from embedded_broker.settings.differences import differences
from embedded_broker.tables.consumers.registry import ConsumerGroup
from embedded_broker.tables.peer import Peer
from rocketmq_py.protocol.codes import FLAG_ONEWAY, RequestCode
from rocketmq_py.protocol.command import RemotingCommand
from rocketmq_py.protocol.headers.client import NotifyConsumerIdsChangedRequestHeader

SECOND_NOTICE_MS: Final = 1000
"""How long after a new retry topic its group is told again (a Java client learns the topic's
route in its first rebalance and uses it in the next, which this notice starts)."""


class Liveness:
    """Tells groups about changes and drops who is silent or gone. Used under the door."""

    def __init__(self, core: BrokerCore) -> None:
        self._core = core
        self._tells_broadcasting = differences(core.profile).tells_broadcasting_groups
        self._scan: SessionTimer | None = None
        core.endpoint.on_disconnected.append(self.connection_ended)

    # -- notices ----------------------------------------------------------------------------

    def tell(self, group: ConsumerGroup) -> None:
        """Send 40 to every member, unless the broker's or the profile's rule says not to."""
        if not self._core.config.flag("notifyConsumerIdsChangedEnable"):
            return
        if group.is_broadcasting and not self._tells_broadcasting:
            return
        header = NotifyConsumerIdsChangedRequestHeader(consumer_group=group.name).to_ext()
        for connection in group.members:
            self._core.endpoint.push(
                connection,
                RemotingCommand(
                    RequestCode.NOTIFY_CONSUMER_IDS_CHANGED, flag=FLAG_ONEWAY, ext_fields=header
                ),
            )

    def tell_again_soon(self, group_name: str) -> None:
        """Send a second 40 one second from now, because the group's retry topic is new."""
        if not self._core.config.flag("notifyAgainAfterRetryTopic"):
            return
        due_ms = self._core.session_clock.now_ms + SECOND_NOTICE_MS

        def tell() -> None:
            group = self._core.consumers.get(group_name)
            if group is not None:
                self.tell(group)

        self._core.session.at(due_ms, tell, "second notice of a new retry topic")

    # -- silence ----------------------------------------------------------------------------

    def heard(self) -> None:
        """Note that a heartbeat came: from now on somebody may fall silent."""
        if self._scan is None:
            self._schedule()

    def connection_ended(self, connection: Peer) -> None:
        """Drop everything a connection was member of and tell the groups that lost it."""
        self._core.producers.drop(connection)
        for group in self._core.consumers.drop(connection):
            self.tell(group)
        self._core.polls.forget(connection)

    def drop_silent(self) -> None:
        """Close the connections whose last heartbeat is too old."""
        self._scan = None
        oldest_kept = self._core.session_clock.now_ms - self._timeout_ms()
        silent = {
            member.connection: None
            for registry in (self._core.consumers, self._core.producers)
            for member in registry.all_members()
            if member.last_seen_ms <= oldest_kept
        }
        for connection in silent:
            self.connection_ended(connection)
            self._core.door.after(connection.close)
        self._schedule()

    def _schedule(self) -> None:
        """Look again when the member that was heard of least recently would be gone."""
        seen = [
            member.last_seen_ms
            for registry in (self._core.consumers, self._core.producers)
            for member in registry.all_members()
        ]
        if seen:
            self._scan = self._core.session.at(
                min(seen) + self._timeout_ms(), self.drop_silent, "expiry of silent clients"
            )

    def _timeout_ms(self) -> int:
        return self._core.config.int("channelExpiredTimeout")
