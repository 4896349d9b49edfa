"""Consumer groups: who is connected, how far each one is, what failed; move one elsewhere.

Read on: ``embedded_broker/api/views/groups.py``.
"""

from datetime import datetime
from typing import Final, Literal

from attrs import frozen

from embedded_broker.api.broker import EmbeddedBroker
from embedded_broker.api.views import GroupMember, GroupOffset, Retry, StoredMessage
from embedded_broker.control.fields import Field, FieldType
from embedded_broker.control.operation import TIMEOUT, Call, Operation, answer_bodies
from rocketmq_py.errors import ConfigError


@frozen(kw_only=True)
class GroupTold:
    """A group: members, topics, what is not committed (lag), what was not handed out (unread)."""

    name: str
    members: tuple[GroupMember, ...]
    topics: tuple[str, ...]
    lag: int
    unread: int
    offsets: tuple[GroupOffset, ...]


def list_groups(call: Call) -> list[str]:
    """List the consumer groups that were used or created."""
    return call.broker.groups.names()


def find_group(call: Call) -> GroupTold:
    """Tell of one group, in all its topics or in one."""
    return _told(call.broker, call["group"], call["topic"])


def list_dead_letters(call: Call) -> list[StoredMessage]:
    """List the messages that the group gave up, oldest first."""
    return call.broker.groups[call["group"]].dead_letters(bodies=answer_bodies())


def list_retries(call: Call) -> list[Retry]:
    """List the messages that the group will get again."""
    return call.broker.groups[call["group"]].retries(bodies=answer_bodies())


def reset_group(call: Call) -> list[GroupOffset]:
    """Move the group to another place in a topic."""
    group = call.broker.groups[call["group"]]
    return group.reset(topic=call["topic"], to=_target(call), queue=call["queue"])


def wait_members(call: Call) -> GroupTold:
    """Wait until so many consumers of the group are connected."""
    call.broker.wait_members(call["group"], call["count"], timeout=call["timeout"])
    return _told(call.broker, call["group"], None)


def _target(call: Call) -> datetime | Literal["earliest", "latest"] | int:
    named = {name: call[name] for name in ("to", "offset", "at") if call[name] is not None}
    if len(named) != 1:
        raise ConfigError("to", call["to"], "give one of to, offset and at")
    (target,) = named.values()
    return target  # type: ignore[no-any-return]


def _told(broker: EmbeddedBroker, name: str, topic: str | None) -> GroupTold:
    group = broker.groups[name]
    return GroupTold(
        name=name,
        members=group.members,
        topics=group.topics,
        lag=group.lag(topic=topic),
        unread=group.unread(topic=topic),
        offsets=tuple(group.offsets(topic=topic)),
    )


GROUPS: Final = (
    Operation("GET", "/groups", list_groups),
    Operation(
        "GET", "/groups/{group}", find_group, (Field("topic", FieldType.TEXT, "Only this topic."),)
    ),
    Operation("GET", "/groups/{group}/dead_letters", list_dead_letters),
    Operation("GET", "/groups/{group}/retries", list_retries),
    Operation(
        "POST",
        "/groups/{group}/reset",
        reset_group,
        (
            Field("topic", FieldType.TEXT, "In which topic.", required=True),
            Field("to", FieldType.TEXT, "To an end of each queue.", choices=("earliest", "latest")),
            Field("offset", FieldType.INTEGER, "To an offset that every queue has.", low=0),
            Field("at", FieldType.INSTANT, "To the first message stored at or after this time."),
            Field("queue", FieldType.INTEGER, "Only this queue.", low=0),
        ),
    ),
    Operation(
        "POST",
        "/groups/{group}/wait",
        wait_members,
        (Field("count", FieldType.INTEGER, "How many consumers.", default=1, low=0), TIMEOUT),
    ),
)
