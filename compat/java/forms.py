"""Which of Java's overloads a call means, told by the number and the kinds of its arguments.

A form is one overload: its arguments in order, each with a name, and what may stand there. Must
not know what is done with them.
"""

from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any, Final, TypeAlias

from attrs import frozen

import rocketmq_py
from compat.java.listeners import is_callback, is_selector
from compat.java.signing import AclClientRPCHook


@frozen
class Argument:
    """One argument of an overload."""

    name: str
    shown: str
    accepts: Callable[[object], bool] = lambda _: True


Form: TypeAlias = tuple[Argument, ...]


def _is_time(value: object) -> bool:
    return isinstance(value, (int, timedelta)) and not isinstance(value, bool)


def _is_hook(value: object) -> bool:
    known = value is None or isinstance(value, AclClientRPCHook)
    return known or (
        not isinstance(value, type) and callable(getattr(value, "before_request", None))
    )


def _kind(*kinds: type) -> Callable[[object], bool]:
    return lambda value: isinstance(value, kinds)


TIMEOUT: Final = Argument("timeout", "timeout", _is_time)
QUEUE: Final = Argument("queue", "mq", _kind(rocketmq_py.MessageQueue))
SELECTOR: Final = Argument("selector", "selector", is_selector)
ARG: Final = Argument("arg", "arg")
CALLBACK: Final = Argument("callback", "callback", is_callback)

TO: Final[tuple[Form, ...]] = ((), (QUEUE,), (SELECTOR, ARG))
"""Where a message goes."""
ONEWAY: Final = TO
REQUEST: Final[tuple[Form, ...]] = tuple(
    form for to in TO for form in ((*to, TIMEOUT), (*to, CALLBACK, TIMEOUT))
)
SEND: Final[tuple[Form, ...]] = tuple(
    form for to in TO for form in (to, (*to, TIMEOUT), (*to, CALLBACK), (*to, CALLBACK, TIMEOUT))
)
SEND_SEVERAL: Final = tuple(form for form in SEND if SELECTOR not in form)

_TOPIC: Final = Argument("topic", "topic")
_BODY: Final = Argument("body", "body")
_TAGS: Final = Argument("tags", "tags")
_KEYS: Final = Argument("keys", "keys")
_FLAG: Final = Argument("flag", "flag")
_WAIT: Final = Argument("wait_store_msg_ok", "waitStoreMsgOK")
MESSAGE: Final[tuple[Form, ...]] = (
    (),
    (_TOPIC,),
    (_TOPIC, _BODY),
    (_TOPIC, _TAGS, _BODY),
    (_TOPIC, _TAGS, _KEYS, _BODY),
    (_TOPIC, _TAGS, _KEYS, _FLAG, _BODY, _WAIT),
)

_HOOK: Final = Argument("hook", "rpcHook", _is_hook)
_TRACE: Final = Argument("enable_trace", "enableMsgTrace", _kind(bool))
_TRACE_TOPIC: Final = Argument("trace_topic", "traceTopic", _kind(str, type(None)))
_NAMESPACE: Final = Argument("namespace", "namespace", _kind(str, type(None)))
_TRACED: Final = (_TRACE, _TRACE_TOPIC)


def _group(name: str) -> Argument:
    return Argument(name, name.split("_", maxsplit=1)[0] + "Group", _kind(str))


_PRODUCER: Final = _group("producer_group")
_CONSUMER: Final = _group("consumer_group")
_TOPICS: Final = Argument("topics", "topics", _kind(list, tuple, type(None)))
_STRATEGY: Final = Argument(
    "allocate_strategy",
    "allocateMessageQueueStrategy",
    lambda value: callable(getattr(value, "allocate", None)),
)
_TIMEOUT_MILLIS: Final = Argument("timeout_millis", "timeoutMillis", _is_time)

PRODUCER: Final[tuple[Form, ...]] = (
    (),
    (_PRODUCER,),
    (_HOOK,),
    (_PRODUCER, _HOOK),
    (_PRODUCER, _TOPICS),
    (_PRODUCER, _HOOK, _TOPICS),
    (_PRODUCER, *_TRACED),
    (_PRODUCER, _HOOK, *_TRACED),
    (_PRODUCER, _HOOK, _TOPICS, *_TRACED),
    (_NAMESPACE, _PRODUCER),
    (_NAMESPACE, _PRODUCER, _HOOK),
    (_NAMESPACE, _PRODUCER, _HOOK, *_TRACED),
)
LITE_PULL_CONSUMER: Final[tuple[Form, ...]] = (
    (),
    (_CONSUMER,),
    (_HOOK,),
    (_CONSUMER, _HOOK),
    (_NAMESPACE, _CONSUMER),
    (_NAMESPACE, _CONSUMER, _HOOK),
)
PUSH_CONSUMER: Final[tuple[Form, ...]] = (
    *LITE_PULL_CONSUMER,
    (_CONSUMER, *_TRACED),
    (_CONSUMER, _HOOK, _STRATEGY),
    (_CONSUMER, _HOOK, _STRATEGY, *_TRACED),
    (_NAMESPACE, _CONSUMER, _HOOK, _STRATEGY),
    (_NAMESPACE, _CONSUMER, _HOOK, _STRATEGY, *_TRACED),
)
ADMIN: Final[tuple[Form, ...]] = ((), (_TIMEOUT_MILLIS,), (_HOOK,), (_HOOK, _TIMEOUT_MILLIS))


def read(owner: str, forms: Sequence[Form], given: Sequence[object]) -> dict[str, Any]:
    """Give the arguments by name; `TypeError` with all forms when none of them fits."""
    for form in forms:
        if len(form) == len(given) and all(
            argument.accepts(value) for argument, value in zip(form, given, strict=True)
        ):
            return {argument.name: value for argument, value in zip(form, given, strict=True)}
    shown = ", ".join(f"({', '.join(argument.shown for argument in form)})" for form in forms)
    kinds = ", ".join(type(value).__name__ for value in given)
    raise TypeError(f"{owner} takes one of {shown}: not ({kinds})")
