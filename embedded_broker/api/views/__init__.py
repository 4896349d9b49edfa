"""What a test sees of a broker: topics, messages, timers, groups, and sending without a client.

A view holds no state: every look enters the door, for at most a few milliseconds at a time.
"""

from embedded_broker.api.views.groups import GroupMember as GroupMember
from embedded_broker.api.views.groups import GroupOffset as GroupOffset
from embedded_broker.api.views.groups import GroupsView as GroupsView
from embedded_broker.api.views.groups import GroupView as GroupView
from embedded_broker.api.views.groups import members_of as members_of
from embedded_broker.api.views.lookup import HasMessageId as HasMessageId
from embedded_broker.api.views.messages import MessagesView as MessagesView
from embedded_broker.api.views.messages import StoredMessage as StoredMessage
from embedded_broker.api.views.retries import Retry as Retry
from embedded_broker.api.views.send import SentMessage as SentMessage
from embedded_broker.api.views.send import send_message as send_message
from embedded_broker.api.views.timers import PendingTimer as PendingTimer
from embedded_broker.api.views.timers import StageView as StageView
from embedded_broker.api.views.timers import TimersView as TimersView
from embedded_broker.api.views.topics import TopicsView as TopicsView
from embedded_broker.api.views.topics import TopicView as TopicView
from embedded_broker.api.views.topics import delivered as delivered
from embedded_broker.api.views.trace import GroupTrace as GroupTrace
from embedded_broker.api.views.trace import MessageState as MessageState
from embedded_broker.api.views.trace import MessageTrace as MessageTrace

__all__ = [
    "GroupMember",
    "GroupOffset",
    "GroupTrace",
    "GroupView",
    "GroupsView",
    "HasMessageId",
    "MessageState",
    "MessageTrace",
    "MessagesView",
    "PendingTimer",
    "Retry",
    "SentMessage",
    "StageView",
    "StoredMessage",
    "TimersView",
    "TopicView",
    "TopicsView",
    "delivered",
    "members_of",
    "send_message",
]
