"""Pops that the program asks for, one for each call: no lane is filled before somebody asks.

`Receiving` lets topics and their brokers take turns, gives what a pop brought, and settles each
message by its own receipt. It has no thread and keeps no message. It must not know the public face.
Facts: the 5.0 ``SimpleConsumer``, and what a proxy makes of its calls.
"""

from __future__ import annotations

import threading
from collections import OrderedDict, defaultdict
from collections.abc import Callable
from concurrent.futures import Future
from functools import partial
from itertools import count
from typing import TYPE_CHECKING, Final, TypeVar

from attrs import define, field

from rocketmq_py.client.instance import ClientInstance
from rocketmq_py.client.outcome import CallbackFuture
from rocketmq_py.clock import monotonic
from rocketmq_py.consumer.core.acks import Acks
from rocketmq_py.consumer.core.pop_calls import (
    ALL_QUEUES,
    PopCalls,
    Receipt,
    read_ack,
    read_invisible_time,
)
from rocketmq_py.consumer.core.pop_lane import PopLane
from rocketmq_py.consumer.core.sources import Pops
from rocketmq_py.consumer.dispatch.bodies import Bodies
from rocketmq_py.errors import (
    ClientClosedError,
    DeliveryEndedError,
    IllegalStateError,
    NoRouteError,
    RocketMQError,
)
from rocketmq_py.logs import get_logger
from rocketmq_py.protocol.codes import ResponseCode
from rocketmq_py.protocol.names import is_retry_topic
from rocketmq_py.protocol.pop_handles import PopHandle
from rocketmq_py.protocol.properties import Prop
from rocketmq_py.send_result import MessageQueue

if TYPE_CHECKING:
    from rocketmq_py.consumer.dispatch.bodies import BodyLimits
    from rocketmq_py.consumer.hooks import Hooks
    from rocketmq_py.consumer.listener import ConsumeFromWhere
    from rocketmq_py.consumer.subscriptions import SubscriptionTable
    from rocketmq_py.message import MessageExt
    from rocketmq_py.protocol.command import RemotingCommand

logger = get_logger(__name__)

_T = TypeVar("_T")

REPLACED_MAX: Final = 10_000
"""So many receipts that were replaced are remembered, the newest ones."""


@define
class Terms:
    """What one receive asks for; see `PopConsumerConfig`."""

    pop_batch_nums: int
    pop_invisible_time: int
    consume_from_where: ConsumeFromWhere


@define(eq=False, repr=False, kw_only=True)
class Receiving:
    """The receives of one consumer, and what becomes of their messages. Safe from any thread.

    Nothing here blocks, and every failure is in the future.
    """

    _engine: ClientInstance
    _group: str
    _subscriptions: SubscriptionTable
    _limits: BodyLimits
    _hooks: Hooks
    _calls: PopCalls = field(init=False)
    _acks: Acks = field(init=False)
    _turn: count[int] = field(factory=count, init=False)
    _broker_turns: defaultdict[str, count[int]] = field(
        factory=lambda: defaultdict(count), init=False
    )
    _lock: threading.Lock = field(factory=threading.Lock, init=False)
    _replaced: OrderedDict[str, None] = field(factory=OrderedDict, init=False)

    def __attrs_post_init__(self) -> None:
        self._calls = PopCalls(self._engine, self._group)
        self._acks = Acks(self._engine, self._group, self._calls)

    # --- receiving -------------------------------------------------------------------------

    def receive(self, terms: Terms, wait_ms: int) -> Future[list[MessageExt]]:
        """Pop at the next broker of the next topic, which keeps the pop for so long.

        `IllegalStateError` when no topic is subscribed, `NoRouteError` when nobody knows it.
        """
        result: CallbackFuture[list[MessageExt]] = CallbackFuture(self._engine)
        topics = sorted(one for one in self._subscriptions.topics() if not is_retry_topic(one))
        if not topics:
            nothing = f"group {self._group}: no topic is subscribed, so there is nothing to receive"
            result.set_exception(IllegalStateError(nothing))
            return result
        topic = topics[next(self._turn) % len(topics)]
        pop = partial(self._pop, topic, terms, wait_ms, result)
        if self._engine.routes.subscribe_queues(topic) is not None:
            pop()
        elif not self._engine.submit_background(pop):  # a name server must be asked
            result.set_exception(self._crowded())
        return result

    def _pop(
        self, topic: str, terms: Terms, wait_ms: int, result: Future[list[MessageExt]]
    ) -> None:
        pops = Pops(
            self._calls,
            self._subscriptions,
            terms,
            self._acks.unwanted,
            self._group,
            self._hooks,
            wait_ms,
        )
        try:
            lane = PopLane(self._next_queue(topic), monotonic)
            answer = pops.ask(lane)
        except Exception as error:  # noqa: BLE001 - of hooks too: it belongs to whoever waits
            result.set_exception(error)
            return
        if answer is None:  # unsubscribed meanwhile
            result.set_result([])
        else:
            self._when_answered(answer, partial(self._read, pops, lane), result)

    def _next_queue(self, topic: str) -> MessageQueue:
        """Give what stands for all queues of the broker whose turn it is; may ask for a route."""
        routes = self._engine.routes
        if routes.subscribe_queues(topic) is None:
            routes.route(topic)
        brokers = sorted({queue.broker_name for queue in routes.subscribe_queues(topic) or ()})
        if not brokers:
            raise NoRouteError(
                f"topic {topic} has no queue that can be read now: does it exist?",
                response_code=ResponseCode.NOT_FOUND_TOPIC_EXCEPTION,
                topic=topic,
            )
        turn = next(self._broker_turns[topic])
        return MessageQueue(topic, brokers[turn % len(brokers)], ALL_QUEUES)

    def _read(self, pops: Pops, lane: PopLane, answer: RemotingCommand) -> list[MessageExt]:
        """Give the messages of an answer; a body that cannot be decompressed stays as it is."""
        fetched = pops.read(lane, answer)
        if fetched.problem is not None:
            what = f"group {self._group}: a pop of {lane.queue}"
            self._engine.unreachable.failed(lane.queue.broker_name, what, fetched.problem)
        unpacked = Bodies(self._limits).unpacked(fetched.messages)
        for message, error in unpacked.refused:
            logger.warning(
                "group %s: message %s of topic %s cannot be decompressed, so it is given as it is "
                "stored: %s",
                self._group,
                message.msg_id,
                message.topic,
                error,
            )
        for message in unpacked.waiting:
            self._calls.give_back(self._receipt_of(message))
        shown = [*unpacked.shown, *(message for message, _ in unpacked.refused)]
        if shown:
            self._hooks.show_polled(self._group, lane.queue, shown)
        return shown

    # --- settling --------------------------------------------------------------------------

    def ack(self, message: MessageExt) -> Future[None]:
        """Say that a message is handled; `DeliveryEndedError` when its receipt counts no more."""
        return self._settle(message, self._calls.ask_ack, self._acked)

    def hide(self, message: MessageExt, invisible_ms: int) -> Future[None]:
        """Hide a message for so long from now on; it gets a new receipt. Errors as of `ack`."""
        return self._settle(
            message,
            lambda receipt: self._calls.ask_invisible_time(receipt, invisible_ms),
            self._hidden,
        )

    def _settle(
        self,
        message: MessageExt,
        ask: Callable[[Receipt], Future[RemotingCommand]],
        read: Callable[[MessageExt, Receipt, RemotingCommand], None],
    ) -> Future[None]:
        result: CallbackFuture[None] = CallbackFuture(self._engine)
        try:
            receipt = self._receipt_of(message)
        except RocketMQError as error:
            result.set_exception(error)
            return result
        known = self._engine.routes.broker_address(receipt.handle.broker_name, only_this=True)

        def begin() -> None:
            try:
                answer = ask(receipt)
            except Exception as error:  # noqa: BLE001 - of hooks too: it belongs to whoever waits
                result.set_exception(error)
            else:
                self._when_answered(answer, partial(read, message, receipt), result)

        if known is not None:
            begin()
        elif not self._engine.submit_background(begin):
            result.set_exception(self._crowded())
        return result

    def _receipt_of(self, message: MessageExt) -> Receipt:
        handle = message.properties.get(Prop.POP_CK, "")
        with self._lock:
            is_replaced = handle in self._replaced
        if is_replaced:
            raise DeliveryEndedError(
                f"receipt {handle!r} of message {message.msg_id} was replaced when its invisible "
                "time was changed: use the message that was changed, which has the new one"
            )
        try:
            receipt = Receipt.of(message.topic, PopHandle.parse(handle))
        except ValueError:
            receipt = None
        if receipt is None:
            raise DeliveryEndedError(
                f"message {message.msg_id} has no receipt of a pop (property {Prop.POP_CK} is "
                f"{handle!r}): only what a receive has returned can be settled"
            )
        return receipt

    def _acked(self, message: MessageExt, receipt: Receipt, answer: RemotingCommand) -> None:
        if not read_ack(answer, receipt.topic):
            raise self._gone(message)

    def _hidden(self, message: MessageExt, receipt: Receipt, answer: RemotingCommand) -> None:
        fresh = read_invisible_time(answer, receipt)
        if fresh is None:
            raise self._gone(message)
        with self._lock:
            self._replaced[message.properties[Prop.POP_CK]] = None
            if len(self._replaced) > REPLACED_MAX:
                self._replaced.popitem(last=False)
            message.properties[Prop.POP_CK] = fresh.handle.text()

    def _gone(self, message: MessageExt) -> DeliveryEndedError:
        return DeliveryEndedError(
            f"message {message.msg_id} of topic {message.topic} is not hidden by this receipt any "
            "more: its broker does not have it, or has given it to somebody else"
        )

    # --- answers ---------------------------------------------------------------------------

    def _when_answered(
        self,
        answer: Future[RemotingCommand],
        read: Callable[[RemotingCommand], _T],
        result: Future[_T],
    ) -> None:
        """Read an answer, not on the thread that has it unless the client ends."""

        def decide() -> None:
            try:
                outcome = read(answer.result())
            except Exception as error:  # noqa: BLE001 - of hooks and peers: it is the outcome
                result.set_exception(error)
            else:
                result.set_result(outcome)

        def leave_thread(_: Future[RemotingCommand]) -> None:
            if not self._engine.submit(decide):
                decide()

        answer.add_done_callback(leave_thread)

    def _crowded(self) -> ClientClosedError:
        return ClientClosedError("the client is shut down, or has too much to do")
