"""Which settings does a push consumer have beyond those of every client.

Names, defaults and ranges of `org.apache.rocketmq.client.consumer.DefaultMQPushConsumer`; every
assignment is checked, so a wrong value fails where it is written. This module must not know what
the settings do; each is read in the module that obeys it.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from os import PathLike
from typing import Any, ClassVar

from attrs import Attribute, define, field, setters

from rocketmq_py.config import (
    UNLIMITED,
    TracedConfig,
    explained,
    in_milliseconds,
    in_minutes,
    member_of,
    milliseconds,
    must,
    setting,
    switch,
    unlimited_or,
    within,
)
from rocketmq_py.consumer.allocate import (
    AllocateMessageQueueAveragely,
    AllocateMessageQueueStrategy,
)
from rocketmq_py.consumer.listener import ConsumeFromWhere, MessageModel
from rocketmq_py.errors import ConfigError

TIMESTAMP_FORMAT = "%Y%m%d%H%M%S"
RECONSUME_TIMES_DEFAULT = 16
MIB = 1024 * 1024
POP_BATCH_MAX = 32
"""Messages that a broker gives in one pop at most."""
INVISIBLE_MAX_MS = 12 * 3_600_000
"""The longest time that a message is hidden, as of a proxy (``maxInvisibleTimeMills``)."""


def _an_instant(_owner: object, setting: Attribute[Any], value: object) -> None:
    if isinstance(value, datetime):
        if value.tzinfo is None:
            raise ConfigError(setting.name, value, "a datetime must be aware: give it a tzinfo")
        return
    if value == "":
        return
    limit = "must look like yyyyMMddHHmmss in local time, or be an aware datetime"
    if not isinstance(value, str) or len(value) != len("yyyyMMddHHmmss"):
        raise ConfigError(setting.name, value, limit)
    try:
        parse_instant(value)
    except ValueError:
        raise ConfigError(setting.name, value, limit) from None


_a_path = must("be a path", lambda value: isinstance(value, (str, PathLike)))
_a_strategy = must(
    "be an object with name and allocate",
    lambda value: not isinstance(value, type) and callable(getattr(value, "allocate", None)),
)


def parse_instant(text: str) -> datetime:
    """Read ``yyyyMMddHHmmss`` as local time, as Java does; ValueError when it is none."""
    return datetime.strptime(text, TIMESTAMP_FORMAT).astimezone()


@explained
@define(kw_only=True, eq=False, on_setattr=setters.NO_OP)
class ConsumerConfig(TracedConfig):
    """Settings of every consumer.

    Arguments
    ---------
    message_model
        CLUSTERING: each message goes to one member of the group. BROADCASTING: to each member;
        offsets are kept in a file of this machine, and nothing comes again that failed.
    consume_from_where, consume_timestamp
        Where a group without a stored offset begins; the timestamp (``yyyyMMddHHmmss`` local
        time, or an aware datetime; default: 30 minutes before the start) counts for
        CONSUME_FROM_TIMESTAMP.
    allocate_strategy
        How the members share queues; the same in every member.
    pull_threshold_for_queue, pull_threshold_size_for_queue
        Flow control of one queue: cached messages, cached MiB. Above one of them pulling waits.
    pull_threshold_for_topic, pull_threshold_size_for_topic
        -1, or limits that are divided by the number of this member's queues at each rebalance
        and replace the two limits of a queue.
    pull_interval
        Pause between a pull that found messages and the next, in ms, or a timedelta.
    pull_batch_size, pull_batch_size_in_bytes
        Messages and bytes that one pull asks for at most.
    local_offset_store_dir
        Directory for the offsets of a broadcasting consumer; "" is ``.rocketmq_offsets`` in the
        user's home, as of Java clients. The file is named by client id and group, so another
        ``instance_name`` has offsets of its own.
    post_subscription_when_pull
        Send the tag expression with each pull.
    pull_time_delay_millis_when_exception
        Pause after a failed pull in ms, or a timedelta. In a test that lets a broker crash, 10
        saves most of a second.
    """

    message_model: MessageModel = field(
        default=MessageModel.CLUSTERING, metadata=setting(member_of(MessageModel))
    )
    consume_from_where: ConsumeFromWhere = field(
        default=ConsumeFromWhere.CONSUME_FROM_LAST_OFFSET,
        metadata=setting(member_of(ConsumeFromWhere)),
    )
    consume_timestamp: str | datetime = field(default="", metadata=setting(_an_instant))
    allocate_strategy: AllocateMessageQueueStrategy = field(
        factory=AllocateMessageQueueAveragely, metadata=setting(_a_strategy)
    )
    pull_threshold_for_queue: int = field(default=1000, metadata=setting(within(1, 65_535)))
    pull_threshold_size_for_queue: int = field(default=100, metadata=setting(within(1, 1024)))
    pull_threshold_for_topic: int = field(
        default=UNLIMITED, metadata=setting(unlimited_or(within(1, 6_553_500)))
    )
    pull_threshold_size_for_topic: int = field(
        default=UNLIMITED, metadata=setting(unlimited_or(within(1, 102_400)))
    )
    pull_interval: int = field(
        default=0, converter=in_milliseconds, metadata=setting(milliseconds(0, 65_535))
    )
    pull_batch_size: int = field(default=32, metadata=setting(within(1, 1024)))
    pull_batch_size_in_bytes: int = field(default=256 * 1024, metadata=setting(within(1)))
    local_offset_store_dir: str | PathLike[str] = field(default="", metadata=setting(_a_path))
    post_subscription_when_pull: bool = field(default=False, metadata=setting(switch))
    pull_time_delay_millis_when_exception: int = field(
        default=1_000, converter=in_milliseconds, metadata=setting(milliseconds(0))
    )


@explained
@define(kw_only=True, eq=False, on_setattr=setters.NO_OP)
class PushConsumerConfig(ConsumerConfig):
    """Settings of one push consumer.

    Arguments
    ---------
    consume_thread_min, consume_thread_max
        Listener threads, made on demand: the work queue is unbounded, so ``min`` is the real
        number; ``max`` bounds `DefaultMQPushConsumer.update_core_pool_size`.
    consume_message_batch_max_size
        Messages per listener call.
    consume_message_batch_max_wait
        How long messages of a queue wait until that many are there, in ms, or a timedelta, up to
        450,000; 0: a call gets what a pull has brought. For listeners that may be called in any
        order, and queues that are pulled.
    consume_concurrently_max_span
        Flow control of one queue: largest distance between unfinished offsets.
    max_reconsume_times
        Attempts after the first one before the dead letters; -1 = 16, and no limit for an orderly
        listener.
    suspend_current_queue_time_millis
        Pause of a queue whose orderly listener did not handle a message, 10 to 30,000 ms, or a
        timedelta.
    consume_timeout
        Minutes (or a timedelta of them) that one listener call may take before its messages are
        sent back; an orderly listener may take any time.
    await_termination_millis_when_shutdown
        How long `shutdown` waits for running listeners, in ms, or a timedelta.
    client_rebalance
        True: the members divide the queues by `allocate_strategy` and pull. False: the brokers
        assign them, and messages of a topic are popped where an administrator has set so
        (`DefaultMQAdminExt.set_message_request_mode`). Broadcasting is refused with False, and so
        is a listener in order that turns its auto-commit off.
    pop_invisible_time
        How long a popped message is hidden from the group, in ms, or a timedelta; while its
        listener works that is renewed, up to `consume_timeout`. In order it is renewed as long as
        the queue waits: nobody else gets anything of it before.
    pop_batch_nums
        Messages that one pop asks for at most. In order no more of a queue are under way.
    pop_threshold_for_queue, pop_threshold_bytes_for_queue
        Messages of one popped queue that are not acked, and bytes of their bodies. Above one of
        them popping waits.
    pop_all_queues
        True: nobody assigns queues. Each member pops all queues of every broker of its topics,
        nothing is pulled, and what `client_rebalance` says does not count; so do clients of the
        5.0 API. A message is kept hidden from the moment it is here, also while it waits for its
        listener, up to `consume_timeout`. What fails more often than `max_reconsume_times` goes to
        the dead letters. Brokers before 5.0 refuse pops. Refused as False is of `client_rebalance`.
    """

    FIXED_BY_START: ClassVar[Mapping[str, str]] = {
        **ConsumerConfig.FIXED_BY_START,
        "consume_thread_min": "call update_core_pool_size",
        "consume_timeout": "",
        "client_rebalance": "",
        "pop_all_queues": "",
        "pop_invisible_time": "",
    }

    consume_thread_min: int = field(default=20, metadata=setting(within(1, 1000)))
    consume_thread_max: int = field(default=20, metadata=setting(within(1, 1000)))
    consume_message_batch_max_size: int = field(default=1, metadata=setting(within(1, 1024)))
    consume_message_batch_max_wait: int = field(
        default=0, converter=in_milliseconds, metadata=setting(milliseconds(0, 450_000))
    )
    consume_concurrently_max_span: int = field(default=2000, metadata=setting(within(1, 65_535)))
    max_reconsume_times: int = field(default=-1, metadata=setting(within(-1)))
    suspend_current_queue_time_millis: int = field(
        default=1_000, converter=in_milliseconds, metadata=setting(milliseconds(10, 30_000))
    )
    consume_timeout: int = field(
        default=15,
        converter=in_minutes,
        metadata=setting(within(1, unit="minutes (or a timedelta of them)")),
    )
    await_termination_millis_when_shutdown: int = field(
        default=3000, converter=in_milliseconds, metadata=setting(milliseconds(0))
    )
    client_rebalance: bool = field(default=True, metadata=setting(switch))
    pop_invisible_time: int = field(
        default=60_000, converter=in_milliseconds, metadata=setting(milliseconds(5_000, 300_000))
    )
    pop_batch_nums: int = field(default=32, metadata=setting(within(1, POP_BATCH_MAX)))
    pop_threshold_for_queue: int = field(default=96, metadata=setting(within(1, 65_535)))
    pop_threshold_bytes_for_queue: int = field(default=100 * MIB, metadata=setting(within(1)))
    pop_all_queues: bool = field(default=False, metadata=setting(switch))

    @property
    def reconsume_times_max(self) -> int:
        """`max_reconsume_times` with -1 replaced by what it means for concurrent listeners."""
        if self.max_reconsume_times == -1:
            return RECONSUME_TIMES_DEFAULT
        return self.max_reconsume_times


@explained
@define(kw_only=True, eq=False, on_setattr=setters.NO_OP)
class LitePullConsumerConfig(ConsumerConfig):
    """Settings of one lite pull consumer.

    Arguments
    ---------
    auto_commit
        Each `poll` says that what the ones before it returned is done. False: `commit` does.
    poll_timeout_millis
        How long `poll` waits when it is not told, in ms, or a timedelta.
    pull_batch_size
        Messages that one pull asks for, and one `poll` returns, at most; 10 unless set.
    pull_threshold_for_all
        Messages of all queues that wait for a `poll`. Above that pulling waits.
    consume_max_span
        Flow control of one queue: largest distance between the offsets of messages that wait for a
        `poll`. Above that pulling waits.
    topic_metadata_check_interval
        How often it is looked whether the queues of a topic have changed, in ms, or a timedelta.
    """

    FIXED_BY_START: ClassVar[Mapping[str, str]] = {
        **ConsumerConfig.FIXED_BY_START,
        "topic_metadata_check_interval": "",
    }

    auto_commit: bool = field(default=True, metadata=setting(switch))
    poll_timeout_millis: int = field(
        default=5_000, converter=in_milliseconds, metadata=setting(milliseconds(0))
    )
    pull_batch_size: int = field(default=10, metadata=setting(within(1, 1024)))
    pull_threshold_for_all: int = field(default=10_000, metadata=setting(within(1)))
    consume_max_span: int = field(default=2000, metadata=setting(within(1, 65_535)))
    topic_metadata_check_interval: int = field(
        default=30_000, converter=in_milliseconds, metadata=setting(milliseconds(100))
    )


@explained
@define(kw_only=True, eq=False, on_setattr=setters.NO_OP)
class PopConsumerConfig(ConsumerConfig):
    """Settings of one consumer that pops when it is asked.

    Arguments
    ---------
    await_duration
        How long a `DefaultPopConsumer.receive` waits for a message when it is not told, in ms, or a
        timedelta: the broker keeps the pop meanwhile.
    pop_invisible_time
        How long what a `receive` returns is hidden from the group when it is not told, in ms, or a
        timedelta.
    pop_batch_nums
        Messages that a `receive` returns at most when it is not told.
    """

    await_duration: int = field(
        default=20_000, converter=in_milliseconds, metadata=setting(milliseconds(0, 30_000))
    )
    pop_invisible_time: int = field(
        default=60_000,
        converter=in_milliseconds,
        metadata=setting(milliseconds(1, INVISIBLE_MAX_MS)),
    )
    pop_batch_nums: int = field(default=32, metadata=setting(within(1, POP_BATCH_MAX)))
