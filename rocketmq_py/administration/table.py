"""The table of requests: which code, whom it asks, what its header is and how its answer is read.

Each entry is a `Row`; acts make questions of it. A server that says that it does not know a request
(code 3) is told apart from other refusals: `RequestNotSupportedError` names the request, the
server's version and the release that has it. Must not know in which order anything is asked.
"""

from collections.abc import Callable
from enum import Enum
from typing import Any, Final, Generic, TypeVar

from attrs import frozen

from rocketmq_py.client.asking import Address, AnyOf, Question, Where, nothing
from rocketmq_py.client.topic_questions import settings_in
from rocketmq_py.errors import RequestNotSupportedError
from rocketmq_py.protocol.bodies.consumption import (
    ConsumeDirectlyResult,
    ConsumerRunningInfo,
    GroupList,
)
from rocketmq_py.protocol.bodies.document import Document
from rocketmq_py.protocol.bodies.groups import (
    ConsumerConnection,
    ConsumeStats,
    ProducerConnection,
    ResetOffsetBody,
    SubscriptionGroupTable,
)
from rocketmq_py.protocol.bodies.timers import (
    DelayOffsets,
    RuntimeInfo,
    TimerCheckpoint,
    TimerCounts,
)
from rocketmq_py.protocol.bodies.topics import (
    ClusterInfo,
    KVTable,
    TopicConfig,
    TopicConfigTable,
    TopicList,
    TopicRouteData,
    TopicStatsTable,
)
from rocketmq_py.protocol.codes import RequestCode, ResponseCode, version_text
from rocketmq_py.protocol.command import RemotingCommand
from rocketmq_py.protocol.headers import Header
from rocketmq_py.protocol.headers.access import (
    AclRequestHeader,
    ListAclsRequestHeader,
    ListUsersRequestHeader,
    UserRequestHeader,
)
from rocketmq_py.protocol.headers.admin import (
    CreateTopicRequestHeader,
    DeleteSubscriptionGroupRequestHeader,
    DeleteTopicRequestHeader,
    GetConsumerConnectionListRequestHeader,
    GetConsumeStatsRequestHeader,
    GetTopicConfigRequestHeader,
    GetTopicStatsInfoRequestHeader,
    ResetOffsetRequestHeader,
)
from rocketmq_py.protocol.headers.client import GetRouteInfoRequestHeader
from rocketmq_py.protocol.headers.groups import (
    CloneGroupOffsetRequestHeader,
    ConsumeMessageDirectlyResultRequestHeader,
    GetConsumerRunningInfoRequestHeader,
    GetProducerConnectionListRequestHeader,
    QueryTopicConsumeByWhoRequestHeader,
)
from rocketmq_py.protocol.headers.namesrv import (
    AddWritePermOfBrokerResponseHeader,
    DeleteTopicFromNamesrvRequestHeader,
    GetKVConfigRequestHeader,
    GetKVListByNamespaceRequestHeader,
    PutKVConfigRequestHeader,
    WipeWritePermOfBrokerResponseHeader,
    WritePermOfBrokerRequestHeader,
)
from rocketmq_py.protocol.headers.send import ResumeCheckHalfMessageRequestHeader
from rocketmq_py.protocol.lenient_json import loads_lenient

_T = TypeVar("_T")
_D = TypeVar("_D", bound=Document)
Read = Callable[[RemotingCommand, str], _T]


class Whom(Enum):
    """Whom a request is for."""

    ANY_NAME_SERVER = "the first name server that answers"
    NAME_SERVERS = "every name server"
    BROKER = "the brokers that an act chooses, masters where they change something"


@frozen(kw_only=True)
class Row(Generic[_T]):
    """One request.

    ``changes``: it changes something at the server. ``since``: the first release that knows it.
    ``also``: codes besides success that are answers and no refusals.
    """

    code: RequestCode
    whom: Whom
    read: Read[_T]
    header: type[Header] | None = None
    changes: bool = False
    since: str = "4.9"
    also: frozenset[int] = frozenset()

    def at(self, where: str | Where, *, body: bytes = b"", **fields: object) -> Question[_T]:
        """Make the question; ``fields`` are those of the header. Errors name its ``topic``."""
        topic = fields.get("topic")
        asked = Address(where) if isinstance(where, str) else where
        if isinstance(asked, AnyOf) != (self.whom is Whom.ANY_NAME_SERVER):
            raise TypeError(f"{self.code.name} is for {self.whom.value}, not for {asked}")
        return Question(
            asked,
            self.code,
            self._answer,
            {} if self.header is None else self.header(**fields).to_ext(),
            body,
            frozenset({ResponseCode.SUCCESS, ResponseCode.REQUEST_CODE_NOT_SUPPORTED}) | self.also,
            topic if isinstance(topic, str) else None,
        )

    def _answer(self, answer: RemotingCommand, address: str) -> _T:
        if answer.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED:
            version = version_text(answer.version)
            raise RequestNotSupportedError(
                self.code.name, self.code, version, self.since, answer.remark, address
            )
        return self.read(answer, address)


def _document(kind: type[_D]) -> Read[_D]:
    return lambda answer, _: kind.decode(answer.body)


def _none_for(read: Read[_T], *codes: ResponseCode) -> Read[_T | None]:
    return lambda answer, address: None if answer.code in codes else read(answer, address)


def _anything(answer: RemotingCommand, _: str) -> Any:  # Any: users and policies are read by acts
    return loads_lenient(answer.body) if answer.body else None


_ANY: Final = Whom.ANY_NAME_SERVER
_EACH: Final = Whom.NAME_SERVERS
_BROKER: Final = Whom.BROKER
_C: Final = RequestCode
_R: Final = ResponseCode

# --- name servers --------------------------------------------------------------------------

TOPIC_NAMES: Final = Row(
    code=_C.GET_ALL_TOPIC_LIST_FROM_NAMESERVER, whom=_ANY, read=_document(TopicList)
)
CLUSTER: Final = Row(code=_C.GET_BROKER_CLUSTER_INFO, whom=_ANY, read=_document(ClusterInfo))
ROUTE: Final = Row(
    code=_C.GET_ROUTEINFO_BY_TOPIC,
    whom=_EACH,
    read=_none_for(_document(TopicRouteData), _R.TOPIC_NOT_EXIST),
    header=GetRouteInfoRequestHeader,
    also=frozenset({_R.TOPIC_NOT_EXIST}),
)
FORGET_ROUTE: Final = Row(
    code=_C.DELETE_TOPIC_IN_NAMESRV,
    whom=_EACH,
    read=nothing,
    header=DeleteTopicFromNamesrvRequestHeader,
    changes=True,
)
KEY_VALUES: Final = Row(
    code=_C.GET_KVLIST_BY_NAMESPACE,
    whom=_ANY,
    read=_none_for(_document(KVTable), _R.QUERY_NOT_FOUND),
    header=GetKVListByNamespaceRequestHeader,
    also=frozenset({_R.QUERY_NOT_FOUND}),
)
PUT_KEY_VALUE: Final = Row(
    code=_C.PUT_KV_CONFIG, whom=_EACH, read=nothing, header=PutKVConfigRequestHeader, changes=True
)
DELETE_KEY_VALUE: Final = Row(
    code=_C.DELETE_KV_CONFIG,
    whom=_EACH,
    read=nothing,
    header=GetKVConfigRequestHeader,
    changes=True,
)
FORBID_WRITES: Final = Row(
    code=_C.WIPE_WRITE_PERM_OF_BROKER,
    whom=_EACH,
    read=lambda answer, _: (
        WipeWritePermOfBrokerResponseHeader.from_ext(answer.ext_fields).wipe_topic_count
    ),
    header=WritePermOfBrokerRequestHeader,
    changes=True,
)
ALLOW_WRITES: Final = Row(
    code=_C.ADD_WRITE_PERM_OF_BROKER,
    whom=_EACH,
    read=lambda answer, _: (
        AddWritePermOfBrokerResponseHeader.from_ext(answer.ext_fields).add_topic_count
    ),
    header=WritePermOfBrokerRequestHeader,
    changes=True,
)

# --- topics --------------------------------------------------------------------------------

PUT_TOPIC: Final = Row(
    code=_C.UPDATE_AND_CREATE_TOPIC,
    whom=_BROKER,
    read=nothing,
    header=CreateTopicRequestHeader,
    changes=True,
)
DELETE_TOPIC: Final = Row(
    code=_C.DELETE_TOPIC_IN_BROKER,
    whom=_BROKER,
    read=nothing,
    header=DeleteTopicRequestHeader,
    changes=True,
)
TOPIC: Final = Row(
    code=_C.GET_TOPIC_CONFIG,
    whom=_BROKER,
    read=_none_for(_document(TopicConfig), _R.TOPIC_NOT_EXIST),
    header=GetTopicConfigRequestHeader,
    since="5.0",
    also=frozenset({_R.TOPIC_NOT_EXIST}),
)
ALL_TOPICS: Final = Row(
    code=_C.GET_ALL_TOPIC_CONFIG, whom=_BROKER, read=_document(TopicConfigTable)
)
TOPIC_STATS: Final = Row(
    code=_C.GET_TOPIC_STATS_INFO,
    whom=_BROKER,
    read=_document(TopicStatsTable),
    header=GetTopicStatsInfoRequestHeader,
)
READERS: Final = Row(
    code=_C.QUERY_TOPIC_CONSUME_BY_WHO,
    whom=_BROKER,
    read=_document(GroupList),
    header=QueryTopicConsumeByWhoRequestHeader,
)

# --- groups --------------------------------------------------------------------------------

PUT_GROUP: Final = Row(
    code=_C.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, whom=_BROKER, read=nothing, changes=True
)
DELETE_GROUP: Final = Row(
    code=_C.DELETE_SUBSCRIPTIONGROUP,
    whom=_BROKER,
    read=nothing,
    header=DeleteSubscriptionGroupRequestHeader,
    changes=True,
)
ALL_GROUPS: Final = Row(
    code=_C.GET_ALL_SUBSCRIPTIONGROUP_CONFIG, whom=_BROKER, read=_document(SubscriptionGroupTable)
)
PROGRESS: Final = Row(
    code=_C.GET_CONSUME_STATS,
    whom=_BROKER,
    read=_document(ConsumeStats),
    header=GetConsumeStatsRequestHeader,
)
RESET: Final = Row(
    code=_C.INVOKE_BROKER_TO_RESET_OFFSET,
    whom=_BROKER,
    read=_document(ResetOffsetBody),
    header=ResetOffsetRequestHeader,
    changes=True,
)
CLONE: Final = Row(
    code=_C.CLONE_GROUP_OFFSET,
    whom=_BROKER,
    read=nothing,
    header=CloneGroupOffsetRequestHeader,
    changes=True,
)
CONSUMERS: Final = Row(
    code=_C.GET_CONSUMER_CONNECTION_LIST,
    whom=_BROKER,
    read=_none_for(_document(ConsumerConnection), _R.CONSUMER_NOT_ONLINE),
    header=GetConsumerConnectionListRequestHeader,
    also=frozenset({_R.CONSUMER_NOT_ONLINE}),
)
PRODUCERS: Final = Row(
    code=_C.GET_PRODUCER_CONNECTION_LIST,
    whom=_BROKER,
    read=_document(ProducerConnection),
    header=GetProducerConnectionListRequestHeader,
)
RUNNING_INFO: Final = Row(
    code=_C.GET_CONSUMER_RUNNING_INFO,
    whom=_BROKER,
    read=_document(ConsumerRunningInfo),
    header=GetConsumerRunningInfoRequestHeader,
)
CONSUME_NOW: Final = Row(
    code=_C.CONSUME_MESSAGE_DIRECTLY,
    whom=_BROKER,
    read=_document(ConsumeDirectlyResult),
    header=ConsumeMessageDirectlyResultRequestHeader,
    changes=True,
)
REQUEST_MODE: Final = Row(
    code=_C.SET_MESSAGE_REQUEST_MODE, whom=_BROKER, read=nothing, changes=True, since="5.0"
)

ASK_AGAIN: Final = Row(
    code=_C.RESUME_CHECK_HALF_MESSAGE,
    whom=_BROKER,
    read=nothing,
    header=ResumeCheckHalfMessageRequestHeader,
    changes=True,
)

# --- brokers and their timers ----------------------------------------------------------------

RUNTIME: Final = Row(code=_C.GET_BROKER_RUNTIME_INFO, whom=_BROKER, read=_document(RuntimeInfo))
OPTIONS: Final = Row(code=_C.GET_BROKER_CONFIG, whom=_BROKER, read=settings_in)
PUT_OPTIONS: Final = Row(
    code=_C.UPDATE_BROKER_CONFIG, whom=_BROKER, read=lambda answer, _: answer.remark, changes=True
)
DELAY_OFFSETS: Final = Row(code=_C.GET_ALL_DELAY_OFFSET, whom=_BROKER, read=_document(DelayOffsets))
TIMER_CHECK_POINT: Final = Row(
    code=_C.GET_TIMER_CHECK_POINT,
    whom=_BROKER,
    read=lambda answer, _: TimerCheckpoint.decode(answer.body),
    since="5.0",
)
TIMER_COUNTS: Final = Row(
    code=_C.GET_TIMER_METRICS, whom=_BROKER, read=_document(TimerCounts), since="5.0"
)

# --- users of ACL 2 --------------------------------------------------------------------------

_NEW: Final = "5.3"
CREATE_USER: Final = Row(
    code=_C.AUTH_CREATE_USER,
    whom=_BROKER,
    read=nothing,
    header=UserRequestHeader,
    changes=True,
    since=_NEW,
)
UPDATE_USER: Final = Row(
    code=_C.AUTH_UPDATE_USER,
    whom=_BROKER,
    read=nothing,
    header=UserRequestHeader,
    changes=True,
    since=_NEW,
)
DELETE_USER: Final = Row(
    code=_C.AUTH_DELETE_USER,
    whom=_BROKER,
    read=nothing,
    header=UserRequestHeader,
    changes=True,
    since=_NEW,
)
USERS: Final = Row(
    code=_C.AUTH_LIST_USER,
    whom=_BROKER,
    read=_anything,
    header=ListUsersRequestHeader,
    since=_NEW,
)
PUT_POLICY: Final = Row(
    code=_C.AUTH_UPDATE_ACL,
    whom=_BROKER,
    read=nothing,
    header=AclRequestHeader,
    changes=True,
    since=_NEW,
)
CREATE_POLICY: Final = Row(
    code=_C.AUTH_CREATE_ACL,
    whom=_BROKER,
    read=nothing,
    header=AclRequestHeader,
    changes=True,
    since=_NEW,
)
DELETE_POLICY: Final = Row(
    code=_C.AUTH_DELETE_ACL,
    whom=_BROKER,
    read=nothing,
    header=AclRequestHeader,
    changes=True,
    since=_NEW,
)
POLICIES: Final = Row(
    code=_C.AUTH_LIST_ACL,
    whom=_BROKER,
    read=_anything,
    header=ListAclsRequestHeader,
    since=_NEW,
)
