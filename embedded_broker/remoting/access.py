"""What the requests of this wire ask for, so that guards can be asked about them.

Answers: the action of each request code and the topic and group that a header names. Must not know:
who may do what. Read on: ``embedded_broker/core/guards.py``.
"""

from typing import Final

from embedded_broker.core.guards import Action, Resource, ResourceKind
from embedded_broker.remoting.journal import GROUP_FIELDS, TOPIC_FIELDS, first_field
from rocketmq_py.protocol.codes import RequestCode

__all__ = ["action_of", "resources_of"]

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
"""Codes that change nothing and bring no message are looks: `GET`."""


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
