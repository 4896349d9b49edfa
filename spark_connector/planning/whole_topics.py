"""Whether every queue that a read must have is there, and the wait for those that are not.

A broker that is away leaves the name server's routes, so that what is left of a topic looks like
all of it. What must be there is known from the route, from the topic's configuration, from the
options, and from a stream's checkpoint. Must not know Spark, nor where a read begins. Read on:
``start_places.py`` for the subscription, ``tracker.py`` for streams that run.
"""

import logging
import threading
from collections.abc import Collection, Iterator
from functools import partial

from attrs import define, field

from rocketmq_py import MessageQueue, NoRouteError, QueueAccess, RocketMQError
from rocketmq_py.clock import monotonic
from spark_connector.options.read_options import ReadOptions
from spark_connector.planning.giving_up import give_up, missing, shown
from spark_connector.planning.required_queues import Lacking, lacking
from spark_connector.planning.start_places import (
    Bounds,
    asking_for,
    chosen,
    find_topics,
    warn_of_unknown_groups,
)
from spark_connector.servers.access import is_transient
from spark_connector.servers.asking import retrying_all
from spark_connector.servers.back_off import TopicBroker

_log = logging.getLogger("spark_connector")

LOOK_AGAIN_S = 1.0

_Route = tuple[tuple[MessageQueue, ...], NoRouteError | None]
"""The queues of a topic, or why it has none."""


@define
class Look:
    """What one look found: the bounds of what is there, and what is wanting, in words.

    `brokers` are those that answered, by topic, `queues` how many each has of each topic. `failed`
    says of a broker that did not answer how it failed, `unknown` of a topic without a route.
    """

    bounds: Bounds = field(factory=dict)
    brokers: dict[str, set[str]] = field(factory=dict)
    queues: dict[TopicBroker, int] = field(factory=dict)
    expected: set[MessageQueue] = field(factory=set)
    failed: dict[str, RocketMQError] = field(factory=dict)
    unknown: dict[str, NoRouteError] = field(factory=dict)

    def wanting(self, options: ReadOptions) -> list[str]:
        """Say what is not there, each thing once; nothing when the read is whole."""
        said = [f"topic {topic} has no route" for topic in sorted(self.unknown)]
        for queue in sorted(self.expected - self.bounds.keys()):
            if queue.broker_name not in self.brokers.get(queue.topic, ()):
                place = f"topic {queue.topic}, broker {queue.broker_name}, queue {queue.queue_id}"
                error = self.failed.get(queue.broker_name)
                said.append(place if error is None else f"{place} ({error})")
        return [*said, *self.lacking(options).values()]

    def lacking(self, options: ReadOptions) -> Lacking:
        """Return what is not there of what the options require."""
        return lacking(options, self.brokers.keys() | self.unknown.keys(), self.queues)


def whole_bounds(access: QueueAccess, options: ReadOptions) -> Bounds:
    """Return the bounds of every queue that is read, as `whole_look` does."""
    return whole_look(access, options).bounds


def whole_look(
    access: QueueAccess, options: ReadOptions, known: Collection[MessageQueue] = ()
) -> Look:
    """Return a look with the bounds of every queue that is read, when all of them are there.

    Waits for what is away until ``missingQueueGraceMs`` is over; then raises
    `RocketMQDataLossError`, or logs and goes on without it. ``known`` are queues that a checkpoint
    holds. Raises what is wrong for good at once: a topic that does not exist, a refusal.
    """
    began = monotonic()
    is_told = False
    warn_of_unknown_groups(access, options)
    while True:
        look = look_once(access, options, known)
        left_s = began + options.missing_queue_grace_ms / 1000 - monotonic()
        away = look.wanting(options)
        if away and left_s > 0:
            if not is_told:
                is_told = True
                _log.warning(
                    "waiting for queues, up to %d ms (missingQueueGraceMs): %s",
                    options.missing_queue_grace_ms,
                    shown(away),
                )
            threading.Event().wait(min(LOOK_AGAIN_S, left_s))
            continue
        if away:
            give_up(options, missing(options, away))
        look.bounds = chosen(look.bounds, options, are_all_there=not away)
        return look


def look_once(
    access: QueueAccess,
    options: ReadOptions,
    known: Collection[MessageQueue] = (),
    *,
    is_patient: bool = False,
) -> Look:
    """Ask every broker of every topic once, side by side.

    Raises a refusal for good, and an unknown topic unless ``is_patient`` or a queue of it is known.
    """
    look = Look()
    known_topics = {queue.topic for queue in known}
    topics = find_topics(access, options)
    for topic, (queues, unknown) in retrying_all(
        options, asking_for, topics, partial(_routes_of, access)
    ).items():
        if unknown is not None:
            look.unknown[topic] = unknown
            if is_patient or topic in known_topics or not _is_unknown(access, topic):
                continue
            raise unknown
        look.brokers[topic] = set()
        look.expected.update(queues, access.configured_queues(topic))
    _ask_brokers(access, look)
    look.expected.update(_named(options, look), known)
    if options.subscription.assigned is not None:
        look.expected.intersection_update(options.subscription.assigned)
    return look


def _routes_of(access: QueueAccess, topics: list[str]) -> dict[str, _Route | RocketMQError]:
    """Ask for routes; that a topic has none is an answer, too."""
    found: dict[str, _Route | RocketMQError] = {}
    for topic, queues in access.read_queues_of(topics).items():
        if isinstance(queues, NoRouteError):
            found[topic] = (), queues
        else:
            found[topic] = queues if isinstance(queues, RocketMQError) else (queues, None)
    return found


def _is_unknown(access: QueueAccess, topic: str) -> bool:
    """Whether a topic has no route although brokers are there.

    Those that have just come back brought their routes along: so it is asked for once more.
    """
    if not access.registered_brokers():
        return False
    return isinstance(access.read_queues_of([topic])[topic], NoRouteError)


def _ask_brokers(access: QueueAccess, look: Look) -> None:
    """Ask each broker for all that it has of the topics with a route."""
    topics: dict[str, list[str]] = {}
    for topic in look.brokers:
        for broker in access.broker_names(topic):
            topics.setdefault(broker, []).append(topic)
    asked = {broker: access.begin_bounds_of(some, broker) for broker, some in topics.items()}
    for broker, answers in asked.items():
        for topic, answer in answers.result().items():
            if not isinstance(answer, RocketMQError):
                look.bounds |= answer
                look.queues[topic, broker] = len(answer)
                look.brokers[topic].add(broker)
            elif is_transient(answer):
                look.failed[broker] = answer
            else:
                answer.add_note(f"This happened while asking for topic {topic}.")
                raise answer


def _named(options: ReadOptions, look: Look) -> Iterator[MessageQueue]:
    """Give the queues of the topics that the options name with their brokers."""
    topics = look.brokers.keys() | look.unknown.keys()
    named = (options.start.positions, options.end.positions, options.subscription.assigned or ())
    for queues in named:
        for queue in queues:
            if queue.broker_name and queue.topic in topics:
                yield queue
