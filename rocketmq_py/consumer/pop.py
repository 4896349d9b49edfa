"""The consumer that pops when it is asked, and whose messages are settled one by one.

The SDK's face of what 5.0 calls a simple consumer. It checks what the program says, joins the group
and leaves it; pops and receipts are ``core/receiving.py``. This module must not know requests.
"""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import Future
from datetime import timedelta
from typing import TYPE_CHECKING, ClassVar

from attrs import define, field, setters

from rocketmq_py.client.hooks import RPCHook, as_hooks
from rocketmq_py.client.life import Client, Remedy
from rocketmq_py.clock import Clock, a_clock
from rocketmq_py.config import explained
from rocketmq_py.consumer.face import GroupConsumer
from rocketmq_py.consumer.listener import MessageModel
from rocketmq_py.consumer.polling import checked_wait
from rocketmq_py.consumer.settings import INVISIBLE_MAX_MS, POP_BATCH_MAX, PopConsumerConfig
from rocketmq_py.errors import ConfigError
from rocketmq_py.message import MessageExt
from rocketmq_py.protocol.names import DEFAULT_CONSUMER_GROUP

if TYPE_CHECKING:
    from rocketmq_py.consumer.core.receiving import Receiving
    from rocketmq_py.consumer.dispatch.inbox import Inbox

    _Consumer = GroupConsumer[Inbox]
else:
    _Consumer = GroupConsumer

POLL_MAX_MS = 30_000
"""The longest time that a broker keeps a pop."""


@explained
@define(eq=False, repr=False, slots=False, on_setattr=setters.NO_OP)
class DefaultPopConsumer(PopConsumerConfig, _Consumer, Client):
    """Receives messages of a group when the program asks, and settles each by itself.

    `consumer_group` names the group, whose members share the messages: brokers give each message to
    whoever asks first, and hide it from the others for an invisible time. `ack` says that it is
    handled. What is not acked in time comes again, to any member, so **delivery is at least once**.
    There are no dead letters: `MessageExt.reconsume_times` says how often a message came before,
    and the program decides. Nothing is fetched before `receive` is called, and queues are neither
    shared nor pulled. Brokers before 5.0 refuse pops.

    Java's ``SimpleConsumer`` of the 5.0 client, whose names `compat.v5` has. The settings are
    keyword arguments, and attributes.

    >>> from rocketmq_py import DefaultPopConsumer
    >>> consumer = DefaultPopConsumer("mailer", namesrv_addr="127.0.0.1:9876")
    >>> consumer.subscribe("Mails", "welcome || reminder")
    """

    _REMEDY: ClassVar[Remedy] = Remedy(to_stay="receive in a loop")
    _SETTINGS: ClassVar[str] = "PopConsumerConfig"
    FIXED_BY_START: ClassVar[Mapping[str, str]] = {
        **PopConsumerConfig.FIXED_BY_START,
        "consumer_group": "",
    }

    consumer_group: str = DEFAULT_CONSUMER_GROUP
    _clock: Clock = field(default=None, alias="clock", kw_only=True, converter=a_clock)
    _rpc_hooks: tuple[RPCHook, ...] = field(
        default=(), alias="rpc_hooks", kw_only=True, converter=as_hooks
    )

    @property
    def config(self) -> PopConsumerConfig:
        """The settings, which are the consumer itself; `PopConsumerConfig.of` makes a copy."""
        return self

    def __repr__(self) -> str:
        return f"DefaultPopConsumer({self.consumer_group!r}, {self._life.state})"

    def start(self) -> None:
        """Join the group. Raises as a push consumer's start."""
        from rocketmq_py.consumer.assembly import Basis, pop_member
        from rocketmq_py.consumer.core.receiving import Receiving

        with self._life.starting():
            self._check_group()
            if self.message_model is MessageModel.BROADCASTING:
                raise ConfigError(
                    "message_model",
                    self.message_model,
                    "must be CLUSTERING: brokers keep receipts of a group, not of its members",
                )
            group, subscriptions = self.consumer_group, self._subscriptions
            self._join(
                self,
                lambda engine: pop_member(
                    Basis(group, engine, self, subscriptions, self._clock, self._hooks)
                ),
            )
            self._receiving: Receiving = Receiving(
                engine=self._joined().engine,
                group=group,
                subscriptions=subscriptions,
                limits=self,
                hooks=self._hooks,
            )

    # --- messages -----------------------------------------------------------------------------

    def receive(
        self,
        max_messages: int | None = None,
        *,
        invisible: int | timedelta | None = None,
        wait: int | timedelta | None = None,
    ) -> list[MessageExt]:
        """Return up to ``max_messages`` messages of one topic; [] when none came in time.

        They are hidden from the group for ``invisible``, and ``wait`` is how long their broker is
        to wait for the first one, up to 30 s; both in ms, or a timedelta. The defaults are
        `pop_batch_nums`, `pop_invisible_time` and `await_duration`. Topics, and brokers of a topic,
        take turns. Also returns [] when only messages with other tags came. Raises
        `IllegalStateError` without a subscription, `NoRouteError` for a topic that nobody knows,
        `MQBrokerException` for a refusal, `RemotingException` without an answer, ValueError for
        numbers that are out of range.
        """
        return self.receive_async(max_messages, invisible=invisible, wait=wait).result()

    def receive_async(
        self,
        max_messages: int | None = None,
        *,
        invisible: int | timedelta | None = None,
        wait: int | timedelta | None = None,
    ) -> Future[list[MessageExt]]:
        """Ask for messages without waiting; the future gets what `receive` returns or raises.

        Numbers that are out of range raise at once.
        """
        from rocketmq_py.consumer.core.receiving import Terms

        self._running()
        terms = Terms(
            self.pop_batch_nums if max_messages is None else _checked_count(max_messages),
            self.pop_invisible_time if invisible is None else _checked_invisible(invisible),
            self.consume_from_where,
        )
        wait_ms = self.await_duration if wait is None else checked_wait(wait)
        if wait_ms > POLL_MAX_MS:
            raise ValueError(f"a wait of {wait_ms} ms is not possible: {POLL_MAX_MS} ms at most")
        return self._receiving.receive(terms, wait_ms)

    def ack(self, message: MessageExt) -> None:
        """Say that a message is handled, and wait for its broker.

        Raises `DeliveryEndedError` when its receipt does not count any more: it was replaced by
        `change_invisible_time`, or the broker has the message no longer. A broker takes an ack that
        comes after the invisible time without a word; then the message comes again all the same.
        """
        self.ack_async(message).result()

    def ack_async(self, message: MessageExt) -> Future[None]:
        """Say that a message is handled, without waiting; the future gets what `ack` raises."""
        self._running()
        return self._receiving.ack(_checked_message(message))

    def change_invisible_time(self, message: MessageExt, invisible: int | timedelta) -> None:
        """Let a message come again after ``invisible``, in ms or a timedelta, counted from now.

        A longer time keeps it, a short one gives it back. ``message`` gets a new receipt, the old
        one counts no more. Raises as `ack`.
        """
        self.change_invisible_time_async(message, invisible).result()

    def change_invisible_time_async(
        self, message: MessageExt, invisible: int | timedelta
    ) -> Future[None]:
        """Change the time without waiting; the future gets what `change_invisible_time` raises."""
        self._running()
        return self._receiving.hide(_checked_message(message), _checked_invisible(invisible))


def _checked_message(message: object) -> MessageExt:
    if not isinstance(message, MessageExt):
        raise TypeError(f"one message that was received is settled, not {message!r:.200}")
    return message


def _checked_count(count: object) -> int:
    if isinstance(count, bool) or not isinstance(count, int):
        raise TypeError(f"max_messages is a number, not {type(count).__name__} {count!r}")
    if not 1 <= count <= POP_BATCH_MAX:
        raise ValueError(f"max_messages = {count} is not possible: from 1 to {POP_BATCH_MAX}")
    return count


def _checked_invisible(invisible: int | timedelta) -> int:
    span_ms = checked_wait(invisible)
    if not 1 <= span_ms <= INVISIBLE_MAX_MS:
        raise ValueError(
            f"an invisible time of {span_ms} ms is not possible: from 1 to {INVISIBLE_MAX_MS} ms"
        )
    return span_ms
