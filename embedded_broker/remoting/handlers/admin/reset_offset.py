"""How a group is sent to another place in its queues: request 222, and what its members hear.

`AdminBrokerProcessor.resetOffset`. From 5.3 on the broker keeps the new offset and the group's next
pull is answered with it (`resetOffsetInner`, the option useServerSideResetOffset), so nobody has to
be online; a pull that waits is answered at once, where the original leaves it to its time. Before,
every member gets a request 220 with all offsets (`Broker2Client.resetOffset`), always in the form
of a table. Read on: `tables/offsets/table.py`, `remoting/handlers/consume/pull_message.py`.
"""

from collections.abc import Mapping

from embedded_broker.core.broker_core import BrokerCore
from embedded_broker.remoting.endpoint import Request, RequestError
from embedded_broker.settings.differences import differences
from embedded_broker.tables.offsets.table import NOT_STORED
from rocketmq_py.protocol.bodies.groups import ResetOffsetBody
from rocketmq_py.protocol.bodies.topics import MessageQueueKey, TopicConfig
from rocketmq_py.protocol.codes import FLAG_ONEWAY, RequestCode, ResponseCode
from rocketmq_py.protocol.command import RemotingCommand
from rocketmq_py.protocol.headers.admin import ResetOffsetRequestHeader

_TO_THE_END = -1
"""The timestamp that means the end of the queue."""


class ResetOffsetProcessor:
    """Answers 222."""

    def __init__(self, core: BrokerCore) -> None:
        self._core = core
        self._at_pull = differences(core.profile).resets_at_pull

    def register(self) -> None:
        """Take over the request of this module."""
        self._core.endpoint.register(RequestCode.INVOKE_BROKER_TO_RESET_OFFSET, self.reset)

    def reset(self, request: Request) -> RemotingCommand:
        """222: unknown topic 17, unknown group 26, an offset outside the queue 1.

        Before 5.3: a group without an offset in every queue 1, nobody online 206.
        """
        header = ResetOffsetRequestHeader.from_ext(request.command.ext_fields)
        topic = self._core.topics.get(header.topic)
        if topic is None:
            raise RequestError(ResponseCode.TOPIC_NOT_EXIST, f"Topic {header.topic} does not exist")
        targets = self._targets(header, topic) if self._at_pull else self._as_before(header, topic)
        reset_offsets(
            self._core,
            header.group,
            header.topic,
            targets,
            timestamp=header.timestamp,
            tell_absent=True,
        )
        body = _body(self._core, header.topic, targets).encode()
        return request.command.answer(ResponseCode.SUCCESS, body=body)

    def _targets(self, header: ResetOffsetRequestHeader, topic: TopicConfig) -> dict[int, int]:
        """Find the new offsets as 5.3 does."""
        if header.group not in self._core.groups:
            raise RequestError(
                ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, f"Group {header.group} does not exist"
            )
        if header.queue_id < 0:
            queues = range(topic.read_queue_nums)
            return {queue_id: self._by_time(header, queue_id) for queue_id in queues}
        offset = header.offset
        if offset is None or offset == NOT_STORED:
            return {header.queue_id: self._by_time(header, header.queue_id)}
        store = self._core.store
        low = store.min_offset(header.topic, header.queue_id)
        high = store.max_offset(header.topic, header.queue_id)
        if not low <= offset <= high + 1:
            raise RequestError(
                ResponseCode.SYSTEM_ERROR,
                f"Target offset {offset} not in consume queue range [{low}-{high}]",
            )
        return {header.queue_id: offset}

    def _as_before(self, header: ResetOffsetRequestHeader, topic: TopicConfig) -> dict[int, int]:
        """Find the new offsets as before 5.3: forward only with isForce, members must be there."""
        targets = {}
        for queue_id in range(topic.write_queue_nums):
            committed = self._core.offsets.query(header.group, header.topic, queue_id)
            if committed == NOT_STORED:
                raise RequestError(
                    ResponseCode.SYSTEM_ERROR,
                    f"THe consumer group <{header.group}> not exist: it has no offset in queue "
                    f"{queue_id} of {header.topic}",
                )
            found = self._by_time(header, queue_id)
            targets[queue_id] = found if header.is_force else min(found, committed)
        if self._core.consumers.get(header.group) is None:
            raise RequestError(
                ResponseCode.CONSUMER_NOT_ONLINE,
                f"Consumer not online, so can not reset offset, Group: {header.group} "
                f"Topic: {header.topic} Timestamp: {header.timestamp}",
            )
        return targets

    def _by_time(self, header: ResetOffsetRequestHeader, queue_id: int) -> int:
        store = self._core.store
        if header.timestamp <= _TO_THE_END:
            return store.max_offset(header.topic, queue_id)
        nearest = self._core.profile.nearest_offset_search
        boundary = "NEAREST" if nearest else "LOWER"
        return store.search_offset(header.topic, queue_id, header.timestamp, boundary)


def reset_offsets(
    core: BrokerCore,
    group: str,
    topic: str,
    targets: Mapping[int, int],
    *,
    timestamp: int = _TO_THE_END,
    tell_absent: bool = False,
) -> None:
    """Let a group continue at other offsets, by queue, and tell its members. Under the door.

    A group without members begins there when it comes; with `tell_absent` its first pull is
    answered with the offset too, as the original does, which costs that consumer a pull. Without
    it a queue in which the group is at that offset already is left alone.
    """
    live = core.consumers.get(group)
    at_pull = differences(core.profile).resets_at_pull
    for queue_id, offset in targets.items():
        committed = core.offsets.query(group, topic, queue_id)
        following = core.deliveries.next_offset(group, topic, queue_id)
        if not tell_absent and committed == offset and following in {None, offset}:
            continue
        tell = at_pull and (live is not None or tell_absent)
        core.offsets.reset(group, topic, queue_id, offset, tell=tell)
        core.deliveries.moved(group, topic, queue_id, offset)
        if at_pull:
            core.polls.wake(group, topic, queue_id)
    if at_pull or live is None:
        return
    header = ResetOffsetRequestHeader(
        topic=topic, group=group, timestamp=timestamp, is_force=False
    ).to_ext()
    body = _body(core, topic, targets).encode()
    for connection in live.members:
        core.endpoint.push(
            connection,
            RemotingCommand(
                RequestCode.RESET_CONSUMER_CLIENT_OFFSET,
                flag=FLAG_ONEWAY,
                ext_fields=header,
                body=body,
            ),
        )


def _body(core: BrokerCore, topic: str, targets: Mapping[int, int]) -> ResetOffsetBody:
    return ResetOffsetBody(
        {
            MessageQueueKey(topic, core.broker_name, queue_id): offset
            for queue_id, offset in targets.items()
        }
    )
