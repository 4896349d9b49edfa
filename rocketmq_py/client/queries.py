"""What can be asked of brokers about topics and stored messages, besides single queues.

The administration half of every client (``MQAdminImpl`` of the original). Blocking calls, each
bounded by ``mq_client_api_timeout`` per broker. Must not know producers or consumers. Questions
about one queue are in ``queue_requests.py``.
"""

from collections.abc import Mapping
from typing import Final, NamedTuple

from attrs import field, frozen

from rocketmq_py.client.asking import Address, Question, Where, nothing
from rocketmq_py.client.call_bodies import CallBodies
from rocketmq_py.client.fan_out import first_error
from rocketmq_py.client.instance import ClientInstance
from rocketmq_py.client.queue_requests import Boundary as Boundary  # noqa: PLC0414 - public
from rocketmq_py.client.queue_requests import QueueRequests
from rocketmq_py.client.topic_types import clean_attributes
from rocketmq_py.clock import wall_ms
from rocketmq_py.config import ClientConfig
from rocketmq_py.errors import (
    MQBrokerException,
    MQClientException,
    RemotingCommandException,
    RocketMQError,
)
from rocketmq_py.message import MessageExt
from rocketmq_py.protocol.codes import PERM_READ, PERM_WRITE, RequestCode, ResponseCode
from rocketmq_py.protocol.command import RemotingCommand
from rocketmq_py.protocol.handles import decode_offset_id
from rocketmq_py.protocol.headers.admin import CreateTopicRequestHeader
from rocketmq_py.protocol.headers.consume import (
    QueryMessageRequestHeader,
    QueryMessageResponseHeader,
    ViewMessageRequestHeader,
)
from rocketmq_py.protocol.message_codec import MessageRecord, decode_record, iter_records
from rocketmq_py.spelling import Spelled

CREATE_ATTEMPTS = 5
UNIQUE_MAX = 32
THREE_DAYS_MS = 3 * 24 * 3_600_000
INT64_MAX = 2**63 - 1

_FOUND_OR_NOT: Final = frozenset({int(ResponseCode.SUCCESS), int(ResponseCode.QUERY_NOT_FOUND)})


@frozen
class QueryResult(Spelled):
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

        ``attributes`` of 5.x are such as ``{"message.type": "DELAY"}``; a plus before the name, as
        ``mqadmin`` wants it, may stand there. Raises the first failure when no master has it then;
        `NoRouteError` when nobody knows ``key``.
        """
        wanted = clean_attributes(attributes or {})
        text = ",".join(f"+{name}={value}" for name, value in wanted.items())
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
        code, fields = RequestCode.UPDATE_AND_CREATE_TOPIC, header.to_ext()
        masters = self._asker.brokers(key, masters=True)
        left = {one.name: Question(one, code, nothing, fields, topic=topic) for one in masters}
        for _ in range(CREATE_ATTEMPTS):
            answers = self._asker.ask_all(left, self._timeout_ms)
            left = {name: left[name] for name, one in answers.items() if one is not None}
            if not left:
                break
        first = first_error(answers.values())
        if first is not None and len(left) == len(masters):
            raise MQClientException(
                f"topic {topic} could not be created at any of {sorted(left)}: {first}",
                response_code=first.response_code,
                topic=topic,
            ) from first

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
        address = as_address(host, port)
        # An id that a client made has the same look, and would name a stranger: ask none.
        if address not in self._instance.routes.broker_addresses(masters_only=False):
            return self._by_unique_id(topic, msg_id)
        try:
            record = self._asker.answer(record_at(address, topic, offset), self._timeout_ms)
        except MQBrokerException:
            return self._by_unique_id(topic, msg_id)
        return CallBodies(self._config).message(record)

    def _by_unique_id(self, topic: str, msg_id: str) -> MessageExt:
        begin_ms = wall_ms() - THREE_DAYS_MS
        found = self._query(topic, msg_id, UNIQUE_MAX, begin_ms, INT64_MAX, unique=True)
        return found.message_list[0]

    def _query(
        self, topic: str, key: str, max_num: int, begin_ms: int, end_ms: int, *, unique: bool
    ) -> QueryResult:
        ask = KeyQuery(topic, key, max_num, begin_ms, end_ms, unique=unique)
        answers = self._asker.ask_all(
            {one.name: ask.at(one) for one in self._asker.brokers(topic)}, self._timeout_ms
        )
        first = first_error(answers.values())
        found = ask.messages(answers, self._config)
        if not found.message_list:
            raise MQClientException(
                f"no message of topic {topic} has the key {key!r}: the time range, or the index "
                "of the broker, may not cover it",
                response_code=ResponseCode.NO_MESSAGE,
                topic=topic,
            ) from first
        return found


class Indexed(NamedTuple):
    """What one broker found in its index."""

    newest: int
    records: bytes


@frozen
class KeyQuery:
    """A question to every broker of a topic for messages with a key, stored between two times (12).

    ``unique``: the key is the id that a client gave.
    """

    topic: str
    key: str
    max_num: int
    begin_ms: int
    end_ms: int
    unique: bool = field(kw_only=True, default=False)

    def at(self, where: Where) -> Question[Indexed | None]:
        """Ask one broker."""
        header = QueryMessageRequestHeader(
            topic=self.topic,
            key=self.key,
            max_num=self.max_num,
            begin_timestamp=self.begin_ms,
            end_timestamp=self.end_ms,
            # 4.9 brokers leave this field out of the signed text: not sent unless it says true.
            unique_key_query=True if self.unique else None,
        )
        code, fields = RequestCode.QUERY_MESSAGE, header.to_ext()
        return Question(where, code, _indexed, fields, accepts=_FOUND_OR_NOT, topic=self.topic)

    def messages(
        self, answers: Mapping[str, Indexed | RocketMQError | None], config: ClientConfig
    ) -> QueryResult:
        """Read what brokers, by name, have answered; the oldest message comes first."""
        newest, messages = 0, list[MessageExt]()
        bodies = CallBodies(config)
        for name, answer in answers.items():
            if answer is None or isinstance(answer, RocketMQError):
                continue
            newest = max(newest, answer.newest)
            # The index knows hashes: another key may have the same one.
            found = (bodies.message(record, name) for record in iter_records(answer.records))
            messages += [message for message in found if self._fits(message)]
        messages.sort(key=lambda message: message.store_timestamp)
        return QueryResult(newest, tuple(messages[: self.max_num] if self.unique else messages))

    def _fits(self, message: MessageExt) -> bool:
        return message.msg_id == self.key if self.unique else self.key in message.keys


def _indexed(answer: RemotingCommand, _: str) -> Indexed | None:
    if answer.code == ResponseCode.QUERY_NOT_FOUND:
        return None
    told = QueryMessageResponseHeader.from_ext(answer.ext_fields)
    return Indexed(told.index_last_update_timestamp, answer.body)


def record_at(address: str, topic: str, offset: int) -> Question[MessageRecord]:
    """Ask a broker for the record at an offset of its commit log (33)."""
    return Question(
        Address(address),
        RequestCode.VIEW_MESSAGE_BY_ID,
        lambda answer, _: decode_record(answer.body),
        ViewMessageRequestHeader(offset=offset, topic=topic).to_ext(),
        topic=topic,
    )


def as_address(host: str, port: int) -> str:
    """Write an address as servers do."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
