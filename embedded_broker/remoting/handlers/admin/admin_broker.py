"""What administrators, and consumers on start, ask about topics, queues and groups.

The part of RocketMQ's AdminBrokerProcessor that clients and mqadmin need first: 17 and 200 write
settings, 202, 203 and 208 show tables, 29 to 32 tell queue offsets, 41 and 42 lock queues. Who owns
the state is in `tables/topics/`, `consumers/`, `tables/offsets/` and `store/`.
"""

from typing import Final

from embedded_broker.core.broker_core import BrokerCore
from embedded_broker.remoting.endpoint import Handler, Request, RequestError
from embedded_broker.settings.differences import differences
from embedded_broker.tables.topics.attributes import TopicAttributeError, parse_attributes
from rocketmq_py.protocol.bodies.groups import (
    Connection,
    ConsumerConnection,
    ConsumeStats,
    OffsetWrapper,
    SubscriptionGroupConfig,
)
from rocketmq_py.protocol.bodies.locks import LockBatchRequest, LockBatchResponse
from rocketmq_py.protocol.bodies.topics import (
    MessageQueueKey,
    TopicConfig,
    TopicOffset,
    TopicStatsTable,
)
from rocketmq_py.protocol.codes import LanguageCode, RequestCode, ResponseCode
from rocketmq_py.protocol.command import RemotingCommand
from rocketmq_py.protocol.headers.admin import (
    CreateTopicRequestHeader,
    GetConsumerConnectionListRequestHeader,
    GetConsumeStatsRequestHeader,
    GetTopicStatsInfoRequestHeader,
)
from rocketmq_py.protocol.headers.offsets import (
    GetEarliestMsgStoretimeRequestHeader,
    GetMaxOffsetRequestHeader,
    GetMinOffsetRequestHeader,
    SearchOffsetRequestHeader,
)
from rocketmq_py.protocol.names import topic_problem

_MIXED: Final = "MIXED"
_BOUNDARIES: Final = frozenset({"LOWER", "UPPER"})


class AdminBrokerProcessor:
    """Settings, tables, queue offsets and queue locks."""

    def __init__(self, core: BrokerCore) -> None:
        self._core = core
        self._store = core.store
        self._habits = differences(core.profile)

    def register(self) -> None:
        """Take over the requests of this module."""
        handlers: dict[RequestCode, Handler] = {
            RequestCode.UPDATE_AND_CREATE_TOPIC: self.put_topic,
            RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP: self.put_group,
            RequestCode.GET_TOPIC_STATS_INFO: self.topic_stats,
            RequestCode.GET_CONSUMER_CONNECTION_LIST: self.consumer_connections,
            RequestCode.GET_CONSUME_STATS: self.consume_stats,
            RequestCode.SEARCH_OFFSET_BY_TIMESTAMP: self.search_offset,
            RequestCode.GET_MAX_OFFSET: self.max_offset,
            RequestCode.GET_MIN_OFFSET: self.min_offset,
            RequestCode.GET_EARLIEST_MSG_STORETIME: self.earliest_store_time,
            RequestCode.LOCK_BATCH_MQ: self.lock_queues,
            RequestCode.UNLOCK_BATCH_MQ: self.unlock_queues,
        }
        for code, handler in handlers.items():
            self._core.endpoint.register(code, handler)

    # -- settings ---------------------------------------------------------------------------

    def put_topic(self, request: Request) -> RemotingCommand:
        """17: create a topic or change it.

        A bad name, a system topic and the type MIXED are 1 or 29 by profile; an attribute that
        cannot be applied is 1. 4.9 does not look at attributes.
        """
        profile = self._core.profile
        header = CreateTopicRequestHeader.from_ext(request.command.ext_fields)
        name = header.topic
        problem = topic_problem(
            name,
            length_max=profile.topic_length_max,
            retry_length_max=profile.system_topic_length_max,
        )
        if problem is not None:
            raise RequestError(profile.invalid_parameter, problem)
        guarded = self._core.config.flag("validateSystemTopicWhenUpdateTopic")
        if guarded and self._core.topics.is_system(name):
            raise RequestError(
                profile.invalid_parameter, f"The topic[{name}] is conflict with system topic."
            )
        wanted = TopicConfig(
            topic_name=name,
            read_queue_nums=header.read_queue_nums,
            write_queue_nums=header.write_queue_nums,
            perm=header.perm,
            topic_filter_type=header.topic_filter_type,
            topic_sys_flag=header.topic_sys_flag or 0,
            order=header.order,
        )
        try:
            changes = parse_attributes(header.attributes if profile.topic_attributes else None)
            mixed_allowed = self._core.config.flag("enableMixedMessageType")
            if changes.get("+message.type") == _MIXED and not mixed_allowed:
                raise RequestError(
                    profile.invalid_parameter,
                    "MIXED message type is not supported: enableMixedMessageType=false",
                )
            self._core.topics.update(wanted, changes)
        except TopicAttributeError as error:
            raise RequestError(ResponseCode.SYSTEM_ERROR, str(error)) from error
        return request.command.answer(ResponseCode.SUCCESS)

    def put_group(self, request: Request) -> RemotingCommand:
        """200: create the settings of a consumer group or replace them."""
        if request.command.body:
            group = SubscriptionGroupConfig.decode(request.command.body)
            problem = self._core.groups.problem(group.group_name)
            if problem is not None and self._habits.checks_group_names:
                raise RequestError(self._core.profile.invalid_parameter, problem)
            self._core.groups.put(group)
        return request.command.answer(ResponseCode.SUCCESS)

    # -- tables -----------------------------------------------------------------------------

    def topic_stats(self, request: Request) -> RemotingCommand:
        """202: bounds and last store time of every queue of a topic; unknown topic: 17."""
        header = GetTopicStatsInfoRequestHeader.from_ext(request.command.ext_fields)
        topic = self._core.topics.get(header.topic)
        if topic is None:
            raise RequestError(ResponseCode.TOPIC_NOT_EXIST, f"topic[{header.topic}] not exist")
        table = TopicStatsTable(
            topic_put_tps=0.0 if self._core.profile.stats_have_put_tps else None
        )
        for queue_id in range(max(topic.write_queue_nums, topic.read_queue_nums)):
            newest = self._store.max_offset(header.topic, queue_id)
            table.offset_table[self._queue(header.topic, queue_id)] = TopicOffset(
                min_offset=self._store.min_offset(header.topic, queue_id),
                max_offset=newest,
                last_update_timestamp=self._store_time(header.topic, queue_id, newest - 1),
            )
        return request.command.answer(ResponseCode.SUCCESS, body=table.encode())

    def consumer_connections(self, request: Request) -> RemotingCommand:
        """203: who is connected in a group and to what it subscribes; nobody: 206."""
        header = GetConsumerConnectionListRequestHeader.from_ext(request.command.ext_fields)
        live = self._core.consumers.get(header.consumer_group)
        if live is None:
            raise RequestError(
                ResponseCode.CONSUMER_NOT_ONLINE,
                f"the consumer group[{header.consumer_group}] not online",
            )
        body = ConsumerConnection(
            connection_set=[
                Connection(
                    client_id=member.client_id,
                    client_addr="{}:{}".format(*member.connection.remote[:2]),
                    language=_language_name(member.language),
                    version=member.version,
                )
                for member in live.members.values()
            ],
            subscription_table={
                topic: subscription.data for topic, subscription in live.subscriptions.items()
            },
            consume_type=live.consume_type,
            message_model=live.message_model,
            consume_from_where=live.consume_from_where,
        )
        return request.command.answer(ResponseCode.SUCCESS, body=body.encode())

    def consume_stats(self, request: Request) -> RemotingCommand:
        """208: how far a group is in every queue; an unknown group has an empty table.

        Without topics the group's committed ones are shown, as far as its live members still
        subscribe to them; a topicList is taken as it is.
        """
        header = GetConsumeStatsRequestHeader.from_ext(request.command.ext_fields)
        group = header.consumer_group
        topics = [name for name in (header.topic_list or "").split(";") if name]
        if not topics:
            topics = [header.topic] if header.topic else self._core.offsets.topics_of(group)
            live = self._core.consumers.get(group)
            if live is not None and live.subscriptions:
                topics = [name for name in topics if name in live.subscriptions]
        stats = ConsumeStats()
        for name in topics:
            topic = self._core.topics.get(name)
            for queue_id in range(topic.read_queue_nums if topic is not None else 0):
                stats.offset_table[self._queue(name, queue_id)] = self._progress(
                    group, name, queue_id
                )
        return request.command.answer(ResponseCode.SUCCESS, body=stats.encode())

    def _progress(self, group: str, topic: str, queue_id: int) -> OffsetWrapper:
        committed = max(0, self._core.offsets.query(group, topic, queue_id))
        return OffsetWrapper(
            broker_offset=self._store.max_offset(topic, queue_id),
            consumer_offset=committed,
            pull_offset=committed if self._core.profile.stats_have_put_tps else None,
            last_timestamp=self._store_time(topic, queue_id, committed - 1),
        )

    # -- queue offsets ----------------------------------------------------------------------

    def search_offset(self, request: Request) -> RemotingCommand:
        """29: the offset for a store time: nearest in 4.9, LOWER (default) or UPPER in 5.x."""
        header = SearchOffsetRequestHeader.from_ext(request.command.ext_fields)
        boundary = "NEAREST"
        if not self._core.profile.nearest_offset_search:
            boundary = header.boundary_type or "LOWER"
            if boundary not in _BOUNDARIES:
                raise RequestError(
                    ResponseCode.SYSTEM_ERROR,
                    f"boundaryType[{boundary}] is none of LOWER, UPPER",
                )
        offset = self._store.search_offset(
            header.topic, header.queue_id, header.timestamp, boundary
        )
        return _offset(request, offset)

    def max_offset(self, request: Request) -> RemotingCommand:
        """30: the next offset to be written; 0 for an unknown queue."""
        header = GetMaxOffsetRequestHeader.from_ext(request.command.ext_fields)
        return _offset(request, self._store.max_offset(header.topic, header.queue_id))

    def min_offset(self, request: Request) -> RemotingCommand:
        """31: the first offset that can be read; 0 for an unknown queue."""
        header = GetMinOffsetRequestHeader.from_ext(request.command.ext_fields)
        return _offset(request, self._store.min_offset(header.topic, header.queue_id))

    def earliest_store_time(self, request: Request) -> RemotingCommand:
        """32: the store time of the first readable message; -1 when there is none."""
        header = GetEarliestMsgStoretimeRequestHeader.from_ext(request.command.ext_fields)
        stamp = self._store.earliest_store_time(header.topic, header.queue_id)
        return request.command.answer(ResponseCode.SUCCESS, ext_fields={"timestamp": str(stamp)})

    # -- locks ------------------------------------------------------------------------------

    def lock_queues(self, request: Request) -> RemotingCommand:
        """41: lock queues for an orderly consumer; the answer lists those it holds now."""
        wanted = LockBatchRequest.decode(request.command.body)
        held = self._core.locks.lock(
            wanted.consumer_group,
            wanted.mq_set,
            wanted.client_id,
            now_ms=self._core.session_clock.now_ms,
        )
        return request.command.answer(ResponseCode.SUCCESS, body=LockBatchResponse(held).encode())

    def unlock_queues(self, request: Request) -> RemotingCommand:
        """42: free queues; those that another client holds are left alone."""
        wanted = LockBatchRequest.decode(request.command.body)
        self._core.locks.unlock(wanted.consumer_group, wanted.mq_set, wanted.client_id)
        return request.command.answer(ResponseCode.SUCCESS)

    # -- shared -----------------------------------------------------------------------------

    def _queue(self, topic: str, queue_id: int) -> MessageQueueKey:
        return MessageQueueKey(topic, self._core.broker_name, queue_id)

    def _store_time(self, topic: str, queue_id: int, offset: int) -> int:
        """Give the store time of the message at a queue offset; 0 when there is none."""
        queue = self._store.consume_queue(topic, queue_id)
        entry = None if queue is None or offset < 0 else queue.entry(offset)
        return 0 if entry is None else self._store.log.store_timestamp(entry[0])


def _offset(request: Request, offset: int) -> RemotingCommand:
    return request.command.answer(ResponseCode.SUCCESS, ext_fields={"offset": str(offset)})


def _language_name(number: int) -> str:
    try:
        return LanguageCode(number).name
    except ValueError:
        return LanguageCode.OTHER.name
