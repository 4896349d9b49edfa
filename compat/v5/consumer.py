"""What the consumers of the 5.0 API have in common: filters and subscriptions.

Must not know how messages reach the program: `push_consumer` and `simple_consumer` derive from
`Consumer`.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from types import MappingProxyType
from typing import ClassVar, Final, Protocol, Self

from attrs import field, frozen
from attrs.validators import instance_of

from compat.v5.client import Client, ClientConfiguration, Engine
from compat.v5.errors import IllegalArgumentException, translated
from rocketmq_py import MessageSelector
from rocketmq_py.errors import UnsupportedError

ALL: Final = "*"


class FilterType(IntEnum):
    """How a `FilterExpression` is read."""

    TAG = 1
    SQL = 2
    SQL92 = SQL


@frozen
class FilterExpression:
    """Which messages of a topic are wanted: tags separated by ``||``, or a condition in SQL92.

    >>> FilterExpression("created || paid")
    FilterExpression(expression='created || paid', filter_type=<FilterType.TAG: 1>)
    """

    TAG_EXPRESSION_SUB_ALL: ClassVar[str] = ALL
    SUB_ALL: ClassVar[FilterExpression]

    expression: str = field(default=ALL, validator=instance_of(str))
    filter_type: FilterType = FilterType.TAG

    @property
    def selector(self) -> str | MessageSelector:
        """The same for the SDK; IllegalArgumentException for a type that it is not of."""
        if self.filter_type is FilterType.TAG:
            return self.expression
        if self.filter_type is not FilterType.SQL:
            raise IllegalArgumentException(f"filter_type {self.filter_type!r} is no FilterType")
        with translated():
            return MessageSelector.by_sql(self.expression)


FilterExpression.SUB_ALL = FilterExpression()


class SubscribingEngine(Engine, Protocol):
    """A consumer of the SDK."""

    def subscribe(self, topic: str, expression: str | MessageSelector | None = ALL) -> None:
        """Subscribe to a topic."""

    def unsubscribe(self, topic: str) -> None:
        """Unsubscribe from a topic."""


class Consumer(Client):
    """Base of both consumers: a group, and what it subscribes."""

    def __init__(
        self,
        client_configuration: ClientConfiguration,
        consumer_group: str,
        engine: SubscribingEngine,
        subscription: Mapping[str, FilterExpression | None],
    ) -> None:
        super().__init__(client_configuration, engine)
        self._consumer_group = consumer_group
        self._subscribing = engine
        self._subscriptions: dict[str, FilterExpression] = {}
        if not isinstance(subscription, Mapping):
            raise TypeError(
                f"subscription is a mapping of topics to filters, not {subscription!r}: "
                "{'topic': FilterExpression()}"
            )
        for topic, expression in subscription.items():
            self.subscribe(topic, expression)

    @property
    def consumer_group(self) -> str:
        """The name of the group."""
        return self._consumer_group

    @property
    def subscription_expressions(self) -> Mapping[str, FilterExpression]:
        """What is subscribed, by topic."""
        return MappingProxyType(self._subscriptions)

    def subscribe(self, topic: str, filter_expression: FilterExpression | None = None) -> None:
        """Subscribe to a topic, or replace its filter; without one all messages are wanted.

        Before the start, or after it. Raises IllegalArgumentException for a filter that cannot be.
        """
        expression = FilterExpression.SUB_ALL if filter_expression is None else filter_expression
        if not isinstance(expression, FilterExpression):
            raise TypeError(
                f"a filter is a FilterExpression, not {type(expression).__name__}: "
                f"FilterExpression({expression!r})"
            )
        with translated():
            self._subscribing.subscribe(topic, expression.selector)
        self._subscriptions = {**self._subscriptions, topic: expression}

    def unsubscribe(self, topic: str) -> None:
        """Unsubscribe from a topic; nothing happens when it is not subscribed."""
        with translated():
            self._subscribing.unsubscribe(topic)
        self._subscriptions = {t: one for t, one in self._subscriptions.items() if t != topic}


class LiteSimpleConsumer:
    """Lite topics need a proxy: making one raises UnsupportedError."""

    def __init__(self, *args: object, **more: object) -> None:
        del args, more
        raise UnsupportedError("lite topics need a proxy: remoting does not have them")


class LitePushConsumer(LiteSimpleConsumer):
    """Lite topics need a proxy: making one raises UnsupportedError."""


class ConsumerBuilder:
    """Base of the builders of both consumers: servers, group and subscription."""

    def __init__(self) -> None:
        self._configuration: ClientConfiguration | None = None
        self._group = ""
        self._subscription: Mapping[str, FilterExpression | None] = {}

    def set_client_configuration(self, client_configuration: ClientConfiguration) -> Self:
        """Set where the servers are."""
        self._configuration = client_configuration
        return self

    def set_consumer_group(self, consumer_group: str) -> Self:
        """Set the name of the group."""
        self._group = consumer_group
        return self

    def set_subscription_expressions(
        self, subscription_expressions: Mapping[str, FilterExpression | None]
    ) -> Self:
        """Set what is subscribed, by topic."""
        self._subscription = subscription_expressions
        return self

    def _checked_configuration(self) -> ClientConfiguration:
        if self._configuration is None:
            raise IllegalArgumentException("set_client_configuration was not called")
        return self._configuration
