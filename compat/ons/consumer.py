"""The ONS consumer: one group, one listener per topic.

A thin translator over `rocketmq_py.DefaultMQPushConsumer`. Must not know how messages are pulled.
Names as in ``com.aliyun.openservices.ons.api.Consumer``.
"""

import inspect
import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from enum import Enum

from compat.ons.client import Client, translated
from compat.ons.message import Message, from_core
from compat.ons.properties import (
    PropertyKeyConst,
    PropertyValueConst,
    domain_of,
    int_of,
    name_servers_of,
    switch_of,
    text_of,
)
from rocketmq_py import (
    ConsumeConcurrentlyContext,
    ConsumeConcurrentlyStatus,
    DefaultMQPushConsumer,
    MessageExt,
    MessageSelector,
)
from rocketmq_py.errors import ONSClientException

logger = logging.getLogger(__name__)

_NO_ACTION = frozenset({None, type(None), "None", bool, "bool"})
"""What a listener may be annotated to return that is surely no `Action`."""
THREADS_DEFAULT = 20
RECONSUME_TIMES_DEFAULT = 16
CONSUME_TIMEOUT_DEFAULT_MIN = 15
CACHED_AMOUNT_DEFAULT, CACHED_AMOUNT_MIN, CACHED_AMOUNT_MAX = 5000, 100, 50_000
CACHED_MIB_DEFAULT, CACHED_MIB_MIN, CACHED_MIB_MAX = 512, 16, 2048


class Action(Enum):
    """What a listener says about a message; an exception counts as ReconsumeLater.

    So does everything that is no Action, True and None included; the log says so, once for each
    kind.
    """

    CommitMessage = 0
    ReconsumeLater = 1
    COMMIT_MESSAGE = CommitMessage
    RECONSUME_LATER = ReconsumeLater


class ConsumeContext:
    """What a listener gets with the message. It is empty, as in ONS."""


class MessageListener:
    """Handles the messages of one topic: override `consume`, or pass a callable."""

    def __init__(self, consume: Callable[[Message, ConsumeContext], Action] | None = None) -> None:
        self._consume = consume

    def consume(self, message: Message, context: ConsumeContext) -> Action:
        """Handle one message; called on a pool thread, also for several messages at once."""
        if self._consume is None:
            raise ONSClientException(
                f"{type(self).__name__} has no consume: override it, or pass a callable"
            )
        return self._consume(message, context)


ListenerLike = MessageListener | Callable[[Message, ConsumeContext], Action]
"""Everything that `Consumer.subscribe` takes as the listener of a topic."""


class Consumer(Client):
    """Receives messages; made by `ONSFactory.create_consumer`.

    While it is started the process stays alive, as a Java program does: call `shutdown` to let it
    end.
    """

    def __init__(self, properties: Mapping[str, object]) -> None:
        super().__init__(properties)
        settings = self.properties
        group = text_of(settings, PropertyKeyConst.GROUP_ID) or text_of(
            settings, PropertyKeyConst.ConsumerId
        )
        if not group:
            raise ONSClientException("a consumer needs the property GROUP_ID")
        _check_model(text_of(settings, PropertyKeyConst.MessageModel))
        threads = int_of(settings, PropertyKeyConst.ConsumeThreadNums, THREADS_DEFAULT)
        self._listeners: dict[str, Callable[[Message, ConsumeContext], Action]] = {}
        self._told: set[str] = set()
        self._ended = threading.Event()
        self._keeper: threading.Thread | None = None
        with translated("create a consumer"):
            self._consumer = DefaultMQPushConsumer(
                group,
                namesrv_addr=name_servers_of(settings),
                namesrv_domain=domain_of(settings),
                consume_thread_min=threads,
                consume_thread_max=threads,
                max_reconsume_times=int_of(
                    settings, PropertyKeyConst.MaxReconsumeTimes, RECONSUME_TIMES_DEFAULT
                ),
                consume_timeout=int_of(
                    settings, PropertyKeyConst.ConsumeTimeout, CONSUME_TIMEOUT_DEFAULT_MIN
                ),
                pull_threshold_for_topic=_clamped(
                    int_of(
                        settings, PropertyKeyConst.MaxCachedMessageAmount, CACHED_AMOUNT_DEFAULT
                    ),
                    CACHED_AMOUNT_MIN,
                    CACHED_AMOUNT_MAX,
                ),
                pull_threshold_size_for_topic=_clamped(
                    int_of(
                        settings, PropertyKeyConst.MaxCachedMessageSizeInMiB, CACHED_MIB_DEFAULT
                    ),
                    CACHED_MIB_MIN,
                    CACHED_MIB_MAX,
                ),
                post_subscription_when_pull=switch_of(
                    settings, PropertyKeyConst.PostSubscriptionWhenPull
                ),
                vip_channel_enabled=switch_of(settings, PropertyKeyConst.isVipChannelEnabled),
                credentials=self.credentials_source,
                **self._instance_settings,
            )
            self._consumer.register_message_listener(self._handle)

    def subscribe(
        self, topic: str, expression: str | MessageSelector | None, listener: ListenerLike
    ) -> None:
        """Give a topic's messages to `listener`. This works after the start, too.

        `expression` names tags separated by ``||``, or is ``*``. Raises ONSClientException for a
        missing topic or listener.
        """
        if not topic:
            raise ONSClientException("subscribe needs a topic")
        function = _function_of(listener)
        self._listeners[topic] = function
        with translated(f"subscribe {topic}"):
            self._consumer.subscribe(topic, expression)

    def unsubscribe(self, topic: str) -> None:
        """Unsubscribe from a topic."""
        if topic:
            with translated(f"unsubscribe {topic}"):
                self._consumer.unsubscribe(topic)
            self._listeners.pop(topic, None)

    @property
    def core(self) -> DefaultMQPushConsumer:
        """The client of the SDK."""
        return self._consumer

    def shutdown(self) -> None:
        """Shut down, and let the program end."""
        try:
            super().shutdown()
        finally:
            self._ended.set()
            keeper = self._keeper
            if keeper is not None and keeper.is_alive():
                keeper.join()

    def _started(self) -> None:
        """Keep the program alive.

        The SDK's threads are daemons. A ported main() ends after start(), and its author expects
        the program to go on receiving.
        """
        self._keeper = threading.Thread(
            target=self._ended.wait, name="ons-consumer-keeper", daemon=False
        )
        try:
            self._keeper.start()
        except RuntimeError as error:  # the system has no thread left
            self._consumer.shutdown()
            raise ONSClientException(
                f"the consumer cannot keep its program alive: {error}; start again with a new one"
            ) from error

    def _handle(
        self, messages: Sequence[MessageExt], context: ConsumeConcurrentlyContext
    ) -> ConsumeConcurrentlyStatus:
        """Give one message to its topic's listener: batches hold one message each."""
        for position, core in enumerate(messages):
            if self._consume(core) is not Action.CommitMessage:
                context.ack_index = position - 1
                if position == 0:
                    return ConsumeConcurrentlyStatus.RECONSUME_LATER
                break
        return ConsumeConcurrentlyStatus.CONSUME_SUCCESS

    def _consume(self, core: MessageExt) -> Action:
        listener = self._listeners.get(core.topic)
        if listener is None:
            # Unsubscribed a moment ago, or subscribed by another member of the group only.
            logger.warning("no listener for topic %s, message comes again later", core.topic)
            return Action.ReconsumeLater
        # A listener of a foreign program may return anything, whatever its annotation says.
        answer: object = listener(from_core(core), ConsumeContext())
        if isinstance(answer, Action):
            return answer
        self._tell_once(answer, core)
        return Action.ReconsumeLater

    def _tell_once(self, answer: object, core: MessageExt) -> None:
        kind = type(answer).__name__
        level = logging.DEBUG if kind in self._told else logging.WARNING
        self._told.add(kind)
        logger.log(
            level,
            "the listener of topic %s returned %s instead of an Action, so message %s comes again "
            "later (attempt %d): return Action.CommitMessage",
            core.topic,
            "None" if answer is None else f"{answer!r:.40}, a {kind},",
            core.msg_id,
            core.reconsume_times + 1,
        )


def _function_of(listener: object) -> Callable[[Message, ConsumeContext], Action]:
    """Find what handles a message; ONSClientException for what cannot, or can never succeed."""
    if isinstance(listener, MessageListener) or not callable(listener):
        listener = getattr(listener, "consume", None)
    if not callable(listener) or isinstance(listener, type):
        raise ONSClientException("subscribe needs a listener: an object with consume")
    try:
        returns = inspect.signature(listener).return_annotation
    except (TypeError, ValueError):
        returns = None  # a builtin without a signature: nothing to check
    else:
        if returns in _NO_ACTION:
            name = getattr(returns, "__name__", returns)
            raise ONSClientException(
                f"the listener returns {name}, so every message would come again until it is a "
                "dead letter: return Action.CommitMessage"
            )
    return listener


def _check_model(model: str) -> None:
    if model == PropertyValueConst.BROADCASTING:
        raise ONSClientException(
            "property MessageModel = BROADCASTING is not offered: CLUSTERING is"
        )
    if model not in {"", PropertyValueConst.CLUSTERING}:
        raise ValueError(f"property MessageModel = {model!r} must be CLUSTERING or BROADCASTING")


def _clamped(value: int, low: int, high: int) -> int:
    return max(low, min(high, value))
