"""Requests with extreme fields: what a hostile client sends, for every code a broker handles.

`cases` gives them by code. Each field of a request's header becomes each extreme value in turn,
then all fields at once; requests with a body get bodies that are deep, long or of another kind.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from rocketmq_py.protocol.codes import RequestCode
from rocketmq_py.protocol.headers import Header, access, admin, client, consume, groups, pop, send
from rocketmq_py.protocol.headers.send import EndTransactionRequestHeader
from tests.unit.embedded_broker.wire_peer import pull_fields, send_fields

TOPIC: Final = "Used"
"""A topic with messages."""
GROUP: Final = "consumers"
"""A group that has committed in it."""

NUMBERS: Final = ("0", "-1", "2147483647", "-2147483648", str(2**63 - 1), str(-(2**63)), "1e9")
WORDS: Final = (
    "",
    "NO_SUCH_WORD",
    "x" * 65_536,
    "\x00\x00",
    "a\x01b\x02",
    "; " * 30_000,
    "||" * 9_000,
)


class Case(NamedTuple):
    """One request and what is odd about it."""

    what: str
    fields: dict[str, str]
    body: bytes = b""


class Form(NamedTuple):
    """An ordinary request of one code: its header, and the body if it takes one."""

    fields: dict[str, str]
    header: type[Header] | None = None
    body: bytes = b""
    short: bool = False


_QUEUE: Final = {"topic": TOPIC, "queueId": "0"}
_OF_GROUP: Final = {"consumerGroup": GROUP}
_CREATE: Final = {
    "topic": "Created",
    "defaultTopic": "TBW102",
    "readQueueNums": "1",
    "writeQueueNums": "1",
    "perm": "6",
    "topicFilterType": "SINGLE_TAG",
    "topicSysFlag": "0",
    "order": "false",
    "attributes": "",
}
_LOCK: Final = (
    b'{"clientId":"c","consumerGroup":"consumers","mqSet":'
    b'[{"brokerName":"broker-a","queueId":0,"topic":"Used"}]}'
)
_BEAT: Final = (
    b'{"clientID":"c","consumerDataSet":[{"groupName":"consumers","subscriptionDataSet":'
    b'[{"topic":"Used","subString":"*"}]}],"producerDataSet":[{"groupName":"p"}]}'
)
_CHECK: Final = b'{"clientId":"c","group":"g","subscriptionData":{"topic":"Used","subString":"*"}}'
_USER: Final = b'{"username":"bob","password":"secret of bob","userType":"Normal"}'
_POLICY: Final = (
    b'{"subject":"User:bob","policies":[{"policyType":"Custom","entries":[{"resource":"Topic:Used",'
    b'"actions":["Pub","Sub"],"sourceIps":["10.0.0.0/8"],"decision":"Allow"}]}]}'
)
_LONG_SEND: Final = {
    field.wire: send_fields(TOPIC).get(field.short or "", "0")
    for field in send.SendMessageRequestHeader.FIELDS
    if field.required
}

_POP: Final = {
    "consumerGroup": GROUP,
    "topic": TOPIC,
    "queueId": "-1",
    "maxMsgNums": "4",
    "invisibleTime": "60000",
    "pollTime": "20",
    "bornTime": "0",
    "initMode": "0",
    "expType": "TAG",
    "exp": "*",
    "order": "false",
}
_HIDDEN: Final = {
    "consumerGroup": GROUP,
    "topic": TOPIC,
    "queueId": "0",
    "extraInfo": "0 1700000000000 60000 0 0 broker-a 0 0",
    "offset": "0",
}
_BATCH_ACK: Final = (
    b'{"brokerName":"broker-a","acks":[{"c":"consumers","t":"Used","r":"0","so":0,"q":0,"rq":0,'
    b'"pt":1700000000000,"it":60000,"b":"Cw=="}]}'
)
_ASSIGNMENT: Final = (
    b'{"topic":"Used","consumerGroup":"consumers","clientId":"c","strategyName":"AVG",'
    b'"messageModel":"CLUSTERING"}'
)

FORMS: Final[dict[int, Form]] = {
    RequestCode.SEND_MESSAGE: Form(_LONG_SEND, send.SendMessageRequestHeader, b"body"),
    RequestCode.SEND_MESSAGE_V2: Form(
        send_fields(TOPIC), send.SendMessageRequestHeader, b"body", short=True
    ),
    RequestCode.SEND_BATCH_MESSAGE: Form(
        send_fields(TOPIC, m="true"), send.SendMessageRequestHeader, b"body", short=True
    ),
    RequestCode.SEND_REPLY_MESSAGE: Form(_LONG_SEND, send.SendMessageRequestHeader, b"body"),
    RequestCode.SEND_REPLY_MESSAGE_V2: Form(
        send_fields(TOPIC), send.SendMessageRequestHeader, b"body", short=True
    ),
    RequestCode.CONSUMER_SEND_MSG_BACK: Form(
        {"offset": "0", "group": GROUP, "delayLevel": "0"}, send.ConsumerSendMsgBackRequestHeader
    ),
    RequestCode.END_TRANSACTION: Form(
        {
            "producerGroup": "p",
            "tranStateTableOffset": "0",
            "commitLogOffset": "0",
            "commitOrRollback": "8",
            "msgId": "0",
        },
        EndTransactionRequestHeader,
    ),
    RequestCode.RESUME_CHECK_HALF_MESSAGE: Form(
        {"topic": TOPIC, "msgId": "00" * 16}, send.ResumeCheckHalfMessageRequestHeader
    ),
    RequestCode.RECALL_MESSAGE: Form(
        {"topic": TOPIC, "recallHandle": "djEgVCBiIDEgSUQ"}, send.RecallMessageRequestHeader
    ),
    RequestCode.PULL_MESSAGE: Form(
        pull_fields(TOPIC, sysFlag="7", suspendTimeoutMillis="20"), consume.PullMessageRequestHeader
    ),
    RequestCode.LITE_PULL_MESSAGE: Form(pull_fields(TOPIC), consume.PullMessageRequestHeader),
    RequestCode.QUERY_MESSAGE: Form(
        {"topic": TOPIC, "key": "key", "maxNum": "32", "beginTimestamp": "0", "endTimestamp": "1"},
        consume.QueryMessageRequestHeader,
    ),
    RequestCode.VIEW_MESSAGE_BY_ID: Form({"offset": "0"}, consume.ViewMessageRequestHeader),
    RequestCode.UPDATE_AND_CREATE_TOPIC: Form(_CREATE, admin.CreateTopicRequestHeader),
    RequestCode.GET_TOPIC_CONFIG: Form({"topic": TOPIC}, admin.GetTopicConfigRequestHeader),
    RequestCode.GET_SUBSCRIPTIONGROUP_CONFIG: Form(
        {"group": GROUP}, admin.GetSubscriptionGroupConfigRequestHeader
    ),
    RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP: Form({}, None, b'{"groupName":"Made"}'),
    RequestCode.UPDATE_AND_CREATE_TOPIC_LIST: Form(
        {}, None, b'{"topicConfigList":[{"topicName":"Made"}]}'
    ),
    RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST: Form(
        {}, None, b'{"groupConfigList":[{"groupName":"Made"}]}'
    ),
    RequestCode.GET_ALL_TOPIC_CONFIG: Form({}),
    RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG: Form({}),
    RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_BROKER: Form({}),
    RequestCode.DELETE_TOPIC_IN_BROKER: Form({"topic": "Made"}, admin.DeleteTopicRequestHeader),
    RequestCode.DELETE_SUBSCRIPTIONGROUP: Form(
        {"groupName": "Made", "cleanOffset": "true"}, admin.DeleteSubscriptionGroupRequestHeader
    ),
    RequestCode.UPDATE_BROKER_CONFIG: Form({}, None, b"timerMaxDelaySec=259200\n"),
    RequestCode.GET_BROKER_CONFIG: Form({}),
    RequestCode.GET_TOPIC_STATS_INFO: Form({"topic": TOPIC}, admin.GetTopicStatsInfoRequestHeader),
    RequestCode.GET_CONSUMER_CONNECTION_LIST: Form(
        _OF_GROUP, admin.GetConsumerConnectionListRequestHeader
    ),
    RequestCode.GET_CONSUME_STATS: Form(_OF_GROUP, admin.GetConsumeStatsRequestHeader),
    RequestCode.SEARCH_OFFSET_BY_TIMESTAMP: Form(
        {**_QUEUE, "timestamp": "0"}, consume.SearchOffsetRequestHeader
    ),
    RequestCode.GET_MAX_OFFSET: Form(_QUEUE, consume.GetMaxOffsetRequestHeader),
    RequestCode.GET_MIN_OFFSET: Form(_QUEUE, consume.GetMinOffsetRequestHeader),
    RequestCode.GET_EARLIEST_MSG_STORETIME: Form(
        _QUEUE, consume.GetEarliestMsgStoretimeRequestHeader
    ),
    RequestCode.INVOKE_BROKER_TO_RESET_OFFSET: Form(
        {"topic": TOPIC, "group": GROUP, "timestamp": "0", "isForce": "true"},
        admin.ResetOffsetRequestHeader,
    ),
    RequestCode.GET_ALL_CONSUMER_OFFSET: Form({}),
    RequestCode.UPDATE_AND_GET_GROUP_FORBIDDEN: Form(
        {"group": GROUP, "topic": TOPIC}, admin.UpdateGroupForbiddenRequestHeader
    ),
    RequestCode.CLEAN_UNUSED_TOPIC: Form({}),
    RequestCode.CLEAN_EXPIRED_CONSUMEQUEUE: Form({}),
    RequestCode.DELETE_EXPIRED_COMMITLOG: Form({}),
    RequestCode.VIEW_BROKER_STATS_DATA: Form(
        {"statsName": "TOPIC_PUT_NUMS", "statsKey": TOPIC}, groups.ViewBrokerStatsDataRequestHeader
    ),
    RequestCode.QUERY_TOPIC_CONSUME_BY_WHO: Form(
        {"topic": TOPIC}, groups.QueryTopicConsumeByWhoRequestHeader
    ),
    RequestCode.QUERY_TOPICS_BY_CONSUMER: Form(
        {"group": GROUP}, groups.QueryTopicsByConsumerRequestHeader
    ),
    RequestCode.QUERY_SUBSCRIPTION_BY_CONSUMER: Form(
        {"group": GROUP, "topic": TOPIC}, groups.QuerySubscriptionByConsumerRequestHeader
    ),
    RequestCode.QUERY_CONSUME_TIME_SPAN: Form(
        {"group": GROUP, "topic": TOPIC}, groups.QueryConsumeTimeSpanRequestHeader
    ),
    RequestCode.QUERY_CORRECTION_OFFSET: Form(
        {"compareGroup": GROUP, "topic": TOPIC}, groups.QueryCorrectionOffsetHeader
    ),
    RequestCode.CLONE_GROUP_OFFSET: Form(
        {"srcGroup": GROUP, "destGroup": "other"}, groups.CloneGroupOffsetRequestHeader
    ),
    RequestCode.GET_BROKER_CONSUME_STATS: Form(
        {"isOrder": "false"}, groups.GetConsumeStatsInBrokerHeader
    ),
    RequestCode.QUERY_CONSUME_QUEUE: Form(
        {**_QUEUE, "index": "0", "count": "10"}, groups.QueryConsumeQueueRequestHeader
    ),
    RequestCode.GET_PRODUCER_CONNECTION_LIST: Form(
        {"producerGroup": "p"}, groups.GetProducerConnectionListRequestHeader
    ),
    RequestCode.GET_ALL_PRODUCER_INFO: Form({}),
    RequestCode.INVOKE_BROKER_TO_GET_CONSUMER_STATUS: Form(
        {"topic": TOPIC, "group": "nobody"}, groups.GetConsumerStatusRequestHeader
    ),
    RequestCode.GET_CONSUMER_RUNNING_INFO: Form(
        {**_OF_GROUP, "clientId": "nobody"}, groups.GetConsumerRunningInfoRequestHeader
    ),
    RequestCode.CONSUME_MESSAGE_DIRECTLY: Form(
        {**_OF_GROUP, "clientId": "nobody", "msgId": "00" * 16, "topic": TOPIC},
        groups.ConsumeMessageDirectlyResultRequestHeader,
    ),
    RequestCode.LOCK_BATCH_MQ: Form({}, None, _LOCK),
    RequestCode.UNLOCK_BATCH_MQ: Form({}, None, _LOCK),
    RequestCode.HEART_BEAT: Form({}, None, _BEAT),
    RequestCode.UNREGISTER_CLIENT: Form(
        {"clientID": "c", "consumerGroup": GROUP}, client.UnregisterClientRequestHeader
    ),
    RequestCode.CHECK_CLIENT_CONFIG: Form({}, None, _CHECK),
    RequestCode.GET_CONSUMER_LIST_BY_GROUP: Form(
        _OF_GROUP, client.GetConsumerListByGroupRequestHeader
    ),
    RequestCode.QUERY_CONSUMER_OFFSET: Form(
        {**_OF_GROUP, **_QUEUE}, consume.QueryConsumerOffsetRequestHeader
    ),
    RequestCode.UPDATE_CONSUMER_OFFSET: Form(
        {**_OF_GROUP, **_QUEUE, "commitOffset": "1"}, consume.UpdateConsumerOffsetRequestHeader
    ),
    RequestCode.POP_MESSAGE: Form(_POP, pop.PopMessageRequestHeader),
    RequestCode.PEEK_MESSAGE: Form(
        {**_OF_GROUP, **_QUEUE, "maxMsgNums": "32"}, pop.PeekMessageRequestHeader
    ),
    RequestCode.ACK_MESSAGE: Form(_HIDDEN, pop.AckMessageRequestHeader),
    RequestCode.CHANGE_MESSAGE_INVISIBLETIME: Form(
        {**_HIDDEN, "invisibleTime": "60000"}, pop.ChangeInvisibleTimeRequestHeader
    ),
    RequestCode.BATCH_ACK_MESSAGE: Form({}, None, _BATCH_ACK),
    RequestCode.NOTIFICATION: Form(
        {**_OF_GROUP, **_QUEUE, "pollTime": "20", "bornTime": "0"}, pop.NotificationRequestHeader
    ),
    RequestCode.POLLING_INFO: Form({**_OF_GROUP, **_QUEUE}, pop.PollingInfoRequestHeader),
    RequestCode.QUERY_ASSIGNMENT: Form({}, None, _ASSIGNMENT),
    RequestCode.SET_MESSAGE_REQUEST_MODE: Form(
        {}, None, b'{"topic":"Used","consumerGroup":"consumers","mode":"POP"}'
    ),
    RequestCode.GET_ALL_MESSAGE_REQUEST_MODE: Form({}),
    RequestCode.GET_BROKER_RUNTIME_INFO: Form({}),
    RequestCode.GET_ALL_DELAY_OFFSET: Form({}),
    RequestCode.GET_TIMER_CHECK_POINT: Form({}),
    RequestCode.GET_TIMER_METRICS: Form({}),
    RequestCode.EXCHANGE_BROKER_HA_INFO: Form({}),
    RequestCode.GET_BROKER_HA_STATUS: Form({}),
    RequestCode.AUTH_CREATE_USER: Form({"username": "bob"}, access.UserRequestHeader, _USER),
    RequestCode.AUTH_UPDATE_USER: Form({"username": "bob"}, access.UserRequestHeader, _USER),
    RequestCode.AUTH_DELETE_USER: Form({"username": "bob"}, access.UserRequestHeader),
    RequestCode.AUTH_GET_USER: Form({"username": "bob"}, access.UserRequestHeader),
    RequestCode.AUTH_LIST_USER: Form({"filter": "b"}, access.ListUsersRequestHeader),
    RequestCode.AUTH_CREATE_ACL: Form({"subject": "User:bob"}, access.AclRequestHeader, _POLICY),
    RequestCode.AUTH_UPDATE_ACL: Form({"subject": "User:bob"}, access.AclRequestHeader, _POLICY),
    RequestCode.AUTH_DELETE_ACL: Form({"subject": "User:bob"}, access.AclRequestHeader),
    RequestCode.AUTH_GET_ACL: Form({"subject": "User:bob"}, access.AclRequestHeader),
    RequestCode.AUTH_LIST_ACL: Form({"subjectFilter": "b"}, access.ListAclsRequestHeader),
}
"""An ordinary request of every code. A code that is missing here fails the test of the walk."""

FORMS_OF_4_9: Final[dict[int, Form]] = {
    RequestCode.UPDATE_AND_CREATE_ACL_CONFIG: Form(
        {"accessKey": "another1", "secretKey": "12345678", "topicPerms": "T=PUB|SUB"},
        access.CreateAccessConfigRequestHeader,
    ),
    RequestCode.DELETE_ACL_CONFIG: Form(
        {"accessKey": "another1"}, access.DeleteAccessConfigRequestHeader
    ),
    RequestCode.GET_BROKER_CLUSTER_ACL_INFO: Form({}),
    RequestCode.UPDATE_GLOBAL_WHITE_ADDRS_CONFIG: Form(
        {"globalWhiteAddrs": "192.168.0.*"}, access.UpdateGlobalWhiteAddrsConfigRequestHeader
    ),
}
"""The same of codes that only 4.9 has."""

_MANY: Final = 200_000
_MB: Final = 1 << 20


def _subscriptions(number: int) -> bytes:
    return b",".join(b'{"topic":"T%d","subString":"a||b"}' % one for one in range(number))


BODIES: Final[dict[str, bytes]] = {
    "no JSON": b"\xff" * 100,
    "a number": b"1",
    "null": b"null",
    "an empty object": b"{}",
    "deep arrays": b"[" * 500_000,
    "deep objects": b'{"a":' * 100_000 + b"1" + b"}" * 100_000,
    "a long text": b'{"groupName":"' + b"x" * (8 * _MB) + b'"}',
    "many bare keys": b"{" + b",".join(b"%d:0" % one for one in range(_MANY)) + b"}",
    "many names": b"{" + b",".join(b'"n%d":0' % one for one in range(_MANY)) + b"}",
    "many empty objects": b'{"mqSet":[' + b",".join([b"{}"] * _MANY) + b"]}",
    "many queues": b'{"clientId":"c","consumerGroup":"g","mqSet":['
    + b",".join(b'{"topic":"T","queueId":%d}' % one for one in range(_MANY))
    + b"]}",
    "many producers": b'{"clientID":"c","producerDataSet":['
    + b",".join(b'{"groupName":"p%d"}' % one for one in range(_MANY))
    + b"]}",
    "many consumers": b'{"clientID":"c","consumerDataSet":['
    + b",".join(b'{"groupName":"c%d"}' % one for one in range(_MANY // 4))
    + b"]}",
    "many subscriptions": b'{"clientID":"c","consumerDataSet":[{"groupName":"g",'
    b'"subscriptionDataSet":[' + _subscriptions(_MANY // 2) + b"]}]}",
    "many tags": b'{"clientID":"c","consumerDataSet":[{"groupName":"g","subscriptionDataSet":'
    b'[{"topic":"T","codeSet":[' + b",".join(b"%d" % one for one in range(_MANY)) + b"]}]}]}",
    "extreme numbers": b'{"groupName":"Extreme","retryQueueNums":2147483647,"retryMaxTimes":'
    b'-2147483648,"consumeTimeoutMinute":9223372036854775807,"brokerId":-9223372036854775808}',
    "a number of many digits": b'{"groupName":"Extreme","retryQueueNums":"' + b"9" * 4000 + b'"}',
    "attributes without end": b'{"groupName":"Extreme","attributes":{'
    + b",".join(b'"k%d":"v"' % one for one in range(_MANY))
    + b"}}",
    "many acks": b'{"brokerName":"broker-a","acks":['
    + b",".join([_BATCH_ACK[33:-2]] * 5000)
    + b"]}",
    "a long bit set": _BATCH_ACK[:-8] + b"/" * 1_000_000 + b'"}]}',
    "many lines": b"timerMaxDelaySec=259200\n" * _MANY,
    "many unknown lines": b"".join(b"noSuchOption%d=1\n" % one for one in range(_MANY)),
    "extreme options": b"maxTransferBytesOnMessageInMemory=2147483647\n"
    b"maxTransferCountOnMessageInMemory=2147483647\nmaxMsgsNumBatch=2147483647\n"
    b"defaultQueryMaxNum=2147483647\n",
    "a batch of many": b"".join(
        [b"\x00\x00\x00\x17" + bytes(12) + b"\x00\x00\x00\x01b\x00\x00"] * 170_000
    ),
    "a large body": b"b" * (4 * _MB),
    "a batch that claims much": b"\x7f\xff\xff\xff" * 1000,
}
_MANY_FIELDS: Final = {f"field{one}": "x" for one in range(100_000)}
_FOR_ALL: Final = frozenset({"no JSON", "deep arrays", "a large body"})
"""Bodies that are sent with codes that have none, too."""


def cases(code: int) -> Iterator[Case]:
    """Give the hostile requests of a code, the ordinary one first."""
    form = FORMS[code]
    yield Case("ordinary", form.fields, form.body)
    for name, body in BODIES.items():
        if form.body or name in _FOR_ALL:
            yield Case(f"body: {name}", form.fields, body)
    yield Case("100,000 unknown fields", form.fields | _MANY_FIELDS, form.body)
    header = form.header
    if header is None:
        return
    names = {
        (field.short or field.wire) if form.short else field.wire: field.kind
        for field in header.FIELDS
    }
    for name, kind in names.items():
        values = WORDS if kind == "Text" else (*NUMBERS, *WORDS[:3])
        for value in values:
            yield Case(f"{name}={value[:20]!r}", form.fields | {name: value}, form.body)
        without = {key: value for key, value in form.fields.items() if key != name}
        yield Case(f"{name} is missing", without, form.body)
    for value in NUMBERS:
        numbers = {name: value for name, kind in names.items() if kind.startswith("Int")}
        yield Case(f"all numbers {value}", form.fields | numbers, form.body)
