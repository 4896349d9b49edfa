"""Java's overloads of constructors and of sends, as forms.

Must not know what is done with the arguments. Read on: ``overloads.py``.
"""

from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Final

import rocketmq_py
from compat.java.listeners import is_callback, is_selector
from compat.java.overloads import Argument, Form
from compat.java.signing import AclClientRPCHook


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

_ATTRIBUTES: Final = Argument(
    "attributes", "attributes", lambda value: value is None or isinstance(value, Mapping)
)
_SYS_FLAG: Final = Argument("topic_sys_flag", "topicSysFlag", _kind(int))
CREATE_TOPIC: Final[tuple[Form, ...]] = ((), (_ATTRIBUTES,), (_SYS_FLAG, _ATTRIBUTES))

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
