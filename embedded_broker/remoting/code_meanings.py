"""Tables of request codes (action and resources of each) and of response codes (by reason).

Answers: what a request code wants to do and with which topics and groups, and which response code
tells a reason to refuse. Actions and resources are those of the original's ACL 2
(`DefaultAuthorizationContextBuilder`, annotations of the header classes); GAPS.md says where ours
are stricter. A code that is not in the table changes the cluster, as far as guards know. Must not
know: who may do what, remarks. Read on: ``embedded_broker/core/guards.py`` and
``embedded_broker/core/refusals.py``.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, Final, NamedTuple, overload

from embedded_broker.core.guards import (
    Action,
    Resource,
    ResourceKind,
    group_resource,
    topic_resource,
)
from embedded_broker.core.refusals import Reason
from embedded_broker.settings.profiles import Profile
from rocketmq_py.errors import BodyError
from rocketmq_py.protocol.bodies.groups import LockBatchRequest
from rocketmq_py.protocol.bodies.heartbeat import HeartbeatData
from rocketmq_py.protocol.codes import RequestCode, ResponseCode
from rocketmq_py.protocol.lenient_json import loads_lenient
from rocketmq_py.protocol.names import is_retry_topic

Names = Callable[[bytes], Iterator[Resource]]
"""What the body of a request is about."""

KEPT_MAX: Final = 1024
BODY_MAX: Final = 1024 * 1024
"""A longer body is not read to see what it is about."""
CLUSTER: Final = (Resource(ResourceKind.CLUSTER),)


class Wanted(NamedTuple):
    """What a request wants; see ``core.guards.Asked``."""

    action: Action
    resources: Sequence[Resource]
    also: tuple[Action, ...] = ()


class Meaning(NamedTuple):
    """What requests of one code want.

    ``fields`` are the header fields that name topics and groups, ``body`` reads those that stand in
    the body. ``about`` is what a request is about that names none. A change that names none is
    about the cluster.
    """

    action: Action
    fields: tuple[str, ...] = ()
    body: Names | None = None
    about: tuple[Resource, ...] = ()
    also: tuple[Action, ...] = ()

    @property
    def about_nothing(self) -> tuple[Resource, ...]:
        """What a request is about that names no topic and no group."""
        return CLUSTER if self.action in _CHANGES else self.about


_KINDS: Final[dict[str, tuple[ResourceKind, str]]] = {
    "topic": (ResourceKind.TOPIC, ""),
    "b": (ResourceKind.TOPIC, ""),
    "topicList": (ResourceKind.TOPIC, ";"),
    "group": (ResourceKind.GROUP, ""),
    "groupName": (ResourceKind.GROUP, ""),
    "consumerGroup": (ResourceKind.GROUP, ""),
    "srcGroup": (ResourceKind.GROUP, ""),
    "destGroup": (ResourceKind.GROUP, ""),
    "compareGroup": (ResourceKind.GROUP, ""),
    "filterGroups": (ResourceKind.GROUP, ","),
}
"""What a header field names, and what separates several names."""


def _of_heartbeat(body: bytes) -> Iterator[Resource]:
    for consumer in HeartbeatData.decode(body).consumer_data_set:
        yield group_resource(consumer.group_name)
        for subscription in consumer.subscription_data_set:
            yield topic_resource(subscription.topic)


def _of_locks(body: bytes) -> Iterator[Resource]:
    locks = LockBatchRequest.decode(body)
    yield group_resource(locks.consumer_group)
    for queue in locks.mq_set:
        yield topic_resource(queue.topic)


def _listed(path: str, name: str, make: Callable[[str], Resource]) -> Names:
    """Read the names of a body; an empty ``path`` means that it holds one object."""

    def read(body: bytes) -> Iterator[Resource]:
        document: Any = loads_lenient(body)  # any JSON
        objects = [document] if not path else (document or {}).get(path) or []
        for one in objects:
            yield make(str((one or {}).get(name) or ""))

    return read


def _of_acks(body: bytes) -> Iterator[Resource]:
    """Name topics and groups of the body of 200151; its entries have short names (`BatchAck`)."""
    document: Any = loads_lenient(body)
    for ack in document.get("acks") or []:
        yield topic_resource(str(ack.get("t") or ack.get("topic") or ""))
        yield group_resource(str(ack.get("c") or ack.get("consumerGroup") or ""))


def _of_subject(body: bytes) -> Iterator[Resource]:
    """Name the topic and the group of the bodies of 400 and 401."""
    document: Any = loads_lenient(body)
    yield topic_resource(str(document.get("topic") or ""))
    yield group_resource(str(document.get("consumerGroup") or ""))


def _of_subscription(body: bytes) -> Iterator[Resource]:
    """Name the group and the topic of the body of 46."""
    document: Any = loads_lenient(body)
    yield group_resource(str(document.get("group") or ""))
    yield topic_resource(str((document.get("subscriptionData") or {}).get("topic") or ""))


_PUB, _SUB, _CREATE = Action.PUB, Action.SUB, Action.CREATE
_UPDATE, _DELETE, _GET, _LIST = Action.UPDATE, Action.DELETE, Action.GET, Action.LIST
_CHANGES: Final = (_CREATE, _UPDATE, _DELETE)
_BOTH: Final = ("topic", "consumerGroup")

_MEANINGS: Final[dict[int, Meaning]] = {
    # -- messages out and in
    RequestCode.SEND_MESSAGE: Meaning(_PUB, ("topic",)),
    RequestCode.SEND_MESSAGE_V2: Meaning(_PUB, ("b",)),
    RequestCode.SEND_BATCH_MESSAGE: Meaning(_PUB, ("b",)),
    RequestCode.SEND_REPLY_MESSAGE: Meaning(_PUB, ("topic",)),
    RequestCode.SEND_REPLY_MESSAGE_V2: Meaning(_PUB, ("b",)),
    RequestCode.END_TRANSACTION: Meaning(_PUB, ("topic",)),
    RequestCode.RECALL_MESSAGE: Meaning(_PUB, ("topic",)),
    RequestCode.CONSUMER_SEND_MSG_BACK: Meaning(_SUB, ("group",)),
    RequestCode.PULL_MESSAGE: Meaning(_SUB, _BOTH),
    RequestCode.LITE_PULL_MESSAGE: Meaning(_SUB, _BOTH),
    RequestCode.POP_MESSAGE: Meaning(_SUB, _BOTH),
    RequestCode.PEEK_MESSAGE: Meaning(_SUB, _BOTH),
    RequestCode.ACK_MESSAGE: Meaning(_SUB, _BOTH),
    RequestCode.BATCH_ACK_MESSAGE: Meaning(_SUB, body=_of_acks),
    RequestCode.CHANGE_MESSAGE_INVISIBLETIME: Meaning(_SUB, _BOTH),
    RequestCode.NOTIFICATION: Meaning(_SUB, _BOTH),
    RequestCode.POLLING_INFO: Meaning(_GET, _BOTH),
    RequestCode.POP_ROLLBACK: Meaning(_SUB, _BOTH),
    RequestCode.QUERY_ASSIGNMENT: Meaning(_SUB, body=_of_subject),
    RequestCode.QUERY_MESSAGE: Meaning(_SUB, ("topic",), also=(_GET,)),
    RequestCode.VIEW_MESSAGE_BY_ID: Meaning(_SUB, ("topic",), also=(_GET,)),
    RequestCode.CHECK_TRANSACTION_STATE: Meaning(_PUB, ("topic",)),
    RequestCode.PUSH_REPLY_MESSAGE_TO_CLIENT: Meaning(_SUB, ("topic",)),
    # -- clients and their offsets
    RequestCode.HEART_BEAT: Meaning(_SUB, body=_of_heartbeat),
    RequestCode.UNREGISTER_CLIENT: Meaning(_SUB, ("consumerGroup",)),
    RequestCode.CHECK_CLIENT_CONFIG: Meaning(_SUB, body=_of_subscription),
    RequestCode.LOCK_BATCH_MQ: Meaning(_SUB, body=_of_locks),
    RequestCode.UNLOCK_BATCH_MQ: Meaning(_SUB, body=_of_locks),
    RequestCode.GET_CONSUMER_LIST_BY_GROUP: Meaning(_SUB, ("consumerGroup",), also=(_GET,)),
    RequestCode.NOTIFY_CONSUMER_IDS_CHANGED: Meaning(_SUB, ("consumerGroup",)),
    RequestCode.QUERY_CONSUMER_OFFSET: Meaning(_SUB, _BOTH, also=(_GET,)),
    RequestCode.UPDATE_CONSUMER_OFFSET: Meaning(_SUB, _BOTH, also=(_UPDATE,)),
    RequestCode.SEARCH_OFFSET_BY_TIMESTAMP: Meaning(_GET, ("topic",)),
    RequestCode.GET_MAX_OFFSET: Meaning(_GET, ("topic",)),
    RequestCode.GET_MIN_OFFSET: Meaning(_GET, ("topic",)),
    RequestCode.GET_EARLIEST_MSG_STORETIME: Meaning(_GET, ("topic",)),
    RequestCode.CONSUME_MESSAGE_DIRECTLY: Meaning(_UPDATE, _BOTH, also=(_SUB,)),
    RequestCode.GET_CONSUMER_RUNNING_INFO: Meaning(_GET, ("consumerGroup",)),
    # -- what is configured
    RequestCode.UPDATE_AND_CREATE_TOPIC: Meaning(_CREATE, ("topic",)),
    RequestCode.UPDATE_AND_CREATE_TOPIC_LIST: Meaning(
        _CREATE, body=_listed("topicConfigList", "topicName", topic_resource)
    ),
    RequestCode.UPDATE_AND_CREATE_STATIC_TOPIC: Meaning(_CREATE, ("topic",)),
    RequestCode.DELETE_TOPIC_IN_BROKER: Meaning(_DELETE, ("topic",)),
    RequestCode.GET_TOPIC_CONFIG: Meaning(_GET, ("topic",)),
    RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP: Meaning(
        _CREATE, body=_listed("", "groupName", group_resource)
    ),
    RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST: Meaning(
        _CREATE, body=_listed("groupConfigList", "groupName", group_resource)
    ),
    RequestCode.DELETE_SUBSCRIPTIONGROUP: Meaning(_DELETE, ("groupName",)),
    RequestCode.GET_SUBSCRIPTIONGROUP_CONFIG: Meaning(_GET, ("group",)),
    RequestCode.UPDATE_AND_GET_GROUP_FORBIDDEN: Meaning(_UPDATE, ("group", "topic")),
    RequestCode.SET_MESSAGE_REQUEST_MODE: Meaning(_UPDATE, body=_of_subject),
    RequestCode.INVOKE_BROKER_TO_RESET_OFFSET: Meaning(_UPDATE, ("topic", "group")),
    RequestCode.CLONE_GROUP_OFFSET: Meaning(_UPDATE, ("srcGroup", "destGroup", "topic")),
    RequestCode.RESUME_CHECK_HALF_MESSAGE: Meaning(_UPDATE, ("topic",)),
    # -- what is there
    RequestCode.GET_TOPIC_STATS_INFO: Meaning(_GET, ("topic",)),
    RequestCode.GET_CONSUMER_CONNECTION_LIST: Meaning(_GET, ("consumerGroup",)),
    RequestCode.GET_CONSUME_STATS: Meaning(_GET, ("consumerGroup", "topic", "topicList")),
    RequestCode.INVOKE_BROKER_TO_GET_CONSUMER_STATUS: Meaning(_GET, ("topic", "group")),
    RequestCode.QUERY_TOPIC_CONSUME_BY_WHO: Meaning(_GET, ("topic",)),
    RequestCode.QUERY_TOPICS_BY_CONSUMER: Meaning(_GET, ("group",)),
    RequestCode.QUERY_SUBSCRIPTION_BY_CONSUMER: Meaning(_GET, ("group", "topic")),
    RequestCode.QUERY_CONSUME_TIME_SPAN: Meaning(_GET, ("topic", "group")),
    RequestCode.QUERY_CORRECTION_OFFSET: Meaning(_GET, ("filterGroups", "compareGroup", "topic")),
    RequestCode.QUERY_CONSUME_QUEUE: Meaning(_GET, _BOTH),
    # -- routes; the original's name server asks nobody
    RequestCode.GET_ROUTEINFO_BY_TOPIC: Meaning(_PUB, ("topic",), also=(_SUB, _GET)),
} | {
    int(code): Meaning(action, about=CLUSTER)
    for action, codes in {
        _GET: (
            RequestCode.GET_BROKER_CONFIG,
            RequestCode.GET_BROKER_RUNTIME_INFO,
            RequestCode.GET_ALL_CONSUMER_OFFSET,
            RequestCode.GET_ALL_DELAY_OFFSET,
            RequestCode.GET_TIMER_CHECK_POINT,
            RequestCode.GET_TIMER_METRICS,
            RequestCode.GET_PRODUCER_CONNECTION_LIST,
            RequestCode.GET_ALL_PRODUCER_INFO,
            RequestCode.VIEW_BROKER_STATS_DATA,
            RequestCode.GET_BROKER_CONSUME_STATS,
            RequestCode.GET_BROKER_HA_STATUS,
            RequestCode.GET_BROKER_EPOCH_CACHE,
            RequestCode.GET_BROKER_MEMBER_GROUP,
            RequestCode.GET_COLD_DATA_FLOW_CTR_INFO,
            RequestCode.CHECK_ROCKSDB_CQ_WRITE_PROGRESS,
            RequestCode.EXPORT_ROCKSDB_CONFIG_TO_JSON,
            RequestCode.GET_BROKER_CLUSTER_ACL_INFO,
            RequestCode.GET_BROKER_CLUSTER_ACL_CONFIG,
            RequestCode.AUTH_GET_USER,
            RequestCode.AUTH_LIST_USER,
            RequestCode.AUTH_GET_ACL,
            RequestCode.AUTH_LIST_ACL,
            RequestCode.GET_BROKER_CLUSTER_INFO,
            RequestCode.GET_KV_CONFIG,
            RequestCode.GET_KVLIST_BY_NAMESPACE,
            RequestCode.GET_NAMESRV_CONFIG,
            RequestCode.QUERY_DATA_VERSION,
        ),
        _LIST: (
            RequestCode.GET_ALL_TOPIC_CONFIG,
            RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG,
            RequestCode.GET_ALL_MESSAGE_REQUEST_MODE,
            RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER,
            RequestCode.GET_TOPICS_BY_CLUSTER,
            RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_NS,
            RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_BROKER,
            RequestCode.GET_UNIT_TOPIC_LIST,
            RequestCode.GET_HAS_UNIT_SUB_TOPIC_LIST,
            RequestCode.GET_HAS_UNIT_SUB_UNUNIT_TOPIC_LIST,
        ),
        _UPDATE: (
            RequestCode.UPDATE_BROKER_CONFIG,
            RequestCode.UPDATE_NAMESRV_CONFIG,
            RequestCode.CLEAN_EXPIRED_CONSUMEQUEUE,
            RequestCode.CLEAN_UNUSED_TOPIC,
            RequestCode.DELETE_EXPIRED_COMMITLOG,
            RequestCode.UPDATE_COLD_DATA_FLOW_CTR_CONFIG,
            RequestCode.REMOVE_COLD_DATA_FLOW_CTR_CONFIG,
            RequestCode.SET_COMMITLOG_READ_MODE,
            RequestCode.EXCHANGE_BROKER_HA_INFO,
            RequestCode.RESET_MASTER_FLUSH_OFFSET,
            RequestCode.NOTIFY_BROKER_ROLE_CHANGED,
            RequestCode.NOTIFY_MIN_BROKER_ID_CHANGE,
            RequestCode.ADD_BROKER,
            RequestCode.REMOVE_BROKER,
            RequestCode.BROKER_HEARTBEAT,
            RequestCode.UPDATE_AND_CREATE_ACL_CONFIG,
            RequestCode.DELETE_ACL_CONFIG,
            RequestCode.UPDATE_GLOBAL_WHITE_ADDRS_CONFIG,
            RequestCode.AUTH_CREATE_USER,
            RequestCode.AUTH_UPDATE_USER,
            RequestCode.AUTH_DELETE_USER,
            RequestCode.AUTH_CREATE_ACL,
            RequestCode.AUTH_UPDATE_ACL,
            RequestCode.AUTH_DELETE_ACL,
            RequestCode.PUT_KV_CONFIG,
            RequestCode.DELETE_KV_CONFIG,
            RequestCode.REGISTER_BROKER,
            RequestCode.UNREGISTER_BROKER,
            RequestCode.WIPE_WRITE_PERM_OF_BROKER,
            RequestCode.ADD_WRITE_PERM_OF_BROKER,
            RequestCode.DELETE_TOPIC_IN_NAMESRV,
            RequestCode.REGISTER_TOPIC_IN_NAMESRV,
        ),
    }.items()
    for code in codes
}
_UNKNOWN: Final = Meaning(_UPDATE, about=CLUSTER)

_CODES: Final = {
    one: ResponseCode[one.name] for one in Reason if one.name in ResponseCode.__members__
} | {
    Reason.FAILED: ResponseCode.SYSTEM_ERROR,
    Reason.BUSY: ResponseCode.SYSTEM_BUSY,
    Reason.GROUP_NOT_EXIST: ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST,
    Reason.NOT_FOUND: ResponseCode.QUERY_NOT_FOUND,
}
"""Most reasons have the name of their code."""


def is_classified(code: int) -> bool:
    """Say whether the table knows what this code wants."""
    return code in _MEANINGS


def action_of(code: int) -> Action:
    """Give what requests with this code want to do, whatever they are about."""
    return _MEANINGS.get(code, _UNKNOWN).action


def wanted_by(code: int, fields: Mapping[str, str], body: bytes) -> Wanted:
    """Give what a request wants. Its body is read only when somebody looks at the resources."""
    meaning = _MEANINGS.get(code, _UNKNOWN)
    names = meaning.fields
    if meaning.body is not None:
        named = _NamedInBody(meaning.body, body, meaning.about_nothing)
        return Wanted(meaning.action, named, meaning.also)
    if len(names) == 1:
        return _wanted_with_one(code, fields.get(names[0]))
    return _wanted_with(meaning, fields)


@lru_cache(KEPT_MAX)
def _wanted_with_one(code: int, name: str | None) -> Wanted:
    """Give what a request wants that names one thing; most are sends to few topics."""
    meaning = _MEANINGS[code]
    return _wanted_with(meaning, {} if name is None else {meaning.fields[0]: name})


def _wanted_with(meaning: Meaning, fields: Mapping[str, str]) -> Wanted:
    action = meaning.action
    named = [one for name in meaning.fields if name in fields for one in _named(name, fields)]
    if action is _PUB and named and is_retry_topic(named[0].name):
        action = _SUB  # a consumer sends what it could not handle to its retry topic
    return Wanted(action, tuple(named) or meaning.about_nothing, meaning.also)


class _NamedInBody(Sequence[Resource]):
    """What a body names, read when somebody asks. An unreadable one is about the cluster."""

    __slots__ = ("_about", "_body", "_found", "_read")

    def __init__(self, read: Names, body: bytes, about: Sequence[Resource]) -> None:
        self._read = read
        self._body = body
        self._about = about
        self._found: Sequence[Resource] | None = None

    def _all(self) -> Sequence[Resource]:
        found = self._found
        if found is None:
            found = self._found = self._look() or self._about
        return found

    def _look(self) -> Sequence[Resource]:
        if not self._body:
            return ()
        if len(self._body) > BODY_MAX:
            return CLUSTER
        try:
            named = dict.fromkeys(self._read(self._body))
            return [one for one in named if one.name or one.kind is ResourceKind.CLUSTER]
        except (BodyError, AttributeError, TypeError, ValueError):
            return CLUSTER

    @overload
    def __getitem__(self, index: int) -> Resource: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Resource]: ...
    def __getitem__(self, index: int | slice) -> Resource | Sequence[Resource]:
        return self._all()[index]

    def __len__(self) -> int:
        return len(self._all())


def _named(name: str, fields: Mapping[str, str]) -> Iterator[Resource]:
    kind, separator = _KINDS[name]
    make = topic_resource if kind is ResourceKind.TOPIC else group_resource
    value = fields[name]
    for one in value.split(separator) if separator else (value,):
        if one:
            yield make(one)


def code_for(reason: Reason, profile: Profile) -> int:
    """Give the response code of a reason; a bad parameter has another one in 4.9."""
    if reason is Reason.INVALID_PARAMETER:
        return profile.invalid_parameter
    return _CODES[reason]
