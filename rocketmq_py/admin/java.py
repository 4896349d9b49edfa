"""What administrators ask of brokers: themselves, their timers, and who pops.

`DefaultMQAdminExt` of the original, whose calls it has under Python names. A call names the
address it asks; none is looked up. Must not know producers, consumers or topics: what those ask
for themselves is in `client/queries.py`. Read on: `protocol/bodies/timers.py`.
"""

from collections.abc import Callable
from typing import Generic, TypeVar

from attrs import define, field, frozen, setters

from rocketmq_py.client.asking import Address, Asker, Question, nothing
from rocketmq_py.client.caller import Caller
from rocketmq_py.config import explained, in_milliseconds, milliseconds, setting, split_host_port
from rocketmq_py.errors import ConfigError
from rocketmq_py.protocol.bodies.pop import POP, PULL, MessageRequestMode
from rocketmq_py.protocol.bodies.timers import (
    DelayOffsets,
    RuntimeInfo,
    TimerCheckpoint,
    TimerCounts,
)
from rocketmq_py.protocol.bodies.topics import ClusterInfo
from rocketmq_py.protocol.codes import RequestCode

_T = TypeVar("_T")


@frozen
class _ByCode(Generic[_T]):
    """What is asked by a code alone, and how the body of an answer is read."""

    code: RequestCode
    read: Callable[[bytes], _T]


_RUNTIME = _ByCode(RequestCode.GET_BROKER_RUNTIME_INFO, RuntimeInfo.decode)
_DELAY_OFFSETS = _ByCode(RequestCode.GET_ALL_DELAY_OFFSET, DelayOffsets.decode)
_CHECK_POINT = _ByCode(RequestCode.GET_TIMER_CHECK_POINT, TimerCheckpoint.decode)
_METRICS = _ByCode(RequestCode.GET_TIMER_METRICS, TimerCounts.decode)
_CLUSTER = _ByCode(RequestCode.GET_BROKER_CLUSTER_INFO, ClusterInfo.decode)


@explained
@define(kw_only=True, eq=False, repr=False, slots=False, on_setattr=setters.NO_OP)
class DefaultMQAdminExt(Caller):
    """Asks brokers about themselves. Every call is safe from any thread.

    Arguments
    ---------
    timeout_millis
        Budget of one call in milliseconds, from 1, or a timedelta.

    The other arguments are the settings of every client; ``namesrv_addr`` is not needed.

    Calls raise `RemotingException` when the address does not answer in time,
    `MQBrokerException` when it refuses, `ConfigError` when it is no ``host:port``, `BodyError`
    or `RecordError` when its answer cannot be read.

    >>> from embedded_broker import EmbeddedBroker
    >>> with EmbeddedBroker() as broker, DefaultMQAdminExt() as admin:
    ...     admin.get_timer_metrics(broker.addr).timing_count
    {}
    """

    timeout_millis: int = field(
        default=5_000, converter=in_milliseconds, metadata=setting(milliseconds(1))
    )

    def fetch_broker_runtime_stats(self, addr: str) -> dict[str, str]:
        """Ask a broker for everything it says about itself, texts by name (28).

        A real 5.3.3 broker refuses with code 1 during the first second of its life.
        """
        return self._ask(addr, _RUNTIME).table

    def get_all_delay_offset(self, addr: str) -> DelayOffsets:
        """Ask a broker how far each delay level has come (45)."""
        return self._ask(addr, _DELAY_OFFSETS)

    def get_timer_check_point(self, addr: str) -> TimerCheckpoint:
        """Ask a 5.x broker for its timers' last check point (60)."""
        return self._ask(addr, _CHECK_POINT)

    def get_timer_metrics(self, addr: str) -> TimerCounts:
        """Ask a 5.x broker how many timers wait, by topic (61)."""
        return self._ask(addr, _METRICS)

    def examine_broker_cluster_info(self, addr: str) -> ClusterInfo:
        """Ask a name server for every broker and its addresses (106); brokers answer code 3."""
        return self._ask(addr, _CLUSTER)

    def set_message_request_mode(
        self, addr: str, topic: str, group: str, mode: str, share_queues: int = 0
    ) -> None:
        """Set at one broker whether a group pulls a topic or pops it: ``PULL`` or ``POP`` (401).

        It counts for consumers with ``client_rebalance=False``; every broker of the topic needs
        it. ``share_queues``: how many members pop a queue besides its own one; 0: all do.
        """
        if mode not in {PULL, POP}:
            raise ConfigError("mode", mode, f"must be {PULL} or {POP}")
        body = MessageRequestMode(topic, group, mode, share_queues).encode(standard=True)
        code = RequestCode.SET_MESSAGE_REQUEST_MODE
        question = Question(Address(addr), code, nothing, body=body)
        split_host_port(addr)
        Asker(self._instance).answer(question, self.timeout_millis)

    def _ask(self, addr: str, kind: _ByCode[_T]) -> _T:
        split_host_port(addr)
        question = Question(Address(addr), kind.code, lambda answer, _: kind.read(answer.body))
        return Asker(self._instance).answer(question, self.timeout_millis)
