"""What every consumer of a group can do, whatever hands the messages over: subscribe, start, end.

`GroupConsumer` is the base of the classes that a program holds. It keeps subscriptions and the
running `GroupMember`. It must not know how messages reach the program. Names and rules as in
``MQConsumerInner`` and `org.apache.rocketmq.client.consumer.MQConsumer`.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, ClassVar, Generic, NamedTuple, NoReturn, TypeVar

from rocketmq_py.client.life import Life, Living, Remedy
from rocketmq_py.consumer.hooks import Hooks
from rocketmq_py.consumer.listener import MessageModel, MessageSelector
from rocketmq_py.consumer.subscriptions import SubscriptionTable
from rocketmq_py.errors import (
    BodyError,
    MQClientException,
    NoRouteError,
    NotStartedError,
    UnsupportedOperationError,
)
from rocketmq_py.logs import get_logger
from rocketmq_py.protocol.names import DEFAULT_CONSUMER_GROUP, group_problem, topic_problem
from rocketmq_py.send_result import MessageQueue

if TYPE_CHECKING:
    from collections.abc import Callable

    from rocketmq_py.client.hooks import RPCHook
    from rocketmq_py.client.instance import ClientInstance
    from rocketmq_py.clock import Clock
    from rocketmq_py.consumer.core.member import Dispatch, GroupMember
    from rocketmq_py.consumer.hooks import ConsumeMessageHook, FilterMessageHook
    from rocketmq_py.consumer.settings import ConsumerConfig

logger = get_logger(__name__)

SUBSCRIBE_ALL = "*"
TAG = "TAG"

_BLANK = re.compile(r"\s")
_SIGN = re.compile(r"[<>='\"]")
_SQL = re.compile(
    r"""(?:[<>=]|\bin\s*\(|\bbetween\s)\s*(?:['"\d+-]|true\b|false\b)"""
    r"""|\bis\s+(?:not\s+)?null\b""",
    re.IGNORECASE,
)
"""A comparison with a value: what SQL filters hold, and hardly a tag."""

_Dispatch_co = TypeVar("_Dispatch_co", bound="Dispatch", covariant=True)


class CachedMessages(NamedTuple):
    """Messages that a consumer holds, and the bytes of their bodies."""

    messages: int
    bytes: int


class GroupConsumer(Living, Generic[_Dispatch_co]):
    """A member of a consumer group, before, while and after it runs."""

    _REMEDY: ClassVar[Remedy]
    """How a program stays alive for a consumer of this kind."""
    _SETTINGS: ClassVar[str] = "PushConsumerConfig"

    consumer_group: str
    _clock: Clock
    _rpc_hooks: tuple[RPCHook, ...]

    def __attrs_post_init__(self) -> None:
        self._subscriptions = SubscriptionTable(self._clock)
        self._life = Life(self._who, self._REMEDY)
        self._member: GroupMember[_Dispatch_co] | None = None
        self._hooks = Hooks()

    def register_consume_message_hook(self, hook: ConsumeMessageHook) -> None:
        """Show every call of the listener to ``hook``, and what came of it.

        Of a consumer that is polled: what each poll returns, which counts as handled then.
        """
        self._hooks.consume.append(hook)

    def register_filter_message_hook(self, hook: FilterMessageHook) -> None:
        """Let ``hook`` see, and filter, what each fetch brings."""
        self._hooks.filter.append(hook)

    def subscribe(
        self, topic: str, expression: str | MessageSelector | None = SUBSCRIBE_ALL
    ) -> None:
        """Subscribe to a topic. This works after `start`, too.

        `expression` names tags separated by ``||``; None, "" and ``*`` mean all messages. A
        condition on properties is a `MessageSelector.by_sql`, which a broker is asked about: by
        this call when the consumer runs, else by `start`. A second call for a topic replaces the
        first. Raises MQClientException for an impossible topic or expression,
        UnsupportedOperationError for a condition that is given as tags, TypeError for an expression
        that is no text.
        """
        self._life.check_process()
        problem = topic_problem(topic)
        if problem is not None:
            raise MQClientException(problem, topic=topic)
        kind = TAG
        if isinstance(expression, MessageSelector):
            kind, expression = expression.expression_type, expression.expression
        if kind == TAG:
            _check_tags(topic, expression)
        member = self._member if self._life.state == "running" else None
        try:
            if member is not None:
                member.check(topic, expression, kind)
            self._subscriptions.put(topic, expression, kind)
        except BodyError as error:
            raise MQClientException(f"subscription of {topic}: {error}", topic=topic) from error
        if member is not None:
            member.engine.send_heartbeats(0, group=member.group)
            member.engine.rebalance_soon(member.group)

    def unsubscribe(self, topic: str) -> None:
        """Unsubscribe from a topic. Its queues are given up at the next rebalance."""
        self._life.check_process()
        self._subscriptions.remove(topic)
        if self._member is not None and self._life.state == "running":
            self._member.engine.rebalance_soon(self._member.group)

    def fetch_subscribe_message_queues(self, topic: str) -> list[MessageQueue]:
        """Return the readable queues of a topic; NoRouteError when nobody knows it."""
        routes = self._running().engine.routes
        routes.route(topic)
        queues = routes.subscribe_queues(topic)
        if queues is None:
            raise NoRouteError(f"no route of topic {topic}: does it exist?", topic=topic)
        return sorted(queues)

    def assigned_queues(self) -> list[MessageQueue]:
        """Return the queues that this member has now, the retry topic's included.

        Of a topic that is popped a queue with the number -1 stands for all of its broker.
        """
        return sorted(self._running().rebalancer.queues())

    def cached(self) -> dict[str, CachedMessages]:
        """Say what waits for the program, or is in its hands, of each topic whose queues it has.

        Messages of a retry topic count with it; {} while the consumer does not run.
        """
        if self._member is None or self._life.state != "running":
            return {}
        found: dict[str, CachedMessages] = {}
        for lane in self._member.lanes:
            messages, size = found.get(lane.queue.topic, CachedMessages(0, 0))
            found[lane.queue.topic] = CachedMessages(messages + lane.count, size + lane.size)
        return found

    def __reduce__(self) -> NoReturn:
        kind = self._SETTINGS
        raise TypeError(
            f"a consumer cannot be pickled: pickle {kind}.of(consumer), start one there"
        )

    @property
    def client_id(self) -> str:
        """Name of this client in its group; NotStartedError before the start."""
        self._life.check_process()
        if self._member is None:
            raise NotStartedError("the client id is made by start()")
        return self._member.engine.client_id

    # --- inside -------------------------------------------------------------------------------

    def _check_group(self) -> None:
        """Raise MQClientException for a name that a group cannot have."""
        problem = group_problem(self.consumer_group)
        if problem is None and self.consumer_group == DEFAULT_CONSUMER_GROUP:
            problem = f"consumer_group must not be {DEFAULT_CONSUMER_GROUP}: choose a name"
        if problem is not None:
            raise MQClientException(problem)

    def _join(
        self,
        settings: ConsumerConfig,
        make: Callable[[ClientInstance], GroupMember[_Dispatch_co]],
        *,
        stream: bool = False,
    ) -> None:
        """Make the member and let it join its group, inside a start."""
        from rocketmq_py.client.pool import acquire_instance

        instance = acquire_instance(
            settings,
            self._rpc_hooks,
            keep_instance_name=settings.message_model is MessageModel.BROADCASTING,
            stream=stream,
        )
        try:
            member = make(instance)
            instance.register_consumer(self.consumer_group, member)
        except BaseException:
            instance.shutdown()
            raise
        settings._fix()  # noqa: SLF001 - they are this object itself
        self._member = member
        self._life.at_end(instance.shutdown)
        self._life.at_end(member.end)
        instance.start()
        member.start()

    def _who(self) -> str:
        return f"consumer of group {self.consumer_group}"

    def _joined(self) -> GroupMember[_Dispatch_co]:
        """Return the member that `_join` has made."""
        if self._member is None:
            raise self._life.refusal()
        return self._member

    def _running(self) -> GroupMember[_Dispatch_co]:
        self._life.check_process()
        member = self._member
        if member is not None and self._life.state == "running":
            return member
        raise self._life.refusal()


class PushedConsumer(GroupConsumer[_Dispatch_co]):
    """A member whose messages reach the program as they come, until it says stop."""

    def suspend(self) -> None:
        """Stop fetching; messages that are here already still reach the program. Never blocks."""
        self._running().intake.suspend()

    def resume(self) -> None:
        """Fetch again, and rebalance. Never blocks."""
        member = self._running()
        member.intake.resume()
        member.engine.rebalance_soon(member.group)


def _check_tags(topic: str, expression: object) -> None:
    """Refuse conditions, and warn of tags that are hardly meant so.

    A tag may hold blanks, quotes and signs, and would match a message that has just this tag.
    """
    if expression is None:
        return
    if not isinstance(expression, str):
        kind = type(expression).__name__
        raise TypeError(f"subscription of {topic}: an expression is a str, not {kind}")
    for tag in filter(None, map(str.strip, expression.split("||"))):
        if _BLANK.search(tag) and _SQL.search(tag):
            raise UnsupportedOperationError(
                f"subscription of {topic}: {expression!r} is no tag expression; a condition is "
                "given as MessageSelector.by_sql(...), tags are separated by ||"
            )
        if _BLANK.search(tag) or _SIGN.search(tag):
            logger.warning(
                "subscription of %s: only messages whose tag is just %r match; tags are separated "
                "by ||, and a condition is given as MessageSelector.by_sql(...)",
                topic,
                tag,
            )
