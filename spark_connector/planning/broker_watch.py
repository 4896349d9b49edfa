"""What the brokers of a stream say of its queues: all asked side by side, each as it can be.

A broker that does not answer is asked in the background, ever more seldom, and keeps nobody
waiting; what the others say counts at once. Must not know where a stream stands.
Read on: ``tracker.py`` for what is decided with it, ``servers/back_off.py`` for how calls are made.
"""

import logging
from collections.abc import Iterable, Mapping
from concurrent.futures import Future, wait
from functools import partial

from rocketmq_py import (
    MQBrokerException,
    NoRouteError,
    QueueAccess,
    RocketMQError,
    TopicNotExistError,
)
from rocketmq_py.clock import monotonic
from spark_connector.options.read_options import ReadOptions
from spark_connector.planning.start_places import Bounds, find_topics
from spark_connector.servers.access import SERVER_ERRORS, is_transient
from spark_connector.servers.back_off import (
    PATIENCE_S,
    RECHECK_S,
    BackOff,
    TopicBroker,
    in_background,
)

_log = logging.getLogger("spark_connector")

IDLE_POLL_MOST_S = 1.0
SOON_S = 0.5
"""Who asks again within this time can take an answer then, and is hardly kept waiting for it:"""
HURRIED_S = 0.005
"""no longer than this."""

_Routes = dict[str, list[str] | RocketMQError]
"""The brokers of each topic, or why they are not known."""
_Said = list[tuple[TopicBroker, Bounds | RocketMQError, float]]
"""What a broker said of a topic, and when."""


class Watch:
    """Keeps the bounds of all queues fresh. One thread uses it.

    `bounds` are those of the queues that are there, `last_seen` also those of queues that are
    away now; `asked_at` is when the last look began to count. `queues` says how many queues each
    broker has of each topic, also of those that ``assign`` does not name.
    """

    def __init__(self, access: QueueAccess, options: ReadOptions) -> None:
        self.bounds: Bounds = {}
        self.last_seen: Bounds = {}
        self.queues: dict[TopicBroker, int] = {}
        self.asked_at: float | None = None
        self._access = access
        self._options = options
        self._there: dict[TopicBroker, Bounds] = {}
        self._brokers: dict[str, list[str]] = {}
        self._routes: Future[_Routes] | None = None
        self._routes_at: float | None = None
        self._wait_s = options.offset_poll_interval_ms / 1000
        self._away = BackOff()
        self._met: set[TopicBroker] = set()
        self._looks: dict[str, Future[_Said]] = {}
        self._patience_s = PATIENCE_S
        self._recheck_s = RECHECK_S
        self._hurried_s = HURRIED_S
        self._left_at: float | None = None
        self._is_hurried = False
        self._assigned = options.subscription.assigned

    def take(self, bounds: Bounds, queues: dict[TopicBroker, int]) -> None:
        """Use bounds and numbers of queues, asked for elsewhere; what is under way is older."""
        self._looks.clear()
        self.queues = queues
        self._there = {}
        for queue, one in bounds.items():
            self._there.setdefault((queue.topic, queue.broker_name), {})[queue] = one
        self._met.update(self._there)
        self._keep(bounds)
        self.asked_at = monotonic()

    def refresh(self) -> bool:
        """Ask again when the last look is old, less often while nothing changes; say what changed.

        A broker that was never asked is waited for, one that answered last time for
        `PATIENCE_S`, with its last bounds standing in after that. One that did not is waited for
        no time worth mentioning, nor is any while this is asked again and again. The same goes for
        the name server.
        """
        self._is_hurried = self._left_at is not None and monotonic() - self._left_at < SOON_S
        is_late = any(look.done() for look in self._looks.values())
        is_new = is_late and self._collect()  # before it is asked anew
        now = monotonic()
        least = self._options.offset_poll_interval_ms / 1000
        if self.asked_at is None or now - self.asked_at >= self._wait_s:
            self._find_brokers(now)
            self._look()
            is_new |= self._collect()
            self.asked_at = monotonic()
            if not is_new:
                self._wait_s = min(self._wait_s * 2, max(IDLE_POLL_MOST_S, least))
        if is_new:
            self._wait_s = least
        self._left_at = monotonic()
        return is_new

    @property
    def topics(self) -> Iterable[str]:
        """The topics that have a route."""
        return self._brokers.keys()

    def brokers_of(self, topic: str) -> list[str]:
        """Return the brokers of a topic by its route."""
        return self._brokers.get(topic, [])

    def last_failure(self, topic: str, broker: str) -> tuple[RocketMQError, float] | None:
        """Return why queues are missing and since when that is known, None when nobody said."""
        last = self._away.last
        return last((topic, "")) or last(("", broker)) or last((topic, broker))

    def refusal(self, topic: str, broker: str) -> MQBrokerException | None:
        """Return the broker's last answer if it will stay, such as that of a key without rights.

        A topic that the broker does not know is no refusal: it is gone.
        """
        error, _ = self.last_failure(topic, broker) or (None, 0.0)
        if isinstance(error, TopicNotExistError) or not isinstance(error, MQBrokerException):
            return None
        return None if is_transient(error) else error

    def ask_once_more(self, topic: str, broker: str, over: float) -> None:
        """Ask for a topic's route and bounds unless both were asked for since a moment."""
        if self._routes_at is None or self._routes_at < over:
            self._routes = None  # its answer would be older
            self._routes_at = monotonic()
            self._use_routes(self._asked_routes(is_patient=not self._brokers))
        last = self.last_failure(topic, broker)
        is_known = broker in self.brokers_of(topic)
        if is_known and (last is None or last[1] < over):
            self._looks.pop(broker, None)  # its answer would be older
            self._note(self._asked(broker, [topic]).result())

    # --- brokers ---------------------------------------------------------------------------------

    def _find_brokers(self, now: float) -> None:
        """Ask for the routes when they are old; those that are known serve until there is news."""
        if self._routes is None and (
            self._routes_at is None
            or (now - self._routes_at) * 1000 >= self._options.route_refresh_ms
        ):
            self._routes_at = now
            is_patient = not self._brokers
            self._routes = in_background(partial(self._asked_routes, is_patient=is_patient))
            usual_s = self._hurried_s if self._is_hurried else self._patience_s
            wait([self._routes], None if is_patient else usual_s)
        if self._routes is not None and self._routes.done():
            routes, self._routes = self._routes.result(), None
            self._use_routes(routes)

    def _asked_routes(self, *, is_patient: bool) -> _Routes:
        """Ask which brokers have which topics, on any thread."""
        try:
            topics = find_topics(self._access, self._options, is_patient=is_patient)
        except SERVER_ERRORS as error:
            _log.warning("topics cannot be listed, going on with the known ones: %s", error)
            return {}
        return {
            topic: queues if isinstance(queues, RocketMQError) else self._access.broker_names(topic)
            for topic, queues in self._access.read_queues_of(topics).items()
        }

    def _use_routes(self, routes: _Routes) -> None:
        for topic, brokers in routes.items():
            if isinstance(brokers, NoRouteError):
                self._brokers.pop(topic, None)  # its queues are missing now
                self._away.failed((topic, ""), brokers, monotonic())
            elif isinstance(brokers, RocketMQError):
                _log.warning("route of topic %s: %s", topic, brokers)
            else:
                for gone in set(self._brokers.get(topic, ())).difference(brokers):
                    self._away.clear((topic, gone))  # what it said is out of date
                self._brokers[topic] = brokers
                self._away.clear((topic, ""))

    def _look(self) -> None:
        """Ask every broker that is not asked yet and not left alone; wait as `refresh` says."""
        wanted: dict[str, list[str]] = {}
        for topic, brokers in self._brokers.items():
            for broker in brokers:
                if not (
                    broker in self._looks
                    or self._away.holds(("", broker))
                    or self._away.holds((topic, broker))
                ):
                    wanted.setdefault(broker, []).append(topic)
        looks: dict[float | None, list[Future[_Said]]] = {}
        for broker, topics in wanted.items():
            look = self._asked(broker, topics)
            self._looks[broker] = look
            looks.setdefault(self._patience(broker, topics), []).append(look)
        # Those that are waited for longest first: the others go on meanwhile.
        for patience in sorted(looks, key=lambda s: float("inf") if s is None else s, reverse=True):
            wait(looks[patience], patience)

    def _patience(self, broker: str, topics: Iterable[str]) -> float | None:
        """Return how long to wait for a broker in seconds, None: until it has answered or not."""
        if self._away.last(("", broker)) is not None:
            return self._recheck_s
        if not self._met.issuperset((topic, broker) for topic in topics):
            return None
        return self._hurried_s if self._is_hurried else self._patience_s

    def _asked(self, broker: str, topics: Iterable[str]) -> Future[_Said]:
        """Ask one broker about a topic, then about all others at once, unless it is silent or busy.

        It is so for all topics then.
        """
        said: _Said = []
        result: Future[_Said] = Future()

        def ask(some: list[str], others: list[str]) -> None:
            told = self._access.begin_bounds_of(some, broker)
            told.add_done_callback(partial(answered, others))

        def answered(others: list[str], call: Future[dict[str, Bounds | RocketMQError]]) -> None:
            try:
                for topic, one in call.result().items():
                    said.append(((topic, broker), one, monotonic()))
                    if isinstance(one, RocketMQError) and is_transient(one):
                        others = []
                        break
                if others:
                    ask(others, [])
                else:
                    result.set_result(said)
            except Exception as error:  # noqa: BLE001 - it belongs to whoever waits
                result.set_exception(error)

        first, *rest = topics
        ask([first], rest)
        return result

    # --- answers ---------------------------------------------------------------------------------

    def _collect(self) -> bool:
        """Note the answers that are there; say whether the bounds changed."""
        said: _Said = []
        for broker, look in list(self._looks.items()):
            if look.done():
                del self._looks[broker]
                said += look.result()
        return self._note(said)

    def _note(self, said: _Said) -> bool:
        answered: dict[TopicBroker, Bounds] = {}
        silent: set[str] = set()
        for (topic, broker), answer, at in said:
            self._met.add((topic, broker))
            answered[topic, broker] = {}  # without an answer the topic's queues there are missing
            if not isinstance(answer, RocketMQError):
                self._away.clear(("", broker))
                self._away.clear((topic, broker))
                answered[topic, broker] = answer
                continue
            _log.warning("broker %s does not tell the bounds of %s: %s", broker, topic, answer)
            if is_transient(answer):
                self._away.failed(("", broker), answer, at)
                silent.add(broker)
            else:
                self._away.clear(("", broker))
                self._away.failed((topic, broker), answer, at)
        routed = {topic: frozenset(brokers) for topic, brokers in self._brokers.items()}
        for topic, broker in self.queues:
            if broker in silent or broker not in routed.get(topic, ()):
                answered.setdefault((topic, broker), {})
        self._count(answered)
        changed = [self._change(place, self._wanted(found)) for place, found in answered.items()]
        if any(changed):  # else the very same ones stay, by which others know that nothing changed
            everything: Bounds = {}
            for bounds in self._there.values():
                everything |= bounds
            self._keep(everything)
            return True
        return False

    def _count(self, answered: Mapping[TopicBroker, Bounds]) -> None:
        """Note how many queues there are; the same mapping stays while that does not change."""
        counts = {place: len(bounds) for place, bounds in answered.items()}
        if any(self.queues.get(place, 0) != count for place, count in counts.items()):
            self.queues = {place: count for place, count in (self.queues | counts).items() if count}

    def _change(self, place: TopicBroker, bounds: Bounds) -> bool:
        """Use what a broker said of a topic now; say whether it is anything new."""
        before = self._there.get(place, {})
        if bounds == before:
            return False
        if bounds:
            # With the keys of before, which are found sooner than equal ones.
            same = before | bounds
            self._there[place] = same if len(same) == len(bounds) else bounds
        else:
            del self._there[place]
        return True

    def _keep(self, bounds: Bounds) -> None:
        self.bounds = bounds
        self.last_seen |= bounds

    def _wanted(self, found: Bounds) -> Bounds:
        """Keep the queues that ``assign`` names; one that is away now is missing, not wrong."""
        if self._assigned is None:
            return found
        return {queue: one for queue, one in found.items() if queue in self._assigned}
