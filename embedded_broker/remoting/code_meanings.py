"""What the numbers of this wire mean in the values of the core.

Answers: what a request code wants to do, which topic and group a header names, and which response
code tells a reason to refuse. Must not know: who may do what, remarks. Read on:
``embedded_broker/core/guards.py`` and ``embedded_broker/core/refusals.py``.
"""

from typing import Final

from embedded_broker.core.guards import Action, Resource, ResourceKind
from embedded_broker.core.refusals import Reason
from embedded_broker.remoting.journal import GROUP_FIELDS, TOPIC_FIELDS, first_field
from embedded_broker.settings.profiles import Profile
from rocketmq_py.protocol.codes import RequestCode, ResponseCode

_ACTIONS: Final[dict[int, Action]] = {
    RequestCode.SEND_MESSAGE: Action.PUB,
    RequestCode.SEND_MESSAGE_V2: Action.PUB,
    RequestCode.SEND_BATCH_MESSAGE: Action.PUB,
    RequestCode.SEND_REPLY_MESSAGE: Action.PUB,
    RequestCode.SEND_REPLY_MESSAGE_V2: Action.PUB,
    RequestCode.END_TRANSACTION: Action.PUB,
    RequestCode.RECALL_MESSAGE: Action.PUB,
    RequestCode.CONSUMER_SEND_MSG_BACK: Action.SUB,
    RequestCode.PULL_MESSAGE: Action.SUB,
    RequestCode.LITE_PULL_MESSAGE: Action.SUB,
    RequestCode.LOCK_BATCH_MQ: Action.SUB,
    RequestCode.UNLOCK_BATCH_MQ: Action.SUB,
    RequestCode.UPDATE_CONSUMER_OFFSET: Action.SUB,
    RequestCode.QUERY_CONSUMER_OFFSET: Action.SUB,
    RequestCode.HEART_BEAT: Action.GET,
    RequestCode.UPDATE_AND_CREATE_TOPIC: Action.CREATE,
    RequestCode.UPDATE_AND_CREATE_TOPIC_LIST: Action.CREATE,
    RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP: Action.CREATE,
    RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST: Action.CREATE,
    RequestCode.DELETE_TOPIC_IN_BROKER: Action.DELETE,
    RequestCode.CLEAN_UNUSED_TOPIC: Action.DELETE,
    RequestCode.CLEAN_EXPIRED_CONSUMEQUEUE: Action.DELETE,
    RequestCode.DELETE_EXPIRED_COMMITLOG: Action.DELETE,
    RequestCode.DELETE_SUBSCRIPTIONGROUP: Action.DELETE,
    RequestCode.PUT_KV_CONFIG: Action.UPDATE,
    RequestCode.DELETE_KV_CONFIG: Action.UPDATE,
    RequestCode.WIPE_WRITE_PERM_OF_BROKER: Action.UPDATE,
    RequestCode.ADD_WRITE_PERM_OF_BROKER: Action.UPDATE,
    RequestCode.DELETE_TOPIC_IN_NAMESRV: Action.DELETE,
    RequestCode.REGISTER_TOPIC_IN_NAMESRV: Action.CREATE,
    RequestCode.UPDATE_NAMESRV_CONFIG: Action.UPDATE,
    RequestCode.UPDATE_BROKER_CONFIG: Action.UPDATE,
    RequestCode.INVOKE_BROKER_TO_RESET_OFFSET: Action.UPDATE,
    RequestCode.CLONE_GROUP_OFFSET: Action.UPDATE,
    RequestCode.UPDATE_AND_GET_GROUP_FORBIDDEN: Action.UPDATE,
    RequestCode.RESUME_CHECK_HALF_MESSAGE: Action.UPDATE,
    RequestCode.CONSUME_MESSAGE_DIRECTLY: Action.UPDATE,
}
"""A code that is not here changes nothing and brings no message: `GET`."""

_CODES: Final = {
    one: ResponseCode[one.name] for one in Reason if one.name in ResponseCode.__members__
} | {
    Reason.FAILED: ResponseCode.SYSTEM_ERROR,
    Reason.BUSY: ResponseCode.SYSTEM_BUSY,
    Reason.GROUP_NOT_EXIST: ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST,
    Reason.NOT_FOUND: ResponseCode.QUERY_NOT_FOUND,
}
"""Most reasons have the name of their code."""


def action_of(code: int) -> Action:
    """Give what a request with this code wants to do."""
    return _ACTIONS.get(code, Action.GET)


def resources_of(fields: dict[str, str]) -> list[Resource]:
    """Give the topic and the group that a header names; the cluster when it names neither."""
    found = []
    topic, group = first_field(fields, TOPIC_FIELDS), first_field(fields, GROUP_FIELDS)
    if topic:
        found.append(Resource(ResourceKind.TOPIC, topic))
    if group:
        found.append(Resource(ResourceKind.GROUP, group))
    return found or [Resource(ResourceKind.CLUSTER)]


def code_for(reason: Reason, profile: Profile) -> int:
    """Give the response code of a reason; a bad parameter has another one in 4.9."""
    if reason is Reason.INVALID_PARAMETER:
        return profile.invalid_parameter
    return _CODES[reason]
