"""What follows when a message asks for a delay that will not be kept: an error, a warning, nothing.

The one judge of all ways to send, by the one setting ``delay_policy``. What will not be kept, and
why, is told by ``protocol/delay_doubts.py``. Must not know how a message is sent.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Final, Literal, TypeAlias

from rocketmq_py.clock import wall_ms
from rocketmq_py.errors import DelayValueError
from rocketmq_py.logs import get_logger
from rocketmq_py.protocol.delay import Delay
from rocketmq_py.protocol.delay_doubts import concerns_delay, doubts, is_before_timers, too_old

_log = get_logger(__name__)

DelayPolicy: TypeAlias = Literal["strict", "warn", "as_java"]
"""What follows when a delay will not be kept: ``strict``: an error, and nothing is sent; ``warn``:
one warning for the message, which is sent; ``as_java``: it is sent, without a word."""

DELAY_POLICIES: Final[tuple[DelayPolicy, ...]] = ("strict", "warn", "as_java")

NAMES_MAX: Final = 4_096
"""Names of properties that are remembered as having no part in delays."""

_plain_names: set[str] = set()


def mentions_delay(properties: Mapping[str, str]) -> bool:
    """Whether properties ask for a delay, or look so: a glance that each message can afford."""
    if _plain_names.issuperset(properties):
        return False
    found = False
    for name in properties:
        if concerns_delay(name):
            found = True
        else:
            if len(_plain_names) >= NAMES_MAX:
                _plain_names.clear()
            _plain_names.add(name)
    return found


def judge(
    policy: DelayPolicy, topic: str, properties: Mapping[str, str], known_as: Callable[[], str]
) -> None:
    """Judge the delays of one message, before it is known which broker gets it.

    ``known_as`` gives what a warning names the message by. Raises DelayValueError, and
    DelayConflictError for several delays, if the policy is strict.
    """
    if policy != "as_java":
        _tell(policy, topic, doubts(properties), known_as)


def judge_broker(
    policy: DelayPolicy,
    topic: str,
    timer: Delay,
    known_as: Callable[[], str],
    broker: str,
    version: int,
) -> bool:
    """Judge a timer by the version of the broker that gets it; says whether that is too old.

    Raises DelayValueError, which names the nearest level, if the policy is strict.
    """
    is_old = policy != "as_java" and is_before_timers(version)
    if is_old:
        _tell(policy, topic, (too_old(timer, broker, version, wall_ms()),), known_as)
    return is_old


def _tell(
    policy: DelayPolicy,
    topic: str,
    found: Iterable[DelayValueError],
    known_as: Callable[[], str],
) -> None:
    told = list(found)
    if told and policy == "strict":
        first = told[0]
        reason = f"{first.reason}. delay_policy='strict' refuses it, 'warn' and 'as_java' send it"
        raise type(first)(first.property_name, first.value, reason)
    if told:
        _log.warning(
            "delay_policy topic=%s message=%s: %s", topic, known_as(), "; ".join(map(str, told))
        )
