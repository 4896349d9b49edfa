"""What each property does to each kind of ONS client: the settings of the SDK that it becomes.

The tables below are all there is: a property has a row, or a refusal that says why. What is unknown
is refused, too. One that concerns another kind of client is left to that one, since programs share
their properties. Keys and channel are read in `access`. Must not know what clients do.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import timedelta
from difflib import get_close_matches
from functools import partial
from typing import Any, Final, TypeAlias

from attrs import frozen

from compat.ons.access import Access
from compat.ons.properties import (
    KNOWN,
    PropertyKeyConst,
    PropertyValueConst,
    int_of,
    namespace_of,
    switch_of,
    text_of,
)
from rocketmq_py import MessageModel
from rocketmq_py.errors import ConfigError, ONSClientException

PRODUCER_GROUP_DEFAULT: Final = "__ONS_PRODUCER_DEFAULT_GROUP"
MAX_DELAY_DAYS_DEFAULT: Final = 40

Reader: TypeAlias = Callable[[Mapping[str, str], str], Any]
"""Gives the setting that a property becomes; None leaves the SDK's default."""

_Key = PropertyKeyConst


@frozen
class Row:
    """One property: the setting that it becomes, and how its value is read."""

    key: str
    setting: str
    read: Reader


@frozen
class ClientKind:
    """One kind of client: its name in texts, its rows, and what is refused for it alone."""

    name: str
    rows: tuple[Row, ...]
    refused: Mapping[str, Callable[[str], str | None]]


def _text(properties: Mapping[str, str], key: str) -> str | None:
    return text_of(properties, key) or None


def _number(default: int | None = None) -> Reader:
    def read(properties: Mapping[str, str], key: str) -> int | None:
        return int_of(properties, key, 0) if text_of(properties, key) else default

    return read


def _seconds(properties: Mapping[str, str], key: str) -> int:
    return int_of(properties, key, 0) * 1000


def _clamped(default: int, low: int, high: int) -> Reader:
    """Read a number that counts as the nearest one within its limits, as in Java."""

    def read(properties: Mapping[str, str], key: str) -> int:
        return max(low, min(high, int_of(properties, key, default)))

    return read


def _switch(*, default: bool) -> Reader:
    return partial(switch_of, default=default)


def _namespace(properties: Mapping[str, str], _key: str) -> str:
    return namespace_of(properties)


def _max_delay(properties: Mapping[str, str], key: str) -> timedelta:
    days = int_of(properties, key, MAX_DELAY_DAYS_DEFAULT)
    if days < 1:
        raise ONSClientException(f"property {key} = {days} must be 1 or more")
    return timedelta(days=days)


def _producer_group(properties: Mapping[str, str], key: str) -> str:
    return (
        text_of(properties, key) or text_of(properties, _Key.ProducerId) or PRODUCER_GROUP_DEFAULT
    )


def _consumer_group(properties: Mapping[str, str], key: str) -> str:
    group = text_of(properties, key) or text_of(properties, _Key.ConsumerId)
    if not group:
        raise ONSClientException("a consumer needs the property GROUP_ID")
    return group


def _model(properties: Mapping[str, str], key: str) -> MessageModel:
    model = text_of(properties, key) or PropertyValueConst.CLUSTERING
    try:
        return MessageModel(model)
    except ValueError:
        raise ValueError(f"property {key} = {model!r} must be CLUSTERING or BROADCASTING") from None


_CLIENT: Final = (
    Row(_Key.NAMESRV_ADDR, "namesrv_addr", text_of),
    Row(_Key.ONSAddr, "namesrv_domain", text_of),
    Row(_Key.INSTANCE_ID, "namespace", _namespace),
    Row(_Key.InstanceName, "instance_name", _text),
    Row(_Key.isVipChannelEnabled, "vip_channel_enabled", _switch(default=False)),
    Row(_Key.MsgTraceSwitch, "enable_trace", _switch(default=True)),
)


def _producer(timeout_ms: int) -> tuple[Row, ...]:
    return (
        *_CLIENT,
        Row(_Key.GROUP_ID, "producer_group", _producer_group),
        Row(_Key.SendMsgTimeoutMillis, "send_msg_timeout", _number(timeout_ms)),
        Row(_Key.MaxDelayDays, "max_delay", _max_delay),
    )


_CONSUMER: Final = (
    *_CLIENT,
    Row(_Key.GROUP_ID, "consumer_group", _consumer_group),
    Row(_Key.MessageModel, "message_model", _model),
    Row(_Key.MAX_BATCH_MESSAGE_COUNT, "pull_batch_size", _number()),
    Row(_Key.PostSubscriptionWhenPull, "post_subscription_when_pull", _switch(default=False)),
)


def _push(reconsume_times: int) -> tuple[Row, ...]:
    return (
        *_CONSUMER,
        Row(_Key.ConsumeThreadNums, "consume_thread_min", _number(20)),
        Row(_Key.ConsumeThreadNums, "consume_thread_max", _number(20)),
        Row(_Key.MaxReconsumeTimes, "max_reconsume_times", _number(reconsume_times)),
        Row(_Key.ConsumeTimeout, "consume_timeout", _number(15)),
        Row(_Key.MaxCachedMessageAmount, "pull_threshold_for_topic", _clamped(5000, 100, 50_000)),
        Row(
            _Key.MaxCachedMessageSizeInMiB,
            "pull_threshold_size_for_topic",
            _clamped(512, 16, 2048),
        ),
    )


_UNLIMITED: Final = -1
"""A message in order comes again until it is handled, unless a limit is set."""


# --- refusals ------------------------------------------------------------------------------------


def _any(reason: str) -> Callable[[str], str | None]:
    return lambda _value: reason


def _unless(harmless: str, reason: str) -> Callable[[str], str | None]:
    return lambda value: None if value.lower() == harmless.lower() else reason


REFUSED: Final[Mapping[str, Callable[[str], str | None]]] = {
    _Key.EXACTLYONCE_DELIVERY: _unless("false", "exactly-once is not offered"),
    _Key.RAM_ROLE_NAME: _any(
        "keys of a RAM role are not fetched: set AccessKey, SecretKey and SecurityToken, and renew "
        "them by update_credential"
    ),
    _Key.LANGUAGE_IDENTIFIER: _any("requests say that they come from Python: leave it out"),
    _Key.MQType: _unless("METAQ", "only METAQ is offered"),
    _Key.AUTO_COMMIT_INTERVAL_MILLIS: _any(
        "with autoCommit each poll commits what earlier ones have returned: leave it out"
    ),
}
"""Property to what says, of its value, why it is refused; None where the value asks nothing."""

PRODUCER: Final = ClientKind("a producer", _producer(5000), {})
ORDER_PRODUCER: Final = ClientKind("an order producer", _producer(3000), {})
TRANSACTION_PRODUCER: Final = ClientKind("a transaction producer", _producer(3000), {})
CONSUMER: Final = ClientKind("a consumer", _push(16), {})
BATCH_CONSUMER: Final = ClientKind(
    "a batch consumer",
    (
        *_push(16),
        Row(_Key.ConsumeMessageBatchMaxSize, "consume_message_batch_max_size", _number()),
        Row(_Key.BatchConsumeMaxAwaitDurationInSeconds, "consume_message_batch_max_wait", _seconds),
    ),
    {},
)
ORDER_CONSUMER: Final = ClientKind(
    "an order consumer",
    (
        *_push(_UNLIMITED),
        Row(_Key.SuspendTimeMillis, "suspend_current_queue_time_millis", _number(1000)),
    ),
    {
        _Key.MessageModel: _unless(
            "CLUSTERING", "an order consumer shares the messages of its group"
        )
    },
)
PULL_CONSUMER: Final = ClientKind(
    "a pull consumer",
    (
        *_CONSUMER,
        Row(_Key.MaxCachedMessageAmount, "pull_threshold_for_all", _clamped(5000, 100, 50_000)),
        Row(
            _Key.MaxCachedMessageSizeInMiB,
            "pull_threshold_size_for_queue",
            _clamped(512, 16, 1024),
        ),
        Row(_Key.AUTO_COMMIT, "auto_commit", _switch(default=True)),
        Row(_Key.POLL_TIMEOUT_MILLIS, "poll_timeout_millis", _number()),
    ),
    {_Key.ConsumeThreadNums: _any("a pull consumer has no threads of listeners: leave it out")},
)
KINDS: Final = (
    *(PRODUCER, ORDER_PRODUCER, TRANSACTION_PRODUCER),
    *(CONSUMER, BATCH_CONSUMER, ORDER_CONSUMER, PULL_CONSUMER),
)


# --- reading -------------------------------------------------------------------------------------


def check(kind: ClientKind, properties: Mapping[str, str]) -> None:
    """Raise ONSClientException for a property that is not known, or asks what is not offered."""
    for key in properties:
        if key not in KNOWN:
            near = get_close_matches(key, KNOWN, n=1)
            hint = f"did you mean {near[0]}?" if near else "PropertyKeyConst has all names"
            raise ONSClientException(f"property {key!r} is not known: {hint}")
        value = text_of(properties, key)
        refusal = kind.refused.get(key) or REFUSED.get(key)
        reason = refusal(value) if value and refusal else None
        if reason is not None:
            raise ONSClientException(f"property {key} = {value!r} of {kind.name}: {reason}")


def settings_of(kind: ClientKind, properties: Mapping[str, str], access: Access) -> dict[str, Any]:
    """Give the settings of the SDK's client; ONSClientException for what cannot be one."""
    check(kind, properties)
    read = {row.setting: row.read(properties, row.key) for row in kind.rows}
    return {
        **{setting: value for setting, value in read.items() if value is not None},
        "credentials": access.source,
        "rpc_hooks": access.hooks,
        "access_channel": access.trace_channel,
    }


def producer_settings(
    kind: ClientKind, properties: Mapping[str, str], access: Access
) -> dict[str, Any]:
    """Give the settings of a producer of any kind: this is where those of all of them belong."""
    return settings_of(kind, properties, access) | {"delay_policy": "as_java"}


@contextmanager
def named_by_property(kind: ClientKind) -> Iterator[None]:
    """Name the property, in an error of the SDK about the setting that it became."""
    try:
        yield
    except ConfigError as error:
        keys = [row.key for row in kind.rows if row.setting == error.setting]
        where = f"property {keys[0]}" if keys else "the settings"
        raise ONSClientException(
            f"{where} of {kind.name}: {error.setting} = {error.value!r} is not possible: "
            f"{error.limit}"
        ) from error
