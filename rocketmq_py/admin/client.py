"""The administrator's client: every act as a blocking, typed call.

Each call is one line: which act of ``../administration`` it is. `rocketmq_py.aio.AdminClient` has
the same calls. Must not know requests. Read on: ``../administration/table.py``.
"""

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta

from attrs import define, setters

from rocketmq_py.admin.blocking import BlockingAdmin
from rocketmq_py.administration import (
    brokers,
    groups,
    messages,
    places,
    progress,
    topics,
    traces,
    users,
)
from rocketmq_py.administration.messages import MESSAGES
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
from rocketmq_py.config import explained
from rocketmq_py.message import MessageExt
from rocketmq_py.protocol.names import TRACE_TOPIC
from rocketmq_py.send_result import MessageQueue
from rocketmq_py.trace.records import TraceRecord


@explained
@define(kw_only=True, eq=False, repr=False, slots=False, on_setattr=setters.NO_OP)
class AdminClient(BlockingAdmin):
    """Asks and changes topics, groups, offsets, messages, brokers and users.

    Every call is safe from any thread, and asks servers: nothing is remembered. Settings are those
    of every client, of which ``namesrv_addr`` is needed, and:

    timeout_millis
        Budget of one request in milliseconds, from 1, or a timedelta. A call may need several.
    cluster
        Only brokers of this cluster are asked and changed; None: those of all clusters that the
        name server knows.

    ``at=`` is a broker's name, or the ``host:port`` of any broker, a slave too; without it all
    masters are meant, and what differs between them comes by broker name. What takes something
    away, or changes it, gives what has changed; with ``dry_run=True`` it gives the same and
    changes nothing.

    Calls raise `NoRouteError` (no such topic), `NameServerUnavailableError`, `RemotingException`
    (nobody answers in time), `MQBrokerException` (refused), of which `RequestNotSupportedError`
    says that a server is too old, `ConfigError` and TypeError for what no server would take. Where
    some of many brokers did what was asked, a note of the error names them.

    >>> from embedded_broker import EmbeddedBroker
    >>> with EmbeddedBroker() as broker:
    ...     with AdminClient(namesrv_addr=broker.namesrv_addr) as admin:
    ...         _ = admin.ensure_topic("Orders", queues=2)
    ...         {name: one.write_queues for name, one in admin.topic_settings("Orders").items()}
    {'broker-a': 2}
    """

    # --- clusters and topics ---------------------------------------------------------------

    def brokers(self) -> tuple[BrokerPlace, ...]:
        """Give every broker that is registered: name, cluster and addresses, slaves too."""
        return self._do(places.brokers(self._servers))

    def topic_names(self) -> tuple[str, ...]:
        """Name all topics that the name server knows, those of the system too."""
        return self._do(topics.names(self._servers))

    def route(self, topic: str) -> tuple[TopicPlace, ...]:
        """Give where a topic is; () when no name server knows it."""
        return self._do(places.route(self._servers, topic))

    def topic_settings(self, topic: str) -> dict[str, TopicSettings]:
        """Give the settings of a topic by broker name."""
        return self._do(topics.settings(self._servers, topic))

    def bounds(self, topic: str) -> dict[MessageQueue, QueueBounds]:
        """Give the bounds of every queue of a topic."""
        return self._do(topics.bounds(self._servers, topic))

    def groups_of(self, topic: str) -> tuple[str, ...]:
        """Name the groups that subscribe to a topic, or have committed in it."""
        return self._do(topics.readers(self._servers, topic))

    def create_topic(
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
        return self._do(
            topics.create(
                self._servers,
                topic,
                queues,
                message_type,
                ordered=ordered,
                at=at,
                dry_run=dry_run,
            )
        )

    def ensure_topic(
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
        return self._do(topics.ensure(self._servers, topic, queues, message_type, within))

    def alter_topic(
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
        return self._do(
            topics.alter(
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
        )

    def delete_topic(self, topic: str, *, dry_run: bool = False) -> TopicDeletion:
        """Delete a topic with its messages and what groups have committed in it."""
        return self._do(topics.delete(self._servers, topic, dry_run=dry_run))

    # --- groups ----------------------------------------------------------------------------

    def group_names(self) -> tuple[str, ...]:
        """Name all consumer groups, those too that every broker has."""
        return self._do(groups.names(self._servers))

    def group_settings(self, group: str) -> dict[str, GroupSettings]:
        """Give the settings of a group by broker; MQClientException (26) when there is none."""
        return self._do(groups.settings(self._servers, group))

    def create_group(
        self,
        group: str,
        settings: GroupSettings | None = None,
        *,
        at: str | None = None,
        dry_run: bool = False,
    ) -> dict[str, GroupChange]:
        """Create a consumer group; MQClientException when a broker has it."""
        wanted = GroupSettings() if settings is None else settings
        return self._do(groups.create(self._servers, group, wanted, at, dry_run=dry_run))

    def alter_group(
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
        return self._do(groups.alter(self._servers, group, given, at, dry_run=dry_run))

    def delete_group(
        self, group: str, *, with_offsets: bool = True, dry_run: bool = False
    ) -> GroupDeletion:
        """Delete a group and its offsets. Its retry topic and its dead letters stay."""
        return self._do(
            groups.delete(self._servers, group, with_offsets=with_offsets, dry_run=dry_run)
        )

    def members(self, group: str) -> GroupMembers:
        """Give who is online in a consumer group and what it subscribes."""
        return self._do(groups.members(self._servers, group))

    def producers(self, group: str) -> tuple[Member, ...]:
        """Give who is online in a producer group; () when nobody is."""
        return self._do(groups.producers(self._servers, group))

    def member_state(self, group: str, client_id: str, *, stacks: bool = False) -> MemberState:
        """Let a member of a consumer group say how it is, with the stacks of its threads."""
        return self._do(groups.state(self._servers, group, client_id, stacks=stacks))

    def set_request_mode(
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
        return self._do(
            groups.set_request_mode(self._servers, topic, group, mode, share_queues, at)
        )

    # --- offsets ---------------------------------------------------------------------------

    def group_progress(self, group: str, topic: str | None = None) -> GroupProgress:
        """Give how far a group is in a topic, or in all in which it has committed, and its lag."""
        return self._do(progress.of_group(self._servers, group, topic))

    def reset_offsets(
        self, group: str, topic: str, to: Place, *, dry_run: bool = False
    ) -> OffsetChange:
        """Let a group go on at a store time, or at ``"first"`` or ``"last"``.

        With members online, brokers tell them: before 5.3 these wait 10 s before they go on.
        Without any, the group begins there when it comes.
        """
        return self._do(progress.reset(self._servers, group, topic, to, dry_run=dry_run))

    def skip_backlog(self, group: str, topic: str, *, dry_run: bool = False) -> OffsetChange:
        """Let a group pass over all messages that it has not consumed."""
        return self._do(progress.reset(self._servers, group, topic, "last", dry_run=dry_run))

    def set_offsets(
        self, group: str, offsets: Mapping[MessageQueue, int], *, dry_run: bool = False
    ) -> OffsetChange:
        """Store offsets of a group that is offline; members would commit theirs over them."""
        return self._do(progress.put(self._servers, group, offsets, dry_run=dry_run))

    def clone_offsets(
        self, source: str, target: str, topic: str | None = None, *, dry_run: bool = False
    ) -> OffsetChange:
        """Let a group begin where another one is, in a topic or in all that that one has read."""
        return self._do(progress.clone(self._servers, source, target, topic, dry_run=dry_run))

    # --- messages --------------------------------------------------------------------------

    def message(self, topic: str, msg_id: str) -> MessageExt:
        """Give a message by its id of either kind; MQClientException (208) when there is none."""
        return self._do(messages.by_id(self._servers, topic, msg_id))

    def messages_by_key(
        self,
        topic: str,
        key: str,
        *,
        begin: datetime | None = None,
        end: datetime | None = None,
        max_messages: int = MESSAGES,
    ) -> tuple[MessageExt, ...]:
        """Give messages with a key, stored between two times, the oldest first."""
        return self._do(messages.by_key(self._servers, topic, key, begin, end, max_messages))

    def messages_by_time(
        self, topic: str, begin: datetime, end: datetime, *, max_messages: int = MESSAGES
    ) -> tuple[MessageExt, ...]:
        """Give messages stored from ``begin`` to before ``end``, the oldest first."""
        return self._do(messages.by_time(self._servers, topic, begin, end, max_messages))

    def message_at(self, queue: MessageQueue, offset: int) -> MessageExt | None:
        """Give the message at an offset of a queue; None: there is none to read."""
        return self._do(messages.at_offset(self._servers, queue, offset))

    def track(self, message: MessageExt) -> tuple[MessageTrack, ...]:
        """Say what became of a message in every group that reads its topic."""
        return self._do(messages.track(self._servers, message))

    def trace(
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
        return self._do(
            traces.of_message(self._servers, msg_id, topic, trace_topic, begin, end, max_messages)
        )

    def consume_now(self, group: str, client_id: str, message: MessageExt) -> ConsumedNow:
        """Let a member consume a stored message now, whatever its offsets say."""
        return self._do(groups.consume_now(self._servers, group, client_id, message))

    def ask_again(self, message: MessageExt) -> None:
        """Let a broker ask again about the half message of a transaction that it gave up.

        It is one of the topic ``TRANS_CHECK_MAX_TIME_TOPIC``.
        """
        return self._do(messages.ask_again(self._servers, message))

    # --- brokers ---------------------------------------------------------------------------

    def broker_runtime(self, at: str | None = None) -> dict[str, BrokerRuntime]:
        """Give what brokers say about themselves."""
        return self._do(brokers.runtime(self._servers, at))

    def broker_options(self, at: str | None = None) -> dict[str, dict[str, str]]:
        """Give the options of brokers, as texts."""
        return self._do(brokers.options(self._servers, at))

    def alter_broker(
        self, changes: Mapping[str, str], at: str | None = None, *, dry_run: bool = False
    ) -> dict[str, OptionsChange]:
        """Change options of running brokers. Real ones take any name and value without a word."""
        return self._do(brokers.alter(self._servers, changes, at, dry_run=dry_run))

    def set_broker_writable(self, broker_name: str, writable: bool) -> int:
        """Let routes show a broker's topics as open or closed for writes; gives how many it has."""
        return self._do(brokers.set_writable(self._servers, broker_name, writable=writable))

    def key_values(self, namespace: str) -> dict[str, str]:
        """Give what the name server keeps in a namespace, such as ``ORDER_TOPIC_CONFIG``."""
        return self._do(brokers.key_values(self._servers, namespace))

    def put_key_value(self, namespace: str, key: str, value: str | None) -> None:
        """Let every name server keep a value; None: no more."""
        return self._do(brokers.put_key_value(self._servers, namespace, key, value))

    # --- timers ----------------------------------------------------------------------------

    def pending_timers(self, at: str | None = None) -> dict[str, dict[str, PendingTimers]]:
        """Give how many timers wait by broker, then by topic (5.x)."""
        return self._do(brokers.pending_timers(self._servers, at))

    def timer_check_point(self, at: str | None = None) -> dict[str, TimerPlace]:
        """Give how far the timers of brokers have come, as the last check point says (5.x)."""
        return self._do(brokers.timer_check_point(self._servers, at))

    def delay_offsets(self, at: str | None = None) -> dict[str, dict[int, int]]:
        """Give the next offset of each delay level that was used, by broker."""
        return self._do(brokers.delay_offsets(self._servers, at))

    # --- users of ACL 2 (5.3) --------------------------------------------------------------

    def users(
        self, containing: str | None = None, *, at: str | None = None
    ) -> dict[str, tuple[User, ...]]:
        """Give users by broker, or those whose name contains a text."""
        return self._do(users.users(self._servers, containing, at))

    def create_user(
        self,
        name: str,
        password: str,
        *,
        super_user: bool = False,
        at: str | None = None,
    ) -> None:
        """Add a user; `PermissionDeniedError` for a name that is taken."""
        return self._do(users.create_user(self._servers, name, password, at, super_user=super_user))

    def alter_user(
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
        return self._do(
            users.alter_user(
                self._servers, name, password, super_user, enabled, at, dry_run=dry_run
            )
        )

    def delete_user(
        self, name: str, *, at: str | None = None, dry_run: bool = False
    ) -> dict[str, dict[str, tuple[Policy, ...]]]:
        """Remove a user; gives the policies that go with it, of each broker that has it."""
        return self._do(users.delete_user(self._servers, name, at, dry_run=dry_run))

    def policies(
        self, user: str | None = None, resource: str | None = None, *, at: str | None = None
    ) -> dict[str, dict[str, tuple[Policy, ...]]]:
        """Give policies by broker and user, where names contain these texts."""
        return self._do(users.policies(self._servers, user, resource, at))

    def put_policies(
        self,
        user: str,
        policies: Iterable[Policy],
        *,
        at: str | None = None,
        dry_run: bool = False,
    ) -> dict[str, dict[str, tuple[Policy, ...]]]:
        """Give a user policies; those about the same resources are replaced, and returned."""
        return self._do(users.put_policies(self._servers, user, policies, at, dry_run=dry_run))

    def delete_policies(
        self,
        user: str,
        resource: str | None = None,
        *,
        at: str | None = None,
        dry_run: bool = False,
    ) -> dict[str, dict[str, tuple[Policy, ...]]]:
        """Take the policy about a resource from a user, or all; gives what goes."""
        return self._do(users.delete_policies(self._servers, user, resource, at, dry_run=dry_run))
