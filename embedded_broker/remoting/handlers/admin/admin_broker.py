"""Options, tables, queue offsets, queue locks: requests 25, 26, 29 to 32, 41, 42, 202, 208, 222.

The part of RocketMQ's AdminBrokerProcessor that clients and mqadmin need first, in front of
`core/administration/`: 25 and 26 change and show options, 202 and 208 show tables, 29 to 32
tell queue offsets, 222 moves a group, 41 and 42 lock queues.
"""

from functools import partial

from attrs import define

from embedded_broker.clocks.session import Session
from embedded_broker.core.administration import Administration
from embedded_broker.remoting.endpoint import Endpoint
from embedded_broker.remoting.long_requests import Work
from embedded_broker.remoting.requests import Request
from embedded_broker.store.message_store import MessageStore
from embedded_broker.tables.consumers.registry import QueueLocks
from rocketmq_py.protocol.bodies.document import MessageQueueKey
from rocketmq_py.protocol.bodies.groups import LockBatchRequest, LockBatchResponse, ResetOffsetBody
from rocketmq_py.protocol.codes import LanguageCode, RequestCode, ResponseCode
from rocketmq_py.protocol.command import RemotingCommand
from rocketmq_py.protocol.headers.admin import (
    GetConsumeStatsRequestHeader,
    GetTopicStatsInfoRequestHeader,
    ResetOffsetRequestHeader,
)
from rocketmq_py.protocol.headers.consume import (
    GetEarliestMsgStoretimeRequestHeader,
    GetMaxOffsetRequestHeader,
    GetMinOffsetRequestHeader,
    SearchOffsetRequestHeader,
)
from rocketmq_py.protocol.json_text import dumps


@define(eq=False)
class AdminBrokerProcessor:
    """Options, tables, queue offsets and queue locks."""

    _administration: Administration
    _store: MessageStore
    _locks: QueueLocks
    _session: Session

    def register(self, endpoint: Endpoint) -> None:
        """Take over the requests of this module."""
        register, register_long = endpoint.register, endpoint.register_long
        register_long(RequestCode.UPDATE_BROKER_CONFIG, self.update_options)
        register(RequestCode.GET_BROKER_CONFIG, self.show_options)
        register_long(RequestCode.GET_TOPIC_STATS_INFO, self.topic_stats)
        register_long(RequestCode.GET_CONSUME_STATS, self.consume_stats)
        register(RequestCode.SEARCH_OFFSET_BY_TIMESTAMP, self.search_offset)
        register(RequestCode.GET_MAX_OFFSET, self.max_offset)
        register(RequestCode.GET_MIN_OFFSET, self.min_offset)
        register(RequestCode.GET_EARLIEST_MSG_STORETIME, self.earliest_store_time)
        register_long(RequestCode.INVOKE_BROKER_TO_RESET_OFFSET, self.reset_offset)
        register_long(RequestCode.LOCK_BATCH_MQ, self.lock_queues)
        register_long(RequestCode.UNLOCK_BATCH_MQ, self.unlock_queues)

    # -- options ----------------------------------------------------------------------------

    def update_options(self, request: Request) -> Work:
        """25: change options, all of them or none; a black-listed name is 16.

        Names that a real broker has and this one has no use for are accepted, and named in the
        remark of the answer.
        """
        text = request.command.body.decode("utf-8", "replace")
        yield None
        without_effect = self._administration.settings.update_options(text)
        remark = f"no effect here: {', '.join(without_effect)}" if without_effect else None
        return request.command.answer(ResponseCode.SUCCESS, remark)

    def show_options(self, request: Request) -> RemotingCommand:
        """26: every option with its value, and how often options were changed."""
        lines = [
            f"{name}={value}\n" for name, value in self._administration.settings.options().items()
        ]
        return request.command.answer(
            ResponseCode.SUCCESS,
            ext_fields={"version": dumps(self._administration.settings.options_version()).decode()},
            body="".join(lines).encode(),
        )

    # -- tables -----------------------------------------------------------------------------

    def topic_stats(self, request: Request) -> Work:
        """202: bounds and last store time of every queue of a topic; unknown topic: 17."""
        header = GetTopicStatsInfoRequestHeader.from_ext(request.command.ext_fields)
        table = yield from self._administration.offsets.topic_stats(header.topic)
        body = yield table.encode
        return request.command.answer(ResponseCode.SUCCESS, body=body)

    def consume_stats(self, request: Request) -> Work:
        """208: how far a group is in every queue of its topics, or of those in topicList."""
        header = GetConsumeStatsRequestHeader.from_ext(request.command.ext_fields)
        topics = [name for name in (header.topic_list or "").split(";") if name]
        if not topics and header.topic:
            topics = [header.topic]
        stats = yield from self._administration.offsets.progress(header.consumer_group, topics)
        body = yield stats.encode
        return request.command.answer(ResponseCode.SUCCESS, body=body)

    # -- queue offsets ----------------------------------------------------------------------

    def search_offset(self, request: Request) -> RemotingCommand:
        """29: the offset for a store time."""
        header = SearchOffsetRequestHeader.from_ext(request.command.ext_fields)
        offset = self._administration.offsets.search(
            header.topic, header.queue_id, header.timestamp, header.boundary_type
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

    def reset_offset(self, request: Request) -> Work:
        """222: unknown topic 17, unknown group 26, an offset outside the queue 1.

        Before 5.3: a group without an offset in every queue 1, nobody online 206.
        """
        header = ResetOffsetRequestHeader.from_ext(request.command.ext_fields)
        offsets = yield from self._administration.offsets.reset_to_time(
            header.group,
            header.topic,
            header.timestamp,
            queue_id=header.queue_id,
            offset=header.offset,
            force=header.is_force,
            as_list=request.command.language == LanguageCode.CPP,
        )
        body = yield ResetOffsetBody(offsets).encode
        return request.command.answer(ResponseCode.SUCCESS, body=body)

    # -- locks ------------------------------------------------------------------------------

    def lock_queues(self, request: Request) -> Work:
        """41: lock queues for an orderly consumer; the answer lists those it holds now."""
        wanted: LockBatchRequest = yield partial(LockBatchRequest.decode, request.command.body)
        held: list[MessageQueueKey] = []
        for queue in wanted.mq_set:
            now_ms = self._session.now_ms
            held += self._locks.lock(
                wanted.consumer_group, [queue], wanted.client_id, now_ms=now_ms
            )
            yield None
        body = yield LockBatchResponse(held).encode
        return request.command.answer(ResponseCode.SUCCESS, body=body)

    def unlock_queues(self, request: Request) -> Work:
        """42: free queues; those that another client holds are left alone."""
        wanted: LockBatchRequest = yield partial(LockBatchRequest.decode, request.command.body)
        for queue in wanted.mq_set:
            self._locks.unlock(wanted.consumer_group, [queue], wanted.client_id)
            yield None
        return request.command.answer(ResponseCode.SUCCESS)


def _offset(request: Request, offset: int) -> RemotingCommand:
    return request.command.answer(ResponseCode.SUCCESS, ext_fields={"offset": str(offset)})
