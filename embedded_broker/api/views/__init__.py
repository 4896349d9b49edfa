"""Views of a broker for tests: topics, messages, timers, groups; and sends without a client.

A view holds no state: every look enters the door, for at most a few milliseconds at a time.
"""

from embedded_broker.api.views.bodies import Bodies
from embedded_broker.api.views.groups import GroupMember, GroupsView, GroupView, members_of
from embedded_broker.api.views.grpc_clients import GrpcClientInfo, GrpcClientKind, grpc_clients_of
from embedded_broker.api.views.lookup import HasMessageId
from embedded_broker.api.views.messages import MessagePage, MessagesView, StoredMessage
from embedded_broker.api.views.retries import Retry
from embedded_broker.api.views.send import SentMessage, redeliver_message, send_message
from embedded_broker.api.views.timers import PendingTimer, StageView, TimersView
from embedded_broker.api.views.topics import TopicsView, TopicView, delivered
from embedded_broker.api.views.trace import GroupTrace, MessageState, MessageTrace
from embedded_broker.clocks.wall_time_hint import MisreadClock
from embedded_broker.core.administration.offsets import GroupOffset

__all__ = [
    "Bodies",
    "GroupMember",
    "GroupOffset",
    "GroupTrace",
    "GroupView",
    "GroupsView",
    "GrpcClientInfo",
    "GrpcClientKind",
    "HasMessageId",
    "MessagePage",
    "MessageState",
    "MessageTrace",
    "MessagesView",
    "MisreadClock",
    "PendingTimer",
    "Retry",
    "SentMessage",
    "StageView",
    "StoredMessage",
    "TimersView",
    "TopicView",
    "TopicsView",
    "delivered",
    "grpc_clients_of",
    "members_of",
    "redeliver_message",
    "send_message",
]
