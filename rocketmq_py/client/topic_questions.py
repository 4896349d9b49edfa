"""What is asked about whole topics and brokers: names, bounds of all queues, a broker's time.

Questions and how their answers are read. Must not know who asks, or names of a namespace. Read on:
``queue_requests.py`` for questions about one queue, ``queue_access.py`` for who asks.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future
from typing import Final, NamedTuple, TypeAlias

from attrs import frozen

from rocketmq_py.client.asking import AnyOf, Asker, Broker, Question
from rocketmq_py.client.fan_out import chained, mapped, value_of
from rocketmq_py.client.queue_requests import max_offset_of, min_offset_of
from rocketmq_py.errors import RocketMQError
from rocketmq_py.protocol.bodies.timers import RuntimeInfo, TimerCheckpoint
from rocketmq_py.protocol.bodies.topics import ClusterInfo, TopicList, TopicStatsTable
from rocketmq_py.protocol.codes import RequestCode, ResponseCode
from rocketmq_py.protocol.command import RemotingCommand
from rocketmq_py.protocol.headers.admin import GetTopicStatsInfoRequestHeader
from rocketmq_py.send_result import MessageQueue

_UPTIME = re.compile(r"\[ (\d+) days, (\d+) hours, (\d+) minutes, (\d+) seconds \]")
"""As ``StoreStatsService.getFormatRuntime`` writes it."""

_TELLS_OR_NOT: Final = frozenset(
    {int(ResponseCode.SUCCESS), int(ResponseCode.REQUEST_CODE_NOT_SUPPORTED)}
)


@frozen
class QueueBounds:
    """Which offsets of a queue can be read: from `min_offset` to before `max_offset`.

    `last_update_timestamp` is the store time of the last message in epoch ms, 0 when empty or
    not told.
    """

    min_offset: int
    max_offset: int
    last_update_timestamp: int = 0


Bounds: TypeAlias = dict[MessageQueue, QueueBounds]
_End: TypeAlias = tuple[MessageQueue, Callable[[MessageQueue], Question[int]]]


class TopicAtBroker(NamedTuple):
    """A topic at one of its brokers."""

    topic: str
    broker_name: str


def topic_names(name_servers: Iterable[str]) -> Question[list[str]]:
    """Ask for the names of all topics (206), sorted."""
    return Question(
        AnyOf(tuple(name_servers)),
        RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER,
        lambda answer, _: sorted(TopicList.decode(answer.body).topic_list),
    )


def broker_names(name_servers: Iterable[str]) -> Question[list[str]]:
    """Ask for the names of all brokers that are registered now (106), sorted."""
    return Question(
        AnyOf(tuple(name_servers)),
        RequestCode.GET_BROKER_CLUSTER_INFO,
        lambda answer, _: sorted(ClusterInfo.decode(answer.body).broker_addr_table),
    )


def bounds_at(topic: str, broker_name: str) -> Question[Bounds | None]:
    """Ask a master for the bounds of a topic's queues (202), None when it does not tell them."""
    return Question(
        Broker(topic, broker_name, only_this=True),
        RequestCode.GET_TOPIC_STATS_INFO,
        _bounds,
        GetTopicStatsInfoRequestHeader(topic=topic).to_ext(),
        accepts=_TELLS_OR_NOT,
    )


def _bounds(answer: RemotingCommand, _: str) -> Bounds | None:
    if answer.code != ResponseCode.SUCCESS:
        return None
    return {
        MessageQueue(key.topic, key.broker_name, key.queue_id): QueueBounds(
            one.min_offset, one.max_offset, one.last_update_timestamp
        )
        for key, one in TopicStatsTable.decode(answer.body).offset_table.items()
    }


def ask_bounds(
    asker: Asker,
    places: Iterable[TopicAtBroker],
    known: Callable[[str], Iterable[MessageQueue] | None],
    timeout_ms: float,
) -> Future[dict[TopicAtBroker, Bounds | RocketMQError]]:
    """Ask for the bounds of topics at brokers, side by side.

    A broker that does not tell them is asked queue by queue (30, 31), about the queues that are
    ``known`` of a topic.
    """
    questions = {place: bounds_at(*place) for place in places}

    def complete(
        told: dict[TopicAtBroker, Bounds | RocketMQError | None],
    ) -> Future[dict[TopicAtBroker, Bounds | RocketMQError]]:
        queues = {
            place: [one for one in known(place.topic) or () if one.broker_name == place.broker_name]
            for place, answer in told.items()
            if answer is None
        }
        ends: dict[_End, Question[int]] = {
            (queue, end): end(queue)
            for some in queues.values()
            for queue in some
            for end in (min_offset_of, max_offset_of)
        }
        return mapped(
            asker.ask_many(ends, timeout_ms),
            lambda offsets: {
                place: _joined(queues[place], offsets) if answer is None else answer
                for place, answer in told.items()
            },
        )

    return chained(asker.ask_many(questions, timeout_ms), complete)


def _joined(
    queues: Iterable[MessageQueue], offsets: Mapping[_End, int | RocketMQError]
) -> Bounds | RocketMQError:
    """Make bounds of the two ends of each queue."""
    try:
        return {
            queue: QueueBounds(
                value_of(offsets[queue, min_offset_of]), value_of(offsets[queue, max_offset_of])
            )
            for queue in queues
        }
    except RocketMQError as error:
        return error


def time_ms_at(topic: str, broker_name: str) -> Question[int]:
    """Ask a broker of a topic what its clock says in epoch ms, up to a second late (28).

    The answer is a ValueError when the broker does not tell.
    """

    def read(answer: RemotingCommand, _: str) -> int:
        table = RuntimeInfo.decode(answer.body).table
        uptime = _UPTIME.fullmatch(table.get("runtime", ""))
        if uptime is None or not table.get("bootTimestamp", "").isdigit():
            raise ValueError(f"broker {broker_name} does not tell its time")
        days, hours, minutes, seconds = map(int, uptime.groups())
        up_s = ((days * 24 + hours) * 60 + minutes) * 60 + seconds
        return int(table["bootTimestamp"]) + 1_000 * up_s

    return Question(_master(topic, broker_name), RequestCode.GET_BROKER_RUNTIME_INFO, read)


def figures_of(topic: str, broker_name: str) -> Question[dict[str, str]]:
    """Ask a broker of a topic for all that it says about itself (28), texts by name."""
    return Question(
        _master(topic, broker_name),
        RequestCode.GET_BROKER_RUNTIME_INFO,
        lambda answer, _: RuntimeInfo.decode(answer.body).table,
    )


def settings_of(topic: str, broker_name: str) -> Question[dict[str, str]]:
    """Ask a broker of a topic for its settings (25), texts by name."""
    where = _master(topic, broker_name)
    return Question(where, RequestCode.GET_BROKER_CONFIG, settings_in)


def settings_in(answer: RemotingCommand, _: str) -> dict[str, str]:
    """Read a file of properties: ``name=value`` in each line."""
    lines = answer.body.decode("utf-8", "replace").splitlines()
    pairs = (line.partition("=") for line in lines if "=" in line and not line.startswith("#"))
    return {name.strip(): value.strip() for name, _, value in pairs}


def timer_check_point_of(topic: str, broker_name: str) -> Question[TimerCheckpoint]:
    """Ask a broker of a topic how far its timers have come (60)."""
    return Question(
        _master(topic, broker_name),
        RequestCode.GET_TIMER_CHECK_POINT,
        lambda answer, _: TimerCheckpoint.decode(answer.body),
    )


def _master(topic: str, broker_name: str) -> Broker:
    return Broker(topic, broker_name, only_this=True)
