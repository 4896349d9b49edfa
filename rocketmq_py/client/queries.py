"""What can be asked of brokers about topics and stored messages, besides single queues.

The administration half of every client (``MQAdminImpl`` of the original). Blocking calls, each
bounded by ``mq_client_api_timeout`` per broker. Must not know producers or consumers. Questions
about one queue are in ``queue_requests.py``.
"""

from collections.abc import Callable, Mapping

from attrs import frozen

from rocketmq_py.client.answers import check_answer
from rocketmq_py.client.call_bodies import CallBodies
from rocketmq_py.client.instance import ClientInstance
from rocketmq_py.client.queue_requests import Boundary as Boundary  # noqa: PLC0414 - public
from rocketmq_py.client.queue_requests import QueueRequests
from rocketmq_py.clock import wall_ms
from rocketmq_py.config import ClientConfig
from rocketmq_py.errors import (
    MQBrokerException,
    MQClientException,
    NoRouteError,
    RemotingCommandException,
    RemotingException,
)
from rocketmq_py.message import MessageExt
from rocketmq_py.protocol.codes import PERM_READ, PERM_WRITE, RequestCode, ResponseCode
from rocketmq_py.protocol.command import RemotingCommand
from rocketmq_py.protocol.handles import decode_offset_id
from rocketmq_py.protocol.headers import Header
from rocketmq_py.protocol.headers.admin import CreateTopicRequestHeader
from rocketmq_py.protocol.headers.consume import (
    QueryMessageRequestHeader,
    QueryMessageResponseHeader,
    ViewMessageRequestHeader,
)
from rocketmq_py.protocol.message_codec import decode_record, iter_records

CREATE_ATTEMPTS = 5
UNIQUE_MAX = 32
THREE_DAYS_MS = 3 * 24 * 3_600_000
INT64_MAX = 2**63 - 1


@frozen
class QueryResult:
    """What `query_message` found; the timestamp says how far the newest index had come."""

    index_last_update_timestamp: int
    message_list: tuple[MessageExt, ...]


class Queries(QueueRequests):
    """Questions of one client, whose limits of bodies count. Every call is safe from any thread."""

    def __init__(self, instance: ClientInstance, config: ClientConfig) -> None:
        super().__init__(instance, instance.config.mq_client_api_timeout)
        self._config = config

    # --- topics ----------------------------------------------------------------------------

    def create_topic(
        self,
        key: str,
        topic: str,
        queue_num: int,
        *,
        topic_sys_flag: int = 0,
        attributes: Mapping[str, str] | None = None,
    ) -> None:
        """Create a topic on every master of the topic ``key`` (17), five tries each.

        Raises the first failure when no master has it then; `NoRouteError` when nobody knows
        ``key``.
        """
        masters = self._masters_of(key)
        text = ",".join(f"+{name}={value}" for name, value in (attributes or {}).items())
        header = CreateTopicRequestHeader(
            topic=topic,
            default_topic=key,
            read_queue_nums=queue_num,
            write_queue_nums=queue_num,
            perm=PERM_READ | PERM_WRITE,
            topic_filter_type="SINGLE_TAG",
            topic_sys_flag=topic_sys_flag,
            order=False,
            attributes=text or None,
        )
        first: Exception | None = None
        created = False
        for _, address in masters:
            try:
                self._create_at(address, topic, header)
                created = True
            except (RemotingException, MQBrokerException) as error:
                first = first or error
        if first is not None and not created:
            raise MQClientException(
                f"topic {topic} could not be created at any of {[a for _, a in masters]}: {first}",
                response_code=getattr(first, "response_code", None),
                topic=topic,
            ) from first

    def _create_at(self, address: str, topic: str, header: CreateTopicRequestHeader) -> None:
        for attempt in range(1, CREATE_ATTEMPTS + 1):
            try:
                answer = self._ask_at(address, RequestCode.UPDATE_AND_CREATE_TOPIC, header)
                check_answer(answer, address, topic)
            except (RemotingException, MQBrokerException):
                if attempt == CREATE_ATTEMPTS:
                    raise
            else:
                return

    # --- messages --------------------------------------------------------------------------

    def query_message(
        self, topic: str, key: str, max_num: int, begin_ms: int, end_ms: int
    ) -> QueryResult:
        """Return messages of the topic with the key, stored between the two times (12).

        Asks every broker. Raises `MQClientException` 208 when there is none.
        """
        return self._query(topic, key, max_num, begin_ms, end_ms, unique=False)

    def view_message(self, topic: str, msg_id: str) -> MessageExt:
        """Return one message by its offset id (33), or else by its own id (12, last 3 days).

        Raises `MQClientException` 208 when neither finds it.
        """
        try:
            host, port, offset = decode_offset_id(msg_id)
        except RemotingCommandException:
            return self._by_unique_id(topic, msg_id)
        address = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        # An id that a client made has the same look, and would name a stranger: ask none.
        if address in self._instance.routes.broker_addresses(masters_only=False):
            header = ViewMessageRequestHeader(offset=offset, topic=topic)
            answer = self._ask_at(address, RequestCode.VIEW_MESSAGE_BY_ID, header)
            if answer.code == ResponseCode.SUCCESS:
                return CallBodies(self._config).message(decode_record(answer.body))
        return self._by_unique_id(topic, msg_id)

    def _by_unique_id(self, topic: str, msg_id: str) -> MessageExt:
        begin_ms = wall_ms() - THREE_DAYS_MS
        found = self._query(topic, msg_id, UNIQUE_MAX, begin_ms, INT64_MAX, unique=True)
        return found.message_list[0]

    def _query(
        self, topic: str, key: str, max_num: int, begin_ms: int, end_ms: int, *, unique: bool
    ) -> QueryResult:
        fits: Callable[[MessageExt], bool] = (
            (lambda message: message.msg_id == key)
            if unique
            else (lambda message: key in message.keys)
        )
        header = QueryMessageRequestHeader(
            topic=topic,
            key=key,
            max_num=max_num,
            begin_timestamp=begin_ms,
            end_timestamp=end_ms,
            # 4.9 brokers leave this field out of the signed text: not sent unless it says true.
            unique_key_query=True if unique else None,
        )
        newest, messages = 0, []
        bodies = CallBodies(self._config)
        first: Exception | None = None
        for name, address in self._masters_of(topic):
            try:
                answer = self._ask_at(address, RequestCode.QUERY_MESSAGE, header)
                if answer.code == ResponseCode.QUERY_NOT_FOUND:
                    continue
                check_answer(answer, address, topic)
            except (RemotingException, MQBrokerException) as error:
                first = first or error
                continue
            told = QueryMessageResponseHeader.from_ext(answer.ext_fields)
            newest = max(newest, told.index_last_update_timestamp)
            # The index knows hashes: another key may have the same one.
            found = (bodies.message(record, name) for record in iter_records(answer.body))
            messages += [message for message in found if fits(message)]
        if not messages:
            raise MQClientException(
                f"no message of topic {topic} has the key {key!r}: the time range, or the index "
                "of the broker, may not cover it",
                response_code=ResponseCode.NO_MESSAGE,
                topic=topic,
            ) from first
        messages.sort(key=lambda message: message.store_timestamp)
        return QueryResult(newest, tuple(messages[:max_num] if unique else messages))

    # --- asking ----------------------------------------------------------------------------

    def _masters_of(self, topic: str) -> list[tuple[str, str]]:
        self._instance.routes.route(topic)
        masters = self._instance.routes.master_addresses(topic)
        if not masters:
            raise NoRouteError(
                f"no route of topic {topic}: does it exist?",
                response_code=ResponseCode.NOT_FOUND_TOPIC_EXCEPTION,
                topic=topic,
            )
        return masters

    def _ask_at(self, address: str, code: int, header: Header) -> RemotingCommand:
        command = RemotingCommand(code, ext_fields=header.to_ext())
        return self._instance.remoting.invoke(address, command, self._timeout_ms)
