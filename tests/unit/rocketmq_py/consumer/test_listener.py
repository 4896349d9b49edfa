from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Annotated, Any, cast

import pytest

from rocketmq_py.consumer.core.delivery import Delivery
from rocketmq_py.consumer.listener import (
    ConsumeConcurrentlyContext,
    ConsumeConcurrentlyStatus,
    DeliveryListener,
    Listening,
    MessageListenerConcurrently,
    MessageListenerOrderly,
    MessageSelector,
    listening_of,
)
from rocketmq_py.errors import UnsupportedOperationError
from rocketmq_py.message import MessageExt
from rocketmq_py.send_result import MessageQueue

OK = ConsumeConcurrentlyStatus.CONSUME_SUCCESS
CONTEXT = ConsumeConcurrentlyContext(MessageQueue("T", "broker-a", 0))


class Snake:
    def consume_message(
        self, messages: Sequence[MessageExt], context: ConsumeConcurrentlyContext
    ) -> ConsumeConcurrentlyStatus:
        return OK


class Java:
    def consumeMessage(  # noqa: N802
        self,
        msgs: Sequence[MessageExt],
        context: ConsumeConcurrentlyContext,
    ) -> ConsumeConcurrentlyStatus:
        return OK


def plain(
    messages: Sequence[MessageExt], context: ConsumeConcurrentlyContext
) -> ConsumeConcurrentlyStatus:
    return OK


@pytest.mark.parametrize(
    "listener",
    [plain, lambda _messages, _context: OK, Snake(), Java(), MessageListenerConcurrently(plain)],
    ids=["function", "lambda", "snake", "java", "wrapper"],
)
def test_every_listener_shape_is_called_with_messages_and_context(listener: Any) -> None:
    assert listening_of(listener).function([], CONTEXT) is OK


async def coroutine(messages: object, context: object) -> None: ...


@pytest.mark.parametrize(
    ("listener", "hint"),
    [
        (Snake, "is a class"),
        (42, "is no listener"),
        (lambda _messages: OK, "called with"),
        (lambda: OK, "called with"),
        (coroutine, "coroutine"),
        (DeliveryListener(cast("Any", coroutine)), "coroutine"),
        (DeliveryListener(cast("Any", 42)), "int is no listener"),
        (DeliveryListener(cast("Any", plain)), "called with one Delivery"),
        (MessageListenerOrderly(DeliveryListener(cast("Any", 42))), "int is no listener"),
    ],
    ids=[
        "class",
        "number",
        "one argument",
        "no argument",
        "coroutine",
        "wrapped coroutine",
        "wrapped number",
        "wrapped two arguments",
        "wrapped twice",
    ],
)
def test_what_cannot_be_a_listener_is_refused_when_it_is_registered(
    listener: object, hint: str
) -> None:
    with pytest.raises(TypeError, match=hint):
        listening_of(cast("Any", listener))


def settling(delivery: Delivery) -> None: ...


def annotated(it: Delivery) -> None: ...


@pytest.mark.parametrize("of", [MessageListenerConcurrently, MessageListenerOrderly, None])
@pytest.mark.parametrize(
    ("listener", "function"),
    [(settling, settling), (annotated, annotated), (DeliveryListener(cast("Any", max)), max)],
    ids=["its name", "its annotation", "the wrapper"],
)
def test_a_listener_of_deliveries_is_called_with_one_whatever_says_so_and_wraps_it(
    of: Callable[..., object] | None, listener: object, function: object
) -> None:
    wrapped = listener if of is None else of(listener)
    assert listening_of(wrapped) == Listening(
        cast("Any", function), is_orderly=of is MessageListenerOrderly, settles=True
    )


def test_the_wrapper_of_a_listener_of_deliveries_can_be_called_itself() -> None:
    got: list[object] = []
    one: Any = object()
    DeliveryListener(got.append)(one)
    assert got == [one]


def test_an_annotation_without_a_hash_makes_no_listener_impossible() -> None:
    def listener(messages: object, context: object) -> ConsumeConcurrentlyStatus:
        return OK

    listener.__annotations__["messages"] = Annotated[Sequence[MessageExt], {"batch": 4}]
    assert listening_of(listener) == Listening(listener)


def returns_nothing(messages: object, context: object) -> None: ...


def returns_truth(messages: object, context: object) -> bool:
    return True


class Silent:
    def consume_message(self, messages: object, context: object) -> None: ...


def real_annotation(kind: object) -> object:
    def listener(messages: object, context: object) -> object: ...

    listener.__annotations__["return"] = kind
    return listener


@pytest.mark.parametrize(
    ("listener", "kind"),
    [
        (returns_nothing, "None"),
        (returns_truth, "bool"),
        (Silent(), "None"),
        (MessageListenerConcurrently(cast("Any", returns_nothing)), "None"),
        (real_annotation(None), "None"),
        (real_annotation(bool), "bool"),
    ],
    ids=["none", "bool", "object", "wrapper", "real none", "real bool"],
)
def test_a_listener_that_can_never_succeed_is_refused_when_it_is_registered(
    listener: object, kind: str
) -> None:
    with pytest.raises(TypeError, match=f"returns {kind}, so .*CONSUME_SUCCESS"):
        listening_of(cast("Any", listener))


def test_a_listener_that_says_nothing_about_its_result_is_taken() -> None:
    assert listening_of(lambda _messages, _context: None) is not None


def test_a_callable_without_a_signature_is_taken_as_it_is() -> None:
    builtin: Any = max
    assert listening_of(builtin).function == builtin


def test_a_listener_base_without_a_function_says_what_to_do() -> None:
    with pytest.raises(UnsupportedOperationError, match="override it"):
        MessageListenerConcurrently().consume_message([], CONTEXT)


def test_a_selector_by_tag_keeps_the_expression() -> None:
    assert MessageSelector.byTag("a || b") == MessageSelector.by_tag("a || b")
    assert MessageSelector.by_tag("a").expression_type == "TAG"


def test_a_fresh_context_acknowledges_everything() -> None:
    assert CONTEXT.ack_index == 2**31 - 1
    assert CONTEXT.delay_level_when_next_consume == 0


class _OnlyJava(MessageListenerConcurrently):
    def consumeMessage(  # noqa: N802
        self, msgs: Sequence[MessageExt], context: ConsumeConcurrentlyContext
    ) -> ConsumeConcurrentlyStatus:
        return OK


def test_a_listener_base_with_nothing_to_call_is_refused_when_it_is_registered() -> None:
    class Nothing(MessageListenerConcurrently):
        pass

    number: Any = 5
    for listener in (Nothing(), MessageListenerConcurrently(), MessageListenerConcurrently(number)):
        with pytest.raises(TypeError, match="is no listener"):
            listening_of(listener)


def test_what_a_listener_base_wraps_is_looked_at_too() -> None:
    one_argument: Any = lambda _messages: OK  # noqa: E731 - what a program writes
    with pytest.raises(TypeError, match="called with"):
        listening_of(MessageListenerConcurrently(one_argument))


def test_a_listener_base_may_be_overridden_under_javas_name() -> None:
    assert listening_of(_OnlyJava()).function([], CONTEXT) is OK
