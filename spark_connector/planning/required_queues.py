"""Whether topics have what the options say they must have, and since when a stream lacks it.

For brokers that neither a route nor a checkpoint remembers. A stream reads on while one is away,
so the time is counted here. Must not know Spark, nor where a stream stands. Read on:
``whole_topics.py`` for reads that wait, ``broker_watch.py`` for what is asked.
"""

from collections.abc import Iterable, Mapping

from rocketmq_py.clock import monotonic
from spark_connector.options.read_options import ReadOptions
from spark_connector.planning.broker_watch import Watch
from spark_connector.planning.giving_up import give_up, missing, refused
from spark_connector.planning.start_places import is_topic_subscribed
from spark_connector.servers.back_off import TopicBroker

Lacking = dict[TopicBroker, str]
"""What is not there, in words: a broker of a topic, or under no broker some of its queues."""


def lacking(
    options: ReadOptions, topics: Iterable[str], queues: Mapping[TopicBroker, int]
) -> Lacking:
    """Return what the options require and nobody has.

    ``topics`` are those that the read has, ``queues`` how many each broker has of each.
    """
    required = options.required
    said: Lacking = {}
    if not (required.queues or required.brokers):
        return said
    there: dict[str, int] = {}
    for (topic, _), count in queues.items():
        there[topic] = there.get(topic, 0) + count
    named = {one for one in required.topics if is_topic_subscribed(one, options)}
    for topic in sorted(named.union(topics)):
        for broker in required.brokers_of(topic):
            if not queues.get((topic, broker)):
                said[topic, broker] = f"topic {topic}, broker {broker} (requiredBrokers)"
        least = required.queues_of(topic)
        lack = least - there.get(topic, 0)
        if lack > 0:
            said[topic, ""] = f"topic {topic}: {lack} of {least} queues (requiredQueues)"
    return said


class RequiredQueues:
    """Tells, once, what a stream has lacked for too long. One thread uses it."""

    def __init__(self, watch: Watch, options: ReadOptions) -> None:
        self._watch = watch
        self._options = options
        self._since: dict[TopicBroker, float] = {}
        self._told: set[TopicBroker] = set()
        self._last: tuple[tuple[object, ...], Lacking] | None = None
        subscription = options.subscription
        self._named = {*subscription.topics, *(one.topic for one in subscription.assigned or ())}

    def note_told(self, places: Iterable[TopicBroker]) -> None:
        """Say no more of what the user has heard of when the stream began."""
        self._told.update(places)

    def check(self) -> None:
        """Ask once more for what has been lacking for the grace; raise, or log once, what stays so.

        Raises `MQClientException` when a broker that is there has refused all the time.
        """
        required = self._options.required
        if not (required.queues or required.brokers):
            return
        away = self._lacking()
        self._since = {place: since for place, since in self._since.items() if place in away}
        self._told.intersection_update(away)
        over: dict[TopicBroker, float] = {}
        for place in away.keys() - self._told:
            since = self._since.setdefault(place, self._watch.asked_at or monotonic())
            end = since + self._options.missing_queue_grace_ms / 1000
            if monotonic() >= end:
                over[place] = end
        for place, end in over.items():
            self._ask_once_more(place, end)
        if over:
            still = self._lacking()
            self._tell({place: still[place] for place in still if place in over})

    def _lacking(self) -> Lacking:
        """Return what is lacking by the last look: Spark asks more often than brokers are."""
        watch = self._watch
        state = watch.queues, watch.asked_at
        if self._last is None or any(a is not b for a, b in zip(self._last[0], state, strict=True)):
            topics = self._named.union(watch.topics)
            self._last = state, lacking(self._options, topics, watch.queues)
        return self._last[1]

    def _brokers(self, place: TopicBroker) -> list[str]:
        """Return the brokers that may have what is lacking, as far as anybody knows them."""
        topic, broker = place
        return [broker] if broker else self._watch.brokers_of(topic)

    def _ask_once_more(self, place: TopicBroker, over: float) -> None:
        topic, broker = place
        self._watch.ask_once_more(topic, broker, over)  # of no broker: for the route
        if not broker:
            for each in self._brokers(place):
                self._watch.ask_once_more(topic, each, over)

    def _tell(self, away: Lacking) -> None:
        texts = []
        for place, text in away.items():
            topic = place[0]
            failures = []
            for broker in self._brokers(place) or [""]:  # without any, the route may tell why
                refusal = self._watch.refusal(topic, broker)
                if refusal is not None:
                    raise refused(self._options, topic, broker, f"missing is {text}", refusal)
                failures.append(self._watch.last_failure(topic, broker))
            last = next((failure for failure in failures if failure is not None), None)
            texts.append(text if last is None else f"{text} ({last[0]})")
        if texts:
            give_up(self._options, missing(self._options, texts))
            self._told.update(away)
