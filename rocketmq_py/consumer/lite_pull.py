"""The lite pull consumer: a program asks it for messages when it wants some.

What it can do besides `poll` and `batches` stands in ``polling.py``. Names and rules as in
`org.apache.rocketmq.client.consumer.DefaultLitePullConsumer`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import timedelta
from typing import ClassVar

from attrs import define, field, setters

from rocketmq_py.client.hooks import RPCHook, as_hooks
from rocketmq_py.client.life import Client, Remedy
from rocketmq_py.clock import Clock, a_clock
from rocketmq_py.config import explained
from rocketmq_py.consumer.polling import PollingConsumer
from rocketmq_py.consumer.settings import LitePullConsumerConfig
from rocketmq_py.errors import ClientClosedError
from rocketmq_py.message import MessageExt
from rocketmq_py.protocol.names import DEFAULT_CONSUMER_GROUP
from rocketmq_py.send_result import MessageQueue


@explained
@define(eq=False, repr=False, slots=False, on_setattr=setters.NO_OP)
class DefaultLitePullConsumer(LitePullConsumerConfig, PollingConsumer, Client):
    """Receives messages of a group when the program asks for them by `poll`.

    `consumer_group` names the group. Either `subscribe` topics, whose queues the members of the
    group share, or `assign` queues by hand. The settings are keyword arguments, and attributes.

    **Delivery is at least once.** What a `poll` returned is committed by the next one
    (`auto_commit`), or by `commit`: after a crash the last batch comes again. Nothing is sent back
    to a retry topic, and there are no dead letters.

    Messages are fetched in background, so that a poll finds some.

    >>> from rocketmq_py import DefaultLitePullConsumer
    >>> consumer = DefaultLitePullConsumer("reports", namesrv_addr="127.0.0.1:9876")
    >>> consumer.subscribe("orders", "created || paid")
    """

    _REMEDY: ClassVar[Remedy] = Remedy(to_stay="poll it in a loop")
    _SETTINGS: ClassVar[str] = "LitePullConsumerConfig"
    FIXED_BY_START: ClassVar[Mapping[str, str]] = {
        **LitePullConsumerConfig.FIXED_BY_START,
        "consumer_group": "",
    }

    consumer_group: str = DEFAULT_CONSUMER_GROUP
    _clock: Clock = field(default=None, alias="clock", kw_only=True, converter=a_clock)
    _rpc_hooks: tuple[RPCHook, ...] = field(
        default=(), alias="rpc_hooks", kw_only=True, converter=as_hooks
    )

    @property
    def config(self) -> LitePullConsumerConfig:
        """The settings, which are the consumer itself; `LitePullConsumerConfig.of` copies them."""
        return self

    def __repr__(self) -> str:
        return f"DefaultLitePullConsumer({self.consumer_group!r}, {self._life.state})"

    def start(self) -> None:
        """Join the group, take queues and begin to fetch. Raises as a push consumer's start."""
        self._start()

    def assign(self, queues: Iterable[MessageQueue]) -> None:
        """Read these queues, and no others, whatever the other members of the group read.

        Before the start, and again after it; a further call replaces them. After the start it
        waits until they are taken, so that `seek` may follow, but not for servers that do not
        answer. Raises `IllegalStateError` after `subscribe`, or when the first call comes late.
        """
        super().assign(queues)
        if self.is_running:
            self._running().rebalance()

    # --- messages -----------------------------------------------------------------------------

    def poll(self, timeout: int | timedelta | None = None) -> list[MessageExt]:
        """Return messages of one queue, the oldest that wait; [] when none came in time.

        ``timeout`` in ms, or a timedelta; default: `poll_timeout_millis`. With `auto_commit` what
        earlier polls returned is committed first. Raises `NotStartedError` and `ClientClosedError`.
        """
        poll = self._begin_poll(timeout)
        while (batch := poll.inbox.take(poll.left_s)) is not None:
            messages = self._handed_over(batch, self._bodies.unpacked(batch.messages))
            if messages:
                return messages
        return self._came_to_nothing()

    def batches(self, timeout: int | timedelta | None = None) -> Iterator[list[MessageExt]]:
        """Poll for ever: give what each poll returns, unless it is nothing.

        Ends when the consumer is shut down, by any thread. ``timeout`` as of `poll`: so often it
        looks whether that is so.
        """
        while self.is_running:
            try:
                messages = self.poll(timeout)
            except ClientClosedError:
                return
            if messages:
                yield messages
