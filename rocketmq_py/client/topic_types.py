"""Which type of messages a topic is for: the attribute ``message.type`` of 5.x, remembered.

A master of the topic is asked for its settings (351). Brokers do not refuse what is of another
type; a proxy does, and so can a client that asks. Must not know messages.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from concurrent.futures import Future
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple

from rocketmq_py.client.asking import Asker, Question
from rocketmq_py.client.outcome import CallbackFuture
from rocketmq_py.clock import monotonic
from rocketmq_py.errors import MQBrokerException, NoRouteError, RocketMQError
from rocketmq_py.protocol.codes import RequestCode
from rocketmq_py.protocol.headers.admin import GetTopicConfigRequestHeader

if TYPE_CHECKING:
    from rocketmq_py.client.instance import ClientInstance
    from rocketmq_py.protocol.command import RemotingCommand

REMEMBERED_S: Final = 30.0
TOPICS_MAX: Final = 10_000
MESSAGE_TYPE: Final = "message.type"


class _Known(NamedTuple):
    answer: CallbackFuture[str | None]
    until: float


class TopicTypes:
    """The types of topics, asked by one client. Every call is safe from any thread."""

    def __init__(self, instance: ClientInstance) -> None:
        self._instance = instance
        self._asker = Asker(instance)
        self._lock = threading.Lock()
        self._known: dict[str, _Known] = {}

    def of(self, topic: str) -> CallbackFuture[str | None]:
        """Give the type of a topic; None: it has none, or nobody says.

        Waits for nothing. A broker that does not answer is asked again by the next call; what it
        says, also that the topic or the question is unknown to it, holds for `REMEMBERED_S`.
        """
        now = monotonic()
        with self._lock:
            known = self._known.get(topic)
            if known is not None and now < known.until:
                return known.answer
            if len(self._known) >= TOPICS_MAX:
                self._known.clear()
            answer: CallbackFuture[str | None] = CallbackFuture(self._instance)
            self._known[topic] = _Known(answer, now + REMEMBERED_S)
        if not self._instance.submit_background(self._ask, topic, answer):
            self._ended(topic, answer, None)
        return answer

    def _ask(self, topic: str, answer: Future[str | None]) -> None:
        """Ask a broker; on a thread that may wait for a name server."""
        try:
            master = self._asker.brokers(topic, masters=True)[0]
            header = GetTopicConfigRequestHeader(topic=topic)
            question = Question(master, RequestCode.GET_TOPIC_CONFIG, _read, header.to_ext())
            asked = self._asker.ask(question, self._instance.config.mq_client_api_timeout)
        except RocketMQError as error:
            self._ended(topic, answer, error)
        except BaseException:
            self._ended(topic, answer, NoRouteError("it was not asked"))
            raise
        else:
            asked.add_done_callback(partial(self._answered, topic, answer))

    def _answered(self, topic: str, answer: Future[str | None], asked: Future[str | None]) -> None:
        error = asked.exception()
        if error is None:
            answer.set_result(asked.result())
        else:
            self._ended(topic, answer, error)

    def _ended(self, topic: str, answer: Future[str | None], error: BaseException | None) -> None:
        """Say that nobody knows; that is remembered when a broker has said so."""
        if not isinstance(error, MQBrokerException):
            with self._lock:
                known = self._known.get(topic)
                if known is not None and known.answer is answer:
                    del self._known[topic]
        answer.set_result(None)


def clean_attributes(attributes: Mapping[str, str]) -> dict[str, str]:
    """Read attributes of a topic as tools and documents write them.

    A name may have the plus that says that it is added; the type is in capitals, as brokers ask.

    >>> clean_attributes({"+message.type": "Delay"})
    {'message.type': 'DELAY'}
    """
    named = {name.removeprefix("+"): value for name, value in attributes.items()}
    if MESSAGE_TYPE in named:
        named[MESSAGE_TYPE] = named[MESSAGE_TYPE].upper()
    return named


def _read(answer: RemotingCommand, _address: str) -> str | None:
    from rocketmq_py.protocol.bodies.topics import TopicConfig  # only typed topics need it

    attributes = TopicConfig.decode(answer.body).attributes or {}
    return clean_attributes(attributes).get(MESSAGE_TYPE)
