"""What an administrator's client can be asked: each call is one act, with its signature and text.

Written once, for the client whose calls are awaited and for the one that blocks. Must not know how
an act is run. Read on: ``../admin/client.py`` and ``../aio/admin.py`` for the clients, ``table.py``
for the requests.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta

from rocketmq_py.administration import (
    broker_addresses,
    brokers,
    groups,
    messages,
    progress,
    topics,
    traces,
    users,
)
from rocketmq_py.administration.messages import MESSAGES
from rocketmq_py.administration.servers import Servers
from rocketmq_py.administration.topics import QUEUES, READY_WITHIN
from rocketmq_py.administration.values import (
    BrokerPlace,
    BrokerRuntime,
    ConsumedNow,
    GroupChange,
    GroupDeletion,
    GroupMembers,
    GroupProgress,
    GroupSettings,
    Member,
    MemberState,
    MessageTrack,
    OffsetChange,
    OptionsChange,
    PendingTimers,
    Place,
    Policy,
    TimerPlace,
    TopicChange,
    TopicDeletion,
    TopicMessageType,
    TopicPlace,
    TopicSettings,
    User,
    UserChange,
)
from rocketmq_py.client.topic_questions import QueueBounds
from rocketmq_py.message import MessageExt
from rocketmq_py.protocol.names import TRACE_TOPIC
from rocketmq_py.send_result import MessageQueue
from rocketmq_py.trace.records import TraceRecord


class AdminCalls(ABC):
    """Every call as a coroutine function."""

    @property
    @abstractmethod
    def _servers(self) -> Servers:
        """Whom acts ask, and how."""

    # --- clusters and topics ---------------------------------------------------------------

    async def brokers(self) -> tuple[BrokerPlace, ...]:
        """Give every broker that is registered: name, cluster and addresses, slaves too."""
        return await broker_addresses.brokers(self._servers)

    async def topic_names(self) -> tuple[str, ...]:
        """Name all topics that the name server knows, those of the system too."""
        return await topics.names(self._servers)

    async def route(self, topic: str) -> tuple[TopicPlace, ...]:
        """Give where a topic is; () when no name server knows it."""
        return await broker_addresses.route(self._servers, topic)

    async def topic_settings(self, topic: str) -> dict[str, TopicSettings]:
        """Give the settings of a topic by broker name."""
        return await topics.settings(self._servers, topic)

    async def bounds(self, topic: str) -> dict[MessageQueue, QueueBounds]:
        """Give the bounds of every queue of a topic."""
        return await topics.bounds(self._servers, topic)

    async def groups_of(self, topic: str) -> tuple[str, ...]:
        """Name the groups that subscribe to a topic, or have committed in it."""
        return await topics.readers(self._servers, topic)

    async def create_topic(
        self,
        topic: str,
        *,
        queues: int = QUEUES,
        message_type: TopicMessageType | None = None,
        ordered: bool = False,
        at: str | None = None,
        dry_run: bool = False,
    ) -> dict[str, TopicChange]:
        """Create a topic; MQClientException (18) when a broker has it.

        Routes show it a moment later: `ensure_topic` waits for that. ``message_type`` needs 5.0:
        `UnsupportedOperationError` where a broker is older.
        """
        return await topics.create(
            self._servers,
            topic,
            queues,
            message_type,
            ordered=ordered,
            at=at,
            dry_run=dry_run,
        )

    async def ensure_topic(
        self,
        topic: str,
        *,
        queues: int = QUEUES,
        message_type: TopicMessageType | None = None,
        within: timedelta = READY_WITHIN,
    ) -> tuple[TopicPlace, ...]:
        """Make a topic usable: it can be written at every master, and every name server shows it.

        Does nothing where it is so already; a master that lacks it gets it, one with fewer queues
        gets more. ``queues`` are those of each master. Raises `NoRouteError` when routes do not
        show it ``within`` this time.
        """
        return await topics.ensure(self._servers, topic, queues, message_type, within)

    async def alter_topic(
        self,
        topic: str,
        *,
        read_queues: int | None = None,
        write_queues: int | None = None,
        readable: bool | None = None,
        writable: bool | None = None,
        attributes: Mapping[str, str] | None = None,
        at: str | None = None,
        dry_run: bool = False,
    ) -> dict[str, TopicChange]:
        """Change what is given of a topic; gives the brokers at which something changes.

        Messages in queues from ``read_queues`` on are not consumed any more: take queues from
        writers first, wait, then from readers.
        """
        return await topics.alter(
            self._servers,
            topic,
            read_queues=read_queues,
            write_queues=write_queues,
            readable=readable,
            writable=writable,
            attributes=attributes or {},
            at=at,
            dry_run=dry_run,
        )

    async def delete_topic(self, topic: str, *, dry_run: bool = False) -> TopicDeletion:
        """Delete a topic with its messages and what groups have committed in it."""
        return await topics.delete(self._servers, topic, dry_run=dry_run)

    # --- groups ----------------------------------------------------------------------------

    async def group_names(self) -> tuple[str, ...]:
        """Name all consumer groups, those too that every broker has."""
        return await groups.names(self._servers)

    async def group_settings(self, group: str) -> dict[str, GroupSettings]:
        """Give the settings of a group by broker; MQClientException (26) when there is none."""
        return await groups.settings(self._servers, group)

    async def create_group(
        self,
        group: str,
        settings: GroupSettings | None = None,
        *,
        at: str | None = None,
        dry_run: bool = False,
    ) -> dict[str, GroupChange]:
        """Create a consumer group; MQClientException when a broker has it."""
        wanted = GroupSettings() if settings is None else settings
        return await groups.create(self._servers, group, wanted, at, dry_run=dry_run)

    async def alter_group(
        self,
        group: str,
        *,
        consume_enabled: bool | None = None,
        broadcast_enabled: bool | None = None,
        ordered: bool | None = None,
        retry_queues: int | None = None,
        retry_max_times: int | None = None,
        consume_timeout: timedelta | None = None,
        at: str | None = None,
        dry_run: bool = False,
    ) -> dict[str, GroupChange]:
        """Change what is given of a group; gives the brokers at which something changes."""
        given = {
            "consume_enabled": consume_enabled,
            "broadcast_enabled": broadcast_enabled,
            "ordered": ordered,
            "retry_queues": retry_queues,
            "retry_max_times": retry_max_times,
            "consume_timeout": consume_timeout,
        }
        return await groups.alter(self._servers, group, given, at, dry_run=dry_run)

    async def delete_group(
        self, group: str, *, with_offsets: bool = True, dry_run: bool = False
    ) -> GroupDeletion:
        """Delete a group and its offsets. Its retry topic and its dead letters stay."""
        return await groups.delete(self._servers, group, with_offsets=with_offsets, dry_run=dry_run)

    async def members(self, group: str) -> GroupMembers:
        """Give who is online in a consumer group and what it subscribes."""
        return await groups.members(self._servers, group)

    async def producers(self, group: str) -> tuple[Member, ...]:
        """Give who is online in a producer group; () when nobody is."""
        return await groups.producers(self._servers, group)

    async def member_state(
        self, group: str, client_id: str, *, stacks: bool = False
    ) -> MemberState:
        """Let a member of a consumer group say how it is, with the stacks of its threads."""
        return await groups.state(self._servers, group, client_id, stacks=stacks)

    async def set_request_mode(
        self,
        topic: str,
        group: str,
        mode: str,
        *,
        share_queues: int = 0,
        at: str | None = None,
    ) -> None:
        """Set whether a group pulls a topic or pops it: ``PULL`` or ``POP`` (5.x).

        It counts for consumers with ``client_rebalance=False``. ``share_queues``: how many members
        pop a queue besides its own one; 0: all do.
        """
        return await groups.set_request_mode(self._servers, topic, group, mode, share_queues, at)

    # --- offsets ---------------------------------------------------------------------------

    async def group_progress(self, group: str, topic: str | None = None) -> GroupProgress:
        """Give how far a group is in a topic, or in all in which it has committed, and its lag."""
        return await progress.of_group(self._servers, group, topic)

    async def reset_offsets(
        self, group: str, topic: str, to: Place, *, dry_run: bool = False
    ) -> OffsetChange:
        """Let a group go on at a store time, or at ``"first"`` or ``"last"``.

        With members online, brokers tell them: before 5.3 these wait 10 s before they go on.
        Without any, the group begins there when it comes.
        """
        return await progress.reset(self._servers, group, topic, to, dry_run=dry_run)

    async def skip_backlog(self, group: str, topic: str, *, dry_run: bool = False) -> OffsetChange:
        """Let a group pass over all messages that it has not consumed."""
        return await progress.reset(self._servers, group, topic, "last", dry_run=dry_run)

    async def set_offsets(
        self, group: str, offsets: Mapping[MessageQueue, int], *, dry_run: bool = False
    ) -> OffsetChange:
        """Store offsets of a group that is offline; members would commit theirs over them."""
        return await progress.put(self._servers, group, offsets, dry_run=dry_run)

    async def clone_offsets(
        self, source: str, target: str, topic: str | None = None, *, dry_run: bool = False
    ) -> OffsetChange:
        """Let a group begin where another one is, in a topic or in all that that one has read."""
        return await progress.clone(self._servers, source, target, topic, dry_run=dry_run)

    # --- messages --------------------------------------------------------------------------

    async def message(self, topic: str, msg_id: str) -> MessageExt:
        """Give a message by its id of either kind; MQClientException (208) when there is none."""
        return await messages.by_id(self._servers, topic, msg_id)

    async def messages_by_key(
        self,
        topic: str,
        key: str,
        *,
        begin: datetime | None = None,
        end: datetime | None = None,
        max_messages: int = MESSAGES,
    ) -> tuple[MessageExt, ...]:
        """Give messages with a key, stored between two times, the oldest first."""
        return await messages.by_key(self._servers, topic, key, begin, end, max_messages)

    async def messages_by_time(
        self, topic: str, begin: datetime, end: datetime, *, max_messages: int = MESSAGES
    ) -> tuple[MessageExt, ...]:
        """Give messages stored from ``begin`` to before ``end``, the oldest first."""
        return await messages.by_time(self._servers, topic, begin, end, max_messages)

    async def message_at(self, queue: MessageQueue, offset: int) -> MessageExt | None:
        """Give the message at an offset of a queue; None: there is none to read."""
        return await messages.at_offset(self._servers, queue, offset)

    async def track(self, message: MessageExt) -> tuple[MessageTrack, ...]:
        """Say what became of a message in every group that reads its topic."""
        return await messages.track(self._servers, message)

    async def trace(
        self,
        msg_id: str,
        *,
        topic: str | None = None,
        trace_topic: str = TRACE_TOPIC,
        begin: datetime | None = None,
        end: datetime | None = None,
        max_messages: int = MESSAGES,
    ) -> tuple[TraceRecord, ...]:
        """Give what traced clients have noted about a message, the oldest first.

        They have ``enable_trace=True``, or are Java's with their trace on. ``msg_id`` is the id
        that a client gave; with its ``topic`` an offset id will do, and the message must be there.
        ``begin`` and ``end`` bound when the notes were stored, ``max_messages`` is how many
        messages of the trace topic are read at most. () when nothing was noted, or no note has come
        yet: clients send them every 5 s. Raises `NoRouteError` when there is no trace topic,
        `MQClientException` (208) when there is no such message in ``topic``, and
        `RemotingCommandException` for a note that cannot be read. Java: ``mqadmin
        queryMsgTraceById``.
        """
        return await traces.of_message(
            self._servers, msg_id, topic, trace_topic, begin, end, max_messages
        )

    async def consume_now(self, group: str, client_id: str, message: MessageExt) -> ConsumedNow:
        """Let a member consume a stored message now, whatever its offsets say."""
        return await groups.consume_now(self._servers, group, client_id, message)

    async def ask_again(self, message: MessageExt) -> None:
        """Let a broker ask again about the half message of a transaction that it gave up.

        It is one of the topic ``TRANS_CHECK_MAX_TIME_TOPIC``.
        """
        return await messages.ask_again(self._servers, message)

    # --- brokers ---------------------------------------------------------------------------

    async def broker_runtime(self, at: str | None = None) -> dict[str, BrokerRuntime]:
        """Give what brokers say about themselves."""
        return await brokers.runtime(self._servers, at)

    async def broker_options(self, at: str | None = None) -> dict[str, dict[str, str]]:
        """Give the options of brokers, as texts."""
        return await brokers.options(self._servers, at)

    async def alter_broker(
        self, changes: Mapping[str, str], at: str | None = None, *, dry_run: bool = False
    ) -> dict[str, OptionsChange]:
        """Change options of running brokers. Real ones take any name and value without a word."""
        return await brokers.alter(self._servers, changes, at, dry_run=dry_run)

    async def set_broker_writable(self, broker_name: str, writable: bool) -> int:
        """Let routes show a broker's topics as open or closed for writes; gives how many it has."""
        return await brokers.set_writable(self._servers, broker_name, writable=writable)

    async def key_values(self, namespace: str) -> dict[str, str]:
        """Give what the name server keeps in a namespace, such as ``ORDER_TOPIC_CONFIG``."""
        return await brokers.key_values(self._servers, namespace)

    async def put_key_value(self, namespace: str, key: str, value: str | None) -> None:
        """Let every name server keep a value; None: no more."""
        return await brokers.put_key_value(self._servers, namespace, key, value)

    # --- timers ----------------------------------------------------------------------------

    async def pending_timers(self, at: str | None = None) -> dict[str, dict[str, PendingTimers]]:
        """Give how many timers wait by broker, then by topic (5.x)."""
        return await brokers.pending_timers(self._servers, at)

    async def timer_check_point(self, at: str | None = None) -> dict[str, TimerPlace]:
        """Give how far the timers of brokers have come, as the last check point says (5.x)."""
        return await brokers.timer_check_point(self._servers, at)

    async def delay_offsets(self, at: str | None = None) -> dict[str, dict[int, int]]:
        """Give the next offset of each delay level that was used, by broker."""
        return await brokers.delay_offsets(self._servers, at)

    # --- users of ACL 2 (5.3) --------------------------------------------------------------

    async def users(
        self, containing: str | None = None, *, at: str | None = None
    ) -> dict[str, tuple[User, ...]]:
        """Give users by broker, or those whose name contains a text."""
        return await users.users(self._servers, containing, at)

    async def create_user(
        self,
        name: str,
        password: str,
        *,
        super_user: bool = False,
        at: str | None = None,
    ) -> None:
        """Add a user; `PermissionDeniedError` for a name that is taken."""
        return await users.create_user(self._servers, name, password, at, super_user=super_user)

    async def alter_user(
        self,
        name: str,
        *,
        password: str | None = None,
        super_user: bool | None = None,
        enabled: bool | None = None,
        at: str | None = None,
        dry_run: bool = False,
    ) -> dict[str, UserChange]:
        """Change what is given of a user; MQClientException (3001) when there is none."""
        return await users.alter_user(
            self._servers, name, password, super_user, enabled, at, dry_run=dry_run
        )

    async def delete_user(
        self, name: str, *, at: str | None = None, dry_run: bool = False
    ) -> dict[str, dict[str, tuple[Policy, ...]]]:
        """Remove a user; gives the policies that go with it, of each broker that has it."""
        return await users.delete_user(self._servers, name, at, dry_run=dry_run)

    async def policies(
        self, user: str | None = None, resource: str | None = None, *, at: str | None = None
    ) -> dict[str, dict[str, tuple[Policy, ...]]]:
        """Give policies by broker and user, where names contain these texts."""
        return await users.policies(self._servers, user, resource, at)

    async def put_policies(
        self,
        user: str,
        policies: Iterable[Policy],
        *,
        at: str | None = None,
        dry_run: bool = False,
    ) -> dict[str, dict[str, tuple[Policy, ...]]]:
        """Give a user policies; those about the same resources are replaced, and returned."""
        return await users.put_policies(self._servers, user, policies, at, dry_run=dry_run)

    async def delete_policies(
        self,
        user: str,
        resource: str | None = None,
        *,
        at: str | None = None,
        dry_run: bool = False,
    ) -> dict[str, dict[str, tuple[Policy, ...]]]:
        """Take the policy about a resource from a user, or all; gives what goes."""
        return await users.delete_policies(self._servers, user, resource, at, dry_run=dry_run)
