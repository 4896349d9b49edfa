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

__all__ = ["action_of", "code_for", "resources_of"]

_ACTIONS: Final[dict[int, Action]] = {
    RequestCode.SEND_MESSAGE: Action.PUB,
    RequestCode.SEND_MESSAGE_V2: Action.PUB,
    RequestCode.SEND_BATCH_MESSAGE: Action.PUB,
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
    RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP: Action.CREATE,
    RequestCode.UPDATE_BROKER_CONFIG: Action.UPDATE,
    RequestCode.INVOKE_BROKER_TO_RESET_OFFSET: Action.UPDATE,
}
"""A code that is not here changes nothing and brings no message: `GET`."""

_CODES: Final = {
    Reason.FAILED: ResponseCode.SYSTEM_ERROR,
    Reason.BUSY: ResponseCode.SYSTEM_BUSY,
    Reason.FLUSH_DISK_TIMEOUT: ResponseCode.FLUSH_DISK_TIMEOUT,
    Reason.FLUSH_SLAVE_TIMEOUT: ResponseCode.FLUSH_SLAVE_TIMEOUT,
    Reason.SLAVE_NOT_AVAILABLE: ResponseCode.SLAVE_NOT_AVAILABLE,
    Reason.SERVICE_NOT_AVAILABLE: ResponseCode.SERVICE_NOT_AVAILABLE,
    Reason.MESSAGE_ILLEGAL: ResponseCode.MESSAGE_ILLEGAL,
    Reason.ILLEGAL_OPERATION: ResponseCode.ILLEGAL_OPERATION,
    Reason.NO_PERMISSION: ResponseCode.NO_PERMISSION,
    Reason.TOPIC_NOT_EXIST: ResponseCode.TOPIC_NOT_EXIST,
    Reason.GROUP_NOT_EXIST: ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST,
    Reason.SUBSCRIPTION_NOT_EXIST: ResponseCode.SUBSCRIPTION_NOT_EXIST,
    Reason.SUBSCRIPTION_NOT_LATEST: ResponseCode.SUBSCRIPTION_NOT_LATEST,
    Reason.SUBSCRIPTION_PARSE_FAILED: ResponseCode.SUBSCRIPTION_PARSE_FAILED,
    Reason.NOT_FOUND: ResponseCode.QUERY_NOT_FOUND,
    Reason.CONSUMER_NOT_ONLINE: ResponseCode.CONSUMER_NOT_ONLINE,
}


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
