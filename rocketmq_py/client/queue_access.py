"""How a program reads and writes single queues by offset, without group, rebalance or decoding.

The low-level door for bulk tools, such as the Spark connector: pulls that give the stored bytes
as they came (`raw_messages.py` decodes them), bounds of whole topics in one request, offsets of
store times and of groups, and sends of bodies that are encoded already. Client side of the
original's ``MQAdminImpl``, ``PullAPIWrapper.pullKernelImpl`` and ``MQClientAPIImpl``. No
heartbeat is sent, so brokers create no group for it. Must not know members of groups, listeners
or retries: a caller that wants another try makes one.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future
from typing import TypeVar, Unpack

from attrs import frozen

from rocketmq_py.client.answers import check_answer
from rocketmq_py.client.call_bodies import CallBodies
from rocketmq_py.client.caller import Caller
from rocketmq_py.client.queue_pulls import PulledRun, pull_calls
from rocketmq_py.client.queue_requests import (
    Boundary,
    QueueRequests,
    RawPull,
    pull_answer,
    queue_request,
    side_by_side,
)
from rocketmq_py.client.queue_sends import (
    RawSend,
    RunOutcome,
    SendRun,
    calls_of,
    command_of,
    stored,
)
from rocketmq_py.client.recalling import parse_handle, recall_request, recalled_id
from rocketmq_py.clock import wall_ms
from rocketmq_py.config import ClientSettings
from rocketmq_py.errors import MQBrokerException, MQClientException, NoRouteError, RocketMQError
from rocketmq_py.message import MessageExt
from rocketmq_py.protocol.bodies.timers import RuntimeInfo
from rocketmq_py.protocol.bodies.topics import ClusterInfo, TopicList, TopicStatsTable
from rocketmq_py.protocol.codes import PullSysFlag, RequestCode, ResponseCode
from rocketmq_py.protocol.command import RemotingCommand
from rocketmq_py.protocol.headers.admin import GetTopicStatsInfoRequestHeader
from rocketmq_py.protocol.headers.consume import OffsetResponseHeader
from rocketmq_py.protocol.inner_batch import unwrap
from rocketmq_py.protocol.message_codec import decode_record
from rocketmq_py.protocol.names import TOOLS_CONSUMER_GROUP, with_namespace, without_namespace
from rocketmq_py.protocol.sysflag import without_compression
from rocketmq_py.send_result import MessageQueue
from rocketmq_py.transport.calls import Done

TOOLS_PRODUCER_GROUP = "TOOLS_PRODUCER"

_T = TypeVar("_T")
_UPTIME = re.compile(r"\[ (\d+) days, (\d+) hours, (\d+) minutes, (\d+) seconds \]")
"""As ``StoreStatsService.getFormatRuntime`` writes it."""


@frozen
class QueueBounds:
    """Which offsets of a queue can be read: from `min_offset` to before `max_offset`.

    `last_update_timestamp` is the store time of the last message in epoch ms, 0 when empty or
    not told.
    """

    min_offset: int
    max_offset: int
    last_update_timestamp: int = 0


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
        body = self._ask_name_servers(RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER, "topics")
        return sorted(TopicList.decode(body).topic_list)

    def registered_brokers(self) -> list[str]:
        """Ask a name server for the names of all brokers that are registered now (106), sorted.

        Raises `NameServerUnavailableError` when no name server answers.
        """
        body = self._ask_name_servers(RequestCode.GET_BROKER_CLUSTER_INFO, "brokers")
        return sorted(ClusterInfo.decode(body).broker_addr_table)

    def read_queues(self, topic: str) -> tuple[MessageQueue, ...]:
        """Ask the name server for the readable queues of a topic, sorted.

        Raises `NoRouteError` when no name server knows the topic.
        """
        routes, topic = self._instance.routes, self._wire(topic)
        if routes.route(topic, refresh=True) is None:
            raise NoRouteError(
                f"no route of topic {topic} at name server {self.config.namesrv_addr}: does it "
                "exist?",
                response_code=ResponseCode.NOT_FOUND_TOPIC_EXCEPTION,
                topic=topic,
            )
        return self._bare_queues(routes.subscribe_queues(topic) or ())

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
        address = self._master(self._wire(topic), broker_name)
        command = RemotingCommand(RequestCode.GET_BROKER_RUNTIME_INFO)
        answer = self._instance.remoting.invoke(address, command, self._timeout_ms)
        check_answer(answer, address)
        table = RuntimeInfo.decode(answer.body).table
        uptime = _UPTIME.fullmatch(table.get("runtime", ""))
        if uptime is None or not table.get("bootTimestamp", "").isdigit():
            raise ValueError(f"broker {broker_name} does not tell its time")
        days, hours, minutes, seconds = map(int, uptime.groups())
        up_s = ((days * 24 + hours) * 60 + minutes) * 60 + seconds
        return int(table["bootTimestamp"]) + 1_000 * up_s

    def address_of(
        self, broker_name: str, broker_id: int = 0, *, only_this: bool = False
    ) -> str | None:
        """Return the address of a broker as last heard, after ``address_mapper``.

        Another one of that name stands in for the id, unless ``only_this`` is set.
        """
        find = self._instance.routes.broker_address
        return find(broker_name, broker_id=broker_id, only_this=only_this)

    # --- offsets ---------------------------------------------------------------------------

    def bounds(self, topic: str) -> dict[MessageQueue, QueueBounds]:
        """Return the bounds of every queue of a topic: a request (202) per broker, all at once."""
        self.read_queues(topic)
        brokers = self.broker_names(topic)
        answers = side_by_side(brokers, str, lambda name: self._begin_bounds(topic, name))
        found: dict[MessageQueue, QueueBounds] = {}
        for broker_name, answer in answers.items():
            if isinstance(answer, RocketMQError):
                raise answer
            found |= self._bounds_in(topic, broker_name, answer)
        return found

    def bounds_at(self, topic: str, broker_name: str) -> dict[MessageQueue, QueueBounds]:
        """Return the bounds of a topic's queues on one broker, its master (202).

        A server that does not know the request is asked queue by queue (30, 31); then
        ``last_update_timestamp`` is 0.
        """
        wire_topic = self._wire(topic)
        address = self._master(wire_topic, broker_name)
        command = _bounds_request(wire_topic)
        answer = self._instance.remoting.invoke(address, command, self._timeout_ms)
        return self._bounds_in(topic, broker_name, answer)

    def bounds_of(
        self, topics: Iterable[str], broker_name: str
    ) -> dict[str, dict[MessageQueue, QueueBounds] | RocketMQError]:
        """Ask one broker for the bounds of many topics' queues side by side.

        Returns for each topic what `bounds_at` returns or raises.
        """
        answers = side_by_side(
            topics, lambda _: broker_name, lambda topic: self._begin_bounds(topic, broker_name)
        )
        found: dict[str, dict[MessageQueue, QueueBounds] | RocketMQError] = {}
        for topic, answer in answers.items():
            try:
                if isinstance(answer, RocketMQError):
                    raise answer
                found[topic] = self._bounds_in(topic, broker_name, answer)
            except RocketMQError as error:
                found[topic] = error
        return found

    def _begin_bounds(self, topic: str, broker_name: str) -> Future[RemotingCommand]:
        wire_topic = self._wire(topic)
        address = self._master(wire_topic, broker_name)
        command = _bounds_request(wire_topic)
        return self._instance.remoting.invoke_async(address, command, self._timeout_ms)

    def _bounds_in(
        self, topic: str, broker_name: str, answer: RemotingCommand
    ) -> dict[MessageQueue, QueueBounds]:
        wire_topic = self._wire(topic)
        if answer.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED:
            return self._bounds_one_by_one(wire_topic, broker_name)
        check_answer(answer, self.address_of(broker_name) or broker_name, wire_topic)
        table = TopicStatsTable.decode(answer.body).offset_table
        return {
            MessageQueue(self._bare(key.topic), key.broker_name, key.queue_id): QueueBounds(
                one.min_offset, one.max_offset, one.last_update_timestamp
            )
            for key, one in table.items()
        }

    def max_offset(self, queue: MessageQueue) -> int:
        """Return the offset that the queue's next message will get (30)."""
        return self._requests.max_offset(self._wire_queue(queue))

    def min_offset(self, queue: MessageQueue) -> int:
        """Return the first offset that can be read (31)."""
        return self._requests.min_offset(self._wire_queue(queue))

    def search_offset(
        self, queue: MessageQueue, timestamp_ms: int, boundary: Boundary = "LOWER"
    ) -> int:
        """Return the offset of a store time in epoch ms (29).

        5.x answers the first offset at or after the time (one past the end when none is); 4.9
        answers the nearest one, and never more than the last offset.
        """
        return self._requests.search_offset(self._wire_queue(queue), timestamp_ms, boundary)

    def search_offsets(
        self, moments: Mapping[MessageQueue, int], boundary: Boundary = "LOWER"
    ) -> dict[MessageQueue, int | RocketMQError]:
        """Ask for the offset of a store time in each of many queues, side by side.

        Returns for each queue what `search_offset` returns or raises.
        """
        asked: dict[MessageQueue, dict[str, object]] = {
            queue: {"timestamp": moment, "boundary_type": boundary}
            for queue, moment in moments.items()
        }
        return {
            queue: answer
            if isinstance(answer, RocketMQError)
            else OffsetResponseHeader.from_ext(answer.ext_fields).offset
            for queue, answer in self._ask_many(
                RequestCode.SEARCH_OFFSET_BY_TIMESTAMP, asked
            ).items()
        }

    def message_at(
        self, queue: MessageQueue, offset: int, *, with_body: bool = True
    ) -> MessageExt | None:
        """Return the message at an offset, or None when there is none to read.

        Without ``with_body`` its body is left empty, so a broken one does no harm.
        """
        pulled = self.pull(queue, offset, 1).result()
        bodies = CallBodies(self.config)
        return self._message_in(queue, offset, pulled, bodies, with_body=with_body)

    def messages_at(
        self, places: Iterable[tuple[MessageQueue, int]], *, with_body: bool = True
    ) -> dict[tuple[MessageQueue, int], MessageExt | RocketMQError | None]:
        """Ask for the message at each of many offsets, side by side.

        Returns for each place what `message_at` returns or raises.
        """
        pulled = side_by_side(
            places, lambda place: place[0].broker_name, lambda place: self.pull(*place, 1)
        )
        bodies = CallBodies(self.config)
        found: dict[tuple[MessageQueue, int], MessageExt | RocketMQError | None] = {}
        for place, answer in pulled.items():
            try:
                if isinstance(answer, RocketMQError):
                    raise answer
                found[place] = self._message_in(*place, answer, bodies, with_body=with_body)
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
        wire_queue = self._wire_queue(queue)
        return self._requests.group_offset(self._wire(group), wire_queue, zero_if_none=False)

    def store_group_offset(self, group: str, queue: MessageQueue, offset: int) -> None:
        """Tell the broker a group's offset and wait for its answer (15)."""
        self._requests.store_group_offset(self._wire(group), self._wire_queue(queue), offset)

    def group_offsets(
        self, group: str, queues: Iterable[MessageQueue]
    ) -> dict[MessageQueue, int | RocketMQError | None]:
        """Ask for a group's offsets in many queues, side by side.

        Returns for each queue what `group_offset` returns or raises.
        """
        fields = {"consumer_group": self._wire(group), "set_zero_if_not_found": False}
        code = RequestCode.QUERY_CONSUMER_OFFSET
        found: dict[MessageQueue, int | RocketMQError | None] = {}
        for queue, answer in self._ask_many(code, dict.fromkeys(queues, fields)).items():
            if not isinstance(answer, RocketMQError):
                found[queue] = OffsetResponseHeader.from_ext(answer.ext_fields).offset
            else:
                none = (
                    isinstance(answer, MQBrokerException)
                    and answer.code == ResponseCode.QUERY_NOT_FOUND
                )
                found[queue] = None if none else answer
        return found

    def store_group_offsets(
        self, group: str, offsets: Mapping[MessageQueue, int]
    ) -> dict[MessageQueue, RocketMQError | None]:
        """Tell brokers a group's offsets of many queues, side by side, and wait for the answers.

        Returns for each queue what `store_group_offset` raises, None when it is stored.
        """
        asked: dict[MessageQueue, dict[str, object]] = {
            queue: {"consumer_group": self._wire(group), "commit_offset": offset}
            for queue, offset in offsets.items()
        }
        answers = self._ask_many(RequestCode.UPDATE_CONSUMER_OFFSET, asked)
        return {
            queue: answer if isinstance(answer, RocketMQError) else None
            for queue, answer in answers.items()
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
        fields = self._pull_fields(max_messages, group, expression, expression_type)
        request = queue_request(RequestCode.PULL_MESSAGE, queue, queue_offset=offset, **fields)
        asked = address or self._address(queue, broker_id)
        return self._begun(
            asked, request, timeout_ms, lambda answer: pull_answer(answer, asked, queue.topic)
        )

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
        result: Future[PulledRun] = Future()

        def told(pulled: PulledRun) -> None:
            if result.set_running_or_notify_cancel():  # else the caller gave up
                result.set_result(pulled)

        asked = address or self._address(queue, broker_id)
        fields = self._pull_fields(max_messages, group, expression, expression_type)
        calls = pull_calls(queue, offsets, asked, told, **fields)
        try:
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
    ) -> Future[RawSend]:
        """Send a body as it is to a queue (310); ``batch`` (320): it is an encoded batch body.

        ``properties`` is the encoded text (name U+0001 value U+0002 ...) and must hold the
        message's id, UNIQ_KEY; in a batch each item has its own. Nothing is checked or compressed
        here: what the broker refuses comes back as `MQBrokerException` in the future.
        """
        run = SendRun(queue, (body,), (properties,), flag, sys_flag, batch)
        topic = self._wire(queue.topic)
        address = self._master(topic, queue.broker_name)
        command = command_of(run, self.producer_group, topic)
        return self._begun(
            address, command, timeout_ms, lambda answer: stored(answer, queue, topic, address)
        )

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
        try:
            address = self._master(topic, run.queue.broker_name)
            calls = calls_of(run, self.producer_group, topic, address, told)
            self._instance.remoting.begin_run(address, calls, timeout_ms)
        except RocketMQError as error:
            told(RunOutcome.failed(run.queue, len(run), error))

    def recall(self, topic: str, recall_handle: str, *, timeout_ms: int = 3_000) -> Future[str]:
        """Take back a timer message that is not due yet (370); its id comes in the future.

        ``recall_handle`` is `RawSend.recall_handle`. Raises `MQClientException` at once for a
        handle that cannot be one or names a broker that the topic has not; the future holds
        `MQBrokerException` for a refusal: 604 when it is too late, `RecallNotSupportedError` when
        the broker does not offer it.
        """
        topic = self._wire(topic)
        parsed = parse_handle(topic, recall_handle)
        address = self._master(topic, parsed.broker_name)
        command = recall_request(
            topic,
            recall_handle,
            broker_name=parsed.broker_name,
            producer_group=self.producer_group,
        )
        return self._begun(
            address, command, timeout_ms, lambda answer: recalled_id(answer, address, topic)
        )

    # --- inside ----------------------------------------------------------------------------

    def _begun(
        self,
        address: str,
        command: RemotingCommand,
        timeout_ms: float,
        read: Callable[[RemotingCommand], _T],
    ) -> Future[_T]:
        """Call without waiting; the future has what the answer says, read on the reading thread."""
        result: Future[_T] = Future()
        done = _into(result, read)
        try:
            self._instance.remoting.begin(address, command, timeout_ms, done)
        except RocketMQError as error:
            done(None, error)
        return result

    def _pull_fields(
        self, max_messages: int, group: str, expression: str, expression_type: str
    ) -> dict[str, object]:
        """Give what the header of a pull has beyond queue and offset."""
        return {
            "max_msg_nums": max_messages,
            "consumer_group": self._wire(group),
            "sys_flag": PullSysFlag.SUBSCRIPTION,
            "commit_offset": 0,
            "suspend_timeout_millis": 0,
            "subscription": expression,
            "sub_version": wall_ms(),
            "expression_type": expression_type,
        }

    def _address(self, wire_queue: MessageQueue, broker_id: int) -> str:
        return self._instance.routes.require_address(
            wire_queue.topic, wire_queue.broker_name, broker_id=broker_id
        )

    def _ask_many(
        self, code: RequestCode, asked: Mapping[MessageQueue, Mapping[str, object]]
    ) -> dict[MessageQueue, RemotingCommand | RocketMQError]:
        wire = {self._wire_queue(queue): fields for queue, fields in asked.items()}
        answers = self._requests.ask_many(code, wire)
        return {queue: answers[self._wire_queue(queue)] for queue in asked}

    def _bounds_one_by_one(self, topic: str, broker_name: str) -> dict[MessageQueue, QueueBounds]:
        ask, found = self._requests, {}
        for queue in self._instance.routes.subscribe_queues(topic) or ():
            if queue.broker_name == broker_name:
                bounds = QueueBounds(ask.min_offset(queue), ask.max_offset(queue), 0)
                found[self._bare_queue(queue)] = bounds
        return found

    @property
    def _timeout_ms(self) -> int:
        return self.config.mq_client_api_timeout

    @property
    def _requests(self) -> QueueRequests:
        return QueueRequests(self._instance, self._timeout_ms)

    def _master(self, topic: str, broker_name: str) -> str:
        return self._instance.routes.require_address(topic, broker_name, only_this=True)

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

    def _ask_name_servers(self, code: RequestCode, what: str) -> bytes:
        """Return what the first name server that answers says; raise when none does."""
        failed: Exception | None = None
        for address in self.config.name_servers:
            try:
                answer = self._instance.remoting.invoke(
                    address, RemotingCommand(code), self._timeout_ms
                )
                check_answer(answer, address)
            except (OSError, MQClientException) as error:
                failed = failed or error
            else:
                return answer.body
        # The route of any topic fails with the sentence that says what to set.
        self._instance.routes.check_name_servers()
        raise MQClientException(f"no name server lists its {what}: {failed}") from failed


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

    def __init__(self, namespace: str, **settings: Unpack[ClientSettings]) -> None:
        super().__init__(**settings)
        self.namespace = namespace

    def topic_names(self) -> list[str]:
        """Ask a name server for the names of the namespace's topics, sorted."""
        bare = ((name, self._bare(name)) for name in super().topic_names())
        return sorted(inner for name, inner in bare if inner != name)

    def _wire(self, name: str) -> str:
        return with_namespace(self.namespace, name)

    def _bare(self, name: str) -> str:
        return without_namespace(self.namespace, name)


def _bounds_request(wire_topic: str) -> RemotingCommand:
    header = GetTopicStatsInfoRequestHeader(topic=wire_topic)
    return RemotingCommand(RequestCode.GET_TOPIC_STATS_INFO, ext_fields=header.to_ext())


def _into(result: Future[_T], read: Callable[[RemotingCommand], _T]) -> Done:
    """Give what puts into a future what an answer says, read on the thread that has it."""

    def done(answer: RemotingCommand | None, error: RocketMQError | None) -> None:
        if not result.set_running_or_notify_cancel():
            return  # the caller gave up
        if answer is None:
            result.set_exception(error)
            return
        try:
            value = read(answer)
        except Exception as trouble:  # noqa: BLE001 - it belongs to whoever waits
            result.set_exception(trouble)
        else:
            result.set_result(value)

    return done
