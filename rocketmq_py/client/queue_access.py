"""How a program reads and writes single queues by offset, without group, rebalance or decoding.

The low-level door for bulk tools, such as the Spark connector: pulls that give the stored bytes
as they came (`raw_messages.py` decodes them), bounds of whole topics in one request, offsets of
store times and of groups, and sends of bodies that are encoded already. Client side of the
original's ``MQAdminImpl``, ``PullAPIWrapper.pullKernelImpl`` and ``MQClientAPIImpl``. No
heartbeat is sent, so brokers create no group for it. Must not know members of groups, listeners
or retries: a caller that wants another try makes one.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future
from functools import partial
from typing import TypeAlias, TypeVar, Unpack

from rocketmq_py.client.asking import Address, Asker, Broker, Question
from rocketmq_py.client.call_bodies import CallBodies
from rocketmq_py.client.caller import Caller
from rocketmq_py.client.delay_policy import DelayPolicy
from rocketmq_py.client.fan_out import fail, mapped, value_of
from rocketmq_py.client.queue_pulls import PulledRun, pull_calls, pull_of
from rocketmq_py.client.queue_requests import (
    Boundary,
    RawPull,
    group_offset_in,
    group_offset_is,
    max_offset_of,
    min_offset_of,
    offset_at,
    pull_fields,
)
from rocketmq_py.client.queue_sends import (
    RawSend,
    RunOutcome,
    SendRun,
    asks_for_delay,
    calls_of,
    refused_delays,
    send_of,
    with_refused,
)
from rocketmq_py.client.recalling import recall_question
from rocketmq_py.client.topic_questions import (
    Bounds,
    TopicAtBroker,
    ask_bounds,
    broker_names,
    figures_of,
    settings_of,
    time_ms_at,
    timer_check_point_of,
    topic_names,
)
from rocketmq_py.clock import wall_ms
from rocketmq_py.config import ClientSettings, shown_name_servers
from rocketmq_py.errors import (
    ClientClosedError,
    ConfigError,
    MQClientException,
    NameServerUnavailableError,
    NoRouteError,
    RocketMQError,
)
from rocketmq_py.message import MessageExt
from rocketmq_py.protocol.bodies.timers import TimerCheckpoint
from rocketmq_py.protocol.codes import ResponseCode
from rocketmq_py.protocol.inner_batch import unwrap
from rocketmq_py.protocol.message_codec import decode_record
from rocketmq_py.protocol.names import TOOLS_CONSUMER_GROUP, with_namespace, without_namespace
from rocketmq_py.protocol.sysflag import without_compression
from rocketmq_py.send_result import MessageQueue
from rocketmq_py.transport.runs import RequestRun

TOOLS_PRODUCER_GROUP = "TOOLS_PRODUCER"
PULL_TIMEOUT_MS = 3_000

Queues: TypeAlias = tuple[MessageQueue, ...]
_T = TypeVar("_T")


class QueueAccess(Caller):
    """Reads and writes queues by number and offset. Every call is safe from any thread.

    Arguments
    ---------
    producer_group
        Group that `send` names; brokers only note it.
    settings
        Those of `ClientConfig`: ``namesrv_addr``, ``credentials``, ``mq_client_api_timeout`` (ms,
        the budget of every call but `pull` and `send`), ``address_mapper``.

    Calls raise `NoRouteError`, `NameServerUnavailableError`, `RemotingException` (nobody answers
    in time) or `MQBrokerException` (refused).

    >>> from embedded_broker import EmbeddedBroker
    >>> with EmbeddedBroker(topics=["T"]) as broker:
    ...     sent = broker.send("T", b"x", queue=0)
    ...     with QueueAccess(namesrv_addr=broker.namesrv_addr) as access:
    ...         queue = access.read_queues("T")[0]
    ...         pulled = access.pull(queue, 0).result(5)
    ...         pulled.found, pulled.next_offset, access.bounds("T")[queue].max_offset
    (True, 1, 1)
    """

    def __init__(
        self, *, producer_group: str = TOOLS_PRODUCER_GROUP, **settings: Unpack[ClientSettings]
    ) -> None:
        super().__init__(**settings)
        self.producer_group = producer_group

    # --- topics ----------------------------------------------------------------------------

    def topic_names(self) -> list[str]:
        """Ask a name server for the names of all topics (206), sorted."""
        return self._ask_name_servers(topic_names(self._name_servers()), "topics")

    def registered_brokers(self) -> list[str]:
        """Ask a name server for the names of all brokers that are registered now (106), sorted.

        Raises `NameServerUnavailableError` when no name server answers.
        """
        return self._ask_name_servers(broker_names(self._name_servers()), "brokers")

    def read_queues(self, topic: str) -> Queues:
        """Ask the name server for the readable queues of a topic, sorted.

        Raises `NoRouteError` when no name server knows the topic.
        """
        return value_of(self.read_queues_of([topic])[topic])

    def read_queues_of(self, topics: Iterable[str]) -> dict[str, Queues | RocketMQError]:
        """Ask the name server for the readable queues of many topics.

        Returns for each topic what `read_queues` returns or raises. When no name server answers,
        it is asked once and not for each topic.
        """
        found: dict[str, Queues | RocketMQError] = {}
        silence: NameServerUnavailableError | None = None
        for topic in topics:
            try:
                if silence is None:
                    found[topic] = self._read_queues(self._wire(topic))
                else:
                    found[topic] = silence
            except RocketMQError as error:
                found[topic] = error
                if isinstance(error, NameServerUnavailableError):
                    silence = error
        return found

    def _read_queues(self, wire_topic: str) -> Queues:
        routes = self._instance.routes
        if routes.route(wire_topic, refresh=True) is None:
            raise NoRouteError(
                f"no route of topic {wire_topic} at name server "
                f"{shown_name_servers(self.config)}: does it exist?",
                response_code=ResponseCode.NOT_FOUND_TOPIC_EXCEPTION,
                topic=wire_topic,
            )
        return self._bare_queues(routes.subscribe_queues(wire_topic) or ())

    def write_queues(self, topic: str) -> tuple[MessageQueue, ...]:
        """Return the writable queues of a topic, sorted; a new topic borrows the default route.

        Raises `NoRouteError` when the topic is unknown and cannot be created by sending.
        """
        return self._bare_queues(self._instance.routes.publish_info(self._wire(topic)).queues)

    def broker_names(self, topic: str) -> list[str]:
        """Return the names of the brokers of a topic as last heard, sorted."""
        masters = self._instance.routes.master_addresses(self._wire(topic))
        return [name for name, _ in masters]

    def configured_queues(self, topic: str) -> tuple[MessageQueue, ...]:
        """Return the queues that an administrator has fixed for a topic, whoever is there now.

        That is what the name server keeps as the topic's ``ORDER_TOPIC_CONFIG``, as last heard;
        () without it, and for a topic without a route.
        """
        return self._bare_queues(self._instance.routes.configured_queues(self._wire(topic)))

    def broker_time_ms(self, topic: str, broker_name: str) -> int:
        """Return what a broker's clock says in epoch ms, up to a second late (28).

        Raises ValueError for an answer that does not tell.
        """
        return self._answer(time_ms_at(self._wire(topic), broker_name))

    def broker_figures(self, topic: str, broker_name: str) -> dict[str, str]:
        """Return what a broker says about itself (28), as ``mqadmin brokerStatus`` shows it."""
        return self._answer(figures_of(self._wire(topic), broker_name))

    def broker_settings(self, topic: str, broker_name: str) -> dict[str, str]:
        """Return the settings of a broker (25), texts by name."""
        return self._answer(settings_of(self._wire(topic), broker_name))

    def timer_check_point(self, topic: str, broker_name: str) -> TimerCheckpoint:
        """Return how far the timers of a broker have come, as it last wrote it down (60).

        Raises `MQBrokerException` where no timers of RocketMQ 5 are.
        """
        return self._answer(timer_check_point_of(self._wire(topic), broker_name))

    def address_of(
        self, broker_name: str, broker_id: int = 0, *, only_this: bool = False
    ) -> str | None:
        """Return the address of a broker as last heard, after ``address_mapper``.

        Another one of that name stands in for the id, unless ``only_this`` is set.
        """
        find = self._instance.routes.broker_address
        return find(broker_name, broker_id=broker_id, only_this=only_this)

    # --- offsets ---------------------------------------------------------------------------

    def bounds(self, topic: str) -> Bounds:
        """Return the bounds of every queue of a topic: a request (202) per broker, all at once."""
        return value_of(self.bounds_of_topics([topic])[topic])

    def bounds_of_topics(self, topics: Iterable[str]) -> dict[str, Bounds | RocketMQError]:
        """Ask for the bounds of every queue of many topics, all brokers side by side.

        Returns for each topic what `bounds` returns or raises.
        """
        routes = self.read_queues_of(topics)
        places = [
            TopicAtBroker(topic, broker_name)
            for topic, queues in routes.items()
            if not isinstance(queues, RocketMQError)
            for broker_name in self.broker_names(topic)
        ]
        found: dict[str, Bounds | RocketMQError] = {
            topic: queues if isinstance(queues, RocketMQError) else {}
            for topic, queues in routes.items()
        }
        for (topic, _), answer in self._ask_bounds(places).result().items():
            known = found[topic]
            if isinstance(answer, RocketMQError):
                found[topic] = known if isinstance(known, RocketMQError) else answer
            elif not isinstance(known, RocketMQError):
                known.update(answer)
        return found

    def bounds_at(self, topic: str, broker_name: str) -> Bounds:
        """Return the bounds of a topic's queues on one broker, its master (202).

        A server that does not know the request is asked queue by queue (30, 31); then
        ``last_update_timestamp`` is 0.
        """
        return value_of(self.bounds_of([topic], broker_name)[topic])

    def bounds_of(
        self, topics: Iterable[str], broker_name: str
    ) -> dict[str, Bounds | RocketMQError]:
        """Ask one broker for the bounds of many topics' queues side by side.

        Returns for each topic what `bounds_at` returns or raises.
        """
        return self.begin_bounds_of(topics, broker_name).result()

    def begin_bounds_of(
        self, topics: Iterable[str], broker_name: str
    ) -> Future[dict[str, Bounds | RocketMQError]]:
        """Ask as `bounds_of` does, without waiting; the future has what that returns."""
        asked = self._ask_bounds([TopicAtBroker(topic, broker_name) for topic in topics])
        return mapped(asked, lambda found: {place.topic: one for place, one in found.items()})

    def _ask_bounds(
        self, places: Iterable[TopicAtBroker]
    ) -> Future[dict[TopicAtBroker, Bounds | RocketMQError]]:
        """Ask for the bounds of topics at brokers."""
        wire = {
            place: TopicAtBroker(self._wire(place.topic), place.broker_name) for place in places
        }
        known = self._instance.routes.subscribe_queues
        asked = ask_bounds(self._asker, wire.values(), known, self._timeout_ms)
        return mapped(
            asked, lambda found: {one: self._bare_bounds(found[wire[one]]) for one in wire}
        )

    def _bare_bounds(self, answer: Bounds | RocketMQError) -> Bounds | RocketMQError:
        if isinstance(answer, RocketMQError):
            return answer
        return {self._bare_queue(queue): one for queue, one in answer.items()}

    def max_offset(self, queue: MessageQueue) -> int:
        """Return the offset that the queue's next message will get (30)."""
        return self._answer(max_offset_of(self._wire_queue(queue)))

    def min_offset(self, queue: MessageQueue) -> int:
        """Return the first offset that can be read (31)."""
        return self._answer(min_offset_of(self._wire_queue(queue)))

    def search_offset(
        self, queue: MessageQueue, timestamp_ms: int, boundary: Boundary = "LOWER"
    ) -> int:
        """Return the offset of a store time in epoch ms (29).

        5.x answers the first offset at or after the time (one past the end when none is); 4.9
        answers the nearest one, and never more than the last offset.
        """
        return value_of(self.search_offsets({queue: timestamp_ms}, boundary)[queue])

    def search_offsets(
        self, moments: Mapping[MessageQueue, int], boundary: Boundary = "LOWER"
    ) -> dict[MessageQueue, int | RocketMQError]:
        """Ask for the offset of a store time in each of many queues, side by side.

        Returns for each queue what `search_offset` returns or raises.
        """
        questions = {
            queue: offset_at(self._wire_queue(queue), moment, boundary)
            for queue, moment in moments.items()
        }
        return self._asker.ask_all(questions, self._timeout_ms)

    def message_at(
        self, queue: MessageQueue, offset: int, *, with_body: bool = True
    ) -> MessageExt | None:
        """Return the message at an offset, or None when there is none to read.

        Without ``with_body`` its body is left empty, so a broken one does no harm.
        """
        place = queue, offset
        return value_of(self.messages_at([place], with_body=with_body)[place])

    def messages_at(
        self,
        places: Iterable[tuple[MessageQueue, int]],
        *,
        with_body: bool = True,
        group: str = TOOLS_CONSUMER_GROUP,
    ) -> dict[tuple[MessageQueue, int], MessageExt | RocketMQError | None]:
        """Ask for the message at each of many offsets, side by side, in the name of a group.

        Returns for each place what `message_at` returns or raises.
        """
        fields = pull_fields(self._wire(group), 1, "*", "TAG", wall_ms())
        questions = {}
        for queue, offset in places:
            wire_queue = self._wire_queue(queue)
            where = Broker(wire_queue.topic, queue.broker_name)
            questions[queue, offset] = pull_of(where, wire_queue, offset, fields)
        bodies = CallBodies(self.config)
        found: dict[tuple[MessageQueue, int], MessageExt | RocketMQError | None] = {}
        for place, answer in self._asker.ask_all(questions, PULL_TIMEOUT_MS).items():
            try:
                pulled = value_of(answer)
                found[place] = self._message_in(*place, pulled, bodies, with_body=with_body)
            except RocketMQError as error:
                found[place] = error
        return found

    def _message_in(
        self,
        queue: MessageQueue,
        offset: int,
        pulled: RawPull,
        bodies: CallBodies,
        *,
        with_body: bool,
    ) -> MessageExt | None:
        if not pulled.found:
            return None
        first = unwrap(decode_record(pulled.records))
        record = next((one for one in first if one.queue_offset == offset), None)
        if record is None:
            return None
        if not with_body:
            record.body, record.sys_flag = b"", without_compression(record.sys_flag)
        message = bodies.message(record, queue.broker_name)
        message.topic = self._bare(message.topic)
        return message

    def group_offset(self, group: str, queue: MessageQueue) -> int | None:
        """Return the offset that the broker keeps for a group, None when it keeps none (14)."""
        return value_of(self.group_offsets(group, [queue])[queue])

    def store_group_offset(self, group: str, queue: MessageQueue, offset: int) -> None:
        """Tell the broker a group's offset and wait for its answer (15)."""
        value_of(self.store_group_offsets(group, {queue: offset})[queue])

    def group_offsets(
        self, group: str, queues: Iterable[MessageQueue]
    ) -> dict[MessageQueue, int | RocketMQError | None]:
        """Ask for a group's offsets in many queues, side by side.

        Returns for each queue what `group_offset` returns or raises.
        """
        wire_group = self._wire(group)
        questions = {
            queue: group_offset_in(self._wire_queue(queue), wire_group, zero_if_none=False)
            for queue in queues
        }
        return self._asker.ask_all(questions, self._timeout_ms)

    def store_group_offsets(
        self, group: str, offsets: Mapping[MessageQueue, int]
    ) -> dict[MessageQueue, RocketMQError | None]:
        """Tell brokers a group's offsets of many queues, and wait for the answers.

        They are told side by side, but of each topic at a broker the first one alone: a RocketMQ
        broker that gets a group's first offsets in a topic at the same time forgets some.
        Returns for each queue what `store_group_offset` raises, None when it is stored.
        """
        return self._asker.ask_all(self._stores(group, offsets), self._timeout_ms)

    def begin_store_group_offsets(
        self, group: str, offsets: Mapping[MessageQueue, int], *, first_alone: bool = True
    ) -> Future[dict[MessageQueue, RocketMQError | None]]:
        """Tell as `store_group_offsets` does, without waiting; the future has what that returns.

        ``first_alone=False`` tells all at once: each broker has an offset of each topic already.
        """
        stores = self._stores(group, offsets, first_alone=first_alone)
        return self._asker.ask_many(stores, self._timeout_ms)

    def _stores(
        self, group: str, offsets: Mapping[MessageQueue, int], *, first_alone: bool = True
    ) -> dict[MessageQueue, Question[None]]:
        wire_group = self._wire(group)
        return {
            queue: group_offset_is(
                self._wire_queue(queue), wire_group, offset, first_alone=first_alone
            )
            for queue, offset in offsets.items()
        }

    # --- messages --------------------------------------------------------------------------

    def pull(
        self,
        queue: MessageQueue,
        offset: int,
        max_messages: int = 32,
        *,
        group: str = TOOLS_CONSUMER_GROUP,
        expression: str = "*",
        expression_type: str = "TAG",
        broker_id: int = 0,
        address: str | None = None,
        timeout_ms: int = 3_000,
    ) -> Future[RawPull]:
        """Ask for records from an offset on (11), answered at once: no long poll.

        ``expression`` is filtered by the broker; tags are compared by hash there, so a record of
        another tag may come along. ``address`` is asked instead of the broker's known one. The
        future holds `MQBrokerException` for a refusal. A broker caps a pull at 32 messages unless
        it is configured otherwise.
        """
        queue = self._wire_queue(queue)
        fields = pull_fields(
            self._wire(group), max_messages, expression, expression_type, wall_ms()
        )
        where = _where(queue, broker_id, address)
        return self._asker.ask(pull_of(where, queue, offset, fields), timeout_ms)

    def pull_run(
        self,
        queue: MessageQueue,
        offsets: Sequence[int],
        max_messages: int = 32,
        *,
        group: str = TOOLS_CONSUMER_GROUP,
        expression: str = "*",
        expression_type: str = "TAG",
        broker_id: int = 0,
        address: str | None = None,
        timeout_ms: int = 3_000,
    ) -> Future[PulledRun]:
        """Pull from each offset as `pull` does, with one write; done when all are answered.

        The future has what became of each pull, errors included, and fails only when none could
        leave. Waits for a connection when there is none, no longer than ``connect_timeout``.
        Raises ValueError without offsets.
        """
        if not offsets:
            raise ValueError("a run of pulls has at least one offset")
        queue = self._wire_queue(queue)
        fields = pull_fields(
            self._wire(group), max_messages, expression, expression_type, wall_ms()
        )
        result: Future[PulledRun] = Future()

        def ended(calls: RequestRun) -> None:
            self._asker.look_after_all(calls.outcomes, queue.topic)
            if result.set_running_or_notify_cancel():  # else the caller gave up
                result.set_result(PulledRun(offsets, queue.topic, asked, calls.outcomes))

        try:
            asked = self._asker.address(_where(queue, broker_id, address))
            calls = pull_calls(queue, offsets, ended, **fields)
            self._instance.remoting.begin_run(asked, calls, timeout_ms)
        except RocketMQError as error:
            result.set_exception(error)
        return result

    def send(
        self,
        queue: MessageQueue,
        body: bytes,
        *,
        properties: str = "",
        flag: int = 0,
        sys_flag: int = 0,
        batch: bool = False,
        timeout_ms: int = 3_000,
        delay_policy: DelayPolicy = "strict",
    ) -> Future[RawSend]:
        """Send a body as it is to a queue (310); ``batch`` (320): it is an encoded batch body.

        ``properties`` is the encoded text (name U+0001 value U+0002 ...) and must hold the
        message's id, UNIQ_KEY; in a batch each item has its own. Of all that is checked and
        compressed by producers nothing is here but the delay, by ``delay_policy``: what it refuses
        comes back as `DelayValueError` in the future, what the broker refuses as
        `MQBrokerException`. What is in a batch is not looked at.
        """
        run = SendRun(queue, (body,), (properties,), flag, sys_flag, batch, delay_policy)
        topic = self._wire(queue.topic)
        if asks_for_delay(run):
            return self._send_judged(run, timeout_ms)
        question = send_of(run, self.producer_group, topic, unit_mode=self.unit_mode)
        return self._asker.ask(question, timeout_ms)

    def _send_judged(self, run: SendRun, timeout_ms: int) -> Future[RawSend]:
        """Send a run of one message, in background where its broker is asked for its version."""
        result: Future[RawSend] = Future()

        def told(outcome: RunOutcome) -> None:
            (one,) = outcome
            if not result.set_running_or_notify_cancel():
                return  # the caller gave up
            if one.stored is not None:
                result.set_result(one.stored)
            else:
                result.set_exception(one.error)

        send = partial(self.send_run, run, told, timeout_ms=timeout_ms)
        address = self.address_of(run.queue.broker_name, only_this=True)
        if address is not None and self._instance.broker_versions.is_known(address):
            send()
        elif not self._instance.submit_background(send):
            fail(result, ClientClosedError("the client is shut down, or has too much to do"))
        return result

    def send_run(
        self, run: SendRun, told: Callable[[RunOutcome], None], *, timeout_ms: int = 3_000
    ) -> None:
        """Send each message of a run as `send` does, with one write for all.

        ``told`` is called once, when each message is answered, refused or out of time, with how
        each of them ended: on any thread, perhaps before this returns; it must not block. No error
        of a server is raised. The messages are stored in their order as far as all are stored: for
        more, wait for each. For rows that may not be put into a batch, such as delayed ones; some
        hundreds at once are a good number.
        """
        topic = self._wire(run.queue.topic)
        if not run.bodies:
            told(RunOutcome(run.queue, topic, "", ()))
            return

        def ended(calls: RequestRun) -> None:
            self._asker.look_after_all(calls.outcomes, topic)
            outcomes = with_refused(calls.outcomes, refused)
            told(RunOutcome(run.queue, topic, address, outcomes))

        try:
            master = Broker(topic, run.queue.broker_name, only_this=True)
            address = self._instance.routes.send_port(self._asker.address(master))
            versions = self._instance.broker_versions
            refused = refused_delays(run, topic, address, versions, timeout_ms)
            if len(refused) == len(run):
                told(RunOutcome(run.queue, topic, address, with_refused((), refused)))
                return
            sent = run.without(refused) if refused else run
            calls = calls_of(sent, self.producer_group, topic, ended, unit_mode=self.unit_mode)
            self._instance.remoting.begin_run(address, calls, timeout_ms)
        except RocketMQError as error:
            told(RunOutcome.failed(run.queue, len(run), error))

    def recall(self, topic: str, recall_handle: str, *, timeout_ms: int = 3_000) -> Future[str]:
        """Take back a timer message that is not due yet (370); its id comes in the future.

        ``recall_handle`` is `RawSend.recall_handle`. Raises `MQClientException` at once for a
        handle that cannot be one. The future holds it for a broker that the topic has not, or that
        has no master, and `MQBrokerException` for a refusal: 604 when it is too late,
        `RecallNotSupportedError` when the broker does not offer it.
        """
        question = recall_question(self._wire(topic), recall_handle, self.producer_group)
        return self._asker.ask(question, timeout_ms)

    # --- inside ----------------------------------------------------------------------------

    @property
    def _asker(self) -> Asker:
        return Asker(self._instance)

    @property
    def _timeout_ms(self) -> int:
        return self.config.mq_client_api_timeout

    def _answer(self, question: Question[_T]) -> _T:
        return self._asker.answer(question, self._timeout_ms)

    # Names of a namespace differ on the wire: `NamespacedQueueAccess`.

    def _wire(self, name: str) -> str:
        return name

    def _bare(self, name: str) -> str:
        return name

    def _wire_queue(self, queue: MessageQueue) -> MessageQueue:
        topic = self._wire(queue.topic)
        if topic == queue.topic:
            return queue
        return MessageQueue(topic, queue.broker_name, queue.queue_id)

    def _bare_queue(self, queue: MessageQueue) -> MessageQueue:
        return MessageQueue(self._bare(queue.topic), queue.broker_name, queue.queue_id)

    def _bare_queues(self, queues: Iterable[MessageQueue]) -> tuple[MessageQueue, ...]:
        return tuple(sorted(map(self._bare_queue, queues)))

    def _name_servers(self) -> tuple[str, ...]:
        return self._asker.name_servers().result()

    def _ask_name_servers(self, question: Question[list[str]], what: str) -> list[str]:
        """Return what the first name server that answers says; raise when none does."""
        try:
            return self._asker.answer(question, self._timeout_ms)
        except RocketMQError as error:
            # The route of any topic fails with the sentence that says what to set.
            self._instance.routes.check_name_servers()
            raise MQClientException(f"no name server lists its {what}: {error}") from error


class NamespacedQueueAccess(QueueAccess):
    """Reads and writes queues of one namespace. Takes and gives bare names of topics and groups.

    Arguments are ``namespace`` and the settings of `QueueAccess`, whose calls and errors it has.
    Every topic and group gets the namespace on its way out and loses it on its way back
    (``NamespaceUtil`` of the original), as in the instances of vendors' clouds. Texts of errors
    and stored records show the names on the wire.

    >>> from embedded_broker import EmbeddedBroker
    >>> with EmbeddedBroker(topics=["shop%T"]) as broker:
    ...     with NamespacedQueueAccess("shop", namesrv_addr=broker.namesrv_addr) as access:
    ...         access.topic_names(), access.read_queues("T")[0].topic
    (['T'], 'T')
    """

    def __init__(self, namespace: str, /, **settings: Unpack[ClientSettings]) -> None:
        twice = settings.get("namespace")
        if twice:
            raise ConfigError("namespace", twice, "is the first argument already: leave it out")
        super().__init__(**settings)
        self._wrapped_by = namespace  # names are wrapped here, so that runs leave as they are

    def topic_names(self) -> list[str]:
        """Ask a name server for the names of the namespace's topics, sorted."""
        bare = ((name, self._bare(name)) for name in super().topic_names())
        return sorted(inner for name, inner in bare if inner != name)

    def _wire(self, name: str) -> str:
        return with_namespace(self._wrapped_by, name)

    def _bare(self, name: str) -> str:
        return without_namespace(self._wrapped_by, name)


def _where(wire_queue: MessageQueue, broker_id: int, address: str | None) -> Address | Broker:
    """Say whom a pull asks: an address, or the broker of the queue."""
    if address is not None:
        return Address(address)
    return Broker(wire_queue.topic, wire_queue.broker_name, broker_id)
