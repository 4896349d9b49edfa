"""What administrators get: frozen values, with aware times and plain names.

Made of the documents of the wire by the acts. Must not know requests.
"""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from enum import Enum, StrEnum
from typing import Literal, TypeAlias

from attrs import field, frozen

from rocketmq_py.protocol.codes import PERM_READ, PERM_WRITE
from rocketmq_py.send_result import MessageQueue

MESSAGE_TYPE = "message.type"
"""The attribute of a topic that names the type of its messages (5.x)."""


def moment(epoch_ms: int) -> datetime | None:
    """Give an aware time; None for 0 and what is before it, which say that there is none."""
    if epoch_ms <= 0:
        return None
    try:
        return datetime.fromtimestamp(epoch_ms / 1000, UTC)
    except (OverflowError, ValueError, OSError):
        return None  # no calendar has the year


def span(milliseconds: int) -> timedelta:
    """Give a span of time that a peer tells; the longest there is for one that is too long."""
    try:
        return timedelta(milliseconds=max(0, milliseconds))
    except OverflowError:
        return timedelta.max


def milliseconds_of(at: datetime, name: str) -> int:
    """Give the epoch milliseconds of an aware time; TypeError for another one."""
    if not isinstance(at, datetime) or at.tzinfo is None:
        raise TypeError(f"{name} is an aware datetime, not {at!r}: give it a time zone")
    return int(at.timestamp() * 1000)


class TopicMessageType(StrEnum):
    """Which messages a topic of 5.x is for."""

    NORMAL = "NORMAL"
    FIFO = "FIFO"
    DELAY = "DELAY"
    TRANSACTION = "TRANSACTION"
    MIXED = "MIXED"
    UNSPECIFIED = "UNSPECIFIED"


@frozen
class BrokerPlace:
    """A broker as the name server knows it: addresses by broker id, 0 is the master."""

    name: str
    cluster: str
    addresses: Mapping[int, str]

    @property
    def master(self) -> str | None:
        """The address of the master, None while there is none."""
        return self.addresses.get(0)


@frozen
class TopicPlace:
    """What the name server tells of a topic at one broker."""

    broker_name: str
    cluster: str
    addresses: Mapping[int, str]
    read_queues: int
    write_queues: int
    readable: bool
    writable: bool


@frozen
class TopicSettings:
    """A topic at one broker.

    Producers use queues below `write_queues`, consumers those below `read_queues`. ``attributes``
    (5.x) have their names without signs.
    """

    read_queues: int
    write_queues: int
    readable: bool = True
    writable: bool = True
    ordered: bool = False
    attributes: Mapping[str, str] = field(factory=dict)

    @property
    def message_type(self) -> str | None:
        """The type of messages that the topic is for; None: it does not say."""
        return self.attributes.get(MESSAGE_TYPE)

    @property
    def perm(self) -> int:
        """The permission as the wire has it."""
        return (PERM_READ if self.readable else 0) | (PERM_WRITE if self.writable else 0)


@frozen
class TopicChange:
    """What becomes of a topic at one broker; `before` is None where it is new."""

    before: TopicSettings | None
    after: TopicSettings


@frozen
class TopicDeletion:
    """What goes with a topic: at which brokers, and how many messages can be read there now.

    Groups lose what they have committed in it, too.
    """

    topic: str
    messages: Mapping[str, int]
    """By broker name."""
    readers: tuple[str, ...]
    """Groups that subscribe to it, or have committed in it."""


@frozen
class GroupSettings:
    """A consumer group at one broker.

    `retry_max_times`: after so many retries a message goes to the dead letters. `ordered` and
    `consume_timeout` (whole minutes) are of 5.x; brokers of 4.9 have them as they are here.
    """

    consume_enabled: bool = True
    broadcast_enabled: bool = True
    ordered: bool = False
    retry_queues: int = 1
    retry_max_times: int = 16
    consume_timeout: timedelta = timedelta(minutes=15)


@frozen
class GroupChange:
    """What becomes of a group at one broker; `before` is None where it is new."""

    before: GroupSettings | None
    after: GroupSettings


@frozen
class GroupDeletion:
    """What goes with a group: its settings at these brokers, and its offsets if that was wished."""

    group: str
    brokers: tuple[str, ...]
    members: tuple[str, ...]
    """Client ids of members that are online."""
    offsets: Mapping[MessageQueue, int]
    """What is forgotten: the offsets by queue."""


@frozen
class QueueProgress:
    """How far a group is in one queue.

    `committed` is the next offset to consume, `end` the offset that the queue's next message gets,
    `pulled` the next offset to fetch (None before 5.0). `consumed_until` is the store time of the
    last message that was consumed.
    """

    committed: int
    end: int
    pulled: int | None = None
    consumed_until: datetime | None = None

    @property
    def lag(self) -> int:
        """How many messages of the queue are still to be consumed."""
        return max(0, self.end - self.committed)


@frozen
class GroupProgress:
    """How far a group is in its queues, and how many messages it consumes each second."""

    group: str
    queues: Mapping[MessageQueue, QueueProgress]
    messages_per_second: float = 0.0

    @property
    def lag(self) -> int:
        """How many messages are still to be consumed, of all queues."""
        return sum(one.lag for one in self.queues.values())


@frozen
class OffsetMove:
    """Where a group was in a queue, None where it had committed nothing, and where it goes.

    Brokers before 5.0 say 0 of a queue in which nothing was committed.
    """

    before: int | None
    after: int


@frozen
class OffsetChange:
    """What becomes of a group's offsets; ``online``: it has members, who are told."""

    group: str
    online: bool
    moves: Mapping[MessageQueue, OffsetMove]


Place: TypeAlias = datetime | Literal["first", "last"]
"""Where to a group is moved: a store time (aware), or the first or the last end of its queues."""


@frozen
class Member:
    """A client that is online; `version` is its release, or the number that it tells."""

    client_id: str
    address: str
    language: str | None
    version: str


@frozen
class Subscription:
    """What a group wants of a topic: an expression of the kind ``TAG`` or ``SQL92``."""

    expression: str
    kind: str


@frozen
class GroupMembers:
    """Who is online in a consumer group, and what it subscribes by topic.

    `message_model` and `consume_type` are RocketMQ's words, None while nobody is online.
    """

    group: str
    members: tuple[Member, ...] = ()
    subscriptions: Mapping[str, Subscription] = field(factory=dict)
    message_model: str | None = None
    consume_type: str | None = None


@frozen
class HeldQueue:
    """What a member has of one queue."""

    committed: int
    cached_messages: int
    cached_mib: int
    locked: bool
    pulled_at: datetime | None
    consumed_at: datetime | None


@frozen
class MemberState:
    """How a member says that it is; `stacks` are those of its threads, if they were asked for."""

    client_id: str
    properties: Mapping[str, str]
    subscriptions: Mapping[str, Subscription]
    queues: Mapping[MessageQueue, HeldQueue]
    stacks: str | None


@frozen
class ConsumedNow:
    """What a member made of a message: RocketMQ's word, such as ``CR_SUCCESS``, and its time."""

    result: str
    remark: str | None
    spent: timedelta


class TrackState(Enum):
    """What became of a message in a group."""

    CONSUMED = "consumed"
    FILTERED = "passed over: the group's tags do not take it"
    NOT_YET = "not consumed yet"
    NOT_ONLINE = "nobody of the group is online, and it has not come so far"
    PULLS = "the group pulls by its own offsets: nobody knows"
    BROADCASTING = "each member consumes for itself: nobody knows"


@frozen
class MessageTrack:
    """What became of a message in one group."""

    group: str
    state: TrackState


@frozen
class BrokerRuntime:
    """What a broker says about itself; ``table`` has all of it, texts by RocketMQ's names."""

    version: str
    booted_at: datetime | None
    messages_today: int
    timers_pending: int | None
    """None before 5.0."""
    table: Mapping[str, str]


@frozen
class OptionChange:
    """An option of a broker: its value before (None: it shows no such option) and after."""

    before: str | None
    after: str


@frozen
class OptionsChange:
    """What becomes of a broker's options; `remark` is what it says to that, if anything."""

    options: Mapping[str, OptionChange]
    remark: str | None = None


@frozen
class TimerPlace:
    """How far the timers of a broker have come, as its last check point says.

    Everything before `released_until` is delivered; every timer below `queue_offset` of the timer
    queue is in the wheel, or delivered. `log_flushed` is a position of the timer log in bytes.
    """

    released_until: datetime | None
    queue_offset: int
    log_flushed: int


@frozen
class PendingTimers:
    """How many timers of a topic wait at a broker, and when that number has changed last."""

    count: int
    changed_at: datetime | None


@frozen
class User:
    """A user of ACL 2. Passwords are never shown."""

    name: str
    super_user: bool
    enabled: bool


@frozen
class UserChange:
    """What becomes of a user at one broker; ``new_password``: it gets another one."""

    before: User
    after: User
    new_password: bool


@frozen
class Policy:
    """What a user may do with a resource, such as ``Topic:Orders`` or ``Group:pay*``.

    `actions` are RocketMQ's words: Pub, Sub, Create, Update, Delete, Get, List or All.
    """

    resource: str
    actions: tuple[str, ...]
    allowed: bool = True
    source_ips: tuple[str, ...] = ()
