"""What a consumer gets that pulls: requests 11 and 361.

RocketMQ's PullMessageProcessor and DefaultPullMessageResultHandler: their checks in their order,
one method each (broker, group, topic and queue, subscription); then the store is read, the offset
that came along is committed, and a pull that found nothing may be parked (`core/waiters.py`) and
runs once more later. Which records match is decided by `store/pull.py`; tags only: SQL92
subscriptions are refused with 1.
"""

from typing import Final

from attrs import define

from embedded_broker.core.broker_core import BrokerCore
from embedded_broker.core.waiters import ParkedPull, ParkedPulls
from embedded_broker.remoting.endpoint import Request, RequestError
from embedded_broker.store.message_store import GetResult, GetStatus
from embedded_broker.tables.consumers.registry import ConsumerGroup, Subscription, is_tag_type
from rocketmq_py.errors import BodyError
from rocketmq_py.protocol.bodies.groups import SubscriptionGroupConfig
from rocketmq_py.protocol.bodies.heartbeat import SubscriptionData
from rocketmq_py.protocol.bodies.topics import TopicConfig
from rocketmq_py.protocol.codes import PERM_READ, PullSysFlag, RequestCode, ResponseCode
from rocketmq_py.protocol.command import RemotingCommand
from rocketmq_py.protocol.headers.pull import PullMessageRequestHeader

FORBIDDEN_BROKER: Final = 1
FORBIDDEN_GROUP: Final = 2
FORBIDDEN_TOPIC: Final = 3
FORBIDDEN_BROADCASTING: Final = 4

CODE_OF_STATUS: Final = {
    GetStatus.FOUND: ResponseCode.SUCCESS,
    GetStatus.NO_MATCHED_MESSAGE: ResponseCode.PULL_RETRY_IMMEDIATELY,
    GetStatus.MESSAGE_WAS_REMOVING: ResponseCode.PULL_RETRY_IMMEDIATELY,
    GetStatus.OFFSET_FOUND_NULL: ResponseCode.PULL_NOT_FOUND,
    GetStatus.OFFSET_OVERFLOW_ONE: ResponseCode.PULL_NOT_FOUND,
    GetStatus.OFFSET_OVERFLOW_BADLY: ResponseCode.PULL_OFFSET_MOVED,
    GetStatus.OFFSET_TOO_SMALL: ResponseCode.PULL_OFFSET_MOVED,
    GetStatus.OFFSET_RESET: ResponseCode.PULL_OFFSET_MOVED,
    # An empty queue: 19 when asked from its beginning, else 21 (PullMessageProcessor).
    GetStatus.NO_MESSAGE_IN_QUEUE: ResponseCode.PULL_NOT_FOUND,
    GetStatus.NO_MATCHED_LOGIC_QUEUE: ResponseCode.PULL_NOT_FOUND,
}
_EMPTY: Final = frozenset({GetStatus.NO_MESSAGE_IN_QUEUE, GetStatus.NO_MATCHED_LOGIC_QUEUE})


@define(slots=True)
class Pull:
    """One pull on its way through the checks; each check adds what it found."""

    request: Request
    header: PullMessageRequestHeader
    group: SubscriptionGroupConfig
    topic: TopicConfig
    codes: frozenset[int] | None = None


class PullMessageProcessor:
    """Answers pulls, at once or when a message arrives."""

    def __init__(self, core: BrokerCore) -> None:
        self._core = core
        self._store = core.store
        self._get = core.store.get
        self._offsets = core.offsets
        self._note = core.deliveries.handed_out
        self._topics = core.topics
        self._groups = core.groups
        self.polls = ParkedPulls(core, self._run_again)

    def register(self) -> None:
        """Take over the requests of this module."""
        self._core.endpoint.register(RequestCode.PULL_MESSAGE, self.pull)
        self._core.endpoint.register(RequestCode.LITE_PULL_MESSAGE, self.lite_pull)

    def pull(self, request: Request) -> RemotingCommand | None:
        """11: records from an offset on; None while the pull is parked."""
        header = PullMessageRequestHeader.from_ext(request.command.ext_fields)
        pull = self._checked(request, header)
        result = self._read(pull)
        is_reset = result.status is GetStatus.OFFSET_RESET
        if header.sys_flag & PullSysFlag.COMMIT_OFFSET and not is_reset:
            self._core.offsets.commit(
                header.consumer_group, header.topic, header.queue_id, header.commit_offset
            )
        answer = self._answer(pull, result)
        if answer.code == ResponseCode.PULL_NOT_FOUND and self._park(pull):
            return None
        return answer

    def lite_pull(self, request: Request) -> RemotingCommand | None:
        """361: as 11, unless litePullMessageEnable is false."""
        if not self._core.config.flag("litePullMessageEnable"):
            raise _forbidden(
                FORBIDDEN_BROKER,
                f"the broker[{self._core.address}] for lite pull consumer is forbidden: "
                "litePullMessageEnable=false",
            )
        return self.pull(request)

    # -- reading ----------------------------------------------------------------------------

    def _read(self, pull: Pull) -> GetResult:
        """Read what is asked for, unless the group's offset was reset: then it begins there."""
        header = pull.header
        group, topic, queue_id = header.consumer_group, header.topic, header.queue_id
        reset = self._offsets.take_reset(group, topic, queue_id)
        if reset is not None:
            low = self._store.min_offset(topic, queue_id)
            high = self._store.max_offset(topic, queue_id)
            return GetResult(GetStatus.OFFSET_RESET, reset, low, high, [], 0)
        return self._get(
            topic, queue_id, header.queue_offset, header.max_msg_nums, codes=pull.codes
        )

    def _answer(self, pull: Pull, result: GetResult) -> RemotingCommand:
        status = result.status
        self._core.traffic.note_pull(result.count)
        code = CODE_OF_STATUS[status]
        header = pull.header
        if status in _EMPTY and header.queue_offset != 0:
            code = ResponseCode.PULL_OFFSET_MOVED
        self._note(
            header.consumer_group,
            header.topic,
            header.queue_id,
            header.queue_offset,
            result.next_begin_offset,
            result.count,
        )
        answer = pull.request.command.answer(
            code,
            status.value,
            {
                "suggestWhichBrokerId": "0",
                "nextBeginOffset": str(result.next_begin_offset),
                "minOffset": str(result.min_offset),
                "maxOffset": str(result.max_offset),
                "topicSysFlag": str(pull.topic.topic_sys_flag),
                "groupSysFlag": str(pull.group.group_sys_flag),
            },
        )
        answer.body_parts = result.buffers
        return answer

    def _park(self, pull: Pull) -> bool:
        header = pull.header
        if not header.sys_flag & PullSysFlag.SUSPEND:
            return False
        config = self._core.config
        wait_ms = header.suspend_timeout_millis
        if not config.flag("longPollingEnable"):
            wait_ms = config.int("shortPollingTimeMills")
        if wait_ms <= 0:
            return False
        return self.polls.park(ParkedPull(pull.request, header, pull.codes), wait_ms)

    def _run_again(self, parked: ParkedPull) -> None:
        """Answer a parked pull now, whatever it finds; topic and group are checked again."""
        request = parked.request
        try:
            pull = self._checked(request, parked.header)
            answer = self._answer(pull, self._read(pull))
        except RequestError as error:
            answer = request.command.answer(error.code, error.remark, error.ext_fields)
        self._core.endpoint.answer(request, answer)

    # -- the checks, in order ---------------------------------------------------------------

    def _checked(self, request: Request, header: PullMessageRequestHeader) -> Pull:
        """Refuse a pull by the first check that fails, in the order of the original."""
        self._broker_is_readable()
        pull = Pull(request, header, self._group(header), self._topic(header))
        has_subscription = header.sys_flag & PullSysFlag.SUBSCRIPTION
        choose = self._from_request if has_subscription else self._from_heartbeat
        pull.codes = choose(pull)
        return pull

    def _broker_is_readable(self) -> None:
        perm = self._core.config.int("brokerPermission")
        if not perm & PERM_READ:
            raise _forbidden(
                FORBIDDEN_BROKER,
                f"the broker[{self._core.address}] pulling message is forbidden: "
                f"brokerPermission={perm} has no read bit (4)",
            )

    def _group(self, header: PullMessageRequestHeader) -> SubscriptionGroupConfig:
        group = self._groups.find(header.consumer_group)
        if group is None:
            raise RequestError(
                ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST,
                f"subscription group [{header.consumer_group}] does not exist: "
                "autoCreateSubscriptionGroup is false or the name is not legal",
            )
        if not group.consume_enable:
            raise _forbidden(
                FORBIDDEN_GROUP,
                f"subscription group no permission, {header.consumer_group}: consumeEnable=false",
            )
        return group

    def _topic(self, header: PullMessageRequestHeader) -> TopicConfig:
        topic = self._topics.get(header.topic)
        if topic is None:
            raise RequestError(
                ResponseCode.TOPIC_NOT_EXIST,
                f"topic[{header.topic}] not exist, apply first please!",
            )
        if not topic.perm & PERM_READ:
            raise _forbidden(
                FORBIDDEN_TOPIC,
                f"the topic[{header.topic}] pulling message is forbidden: "
                f"its perm={topic.perm} has no read bit (4)",
            )
        if not 0 <= header.queue_id < topic.read_queue_nums:
            raise RequestError(
                self._core.profile.invalid_parameter,
                f"queueId[{header.queue_id}] is illegal, topic:[{header.topic}] "
                f"topicConfig.readQueueNums:[{topic.read_queue_nums}] "
                f"consumer:[{header.consumer_group}]",
            )
        return topic

    def _from_request(self, pull: Pull) -> frozenset[int] | None:
        """Flag 4: the request brings its own subscription."""
        header = pull.header
        if not is_tag_type(header.expression_type):
            raise _no_property_filter(header.expression_type or "")
        try:
            data = SubscriptionData.parse(header.topic, header.subscription, header.sub_version)
        except BodyError as error:
            raise RequestError(
                ResponseCode.SUBSCRIPTION_PARSE_FAILED,
                f"parse the consumer's subscription failed: {error}",
            ) from error
        return Subscription.of(data).codes

    def _from_heartbeat(self, pull: Pull) -> frozenset[int] | None:
        """No flag 4: the subscription is the one that the group's heartbeats registered."""
        header = pull.header
        live = self._core.consumers.get(header.consumer_group)
        if live is None:
            raise RequestError(
                ResponseCode.SUBSCRIPTION_NOT_EXIST,
                f"the consumer's group info not exist: no heartbeat of {header.consumer_group}",
            )
        if live.is_broadcasting and not pull.group.consume_broadcast_enable:
            raise _forbidden(
                FORBIDDEN_BROADCASTING,
                f"the consumer group[{header.consumer_group}] can not consume by broadcast way: "
                "consumeBroadcastEnable=false",
            )
        return self._subscribed_codes(live, header)

    def _subscribed_codes(
        self, live: ConsumerGroup, header: PullMessageRequestHeader
    ) -> frozenset[int] | None:
        subscription = live.subscriptions.get(header.topic)
        if subscription is None:
            raise RequestError(
                ResponseCode.SUBSCRIPTION_NOT_EXIST,
                f"the consumer's subscription not exist: {header.consumer_group} has not "
                f"subscribed to {header.topic}",
            )
        data = subscription.data
        is_tag = is_tag_type(data.expression_type)
        codes = subscription.codes
        if data.sub_version < header.sub_version:
            if not is_tag or not self._core.config.flag("acceptNewerSubVersion"):
                raise RequestError(
                    ResponseCode.SUBSCRIPTION_NOT_LATEST,
                    f"the consumer's subscription not latest: the pull has subVersion "
                    f"{header.sub_version}, the last heartbeat {data.sub_version}",
                )
            codes = None  # the client filters tags itself, so nothing is lost
        if not is_tag:
            raise _no_property_filter(data.expression_type)
        return codes


def _forbidden(kind: int, remark: str) -> RequestError:
    return RequestError(ResponseCode.NO_PERMISSION, remark, {"forbiddenType": str(kind)})


def _no_property_filter(expression_type: str) -> RequestError:
    return RequestError(
        ResponseCode.SYSTEM_ERROR,
        f"The broker does not support consumer to filter message by {expression_type}",
    )
