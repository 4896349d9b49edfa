"""The simple consumer of the 5.0 API: it receives when it is asked, and acks each message.

A thin translator over `rocketmq_py.DefaultPopConsumer`. Must not know pops.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from datetime import timedelta
from typing import TYPE_CHECKING, Final, Self

from compat.v5.client import ClientConfiguration, milliseconds_of, settings_of
from compat.v5.consumer import Consumer, ConsumerBuilder, FilterExpression
from compat.v5.errors import IllegalArgumentException, translated, translated_call
from compat.v5.message import MessageView
from rocketmq_py import DefaultPopConsumer, PopConsumerConfig

if TYPE_CHECKING:
    from rocketmq_py import MessageExt

AWAIT_S: Final = 20
AWAIT_MAX_MS: Final = 30_000
BATCH_MAX: Final = 32
INVISIBLE_MAX_MS: Final = 12 * 3_600_000


class SimpleConsumer(Consumer):
    """Receives messages of a group when the program asks, and settles each by itself.

    ``subscription`` maps topics to filters. ``await_duration``: how long `receive` waits for a
    message, in seconds or as a timedelta, up to 30.
    """

    def __init__(
        self,
        client_configuration: ClientConfiguration,
        consumer_group: str,
        subscription: Mapping[str, FilterExpression | None] | None = None,
        await_duration: float | timedelta = AWAIT_S,
        tls_enable: bool = False,
    ) -> None:
        with translated():
            config = PopConsumerConfig(**settings_of(client_configuration, tls_enable=tls_enable))
            self._pops = DefaultPopConsumer.of(config, consumer_group)
        self.await_duration = await_duration
        super().__init__(client_configuration, consumer_group, self._pops, subscription or {})

    @property
    def await_duration(self) -> float:
        """How long `receive` waits for a message, in seconds."""
        return self._pops.await_duration / 1000

    @await_duration.setter
    def await_duration(self, await_duration: float | timedelta) -> None:
        self._pops.await_duration = milliseconds_of(
            await_duration, "await_duration", least_ms=0, most_ms=AWAIT_MAX_MS
        )

    def receive(
        self, max_message_num: int, invisible_duration: float | timedelta
    ) -> list[MessageView]:
        """Return messages of the next topic; [] when none came within `await_duration`.

        They are hidden from the group for ``invisible_duration``, in seconds or as a timedelta, up
        to 12 hours. At most ``max_message_num``, of which a broker gives 32 in one answer. Raises
        IllegalArgumentException for other values and without a subscription.
        """
        wanted, invisible_ms = self._asked(max_message_num, invisible_duration)
        with translated():
            return _views(self._pops.receive(wanted, invisible=invisible_ms))

    def receive_async(
        self, max_message_num: int, invisible_duration: float | timedelta
    ) -> Future[list[MessageView]]:
        """Receive without waiting; the future gets what `receive` returns or raises."""
        wanted, invisible_ms = self._asked(max_message_num, invisible_duration)
        return translated_call(self._pops.receive_async(wanted, invisible=invisible_ms), _views)

    def ack(self, message: MessageView) -> None:
        """Say that a message is handled: it does not come again.

        Raises BadRequestError when its receipt does not count any more.
        """
        with translated():
            self._pops.ack(_core(message))

    def ack_async(self, message: MessageView) -> Future[None]:
        """Ack without waiting; the future gets what `ack` raises."""
        self._check_running()
        return translated_call(self._pops.ack_async(_core(message)), _nothing)

    def change_invisible_duration(
        self, message: MessageView, invisible_duration: float | timedelta
    ) -> None:
        """Let a message come again after a duration from now, in seconds or as a timedelta.

        ``message`` gets a new `MessageView.receipt_handle`. Raises as `ack`.
        """
        with translated():
            self._pops.change_invisible_time(_core(message), _invisible_ms(invisible_duration))

    def change_invisible_duration_async(
        self, message: MessageView, invisible_duration: float | timedelta
    ) -> Future[None]:
        """Change it without waiting; the future gets what the blocking call raises."""
        self._check_running()
        call = self._pops.change_invisible_time_async(
            _core(message), _invisible_ms(invisible_duration)
        )
        return translated_call(call, _nothing)

    def _asked(
        self, max_message_num: int, invisible_duration: float | timedelta
    ) -> tuple[int, int]:
        self._check_running()
        if isinstance(max_message_num, bool) or not isinstance(max_message_num, int):
            raise TypeError(f"max_message_num is a number, not {max_message_num!r}")
        if max_message_num < 1:
            raise IllegalArgumentException(f"max_message_num = {max_message_num}: at least 1")
        if not self.subscription_expressions:
            raise IllegalArgumentException("there is no topic to receive: call subscribe first")
        return min(max_message_num, BATCH_MAX), _invisible_ms(invisible_duration)


class SimpleConsumerBuilder(ConsumerBuilder):
    """Builds a `SimpleConsumer` with the setters of the 5.0 documents; `build` starts it."""

    def __init__(self) -> None:
        super().__init__()
        self._await_duration: float | timedelta = AWAIT_S

    def set_await_duration(self, await_duration: float | timedelta) -> Self:
        """Set how long `SimpleConsumer.receive` waits, in seconds or as a timedelta."""
        self._await_duration = await_duration
        return self

    def build(self) -> SimpleConsumer:
        """Start the consumer."""
        configuration = self._checked_configuration()
        consumer = SimpleConsumer(
            configuration, self._group, self._subscription, self._await_duration
        )
        consumer.startup()
        return consumer


def _invisible_ms(invisible_duration: float | timedelta) -> int:
    return milliseconds_of(
        invisible_duration, "invisible_duration", least_ms=1, most_ms=INVISIBLE_MAX_MS
    )


def _core(message: MessageView) -> MessageExt:
    if not isinstance(message, MessageView):
        raise TypeError(f"only what was received can be settled, not {message!r}")
    return message.core


def _views(messages: Sequence[MessageExt]) -> list[MessageView]:
    return [MessageView(one) for one in messages]


def _nothing(_: None) -> None:
    return None
